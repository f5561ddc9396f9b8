"""When is the owner notified? When an alarm begins or ends, and when a wanted item comes; not in quiet hours.

What begins and ends within quiet hours is never told; what still lasts at their end is. The same holds for a time in which no
channel could deliver an alarm, and for one in which no service ran. A command gets nothing of our
environment, so that no token can reach it. Whatever a channel does, the service goes on.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from remora.contracts import Clock, Store
from remora.core.errors import StoreError
from remora.core.status.alarms import CLEAR_NS, Alarm, Alarms, Change
from remora.core.status.model import Covered, Status, YesNo
from remora.core.status.readout import is_alive
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.operate.config.settings import NotifySettings
from remora.operate.observe.channels import PATH as PATH
from remora.operate.observe.channels import Notice as Notice
from remora.operate.observe.channels import Tell, channels_of
from remora.operate.observe.channels import run_command as run_command
from remora.operate.observe.newest_items import describe
from remora.operate.observe.read_status import decode_beats
from remora.operate.observe.status_cache import StatusCache
from remora.operate.observe.told_alarms import Telling, ToldAlarm, ToldAlarms
from remora.read.plain_text import unescaped

log = structlog.get_logger()

LOOK_EVERY_NS: Final = 2 * SECOND_NS
PER_HOUR_MAX: Final = 60
# Items appear out of order: a late one is still noticed while its id is this near to the newest.
LATE_IDS: Final = 200
ITEMS_HELD_BACK_MAX: Final = 100
AGAIN_NS: Final = 10 * MINUTE_NS  # until an alarm that could not be delivered is tried again
SILENCE_TOLD_AFTER_NS: Final = 5 * MINUTE_NS  # as long as `RemoraUnknown` must last in `deploy/prometheus/alerts.yml`
RUNBOOK: Final = "docs/operating.md"
SILENCE: Final = ("remora", "RemoraUnknown")


class Notifier:
    """Checks every reading of the status and notifies about what is new."""

    def __init__(
        self,
        settings: NotifySettings,
        store: Store,
        *,
        clock: Clock,
        tell: Tell = run_command,
        environ: Mapping[str, str] = os.environ,
        minute_of_day: Callable[[], int] | None = None,
    ) -> None:
        self._settings = settings
        self._channels = channels_of(settings, environ, tell=tell)
        self._wanted = (settings.search or "").casefold().split()
        self._store = store
        self._clock = clock
        self._minute_of_day = minute_of_day or local_minute
        self._alarms = Alarms()
        self._told = ToldAlarms(store, clock=clock)
        self._recalled_ns: int | None = None  # when it was read what earlier processes told (monotonic)
        self._orphans: tuple[ToldAlarm, ...] = ()  # told alarms that no status of this process will show
        self._held_back: dict[tuple[str, str], Notice] = {}  # what is not told yet: quiet hours, or no channel
        self._again_ns: int | None = None  # when what could not be delivered is tried again (monotonic)
        self._silent_since_ns: int | None = None  # since when the store has not worked (monotonic); None: it does
        self._is_silence_told = False
        self._seen: dict[str, tuple[int, set[int]]] = {}  # by source: the id where we began, and the ids checked
        # Counted separately: a flood of items must not silence an alarm.
        self._told_ns: dict[str, deque[int]] = {}

    async def run(self, feed: StatusCache) -> None:
        """Run for ever."""
        while self._channels:
            try:
                await self.run_once(await feed.latest())
            except StoreError as error:
                await self.unanswered(error.message)
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_EVERY_NS)

    async def run_once(self, status: Status) -> int:
        """Notify about what is new. Returns how many notices were sent."""
        await self._recall(status)
        await self._told.keep()
        self._alarms, changes = self._alarms.after(status, now_ns=self._clock.monotonic_ns())
        notices = [*map(_of_change, changes)]
        for name, newest in _newest(status) if self._wanted else ():
            with suppress(
                StoreError
            ):  # an item is found the next time; an alarm that changed now would not be told again
                notices += await self._matches(name, newest)
        wanted = [notice for notice in notices if self._settings.wants(notice.source)]
        with suppress(StoreError):
            wanted += await self._ends_of_orphans(status)
        return await self._tell_all([*wanted, *self._silence(_unheard(status))])

    async def unanswered(self, reason: str) -> int:
        """The store did not answer, so nobody knows how any source is. Notify about it once it lasts."""
        return await self._tell_all(self._silence(reason))

    def _silence(self, reason: str | None) -> list[Notice]:
        """What is to be told about a store that does not work; `reason` is None while it does."""
        if reason is None:
            was_told, self._is_silence_told, self._silent_since_ns = self._is_silence_told, False, None
            return [_of_silence("the store works again", is_over=True)] if was_told else []
        now_ns = self._clock.monotonic_ns()
        if self._silent_since_ns is None:
            self._silent_since_ns = now_ns
        if self._is_silence_told or now_ns - self._silent_since_ns < SILENCE_TOLD_AFTER_NS:
            return []
        self._is_silence_told = True
        return [_of_silence(f"nothing is known of any source: {reason}", is_over=False)]

    async def _recall(self, status: Status) -> None:
        """Go on where earlier and other processes ended. Nothing is told before it is known what they told."""
        if self._recalled_ns is not None:
            with suppress(StoreError):  # what was told meanwhile is read the next time
                self._watch_too(await self._told.all(), status)
            return
        told, now_ns = await self._told.all(), self._clock.monotonic_ns()
        ours = self._watch_too(told, status)
        self._orphans = tuple(told[key] for key in told if key not in ours and key != SILENCE)
        self._is_silence_told = SILENCE in told
        self._recalled_ns = now_ns

    def _watch_too(self, told: Mapping[tuple[str, str], ToldAlarm], status: Status) -> set[tuple[str, str]]:
        """Watch for the end of what another process told, which may be gone by then. Returns which of these are ours."""
        ours = {key for key in told if key[0] in status.sources and key[1] in [*Alarm]}
        texts = {(key[0], Alarm(key[1])): told[key].text for key in ours}
        heard = Alarms.recalled(texts, now_ns=self._clock.monotonic_ns())
        self._alarms = Alarms({**heard.watched, **self._alarms.watched})
        return ours

    async def _ends_of_orphans(self, status: Status) -> Iterable[Notice]:
        """The ends of alarms of a source that was removed, and of alarms that only another version knows.

        A source that is not ours may be the one of another process: then its alarms are left to that process.
        """
        if not self._orphans or self._clock.monotonic_ns() - (self._recalled_ns or 0) < CLEAR_NS:
            return ()
        now_ns = self._clock.wall_ns()
        beats = [beat for beat in decode_beats(await self._store.heartbeats()) if is_alive(beat, now_ns=now_ns)]
        watched = {name for beat in beats for name in beat.snapshot.sources}.difference(status.sources)
        orphans, self._orphans = self._orphans, ()
        return [_of_orphan(each, status) for each in orphans if each.source not in watched]

    async def _tell_all(self, notices: list[Notice]) -> int:
        return sum([await self._tell(notice) for notice in self._outside_quiet_hours(notices)])

    async def test(self) -> str:
        """Send a test notice by every channel, quiet hours or not; answers which of them worked, and why one did not."""
        notice = Notice(kind="test", source="remora", name="test", state="new", text="This is a test of notifications.")
        if not self._channels:
            return "nobody is configured in [notify]"
        done = {name: await self._try(name, notice) for name in self._channels}
        return ", ".join(f"{name}: {'delivered' if why is None else f'failed ({why})'}" for name, why in done.items())

    def _outside_quiet_hours(self, notices: list[Notice]) -> list[Notice]:
        """What may be told now. In quiet hours it is kept, of each alarm the latest.

        Of that the owner hears what differs from what they last heard. Alarms are few, by source and name; items
        are bounded, and never take the place of an alarm.
        """
        if not self._settings.is_quiet(self._minute_of_day()):
            latest = {(notice.source, notice.name): notice for notice in notices}
            if self._again_ns is not None and self._clock.monotonic_ns() < self._again_ns:
                self._held_back |= {key: latest.pop(key) for key in [*latest] if key in self._held_back}
                return [*latest.values()]
            held, self._held_back, self._again_ns = self._held_back, {}, None
            return [*(held | latest).values()]
        for notice in notices:
            items = sum(held.kind == "item" for held in self._held_back.values())
            if notice.kind != "item" or items < ITEMS_HELD_BACK_MAX:
                self._held_back[notice.source, notice.name] = notice
        return []

    async def _tell(self, notice: Notice) -> bool:
        """Whether it was delivered. An alarm that was not is kept: a network that is away must not hide it for ever."""
        if notice.kind != "alarm":
            return await self._send(notice)
        telling = await self._told.tell(notice, self._send)
        if telling in (Telling.FAILED, Telling.LATER):
            self._held_back[notice.source, notice.name] = notice
        if telling is Telling.FAILED:
            self._again_ns = self._clock.monotonic_ns() + AGAIN_NS
        return telling is Telling.TOLD

    async def _send(self, notice: Notice) -> bool:
        now_ns = self._clock.monotonic_ns()
        told_ns = self._told_ns.setdefault(notice.kind, deque(maxlen=PER_HOUR_MAX))
        if len(told_ns) == PER_HOUR_MAX and now_ns - told_ns[0] < HOUR_NS:
            log.warning("notice_left_out", kind=notice.kind, name=notice.name, most_per_hour=PER_HOUR_MAX)
            return False
        told_ns.append(now_ns)
        return None in [await self._try(name, notice) for name in self._channels]

    async def _try(self, channel: str, notice: Notice) -> str | None:
        """None: it was delivered; otherwise why not."""
        try:
            why = await self._channels[channel](notice)
        except OSError as error:
            why = type(error).__name__
        if why is not None:
            log.warning("notify_failed", channel=channel, error=why)
        return why

    async def _matches(self, source: str, newest_id: int) -> Iterable[Notice]:
        """New items that contain every wanted word. Items from before we began are not new."""
        began_id, seen = self._seen.setdefault(source, (newest_id + 1, set()))
        first_id = max(began_id, newest_id - LATE_IDS)
        found: list[Notice] = []
        looked: set[int] = set()
        # One body at a time: bodies without a match are not kept in memory.
        async for item_id, body in self._store.bodies(source, first_id=first_id):
            if item_id not in seen and self._is_wanted(body):
                found.append(_of_item(source, item_id, body))
            looked.add(item_id)
        seen |= looked
        seen.difference_update([item_id for item_id in seen if item_id < first_id])
        return found

    def _is_wanted(self, body: bytes) -> bool:
        text = unescaped(body.decode("utf-8", "replace")).casefold()
        return all(word in text for word in self._wanted)


def local_minute() -> int:
    """The minute of the local day."""
    now = time.localtime()
    return 60 * now.tm_hour + now.tm_min


def _of_change(change: Change) -> Notice:
    return _of_alarm(change.source, change.alarm, change.reason, firing=change.firing)


def _unheard(status: Status) -> str | None:
    """Why nothing is known although the store can be read: it has kept no heartbeat, not even our own. None if it has."""
    silent = [source for source in status.sources.values() if source.state == "silent"]
    if not silent or len(silent) < len(status.sources):
        return None
    # A full disk of our own has an alarm of its own.
    return next((one.answers.working.reason for one in silent if one.answers.working.answer is YesNo.UNKNOWN), None)


def _of_silence(text: str, *, is_over: bool) -> Notice:
    return _of_alarm(*SILENCE, text, firing=not is_over)


def _of_orphan(told: ToldAlarm, status: Status) -> Notice:
    is_unknown = told.source in status.sources
    text = "this version of Remora does not watch for it" if is_unknown else "the source is no longer configured"
    return _of_alarm(told.source, told.name, text, firing=False)


def _of_alarm(source: str, name: str, text: str, *, firing: bool) -> Notice:
    return Notice(
        kind="alarm",
        source=source,
        name=name,
        state="firing" if firing else "cleared",
        text=text,
        runbook=f"{RUNBOOK}#{name.lower()}",
    )


def _of_item(source: str, item_id: int, body: bytes) -> Notice:
    found = describe(item_id, body)
    return Notice(kind="item", source=source, name=str(item_id), state="new", text=found.text or "")


def _newest(status: Status) -> Iterable[tuple[str, int]]:
    """The newest id of each public source. Items of all others never leave the store."""
    for name, source in status.sources.items():
        if source.is_public and isinstance(source.coverage, Covered):
            yield name, source.coverage.max_id
