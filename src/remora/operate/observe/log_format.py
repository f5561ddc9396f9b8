"""How does one event read? As a short line on a terminal, a line with its priority in the journal, or JSON."""

import json
import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from remora.core.texts import escaped

# The priorities of syslog; the journal reads them from the start of a line.
PRIORITY: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
COLOUR: Final = {
    "debug": "\x1b[2m",
    "info": "\x1b[36m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[31m",
}
PLAIN: Final = "\x1b[0m"
# A sentence for a person, in a log that a machine reads.
NOTICE: Final = "notice"
# In the line at another place, or not at all.
ELSEWHERE: Final = frozenset({"event", "level", "timestamp", "exception"})


class LogFormat(StrEnum):
    """What an event looks like."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    JOURNAL = "journal"


def format_for(wanted: LogFormat, *, is_service: bool = True) -> LogFormat:
    """The format to use: text on a terminal, the journal's under systemd, in any other pipe JSON for a service.

    A collector reads what a service writes to a pipe. A person reads the output of a command that ends, as in a mail of cron.
    """
    if wanted is not LogFormat.AUTO:
        return wanted
    if sys.stderr.isatty():
        return LogFormat.TEXT
    if os.environ.get("JOURNAL_STREAM"):
        return LogFormat.JOURNAL
    return LogFormat.JSON if is_service else LogFormat.TEXT


def as_text(logger: object, method: str, event: Mapping[str, Any]) -> str:
    """`23:45:01 warning stream ended  source=hackernews reason=silent`, in colour on a terminal, with no other control character."""
    level = str(event.get("level", "info"))
    clock = str(event.get("timestamp", ""))[11:19]
    word = f"{level:<7}"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        word = f"{COLOUR.get(level, '')}{word}{PLAIN}"
    return f"{clock} {word} {escaped(_told(event))}"


def as_journal(logger: object, method: str, event: Mapping[str, Any]) -> str:
    """`<4>stream ended  source=hackernews`: the journal adds the time itself. Every line has its priority."""
    mark = f"<{PRIORITY.get(str(event.get('level')), 6)}>"
    return "\n".join(f"{mark}{line}" for line in _told(event).splitlines())


def _told(event: Mapping[str, Any]) -> str:
    if event.get("event") == NOTICE:
        return str(event.get("message", ""))
    fields = " ".join(f"{name}={_value(value)}" for name, value in event.items() if name not in ELSEWHERE)
    told = str(event.get("event", "")).replace("_", " ")
    line = f"{told}  {fields}" if fields else told
    return f"{line}\n{event['exception']}" if event.get("exception") else line


def _value(value: object) -> str:
    """A value on one line; quoted where it has spaces, so that fields stay apart."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if not value or set(value) & set(' "=\n') else value
    return json.dumps(value, default=str, ensure_ascii=False)
