"""Is every event documented, and does every documented event exist? The code is read, not run."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from remora.core.rate.law import ChangeKind
from remora.operate.observe.unread_output import LINES_LEFT_OUT
from tests.syntax import parsed

# One process reads the code once for all of them.
pytestmark = pytest.mark.xdist_group("events")
ROOT = Path(__file__).resolve().parents[2]
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})
# Told by a name that is computed, the kind of a change of pace, or by the output itself.
COMPUTED = frozenset(str(kind) for kind in ChangeKind) | {LINES_LEFT_OUT}


def told_in(text: str) -> Iterator[str]:
    """The names of all events that a module tells, also through `(log.warning if … else log.info)(…)`."""
    for node in ast.walk(parsed(text)):
        if not isinstance(node, ast.Call) or not node.args or not _is_a_log_method(node.func):
            continue
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def _is_a_log_method(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="log"), attr=level):
            return level in LEVELS
        case ast.IfExp(body=body):
            return _is_a_log_method(body)
        case _:
            return False


@cache
def told() -> frozenset[str]:
    files = (ROOT / "src").rglob("*.py")
    return frozenset(name for path in files for name in told_in(path.read_text())) | COMPUTED


def documented() -> set[str]:
    return set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs" / "events.md").read_text(), re.MULTILINE))


def test_every_event_is_documented() -> None:
    assert told() - documented() == set()


def test_every_documented_event_exists() -> None:
    assert documented() - told() == set()


def test_the_reader_of_events_is_awake() -> None:
    text = "log.info('a', x=1)\n(log.warning if bad else log.info)('b')\nlog.bind()\nprint('c')\n"
    assert set(told_in(text)) == {"a", "b"}
