"""Which front pages does a source of stories have? Top of a day, new, ask, show, best of a week, jobs."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from remora.contracts.browsing import StoryList
from remora.core.errors import ConfigurationError

PAGE_ROWS: Final = 30
SKIP_MAX: Final = 3_000
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class FrontView:
    """One front page. `days` is how much time it looks at, up to the day that is shown."""

    name: str
    label: str
    days: int
    by_score: bool = False
    type: str = "story"
    title_prefix: str | None = None


# A list by title reads every story of its time, so that time is bounded; an older page continues.
VIEWS: Final = {
    view.name: view
    for view in (
        FrontView("top", "top", 1, by_score=True),
        FrontView("new", "new", 365),
        FrontView("best", "best of the week", 7, by_score=True),
        FrontView("ask", "ask", 60, title_prefix="Ask HN:"),
        FrontView("show", "show", 60, title_prefix="Show HN:"),
        FrontView("jobs", "jobs", 365, type="job"),
    )
}


@dataclass(frozen=True, slots=True)
class Window:
    """The days that a page shows: up to and with `day`."""

    view: FrontView
    day: date
    skip: int

    def wanted(self) -> StoryList:
        """One row more than a page, to see whether there are more."""
        until_s = int(datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC).timestamp()) + DAY_S
        return StoryList(
            type=self.view.type,
            since_s=until_s - self.view.days * DAY_S,
            until_s=until_s,
            by_score=self.view.by_score,
            title_prefix=self.view.title_prefix,
            skip=self.skip,
            limit=PAGE_ROWS + 1,
        )

    @property
    def earlier(self) -> date | None:
        """The day to show for what came before."""
        return self._moved(-self.view.days)

    @property
    def later(self) -> date | None:
        """The day to show for what came after."""
        return self._moved(self.view.days)

    @property
    def first_day(self) -> date:
        """The first day that is shown."""
        return self._moved(1 - self.view.days) or self.day

    def _moved(self, days: int) -> date | None:
        try:
            return self.day + timedelta(days=days)
        except OverflowError:
            return None


def parse_day(text: str, *, newest: date) -> date:
    """The day that an address names; the newest without one."""
    if not text:
        return newest
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or not 1970 < day.year < 9999:
        raise ConfigurationError(f'"{text}" is not a day', hint="write a day as 2026-01-31")
    return day


def parse_skip(text: str) -> int:
    """How many rows come before the page."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= SKIP_MAX):
        raise ConfigurationError(f'"{text}" is not a place in the list', hint=f"write a number up to {SKIP_MAX:,}")
    return int(text)
