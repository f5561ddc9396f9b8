"""What does the body of a Hacker News item hold? A fast path reads the usual shapes, a lenient one all others.

Both give the same fields, so an item that turns odd and back again is not new content. An oddity gets a name and is
counted; the item is never lost for it. The body is stored as it came.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from remora.core.item import Decoded, Item, Nothing, Readable, Unreadable, WrongShape
from remora.core.texts import REPLACEMENT
from remora.sources.json_numbers import DIGITS_MAX, NUMBER_MAX, bounded_int

KNOWN_TYPES: Final = frozenset({"story", "comment", "job", "poll", "pollopt"})
DELAYED: Final = "[delayed]"

_Number = Annotated[int, msgspec.Meta(ge=1, le=NUMBER_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class _Fields(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An item in its usual shape. An unknown field is an oddity, so it is left to the lenient path as well."""

    id: _Number
    type: str | None = None
    by: str | None = None
    time: _Number | None = None
    parent: _Number | None = None
    poll: _Number | None = None
    title: str | None = None
    url: str | None = None
    text: str | None = None
    dead: bool = False
    deleted: bool = False
    parts: list[_Number] | None = None
    kids: list[_Number] | None = None
    score: _Count | None = None
    descendants: _Count | None = None


_Read = tuple[_Fields, tuple[str, ...]]  # the fields, and the names of the oddities

_usual: Final = msgspec.json.Decoder(_Fields)
_encode: Final = msgspec.json.Encoder().encode


def decode_item(item_id: int, body: bytes) -> Decoded:
    """The item with this id, or why the body is not it."""
    if body == b"null":
        return Nothing()
    read = _read(item_id, body)
    return Readable(_item(read[0], body, read[1])) if isinstance(read, tuple) else read


def content_of(item_id: int, body: bytes) -> bytes | None:
    """What a person would call the content: without score, kids and descendants, which change by the minute."""
    read = _read(item_id, body)
    if not isinstance(read, tuple):
        return None
    fields = read[0]
    return _encode(
        (
            fields.type,
            fields.by,
            fields.time,
            fields.parent,
            fields.poll,
            fields.title,
            fields.url,
            fields.text,
            fields.dead,
            fields.deleted,
            fields.parts,
        )
    )


def _read(item_id: int, body: bytes) -> _Read | Decoded:
    if body.find(b"\\u0000") >= 0:  # `in` tries the bytes as a number first
        return _patient(item_id, body)
    try:
        fields = _usual.decode(body)
    except (ValueError, RecursionError):
        return _patient(item_id, body)
    return (fields, ()) if fields.id == item_id else WrongShape("another id")


def _item(fields: _Fields, body: bytes, oddities: tuple[str, ...]) -> Item:
    if fields.type not in KNOWN_TYPES:
        oddities += ("unknown_type" if fields.type else "no_type",)
    if fields.time is None:
        oddities += ("no_time",)
    if fields.kids is not None and len(set(fields.kids)) != len(fields.kids):
        oddities += ("repeated_kids",)
    return Item(
        item_id=fields.id,
        body=body,
        type=fields.type,
        by=fields.by,
        time=fields.time,
        parent=fields.parent,
        score=fields.score,
        descendants=fields.descendants,
        dead=fields.dead,
        deleted=fields.deleted,
        title=fields.title,
        url=fields.url,
        delayed=fields.text == DELAYED,
        anomalies=oddities,
        content_of=content_of,
    )


_BYTE_ORDER_MARK: Final = "\ufeff"
_RAW_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_KNOWN_FIELDS: Final = frozenset(_Fields.__struct_fields__)
_SAID_NO: Final = frozenset({"", "0", "false", "no", "null"})


def _patient(item_id: int, body: bytes) -> _Read | Decoded:
    """Read whatever can be read, and name the oddities."""
    odd = _Oddities()
    try:
        value = parse_json(body, odd.note)
        if value is None:
            return Nothing()
        if not isinstance(value, dict):
            return WrongShape("not an object")
        said_id = odd.number("id", value.get("id"))
        if said_id != item_id:
            return WrongShape("no id" if said_id is None else "another id")
        fields = _read_fields(item_id, value, odd)
    except RecursionError:
        return WrongShape("nested too deep")
    except UnicodeDecodeError:
        return Unreadable("not UTF-8")
    except ValueError:
        return Unreadable("not JSON")
    return fields, tuple(odd.names)


def parse_json(body: bytes, note: Callable[[str], None]) -> object:
    """JSON as lenient as it can be without guessing; raises ValueError or RecursionError.

    Absurdly large whole numbers become infinity: Python refuses to parse very long ones.
    """
    text = body.decode("utf-8")
    if text.startswith(_BYTE_ORDER_MARK):
        note("byte_order_mark")
        text = text.removeprefix(_BYTE_ORDER_MARK)
    if _RAW_CONTROL.search(text):
        note("control_character")
    return json.loads(text, strict=False, parse_int=bounded_int, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _read_fields(item_id: int, value: Mapping[str, object], odd: "_Oddities") -> _Fields:
    if not _KNOWN_FIELDS.issuperset(value):
        odd.note("unknown_field")
    return _Fields(
        id=item_id,
        type=odd.text("type", value.get("type")),
        by=odd.text("by", value.get("by")),
        time=odd.number("time", value.get("time")),
        parent=odd.number("parent", value.get("parent")),
        poll=odd.number("poll", value.get("poll")),
        title=odd.text("title", value.get("title")),
        url=odd.text("url", value.get("url")),
        text=odd.text("text", value.get("text")),
        dead=odd.flag("dead", value.get("dead")),
        deleted=odd.flag("deleted", value.get("deleted")),
        parts=odd.numbers("parts", value.get("parts")),
        kids=odd.numbers("kids", value.get("kids")),
        score=odd.number("score", value.get("score"), least=-NUMBER_MAX),
        descendants=odd.number("descendants", value.get("descendants"), least=-NUMBER_MAX),
    )


class _Oddities:
    """Takes each value for what it most likely means, and collects the names of the oddities."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def note(self, name: str) -> None:
        self.names[name] = None

    def number(self, field: str, value: object, *, least: int = 1) -> int | None:
        """A whole number; text and a fraction of zero are accepted as well."""
        number = value
        if isinstance(value, str | float) and not isinstance(value, bool):
            self.note(f"odd_{field}")
            number = _as_whole(value)
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= NUMBER_MAX:
            return number
        if value is not None:
            self.note(f"odd_{field}")
        return None

    def text(self, field: str, value: object) -> str | None:
        """Text that every store can hold: NUL and lone surrogates stay in the body only."""
        if value is None:
            return None
        if not isinstance(value, str):
            self.note(f"odd_{field}")
            value = json.dumps(value, sort_keys=True)
        if "\0" in value:
            self.note("nul")
            value = value.replace("\0", REPLACEMENT)
        if _LONE_SURROGATE.search(value):
            self.note("lone_surrogate")
            value = _LONE_SURROGATE.sub(REPLACEMENT, value)
        return value

    def flag(self, field: str, value: object) -> bool:
        """A yes or no. An array or a text in its place means yes unless it is empty or says no."""
        if isinstance(value, bool) or value is None:
            return bool(value)
        self.note(f"odd_{field}")
        return value.strip().lower() not in _SAID_NO if isinstance(value, str) else bool(value)

    def numbers(self, field: str, value: object) -> list[int] | None:
        """Ids in their order. An object in place of an array, a single number and empty slots are accepted."""
        if value is None:
            return None
        match value:
            case list():
                slots = value
            case dict():
                self.note(f"odd_{field}")
                slots = [value[key] for key in sorted(value, key=_slot)]
            case _:
                self.note(f"odd_{field}")
                slots = [value]
        if any(slot is None for slot in slots):
            self.note(f"odd_{field}")
        numbers = (self.number(field, slot) for slot in slots)
        return [number for number in numbers if number is not None]


def _as_whole(value: str | float) -> int | None:
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    digits = value.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX else None


def _slot(key: str) -> tuple[int, str]:
    """The sort key for a slot of an object in place of an array: numbers by size, the rest after them."""
    slot = _as_whole(key)
    return (NUMBER_MAX if slot is None else slot, key)
