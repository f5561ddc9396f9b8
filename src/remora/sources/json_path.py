"""Where in a JSON body is a value, and how does it read as a key or an update mark? Dotted paths, no code."""

import json
from decimal import Decimal, InvalidOperation
from typing import Final

WHOLE_BODY: Final = "."
KEY_MAX_CHARACTERS: Final = 512
MARK_MAX_CHARACTERS: Final = 200
_DIGITS_MAX: Final = 200


class NotThere:
    """The path leads nowhere: not the same as a `null` that stands there."""


NOT_THERE: Final = NotThere()


def load(body: bytes) -> object:
    """The body as values; fractions stay as they were written. Raises ValueError or RecursionError."""
    return json.loads(
        body.decode("utf-8-sig"), strict=False, parse_float=_fraction, parse_int=_whole, parse_constant=_refuse
    )


def find(value: object, path: str) -> object:
    """What stands at a dotted path: names of an object, positions of a list."""
    if path == WHOLE_BODY:
        return value
    for step in path.split("."):
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if step.isascii() and step.isdigit() and int(step[:9]) < len(value):
                value = value[int(step[:9])]
            case _:
                return NOT_THERE
    return value


def as_key(value: object) -> str | None:
    """A text or a whole number that can name a document; None for everything else."""
    match value:
        case bool():
            return None
        case int():
            return str(value)
        case str() if 0 < len(value) <= KEY_MAX_CHARACTERS and value.isprintable():
            return value
        case _:
            return None


def as_mark(value: object) -> str | None:
    """An update mark as the source wrote it; None where there is none."""
    match value:
        case bool():
            return None
        case int() | Decimal():
            text = str(value)
        case str():
            text = value
        case _:
            return None
    return text if 0 < len(text) <= MARK_MAX_CHARACTERS and text.isprintable() else None


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of a billion billions
        return Decimal("Infinity")


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _DIGITS_MAX else Decimal("Infinity")


def _refuse(name: str) -> Decimal:
    raise ValueError(f"{name} is not JSON")
