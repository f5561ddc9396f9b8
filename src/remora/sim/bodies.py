"""How does an item look on the wire? Compact JSON, keys in alphabetical order, raw UTF-8, and sometimes an oddity."""

from collections.abc import Callable
from typing import Final

Fields = dict[str, bytes]  # key -> its value, already JSON

_FAR_FUTURE_S: Final = 4_102_444_800  # the year 2100


class _Openings(dict[str, bytes]):
    """Each key as it is written in a body; made once."""

    def __missing__(self, key: str) -> bytes:
        self[key] = f'"{key}":'.encode()
        return self[key]


_OPENINGS: Final = _Openings()


def render(fields: Fields) -> bytes:
    """The body. `fields` must be in alphabetical order."""
    return b"{" + b",".join([_OPENINGS[key] + value for key, value in fields.items()]) + b"}"


def ids(numbers: list[int]) -> bytes:
    """A list of ids."""
    return b"[" + ",".join(map(str, numbers)).encode() + b"]"


def _flags_as_arrays(fields: Fields) -> None:
    fields["dead"] = b"[true]" if "dead" in fields else b"[false]"


def _kids_as_object(fields: Fields) -> None:
    kids = fields["kids"][1:-1].split(b",") if "kids" in fields else []
    fields["kids"] = b"{" + b",".join(b'"%d":%b' % (at, kid) for at, kid in enumerate(kids)) + b"}"


def _kids_with_null(fields: Fields) -> None:
    fields["kids"] = b"[null," + fields["kids"][1:] if "kids" in fields else b"[null]"


def _kids_twice(fields: Fields) -> None:
    if "kids" in fields:
        fields["kids"] = fields["kids"][:-1] + b"," + fields["kids"][1:]


def _parts_as_number(fields: Fields) -> None:
    if "parts" in fields:
        fields["parts"] = fields["parts"][1:-1].split(b",")[0] or b"0"


def _control_characters(fields: Fields) -> None:
    fields["text"] = b'"a\\u0000b\\u0001c"'


def _lone_surrogate(fields: Fields) -> None:
    fields["text"] = b'"half a smile \\ud83d and a tail \\udc00"'


def _no_time(fields: Fields) -> None:
    fields.pop("time", None)


def _future_time(fields: Fields) -> None:
    fields["time"] = b"%d" % _FAR_FUTURE_S


def _unknown_field(fields: Fields) -> None:
    fields["flavour"] = b'{"deep":[1,2.5,null,true]}'


def _unknown_type(fields: Fields) -> None:
    fields["type"] = b'"riddle"'


def _author_is_a_number(fields: Fields) -> None:
    fields["by"] = b"17"


ODDITIES: Final[tuple[Callable[[Fields], None], ...]] = (
    _flags_as_arrays,
    _kids_as_object,
    _kids_with_null,
    _kids_twice,
    _parts_as_number,
    _control_characters,
    _lone_surrogate,
    _no_time,
    _future_time,
    _unknown_field,
    _unknown_type,
    _author_is_a_number,
)


def made_odd(fields: Fields, draw: int) -> Fields:
    """The same item with one oddity that has been seen in real bodies."""
    odd = dict(fields)
    ODDITIES[draw % len(ODDITIES)](odd)
    return dict(sorted(odd.items()))
