"""Which moment does a person mean? A year, a month, a day, or a day with a time, in UTC unless they say otherwise."""

from datetime import UTC, datetime
from typing import Final

from remora.core.errors import ConfigurationError

_SHORT_FORMATS: Final = ("%Y-%m", "%Y")


def parse_moment(text: str, *, where: str) -> int:
    """Seconds since 1970. `where` names the place of a mistake."""
    for date_format in _SHORT_FORMATS:
        try:
            return int(datetime.strptime(text, date_format).replace(tzinfo=UTC).timestamp())
        except ValueError:
            continue
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{where} has no date", hint="write a day, a month or a year, as 2026-01-31, 2026-01 or 2026"
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
