"""What do we log, and what do we never log? Events with fields; `log_format` says how they read.

Known secret values and credentials in addresses are masked in every field, whoever logs them. Each event name is logged
at most a bounded number of times a second; the rest is counted and reported.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

import structlog

from remora.core.texts import escaped
from remora.operate.config.secrets import secret_values
from remora.operate.config.settings import Settings
from remora.operate.observe.library_logs import hear_libraries
from remora.operate.observe.log_format import LogFormat, as_journal, as_text, format_for
from remora.operate.observe.unread_output import LINES_LEFT_OUT, UnblockedStderr
from remora.sources.secret import MASK

EVENTS_PER_SECOND_MAX: Final = 20
EVENT_NAMES_MAX: Final = 256
SECRET_LENGTH_LEAST: Final = 4
FIELD_CHARACTERS_MAX: Final = 2_000
# The last lines of a traceback say what happened, so it is cut at its start, and at a higher limit.
TRACEBACK_FIELD: Final = "exception"
TRACEBACK_CHARACTERS_MAX: Final = 20_000
SECRET_FIELDS: Final = frozenset({"authorization", "cookie", "password", "secret", "token", "api_key"})
URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")
URL_QUERY: Final = re.compile(r"(https?://[^\s?]+)\?\S+")

Event = MutableMapping[str, Any]


class Redaction:
    """Masks secrets in every field of every event."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: a secret that contains another is masked as a whole.
        kept = sorted({secret for secret in secrets if len(secret) >= SECRET_LENGTH_LEAST}, key=len, reverse=True)
        self._secrets = re.compile("|".join(re.escape(secret) for secret in kept)) if kept else None

    def __call__(self, logger: object, method: str, event: Event) -> Event:
        return {name: self._field(name, value) for name, value in event.items()}

    def _field(self, name: str, value: object) -> object:
        if name.lower() in SECRET_FIELDS:
            return MASK
        if name == TRACEBACK_FIELD and isinstance(value, str):
            return self._without_secrets(value[-TRACEBACK_CHARACTERS_MAX:])
        return self._clean(value)

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {key: self._clean(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(inner) for inner in value]
        return value if value is None or isinstance(value, bool | int | float) else self.mask(str(value))

    def mask(self, text: str) -> str:
        """The text with its secrets masked."""
        return self._without_secrets(text[:FIELD_CHARACTERS_MAX])

    def _without_secrets(self, text: str) -> str:
        if self._secrets is not None:
            text = self._secrets.sub(MASK, text)
        return URL_QUERY.sub(rf"\1?{MASK}", URL_CREDENTIALS.sub(f"{MASK}@", text))


class RateLimit:
    """Lets each event name through a bounded number of times a second."""

    def __init__(
        self, per_second: int = EVENTS_PER_SECOND_MAX, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._monotonic_s = monotonic_s
        self._second = 0
        self._counts: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def __call__(self, logger: object, method: str, event: Event) -> Event:
        second = int(self._monotonic_s())
        if second != self._second:
            self._second = second
            self._counts.clear()
        name = str(event.get("event"))
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] > self._per_second:
            if name in self._left_out or len(self._left_out) < EVENT_NAMES_MAX:
                self._left_out[name] = self._left_out.get(name, 0) + 1
            raise structlog.DropEvent
        if left_out := self._left_out.pop(name, 0):
            event["left_out"] = left_out
        return event


def set_up_logs(
    settings: Settings | None = None,
    *,
    secrets: Iterable[str] = (),
    log_format: LogFormat = LogFormat.AUTO,
    level: str | None = None,
    is_service: bool = False,
) -> None:
    """Send events to stderr, as `format_for` decides: short lines, lines with a priority, or JSON.

    Without a level a terminal shows warnings only, because the progress view is there, and everything else gets `info`.
    """
    known = [*secrets, *(secret_values(settings, os.environ) if settings is not None else ())]
    chosen = format_for(log_format, is_service=is_service)
    level = level or ("warning" if sys.stderr.isatty() else "info")
    renderers: dict[LogFormat, Any] = {LogFormat.TEXT: as_text, LogFormat.JOURNAL: as_journal}
    renderer = renderers.get(chosen) or structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            RateLimit(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            Redaction(known),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Loggers(UnblockedStderr(_left_out_line(renderer))),
        cache_logger_on_first_use=False,
    )
    hear_libraries()


def is_read_by_machines() -> bool:
    """Whether every line on stderr belongs to a log that a collector or the journal reads."""
    if not structlog.is_configured():
        return False
    renderer = structlog.get_config()["processors"][-1]
    return renderer is as_journal or isinstance(renderer, structlog.processors.JSONRenderer)


def tell(words: str, *, is_failure: bool = False) -> None:
    """Write a sentence to stderr. In a log that machines read it is an event, because every line must be parsable."""
    if is_read_by_machines():
        log = structlog.get_logger()
        (log.error if is_failure else log.info)("notice", message=words)
    else:
        write_line(words)


class _Loggers:
    """Makes every logger, all with the same output. They write a line and its end at once, so that none is torn."""

    def __init__(self, out: UnblockedStderr) -> None:
        self.out = out

    def __call__(self, *_: object) -> structlog.WriteLogger:
        return structlog.WriteLogger(self.out)  # type: ignore[arg-type]


def write_line(words: str) -> None:
    """One plain line on stderr, between the events."""
    loggers = structlog.get_config()["logger_factory"]
    out = loggers.out if isinstance(loggers, _Loggers) else sys.stderr
    out.write(f"{escaped(words)}\n")
    out.flush()


def _left_out_line(renderer: Callable[..., object]) -> Callable[[int], str]:
    def line(count: int) -> str:
        stamped = structlog.processors.TimeStamper(fmt="iso", utc=True)(None, "", {"event": LINES_LEFT_OUT})
        return str(renderer(None, "", {"count": count, "level": "warning", **stamped}))

    return line
