"""How is the owner notified? By a command that runs when an alarm begins or ends and when a wanted item comes.

The command gets one JSON object on stdin and the same as variables. It runs without a shell and without our
environment, so that no token of ours can reach it. Whatever it does, the service goes on.
"""

import asyncio
import html
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock, Store
from remora.core.errors import StoreError
from remora.core.status.alarms import Alarms, Change
from remora.core.status.model import Covered, Status
from remora.core.units import HOUR_NS, SECOND_NS
from remora.operate.config.settings import NotifySettings
from remora.operate.observe.newest_items import describe
from remora.operate.observe.status_cache import StatusCache

log = structlog.get_logger()

LOOK_EVERY_NS: Final = 2 * SECOND_NS
COMMAND_TIMEOUT_S: Final = 10.0
PER_HOUR_MAX: Final = 60
# Items appear out of order: a late one is still noticed while its id is this near to the newest.
LATE_IDS: Final = 200
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
RUNBOOK: Final = "docs/operating.md"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What the command is told."""

    kind: str  # alarm or item
    source: str
    name: str  # the alarm, or the item's id
    state: str  # firing, cleared or new
    text: str
    runbook: str | None = None


Tell = Callable[[Sequence[str], Notice], Awaitable[bool]]


async def run_command(command: Sequence[str], notice: Notice) -> bool:
    """Run it once. Returns whether it succeeded in time."""
    variables = {f"REMORA_{key.upper()}": str(value or "") for key, value in msgspec.to_builtins(notice).items()}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": PATH, "LANG": "C.UTF-8", **variables},
    )
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            await process.communicate(msgspec.json.encode(notice))
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode == 0


class Notifier:
    """Checks every reading of the status and notifies about what is new."""

    def __init__(self, settings: NotifySettings, store: Store, *, clock: Clock, tell: Tell = run_command) -> None:
        self._command = shlex.split(settings.command or "")
        self._wanted = (settings.search or "").casefold().split()
        self._store = store
        self._clock = clock
        self._tell = tell
        self._alarms = Alarms()
        self._seen: dict[str, tuple[int, set[int]]] = {}  # by source: the id where we began, and the ids checked
        # Counted separately: a flood of items must not silence an alarm.
        self._told_ns: dict[str, deque[int]] = {}

    async def run(self, feed: StatusCache) -> None:
        """Run for ever. If the store is unreachable, try again later."""
        while self._command:
            with suppress(StoreError):
                await self.run_once(await feed.latest())
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_EVERY_NS)

    async def run_once(self, status: Status) -> int:
        """Notify about what is new. Returns how many notices were sent."""
        self._alarms, changes = self._alarms.after(status, now_ns=self._clock.monotonic_ns())
        notices = [*map(_of_change, changes)]
        if self._wanted:
            notices += [notice for name, newest in _newest(status) for notice in await self._matches(name, newest)]
        return sum([await self._send(notice) for notice in notices])

    async def _send(self, notice: Notice) -> bool:
        now_ns = self._clock.monotonic_ns()
        told_ns = self._told_ns.setdefault(notice.kind, deque(maxlen=PER_HOUR_MAX))
        if len(told_ns) == PER_HOUR_MAX and now_ns - told_ns[0] < HOUR_NS:
            log.warning("notice_left_out", kind=notice.kind, name=notice.name, most_per_hour=PER_HOUR_MAX)
            return False
        told_ns.append(now_ns)
        try:
            done = await self._tell(self._command, notice)
        except OSError as error:
            log.warning("notify_failed", error=type(error).__name__)
            return False
        if not done:
            log.warning("notify_failed", error="the command failed or took too long")
        return done

    async def _matches(self, source: str, newest_id: int) -> Iterable[Notice]:
        """New items that contain every wanted word. Items from before we began are not new."""
        began_id, seen = self._seen.setdefault(source, (newest_id + 1, set()))
        first_id = max(began_id, newest_id - LATE_IDS)
        found: list[Notice] = []
        # One body at a time: bodies without a match are not kept in memory.
        async for item_id, body in self._store.bodies(source, first_id=first_id):
            if item_id not in seen and self._is_wanted(body):
                found.append(_of_item(source, item_id, body))
            seen.add(item_id)
        seen.difference_update([item_id for item_id in seen if item_id < first_id])
        return found

    def _is_wanted(self, body: bytes) -> bool:
        text = html.unescape(body.decode("utf-8", "replace")).casefold()
        return all(word in text for word in self._wanted)


def _of_change(change: Change) -> Notice:
    return Notice(
        kind="alarm",
        source=change.source,
        name=change.alarm,
        state="firing" if change.firing else "cleared",
        text=change.reason,
        runbook=f"{RUNBOOK}#{change.alarm.lower()}",
    )


def _of_item(source: str, item_id: int, body: bytes) -> Notice:
    found = describe(item_id, body)
    return Notice(kind="item", source=source, name=str(item_id), state="new", text=found.text or "")


def _newest(status: Status) -> Iterable[tuple[str, int]]:
    """The newest id of each public source. Items of all others never leave the store."""
    for name, source in status.sources.items():
        if source.is_public and isinstance(source.coverage, Covered):
            yield name, source.coverage.max_id
