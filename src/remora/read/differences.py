"""What changed between two contents? Field by field, and word by word in a text."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any, Final

from remora.contracts.reader import Revision
from remora.core.texts import printable
from remora.read.export_rows import YEAR_2101_S
from remora.read.plain_text import plain

# Comparing takes time that grows with the square of the words. Longer texts are shown whole, before and after.
WORDS_MAX: Final = 3_000
VALUE_MAX: Final = 20_000
WHOLE: Final = "the whole body"
# The order in which a person asks for them; the rest follows by name.
_FIRST: Final = ("deleted", "dead", "title", "text", "url", "score", "descendants")
_WORD: Final = re.compile(r"\s+|[^\s]+")


class Mark(StrEnum):
    """What happened to a piece of text."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of a text."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that is not the same in both contents."""

    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class RevisionChange:
    """One revision of a thing, and what changed in it. The first one has every field as added."""

    revision: Revision
    changes: tuple[FieldChange, ...]

    @property
    def is_deletion(self) -> bool:
        """Whether the thing was deleted upstream in this revision."""
        fields = self.revision.fields
        return bool(fields.get("deleted")) and any(change.name == "deleted" for change in self.changes)


def changes_of(history: Sequence[Revision]) -> tuple[RevisionChange, ...]:
    """Every revision with what changed in it, oldest first."""
    earlier: Mapping[str, Any] = {}
    told: list[RevisionChange] = []
    for revision in history:
        fields = fields_or_text(revision)
        told.append(RevisionChange(revision, tuple(field_changes(earlier, fields))))
        earlier = fields
    return tuple(told)


def fields_or_text(revision: Revision) -> Mapping[str, Any]:
    """The fields of a content; of one that is no JSON object the whole text, under a name of its own."""
    if fields := revision.fields:
        return fields
    text = revision.body.decode("utf-8", "replace")
    return {} if text.strip() == "{}" else {WHOLE: text}


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    """The fields that differ, the most telling first."""
    places = {name: place for place, name in enumerate(_FIRST)}
    for name in sorted(before.keys() | after.keys(), key=lambda name: (places.get(name, len(places)), name)):
        if name in before and name in after and before[name] == after[name]:
            continue
        old = _field_text(name, before[name]) if name in before else ""
        new = _field_text(name, after[name]) if name in after else ""
        yield FieldChange(printable(name), compare(old, new))


def compare(before: str, after: str) -> tuple[Piece, ...]:
    """The pieces of two texts, in reading order."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if not old or not new or len(old) + len(new) > WORDS_MAX:
        whole = (Piece(Mark.REMOVED, before), Piece(Mark.ADDED, after))
        return tuple(piece for piece in whole if piece.text)
    pieces: list[Piece] = []
    # In a long text the matcher begins no match at what is frequent, as the spaces: two texts that share only those would
    # be compared once for each of them.
    matcher = SequenceMatcher(None, old, new, autojunk=True)
    for operation, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if operation == "equal":
            pieces.append(Piece(Mark.SAME, "".join(old[old_start:old_end])))
            continue
        removed, added = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        pieces.extend(Piece(mark, text) for mark, text in ((Mark.REMOVED, removed), (Mark.ADDED, added)) if text)
    return tuple(pieces)


def _field_text(name: str, value: object) -> str:
    text = value_text(value)
    if name == "time" and type(value) is int and 0 < value < YEAR_2101_S:
        return f"{text} ({datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC)"
    return text


def value_text(value: object) -> str:
    """A value as a person reads it."""
    if isinstance(value, str):
        return plain(value)[:VALUE_MAX]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "(too deep to show)"
    return printable(text)[:VALUE_MAX]
