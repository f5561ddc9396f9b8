"""What did the columns of an item hold in an earlier content of it? What its body says, as far as it says it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from remora.contracts.reader import MirroredItem, Revision
from remora.core.texts import storable
from remora.stores.decisions import clean_integer

T = TypeVar("T", str, int)


def item_of(revision: Revision, current: MirroredItem) -> MirroredItem:
    """The item as it was, from its earlier body.

    A column whose field the current body has under another name (a declared source) keeps its current value: a provider
    changes texts, scores and marks, and does not rename fields.
    """
    then, now = revision.fields, current.fields
    return replace(
        current,
        body=revision.body,
        type=storable(_field(then, now, "type", current.type, str)),
        by=storable(_field(then, now, "by", current.by, str)),
        time=clean_integer(_field(then, now, "time", current.time, int)),
        parent=clean_integer(_field(then, now, "parent", current.parent, int)),
        score=clean_integer(_field(then, now, "score", current.score, int)),
        descendants=clean_integer(_field(then, now, "descendants", current.descendants, int)),
        dead=then.get("dead") is True,
        deleted=then.get("deleted") is True,
        revision=revision.number,
        last_fetched_ns=revision.last_fetched_ns,
        changed_ns=revision.changed_ns,
    )


def _field(then: Mapping[str, Any], now: Mapping[str, Any], name: str, current: T | None, kind: type[T]) -> T | None:
    found = then.get(name)
    if type(found) is kind:
        return found
    return None if name in now else current
