"""Where in a JSON body is a value, and how is it read as a key, mark, id, time or text? By a path, without code.

A place is a dotted path (`data.rows.0.id`) or a JMESPath expression (`data.rows[0].id`, `posts[-1].id`, `"@odata.nextLink"`).
Both are compiled once. An invalid place is refused when the configuration is read.
"""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.parser import ParsedResult

from remora.core.errors import ConfigurationError
from remora.core.item import WEB_PAGE
from remora.core.ledger.marks import units_per_second, with_zeros
from remora.sources.json_members import STRING, listed_values, named_values
from remora.sources.json_numbers import NUMBER_MAX

WHOLE_BODY: Final = "."
KEY_MAX_CHARACTERS: Final = 512
CURSOR_MAX_CHARACTERS: Final = 4_096  # an address may be about 8,000 characters long, and a cursor is escaped in it
MARK_MAX_CHARACTERS: Final = 200
_DIGITS_MAX: Final = 200
# Strings are skipped as a whole. Every other value except the first follows one of these.
_SEPARATORS: Final = re.compile(STRING + rb"|[,\[{]", re.DOTALL)
_DECIMAL: Final = re.compile(r"\d{1,20}(?:\.\d{0,40})?(?:[eE]\+?\d{1,2})?", re.ASCII)
_DAY_AND_MONTH: Final = re.compile(r"\d{1,2} [A-Z][a-z]{2} ", re.ASCII)  # a date as in mails, without its weekday
# A place with one of these characters is an expression; every other one is a dotted path.
_EXPRESSION: Final = re.compile(r"""[\[\](){}|&*?!<>='"`,]""")
# What some providers write before their JSON, so that no page of another site can run it as a script. No JSON begins so.
_GUARD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:\)\]\}'?,?|(?:for ?\(;;\)|while ?\((?:1|true)\)|throw 1);)\s*(?=[\[{n])"
)
_WEB_PAGE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)\b", re.IGNORECASE)
# Fields that a body may have although it holds nothing.
_SAYS_NOTHING: Final = frozenset({"kind", "etag"})
_TIME_MAX: Final = 10**20  # nanoseconds of the year 5138
_LEAP_SECOND: Final = re.compile(r"(?<=\d:[0-5]\d):60(?!\d)", re.ASCII)


class NotThere:
    """The path leads nowhere, which differs from a `null` at its end."""


NOT_THERE: Final = NotThere()


def load(body: bytes) -> object:
    """The body as Python values; fractions stay as they were written. Raises ValueError or RecursionError."""
    text = without_guard(body).decode("utf-8-sig")
    return json.loads(text, strict=False, parse_float=_fraction, parse_int=_whole, parse_constant=_refuse)


def without_guard(body: bytes) -> bytes:
    """The JSON behind a prefix against hijacking, as `)]}'` of Gerrit; a body without one as it is."""
    guard = _GUARD.match(body)
    return body if guard is None else body[guard.end() :]


def why_unreadable(body: bytes, error: Exception) -> str:
    """What a body is that `load` cannot read: most often a login, or an error that a web server shows to people."""
    if _WEB_PAGE.match(body):
        return WEB_PAGE
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"


def check_place(path: str | None, where: str) -> None:
    """Refuse an invalid place in a JSON body."""
    if path is None or path == WHOLE_BODY:
        return
    if _is_dotted(path):
        if not all(path.split(".")):
            raise ConfigurationError(
                f'{where} is "{path}"', hint='write names and positions with one dot between them, as "data.rows.0.id"'
            )
        return
    try:
        jmespath.compile(path).search({})  # an unknown function is only noticed when it is called
    except JMESPathTypeError:
        return  # it needs something that an empty body does not have
    except (JMESPathError, ValueError) as error:
        raise ConfigurationError(
            f"{where} is {path}, which is no JMESPath expression ({_first_line(error)})",
            hint='write a dotted path, as "data.rows.0.id", or an expression, as "data.rows[-1].id"',
        ) from None


def place_to_write(*names: str) -> str:
    """The place of a field as it is written in the configuration file: a name with a dot needs quotes of its own."""
    if any("." in name for name in names):
        return f"""'{".".join(f'"{name}"' for name in names)}'"""
    return f'"{".".join(names)}"'


def fields_inside(value: object, *, depth_max: int) -> Iterator[tuple[tuple[str, ...], object]]:
    """The fields of an object and of the objects in it, each with the names that lead to it, the outermost first."""
    level: list[tuple[tuple[str, ...], object]] = [((), value)]
    for _ in range(depth_max):
        level = [
            ((*names, str(name)), inside)
            for names, inner in level
            if isinstance(inner, dict)
            for name, inside in inner.items()
        ]
        yield from level


def first_of(path: str) -> str:
    """The place of the first element of the list at a place."""
    if path == WHOLE_BODY:
        return "0"
    return f"{path}.0" if _is_dotted(path) else f"{path} | [0]"


def holds_more_than(body: bytes, values_max: int) -> bool:
    """Whether a body holds more values than this, without building any of them.

    A body of 16 MiB can hold millions of values, and each costs twenty times its bytes once it is built.
    """
    if sum(body.count(separator) for separator in (b",", b"[", b"{")) < values_max:
        return False  # even if all of them are separators and none is inside a string
    values = 1
    for found in _SEPARATORS.finditer(body):
        values += found.end() - found.start() == 1
        if values > values_max:
            return True
    return False


def find(value: object, path: str) -> object:
    """The value at a place: by field names and list positions, or the result of its expression."""
    if path == WHOLE_BODY:
        return value
    steps, expression = _compiled(path)
    if expression is not None:
        try:
            return expression.search(value)
        except (JMESPathError, TypeError, ArithmeticError):
            return NOT_THERE  # a function was given a type that it does not accept
    for step in steps:
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if (at := _position(step, len(value))) is not None:
                value = value[at]
            case _:
                return NOT_THERE
    return value


@lru_cache(maxsize=1_000)
def _compiled(path: str) -> tuple[tuple[str, ...], Any]:
    """The steps to a place, or an expression if steps are not enough."""
    if _is_dotted(path):
        return tuple(path.split(".")), None
    expression = jmespath.compile(path)
    steps = _steps(expression.parsed)
    return ((), expression) if steps is None else (steps, None)


def _steps(node: dict[str, Any]) -> tuple[str, ...] | None:
    """The steps of an expression that only names fields and positions. Only steps tell `null` from a missing value."""
    match node:
        case {"type": "field", "value": str(name)}:
            return (name,)
        case {"type": "index", "value": int(at)} if at >= 0:
            return (str(at),)
        case {"type": "subexpression" | "index_expression", "children": children}:
            parts = [_steps(child) for child in children]
            return None if None in parts else tuple(step for part in parts for step in part or ())
        case {"type": "identity"}:
            return ()
        case _:
            return None


def _is_dotted(path: str) -> bool:
    return not _EXPRESSION.search(path)


def _position(step: str, length: int) -> int | None:
    at = int(step[:9]) if step.isascii() and step.isdigit() else length
    return at if at < length else None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(": ")


def raw_lines(body: bytes, path: str) -> list[bytes]:
    """The entries of a list, byte for byte; empty if the path does not lead to a list. The body must have passed `load`."""
    steps, expression = ((), None) if path == WHOLE_BODY else _compiled(path)
    if expression is not None:
        return []
    raw = msgspec.Raw(body.removeprefix(codecs.BOM_UTF8))
    try:
        for step in steps:
            inner = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
            raw = inner[step] if isinstance(inner, dict) else inner[int(step)]
        return [bytes(line) for line in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except (msgspec.ValidationError, LookupError):
        return []
    except msgspec.DecodeError:  # such a body passes `load`, and only a strict reader refuses it
        return _lenient_lines(body.removeprefix(codecs.BOM_UTF8), steps)


def _lenient_lines(raw: bytes, steps: Sequence[str]) -> list[bytes]:
    try:
        for step in steps:
            values = listed_values(raw)
            raw = values[int(step)] if values else named_values(raw)[step]
    except (ValueError, LookupError):
        return []
    return listed_values(raw)


def has_left_out(value: object, path: str) -> bool:
    """Whether a place has a filter, and the list that it is applied to holds something."""
    expression = None if path == WHOLE_BODY else _compiled(path)[1]
    node = None if expression is None else expression.parsed
    while node is not None and node["type"] != "filter_projection":
        node = next(iter(node["children"]), None)
    if node is None:
        return False
    try:
        return bool(ParsedResult(path, node["children"][0]).search(value))
    except (JMESPathError, TypeError, ArithmeticError):
        return False


def is_steps(path: str) -> bool:
    """Whether a place only names fields and positions."""
    return path == WHOLE_BODY or _compiled(path)[1] is None


def is_plainly_empty(value: object) -> bool:
    """Whether a body can only mean that there is nothing: at most an object of zeros, nulls and empty values.

    Some providers omit the key of an empty list. An error that comes as a success has other content.
    """
    if not isinstance(value, dict):
        return False
    return all(name in _SAYS_NOTHING or (not isinstance(inner, bool) and not inner) for name, inner in value.items())


def as_key(value: object) -> str | None:
    """A text or a whole number that can name a document; None for everything else."""
    return _as_name(value, KEY_MAX_CHARACTERS)


def as_cursor(value: object) -> str | None:
    """A text or a whole number that leads to the next page; None for everything else."""
    return _as_name(value, CURSOR_MAX_CHARACTERS)


def _as_name(value: object, characters_max: int) -> str | None:
    match value:
        case bool():
            return None
        case int():
            return str(value)
        case str() if 0 < len(value) <= characters_max and value.isprintable():
            return value
        case _:
            return None


def as_mark(value: object) -> str | None:
    """An update mark as the source wrote it; None if there is none."""
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


def as_number(value: object) -> int | None:
    """A whole number above zero, also when it is written as text or with a fraction of zero; None for all else."""
    match value:
        case bool():
            return None
        case str() if value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX:
            value = int(value)
        case Decimal() if value.is_finite() and value <= NUMBER_MAX and value == value.to_integral_value():
            value = int(value)
    return value if isinstance(value, int) and 0 < value <= NUMBER_MAX else None


def as_time(value: object) -> int | None:
    """Seconds since 1970, from a number (seconds, milliseconds, … nanoseconds) or an ISO 8601 date; None for all else."""
    match value:
        case bool():
            return None
        case int() | Decimal():
            number = Decimal(value)
        case str() if _DECIMAL.fullmatch(value):
            number = Decimal(value)
        case str():
            return _iso_seconds(value)
        case _:
            return None
    if not number.is_finite() or not 0 < number <= _TIME_MAX:
        return None
    return int(number / units_per_second(number)) or None


def as_text(value: object) -> str | None:
    """A text, or a number as it is written; None for all else."""
    match value:
        case str():
            return value
        case bool():
            return None
        case int() | Decimal():
            return str(value)
        case _:
            return None


def _iso_seconds(text: str) -> int | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few sources write dates as text

    text, leap_seconds = _LEAP_SECOND.subn(":59", text.strip(), count=1)  # no calendar of Python has them
    try:
        if text.endswith((" UTC", " GMT")) and text[:1].isdigit():
            text = f"{text[:-4]}+00:00"
        has_names = text[:1].isalpha() or _DAY_AND_MONTH.match(text) is not None
        moment = parsedate_to_datetime(text) if has_names else datetime.fromisoformat(with_zeros(text))
        seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()) + leap_seconds
    except (ValueError, OverflowError, TypeError):
        return None
    return seconds if seconds > 0 else None


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an absurdly large exponent
        return Decimal("Infinity")


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _DIGITS_MAX else Decimal("Infinity")


def _refuse(name: str) -> Decimal:
    raise ValueError(f"{name} is not JSON")
