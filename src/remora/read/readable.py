"""What of a JSON document does a person read first? Its fields in order, with their names, long texts whole."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from remora.core.texts import printable
from remora.read.index_entries import title_of
from remora.read.json_layout import parsed_as_sent
from remora.read.plain_text import one_line, plain

FIELDS_MAX: Final = 2_000
TEXT_MAX: Final = 50_000
DEPTH_MAX: Final = 8
LONG_FROM: Final = 80
_TITLES: Final = ("name", "subject", "summary", "headline")


@dataclass(frozen=True, slots=True)
class Field:
    """One line: a name and a value, or the name of a group whose members follow one level deeper."""

    depth: int
    name: str
    text: str | None = None  # None: a group
    is_long: bool = False  # a text of its own paragraph


def title_or_key(fields: Mapping[str, Any], key: str) -> str:
    """The title of a document, else a field that is like one, else its key."""
    if title := one_line(title_of(fields)):
        return title
    for name in _TITLES:
        value = fields.get(name)
        if isinstance(value, str) and (text := one_line(plain(value))):
            return text[:200]
    return one_line(key)


def readable_fields(body: bytes | None) -> tuple[tuple[Field, ...], bool]:
    """The fields of a body in order, with numbers as they were sent, and whether there are more.

    Empty values are left out.
    """
    try:
        fields = {} if body is None else parsed_as_sent(body)
    except (ValueError, RecursionError):
        return (), False
    if not isinstance(fields, dict):
        return (), False
    told: list[Field] = []
    for field in _walk(fields):
        if len(told) == FIELDS_MAX:
            return tuple(told), True
        told.append(field)
    return tuple(told), False


def _walk(fields: Mapping[str, Any]) -> Iterator[Field]:
    """Without recursion: a body may be deeper than Python's stack. What is too deep is left to the raw JSON."""
    waiting: list[tuple[int, str, object]] = [(0, name, value) for name, value in reversed(list(fields.items()))]
    while waiting:
        depth, name, value = waiting.pop()
        shown = printable(name)
        match value:
            case None | "" | []:
                continue
            case dict() if not value:
                continue
            case str() as text:
                told = printable(text[:TEXT_MAX])
                yield Field(depth, shown, told, is_long=len(told) > LONG_FROM or "\n" in told)
            case bool() | int() | float():
                yield Field(depth, shown, str(value).lower() if isinstance(value, bool) else f"{value}")
            case dict() | list() if depth >= DEPTH_MAX:
                yield Field(depth, shown, "… (see the raw JSON)")
            case dict() as members:
                yield Field(depth, shown)
                waiting.extend((depth + 1, str(inner), part) for inner, part in reversed(list(members.items())))
            case list() as parts if all(isinstance(part, str | int | float) for part in parts):
                yield Field(depth, shown, printable(", ".join(map(str, parts)))[:TEXT_MAX])
            case list() as parts:
                yield Field(depth, shown)
                numbered = [(depth + 1, f"{number}", part) for number, part in enumerate(parts, start=1)]
                waiting.extend(reversed(numbered))
            case _:
                yield Field(depth, shown, printable(str(value))[:TEXT_MAX])
