"""Which part of a list is asked for? What changed since a moment, or one window of time after the other.

A position of such a list names its part and the page inside the part. It is kept as JSON text, so that a walk that was
interrupted goes on in the same part.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.ledger.marks import units_per_second
from remora.core.quantities import parse_duration
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.sources.json_numbers import NUMBER_MAX
from remora.sources.json_path import as_time

Duration = Annotated[int, msgspec.Meta(extra={"reads": parse_duration})]
_NUMBER: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?", re.ASCII)
# A mark that is a day, or a moment without a zone.
_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:(?P<between>[T ])[\d:.,]+)?", re.ASCII)
# Two windows share this much, whether the provider counts their ends in or not.
WINDOWS_SHARE_S: Final = 1
# A mark this far ahead of our clock is absurd: what changed since then would be nothing.
AHEAD_MAX_S: Final = DAY_NS // SECOND_NS


class Form(StrEnum):
    """How a moment is written."""

    MARK = "mark"  # as the list writes its marks
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"
    DATE = "date"


class SinceSettings(msgspec.Struct, frozen=True):
    """A list that shows what changed since a moment."""

    param: str = "since"
    form: Form = msgspec.field(default=Form.MARK, name="as")
    overlap_ns: Duration = msgspec.field(default=MINUTE_NS, name="overlap")
    first: str | None = None  # what to send where the whole list is wanted; None: nothing

    def shows_newest(self, part: "Part") -> bool:
        """Whether the newest known entry is inside the overlap, so that it is shown again.

        If it is not, it is gone, or the provider does not read our moment as we mean it: it may write its marks otherwise.
        """
        is_moment = self.form is Form.MARK and self.overlap_ns > 0 and as_time(part.since) is not None
        return is_moment and part.each is None


class WindowSettings(msgspec.Struct, frozen=True):
    """A list that is asked for in windows of time, the oldest first."""

    begin: str  # the first moment of the list
    from_param: str = "from"
    until_param: str = "until"
    length_ns: Duration = msgspec.field(default=30 * DAY_NS, name="length")
    form: Form = msgspec.field(default=Form.DATE, name="as")
    overlap_ns: Duration = msgspec.field(default=MINUTE_NS, name="overlap")

    def __post_init__(self) -> None:
        if as_time(self.begin) is None:
            raise ConfigurationError(
                f'list.window.begin is "{self.begin}"', hint='write the first moment of the list, as "2005-01-31"'
            )
        if self.form is Form.MARK:
            raise ConfigurationError(
                'list.window.as is "mark"',
                hint=f"write one of: {', '.join(form for form in Form if form is not Form.MARK)}",
            )
        if self.length_ns <= 2 * self.overlap_ns or self.length_ns < MINUTE_NS:
            raise ConfigurationError(
                "list.window.length is not longer than two overlaps, so the windows would not move on",
                hint='write how long a window is, as length = "30d"',
            )


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a list. `is_rest`: the walk began where an earlier one ended, and does not see the whole list."""

    is_rest: bool = False
    since: str | None = None
    from_s: int | None = None
    until_s: int | None = None
    end_s: int | None = None  # the end of the last window
    each: str | None = None  # the entry of another source whose list this is


WHOLE: Final = Part()


def first_part(
    since: SinceSettings | None, window: WindowSettings | None, watermark: str | None, *, now_s: int
) -> Part:
    """Where a walk begins: at the watermark or, without a believable one, at the beginning of the list."""
    mark_s = as_time(watermark)
    if mark_s is not None and mark_s > now_s + AHEAD_MAX_S:
        mark_s = None
        watermark = watermark if since is not None and _may_be_id(since, watermark) else None
    if since is not None:
        return WHOLE if watermark is None else Part(is_rest=True, since=since_text(since, watermark))
    if window is None:
        return WHOLE
    overlap_s = window.overlap_ns // SECOND_NS
    from_s = as_time(window.begin) or 0
    if mark_s is not None:
        from_s = max(from_s, mark_s - overlap_s)
    end_s = max(now_s, from_s) + overlap_s
    until_s = min(end_s, from_s + window.length_ns // SECOND_NS)
    return Part(is_rest=mark_s is not None, from_s=from_s, until_s=until_s, end_s=end_s)


def next_part(window: WindowSettings | None, part: Part) -> Part | None:
    """The window after this one; None after the last."""
    if window is None or part.until_s is None or part.end_s is None or part.until_s >= part.end_s:
        return None
    from_s = part.until_s - WINDOWS_SHARE_S
    return replace(part, from_s=from_s, until_s=min(part.end_s, from_s + window.length_ns // SECOND_NS))


def since_text(settings: SinceSettings, watermark: str) -> str:
    """The watermark less the overlap, as the provider wants to read it. A mark that is no time is sent as it is."""
    overlap_s = settings.overlap_ns // SECOND_NS
    if settings.form is Form.MARK and _NUMBER.fullmatch(watermark):
        number = int(watermark.partition(".")[0])
        return str(max(0, number - overlap_s * units_per_second(number)))
    seconds = as_time(watermark)
    if seconds is None:
        return watermark
    text = moment_text(max(0, seconds - overlap_s), settings.form)
    return _as_written(text, watermark) if settings.form is Form.MARK else text


def _as_written(date: str, mark: str) -> str:
    """A date in UTC as the list writes its marks. A zone that they do not have would make it another moment."""
    found = _WITHOUT_ZONE.fullmatch(mark)
    if found is None:
        return date
    day, time = date.removesuffix("Z").split("T")
    return day if found["between"] is None else f"{day}{found['between']}{time}"


def _may_be_id(settings: SinceSettings, mark: str | None) -> bool:
    """Whether a mark that is ahead as a time may be an id instead: such ids are long, and sent as they are."""
    if settings.form is not Form.MARK or mark is None or not _NUMBER.fullmatch(mark):
        return False
    return Decimal(mark) > NUMBER_MAX


def moment_text(seconds: int, form: Form) -> str:
    """A moment as the provider wants to read it."""
    match form:
        case Form.SECONDS:
            return str(seconds)
        case Form.MILLISECONDS:
            return str(seconds * 10**3)
        case Form.MICROSECONDS:
            return str(seconds * 10**6)
        case Form.NANOSECONDS:
            return str(seconds * 10**9)
        case Form.DATE | Form.MARK:
            return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parameters(since: SinceSettings | None, window: WindowSettings | None, part: Part) -> dict[str, tuple[str, str]]:
    """What a page of this part is asked with, by placeholder: the name of the parameter and its value."""
    if since is not None:
        value = since.first if part.since is None else part.since
        return {} if value is None else {"since": (since.param, value)}
    if window is None or part.from_s is None or part.until_s is None:
        return {}
    return {
        "from": (window.from_param, moment_text(part.from_s, window.form)),
        "until": (window.until_param, moment_text(part.until_s, window.form)),
    }


def part_in_words(part: Part) -> str:
    """Which part this is, for an operator; empty for the whole list."""
    if part.from_s is None or part.until_s is None:
        return ""
    return f" of the window from {moment_text(part.from_s, Form.DATE)} to {moment_text(part.until_s, Form.DATE)}"


def position_of(part: Part, page: str) -> str:
    """The position of a page in a part."""
    if part == WHOLE:
        return page
    fields = {
        "rest": part.is_rest,
        "since": part.since,
        "from": part.from_s,
        "until": part.until_s,
        "end": part.end_s,
        "each": part.each,
    }
    kept = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({**kept, "page": page}, ensure_ascii=False, separators=(",", ":"))


def split_position(position: str) -> tuple[Part, str]:
    """The part and the page inside it. A position that cannot be read is the first page of the whole list."""
    try:
        fields = msgspec.json.decode(position, type=_Position)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return WHOLE, position
    part = Part(fields.rest, fields.since, fields.from_s, fields.until_s, fields.end_s, fields.each)
    return part, fields.page


class _Position(msgspec.Struct):
    """A position as it is kept."""

    page: str
    rest: bool = False
    since: str | None = None
    from_s: int | None = msgspec.field(default=None, name="from")
    until_s: int | None = msgspec.field(default=None, name="until")
    end_s: int | None = msgspec.field(default=None, name="end")
    each: str | None = None
