"""How are the inputs of a decision drawn? From a seed, near the bounds at which decisions change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from random import Random
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

T = TypeVar("T")
NOW_NS: Final = 1_700_000_000 * SECOND_NS
DIGITS: Final = 10  # of a float: more may differ from machine to machine


class Case(NamedTuple):
    """One decision: what it was given, and what it said."""

    given: object
    said: object


Decision = Callable[["Draw"], Case]


class Draw:
    """Chance, from a seed. The same seed gives the same values on every machine."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.spans_ns: tuple[int, ...] = (SECOND_NS, MINUTE_NS, HOUR_NS)
        self.counts: tuple[int, ...] = (0, 1, 2, 3, 7, 100)
        self.texts: tuple[str, ...] = ("", "a", "b", "rate limited")
        self.defaults = 0.4  # the share of fields that keep their default

    def one(self, *choices: T) -> T:
        """One of these, each as likely as any other."""
        return choices[self.random.randrange(len(choices))]

    def chance(self, share: float = 0.5) -> bool:
        """Whether this happens."""
        return self.random.random() < share

    def near(self, *bounds: int) -> int:
        """A bound, or one more or less."""
        return self.one(*bounds) + self.one(-1, 0, 0, 1)

    def some(self, count: int, draw: Callable[[], T]) -> tuple[T, ...]:
        """So many of them at most."""
        return tuple(draw() for _ in range(self.random.randrange(count + 1)))

    def moment_ns(self) -> int:
        """A moment that is a bound away from now, or nearly."""
        return NOW_NS - self.one(1, 1, 1, -1) * self.near(*self.spans_ns)

    def of(self, kind: type[T], /, **given: object) -> T:
        """A value of this type: the given fields, and others by their types and names."""
        hints = _hints(cast("Any", kind))
        values = dict(given)
        for name, default in _fields(cast("Any", kind)):
            if name not in values and (default is MISSING or not self.chance(self.defaults)):
                values[name] = self._value(hints[name], name)
        return kind(**values)

    def _value(self, kind: Any, name: str) -> object:
        origin = get_origin(kind)
        if origin in {UnionType, Union}:
            return self._value(self.one(*get_args(kind)), name)
        if origin is tuple:
            return self.some(3, lambda: self._value(get_args(kind)[0], name))
        if origin is dict:
            of_key, of_value = get_args(kind)
            return dict(self.some(2, lambda: (self._value(of_key, name), self._value(of_value, name))))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self.one(*kind)
        if is_dataclass(kind) or issubclass(kind, msgspec.Struct):
            return self.of(cast("type[object]", kind))
        return self._plain(kind, name)

    def _plain(self, kind: type, name: str) -> object:
        if kind is NoneType:
            return None
        if kind is bool:
            return self.chance()
        if kind is int and name.endswith(("at_ns", "until_ns", "seen_ns", "before_ns", "since_ns")):
            return self.moment_ns()
        if kind is int and name.endswith("_ns"):
            return max(1, self.near(*self.spans_ns))
        if kind is int:
            return self.one(*self.counts)
        if kind is float:
            return self.one(0.0, 0.004, 0.5, 1.0, 2.5, 90.0)
        assert kind in {str, bytes}, f"{name}: how is a {kind} drawn?"
        text = self.one(*self.texts)
        return text.encode() if kind is bytes else text


def shown(value: object) -> str:
    """A value as text that is the same on every machine."""
    if type(value) in {int, str, bool, NoneType}:  # fast path
        return repr(value)
    match value:
        case Enum():
            return str(value.value)
        case int() | str() | bytes():
            return repr(value)
        case float():
            return f"{value:.{DIGITS}g}"
        case Mapping():
            return f"{{{', '.join(sorted(f'{shown(key)}: {shown(one)}' for key, one in value.items()))}}}"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(shown, value)))}}}"
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case Sequence():
            return f"({', '.join(map(shown, value))})"
        case _:
            inner = ", ".join(f"{name}={shown(getattr(value, name))}" for name, _ in _fields(cast("Any", type(value))))
            return f"{type(value).__name__}({inner})"


def digest(text: str) -> str:
    """A short name of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


@cache
def _fields(kind: type) -> list[tuple[str, object]]:
    """The fields of a struct or a dataclass, each with its default or `MISSING`."""
    if is_dataclass(kind):
        return [
            (each.name, MISSING if each.default is MISSING and each.default_factory is MISSING else each.default)
            for each in fields(kind)
            if each.init
        ]
    found = msgspec.structs.fields(cast("type[msgspec.Struct]", kind))
    return [(each.name, MISSING if each.required else each.default) for each in found]
