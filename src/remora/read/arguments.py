"""Is what a program asks with of the right kind? A wrong kind is refused in the same words for every store."""

import operator
import os
from typing import Final

from remora.core.errors import ConfigurationError

INTEGER_MAX: Final = 2**63 - 1
# What both databases can count to.
ROWS_MAX: Final = 1_000_000_000
SECONDS_MAX: Final = 1_000_000
_STORE_HINT: Final = "write sqlite:///hn.db, the path of a file or postgresql://user@host/database"


def store_address(url: str | os.PathLike[str]) -> str:
    """The address of a store. A path is that of a SQLite file."""
    if isinstance(url, os.PathLike):
        return f"sqlite:///{os.fsdecode(url)}"
    if not isinstance(url, str):
        raise ConfigurationError(f"the store is {_kind(url)}", hint=_STORE_HINT)
    return url


def whole_number(value: object, name: str, *, least: int | None = None, most: int | None = None) -> int:
    """The number, also one of NumPy. One below `least` is refused; one above `most` counts as `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigurationError(f"{name} is {_kind(value)}", hint="write a whole number, as 1") from None
    if least is not None and number < least:
        raise ConfigurationError(f"{name} is {number}", hint=f"write {least} or more")
    return number if most is None else min(number, most)


def bound(value: object, name: str) -> int:
    """An id or a moment where reading begins or ends. One beyond what a database can count to is the last that it can."""
    return max(-INTEGER_MAX, whole_number(value, name, most=INTEGER_MAX))


def number_of_seconds(value: object, name: str, *, most: float) -> float:
    """Seconds above zero; more than `most` count as `most`."""
    if not isinstance(value, (int, float)) or not value > 0:  # NaN is above nothing
        told = value if isinstance(value, (int, float)) else _kind(value)
        raise ConfigurationError(f"{name} is {told}", hint="write how many seconds it may take, as 60")
    return min(value, most)


def text(value: object, name: str) -> str:
    """The text. Half of a surrogate pair is no character, and not every store can look for it."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is {_kind(value)}", hint="write a text between quotes")
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise ConfigurationError(f"{name} holds half of a surrogate pair", hint="write whole characters")
    return value


def _kind(value: object) -> str:
    """What was given, by its type: a value may be long, or a secret."""
    return "None" if value is None else f"of type {type(value).__name__}"
