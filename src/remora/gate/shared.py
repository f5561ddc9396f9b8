"""How does a process get its time from a store that several share? It asks ahead, one round trip per stretch.

The rule is in `core.rate.stretches`. This is the shell around it: the task that asks, what the store answers, and the
announcements that end held stretches.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Final

import structlog
from msgspec.structs import replace

from remora.contracts import Borrower, Clock, GateStore, Json, SharedPace
from remora.core.errors import StoreError
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Stretch, Stretches
from remora.core.units import SECOND_NS

log = structlog.get_logger()

# How long to wait before asking again a store that did not answer.
STORE_AGAIN_NS: Final = SECOND_NS
# Answers that do not change the pace count, too: all processes together earn the next probe of the edge.
SHARE_EVERY_NS: Final = 5 * SECOND_NS
# The field of a record that says when it was shared, on the clock that all processes share.
SHARED_AT: Final = "shared_at_ns"


class SharedHome:
    """`contracts.GateHome` of one process among many."""

    share_every_ns = SHARE_EVERY_NS
    sees_departures = True

    def __init__(self, source: str, store: GateStore, *, ceiling_interval_ns: int, clock: Clock) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._stretches = Stretches(ceiling_interval_ns)
        self._name = token_hex(16)
        self._gate: Borrower | None = None
        self._asker: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._error: Exception | None = None
        self._is_missing = False  # a request found no stretch since the last grant
        self._version = 0
        self._ahead_ns = 0
        self.interval_ns = 0
        self.is_silent = False

    def serve(self, gate: Borrower) -> None:
        """Work for this gate from now on."""
        assert self._gate is None, "a home serves one gate"
        self._gate = gate
        self._listener = asyncio.get_running_loop().create_task(self._listen(), name=f"gate-news:{self._source}")

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        """The stretch for this pacer's next departure; None while more time is asked for."""
        found = self._stretches.find(pacer, now_ns=now_ns)
        if found is None:
            self._is_missing = True
            self._ask_soon()
        return found

    def departed(self, stretch: Stretch, pacer: Pacer, *, now_ns: int) -> None:
        """A request was sent: ask for more before the time runs out."""
        self._stretches.departed(stretch, pacer, now_ns=now_ns)
        if now_ns >= self._stretches.ask_at_ns:
            self._ask_soon()

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Share what this process learned. A slower pace is announced, so that others give up their stretches."""
        is_slower = not_before_in_ns > 0 or interval_ns > self.interval_ns > 0
        was_taken, kept = await self._store.share(
            self._source,
            record={**record, SHARED_AT: self._clock.monotonic_ns() + self._ahead_ns},
            interval_ns=interval_ns,
            not_before_in_ns=not_before_in_ns,
            seen_version=seen_version,
        )
        if is_slower:
            await self._announce()
        if not was_taken:
            return False, await self.look()
        self._version = max(self._version, kept.version)
        self.interval_ns = kept.interval_ns
        return True, kept

    async def look(self) -> SharedPace:
        """What all processes know by now."""
        return self._dated(await self._store.look(self._source))

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """No process sends for this long; then one probe is sent."""
        await self._store.shut(self._source, for_ns=for_ns, cool_down_ns=cool_down_ns, was_prober=was_prober)
        self._stretches.forget()
        await self._announce()

    async def open_again(self) -> None:
        """The probe was answered well."""
        await self._store.open_again(self._source)
        self._hear()
        await self._announce()

    async def close(self) -> None:
        """Ask for no more time. Held stretches run out by themselves."""
        tasks = [task for task in (self._asker, self._listener) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ── borrowing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask_soon(self) -> None:
        if self._error is not None:
            raise self._error
        if self._asker is None or self._asker.done():
            assert self._gate is not None, "a home that serves no gate"
            self._asker = asyncio.get_running_loop().create_task(
                self._ask_while_short(self._gate), name=f"gate-time:{self._source}"
            )

    async def _ask_while_short(self, gate: Borrower) -> None:
        """Ask until the held time is enough for all ready requests. `stretch` raises what cannot be retried."""
        try:
            while self._is_short(gate):
                at_ns = self._stretches.ask_at_ns
                if at_ns > self._clock.monotonic_ns():
                    await self._nap_until(at_ns)
                else:
                    await self._ask(gate)
        except Exception as error:
            self._error = error
            gate.changed()
            raise

    def _is_short(self, gate: Borrower) -> bool:
        ready = gate.demand()
        is_short = self._stretches.is_short(gate.pacer, ready=ready, now_ns=self._clock.monotonic_ns())
        return is_short or (self._is_missing and ready > 0)

    async def _ask(self, gate: Borrower) -> None:
        asked_at_ns = self._clock.monotonic_ns()
        question = self._stretches.question(interval_ns=gate.interval_ns, ready=gate.demand(), now_ns=asked_at_ns)
        self._news.clear()
        try:
            grant, pace = await self._store.borrow(self._source, question, seen_version=self._version)
        except StoreError as error:
            if not error.retryable:
                raise
            await self._wait_for_store(gate, error)
            return
        self.is_silent = False
        held = self._stretches.granted(grant, asked_at_ns=asked_at_ns, answered_at_ns=self._clock.monotonic_ns())
        self._is_missing = self._is_missing and held is None
        self.interval_ns = pace.interval_ns
        gate.adopt(self._dated(pace))
        gate.changed()
        if grant.is_probe:
            await self._see_probe_leave(held)
        elif self._news.is_set():  # announced while we waited for the answer, which may be older
            self._hear()

    async def _wait_for_store(self, gate: Borrower, error: StoreError) -> None:
        """Without an answer from the store nothing is sent."""
        self._stretches.forget()
        if not self.is_silent:
            log.warning("gate_waits_for_store", source=self._source, why=error.message)
        self.is_silent = True
        gate.changed()
        await self._clock.sleep_until(self._clock.monotonic_ns() + STORE_AGAIN_NS)

    async def _see_probe_leave(self, probe: Stretch | None) -> None:
        """All processes wait for this one request: if it is not sent, any process may send the probe."""
        if probe is not None:
            await self._clock.sleep_until(probe.ends_ns)
        if probe is None or not probe.is_used:
            with suppress(StoreError):
                await self._store.return_probe(self._source)

    async def _nap_until(self, at_ns: int) -> None:
        """Sleep until then, or until news arrives."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, at_ns - self._clock.monotonic_ns()) / SECOND_NS):
                await self._news.wait()

    # ── news ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _announce(self) -> None:
        """Others learn of it with their next question at the latest, so a lost announcement only costs time."""
        with suppress(StoreError):
            await self._store.announce(self._source, sender=self._name)

    async def _listen(self) -> None:
        while True:
            with suppress(StoreError):
                await self._store.listen(self._source, sender=self._name, heard=self._hear)
            await self._clock.sleep_until(self._clock.monotonic_ns() + STORE_AGAIN_NS)

    def _hear(self) -> None:
        """Something changed for all processes: give up stretches that were granted before."""
        self._stretches.forget()
        self._news.set()
        if self._gate is not None:
            self._gate.changed()

    def _dated(self, pace: SharedPace) -> SharedPace:
        """The shared pace with its age."""
        self._version = max(self._version, pace.version)
        self._ahead_ns = pace.ahead_ns or self._ahead_ns
        shared_at_ns = pace.record.get(SHARED_AT) if isinstance(pace.record, dict) else None
        now_ns = self._clock.monotonic_ns() + self._ahead_ns
        age_ns = now_ns - shared_at_ns if isinstance(shared_at_ns, int) else 0
        return replace(pace, age_ns=max(0, age_ns))
