"""When may the next request of *any* process leave? The shared gate answers, on the database's clock alone.

One row per source holds the end of the last planned window (`next_ns`). A plan is committed before anything leaves, so
a process killed at any moment has at worst spent its window, never doubled it. Two schemes stand on it:

- `reserve`, for ceilings from 200 requests per second: a window of at most 5 ms with as many departures as fit at the
  interval F; at a pace so slow that none fits, one departure in as long as it takes. Windows never overlap, so a time T
  holds at most T / F departures and two windows' worth: the 10 ms that `core.pacing` allows as a burst. What is late is
  forfeited, nothing is carried over.
- `hold`, below: a row lock is held over the wait and the send. It keeps every gap even when processes stall, because
  whoever is slow keeps all others waiting, until the server ends the session of a holder that is dead or frozen.

Moments are given on the caller's own monotonic clock, on the safe side: they start late and end early by what the round
trips leave uncertain. For a window the quickest recent answer counts, for a turn the last one alone. Wall clocks of two
machines are never compared.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from importlib.resources import files
from typing import Final

import psycopg

from remora.contracts import Clock, Json
from remora.contracts import SharedPace as SharedPace
from remora.core.rate.clock_offset import Ahead, look, narrowed, was_set_forward
from remora.core.rate.pacing import burst_allowance
from remora.core.units import MILLISECOND_NS, MINUTE_NS
from remora.stores.postgres.connections import Connection, Pool, Row
from remora.stores.postgres.faults import LockTimeout
from remora.stores.postgres.statements import SQL, parse
from remora.stores.rows import dump_json, load_json
from remora.stores.slots import AHEAD_AT_MOST_NS, LATE_AT_MOST_NS, OPEN_AT_MOST_NS, PROBE_AT_MOST_NS
from remora.stores.slots import WINDOW_NS as WINDOW_NS
from remora.stores.slots import Reservation as Reservation
from remora.stores.slots import Turn as Turn
from remora.stores.slots import is_strict as is_strict

GATE: Final = parse(files(__package__).joinpath("gate.sql").read_text("utf-8"))

# After this idle time inside a turn the server ends the session: its process is dead, frozen or lost.
TURN_IDLE_TIMEOUT_MS: Final = 3_000
# In the queue for a turn; whoever waits longer comes again, so that nobody waits for ever.
TURN_LOCK_TIMEOUT_MS: Final = 25_000
# A plan further ahead than this (and two intervals) was made by a database clock that has since stepped back.
HORIZON_NS: Final = MINUTE_NS
# So is a circuit that is open for longer than any cool-down and any probe.
SHUT_AT_MOST_NS: Final = 2 * MINUTE_NS
CONNECTIONS_AT_MOST: Final = 4
# Before its moment a turn makes sure that it is still held; this is how long the answer may take without costing any.
STILL_THERE_NS: Final = 2 * MILLISECOND_NS


class SharedGate:
    """The gate of all processes that share a database. Safe to use from many tasks."""

    def __init__(self, url: str, *, clock: Clock, lock_timeout_ms: int = TURN_LOCK_TIMEOUT_MS) -> None:
        self._clock = clock
        idle = {"idle_in_transaction_session_timeout": str(TURN_IDLE_TIMEOUT_MS)}
        self._plans = Pool(url, size=CONNECTIONS_AT_MOST, settings=idle)
        self._turns = Pool(
            url,
            size=CONNECTIONS_AT_MOST,
            settings={
                **idle,
                "lock_timeout": str(lock_timeout_ms),
                # What a turn gives back at its end may be lost; what was planned is durable before anything leaves.
                "synchronous_commit": "off",
            },
        )
        self._known: set[str] = set()
        self._ahead: Ahead | None = None
        self._free_at_ns = 0

    async def close(self) -> None:
        """Let go of the connections."""
        await self._plans.close()
        await self._turns.close()

    async def reserve(self, source: str, *, ceiling_interval_ns: int, want: int, interval_ns: int = 0) -> Reservation:
        """A window with up to `want` departures. `interval_ns` is the pace this process would keep by itself."""
        assert want > 0, f"a reservation of {want} departures"
        await self._make_known(source, ceiling_interval_ns)
        return await self._plan(source, max(ceiling_interval_ns, interval_ns), want=want, late_ns=None)

    @asynccontextmanager
    async def hold(self, source: str, *, ceiling_interval_ns: int, interval_ns: int = 0) -> AsyncIterator[Turn]:
        """Wait for the only turn and hold it while the body sends. A turn in which nothing departed is given back.

        The turn is not fresh when the provider asked for a wait, or when this process was too slow: come again at
        `plan.starts_at_ns`.
        """
        await self._make_known(source, ceiling_interval_ns)
        await self._sleep_off(source)
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._alone(source))
            except LockTimeout:  # many processes wait for turns: come again
                yield Turn(self._no_plan())
                return
            turn = await self._take_turn(connection, source, max(ceiling_interval_ns, interval_ns))
            try:
                yield turn
            finally:
                # What was planned stands if this fails, and it was planned on the safe side.
                with suppress(psycopg.Error):
                    await self._give_back(connection, source, turn)
                    await connection.execute("COMMIT")

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int = 0,
        seen_version: int | None = None,
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned; every later reservation keeps to it.

        Refused (False, and what stands instead) when somebody changed the pace since `seen_version`; the provider's
        not-before and a slower interval count even then. Without a version it replaces whatever stands.
        """
        parameters = {
            "source": source,
            "record": dump_json(dict(record)),
            "interval_ns": interval_ns,
            "not_before_in_ns": not_before_in_ns,
            "seen_version": seen_version,
        }

        # All that may still leave is planned at most so far ahead; behind it there is room at the new pace.
        lead_ns = AHEAD_AT_MOST_NS + OPEN_AT_MOST_NS + interval_ns

        async def work(connection: Connection) -> Row:
            shared = _only(await (await connection.execute(GATE["share"], parameters)).fetchone())
            if shared[-1]:
                await connection.execute(GATE["hurry"], {"source": source, "lead_ns": lead_ns})
            return shared

        record_text, version, kept_interval_ns, not_before_left_ns, was_taken = await self._plans.run(work)
        return was_taken, SharedPace(load_json(record_text), version, kept_interval_ns, not_before_left_ns)

    async def look(self, source: str) -> SharedPace:
        """What all processes know by now, and for how long all of them have been idle."""

        async def work(connection: Connection) -> SharedPace:
            row = _only(await (await connection.execute(GATE["look"], {"source": source})).fetchone())
            record, version, interval_ns, not_before_in_ns, idle_ns, now_ns = row
            return SharedPace(
                load_json(record),
                version,
                interval_ns,
                not_before_in_ns,
                ahead_ns=now_ns - self._clock.monotonic_ns(),
                idle_ns=idle_ns,
            )

        return await self._plans.run(work)

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Nobody leaves for so long; then whoever holds the next turn, and nobody else until its answer is told."""
        parameters = {"source": source, "for_ns": for_ns, "cool_down_ns": cool_down_ns, "was_prober": was_prober}

        async def work(connection: Connection) -> None:
            await connection.execute(GATE["shut"], parameters)

        await self._plans.run(work)

    async def open_again(self, source: str) -> None:
        """All leave as they did before it was shut."""

        async def work(connection: Connection) -> None:
            await connection.execute(GATE["open_again"], {"source": source})

        await self._plans.run(work)

    async def _make_known(self, source: str, ceiling_interval_ns: int) -> None:
        if source in self._known:
            return
        parameters = {"source": source, "first_in_ns": ceiling_interval_ns * burst_allowance(ceiling_interval_ns)}

        async def work(connection: Connection) -> None:
            await connection.execute(SQL["add_gate"], parameters)
            await connection.execute(SQL["add_lock"], {"name": _turn_name(source)})

        await self._plans.run(work)
        self._known.add(source)

    async def _plan(self, source: str, interval_ns: int, *, want: int, late_ns: int | None) -> Reservation:
        parameters = {
            "source": source,
            "interval_ns": interval_ns,
            "want": want,
            "window_ns": WINDOW_NS,
            "late_ns": late_ns,
            "open_ns": OPEN_AT_MOST_NS,
            "ahead_ns": AHEAD_AT_MOST_NS,
            "horizon_ns": HORIZON_NS,
            "shut_most_ns": SHUT_AT_MOST_NS,
            "probe_ns": PROBE_AT_MOST_NS,
        }

        async def work(connection: Connection) -> Reservation:
            # A turn stands on this one answer, so that is timed without the commit's way to the disk. A window stands on
            # the quickest one, and all wait for its row: it is committed at once.
            async with nullcontext() if late_ns is None else connection.transaction():
                asked_at_ns = self._clock.monotonic_ns()
                row = _only(await (await connection.execute(GATE["plan"], parameters)).fetchone())
                seen = look(asked_at_ns=asked_at_ns, answered_at_ns=self._clock.monotonic_ns(), theirs_ns=row[1])
            if was_set_forward(self._ahead, seen):
                # What was planned before the jump leaves by the old time: nothing of ours until all of it has left.
                self._free_at_ns = seen.answered_at_ns + AHEAD_AT_MOST_NS + OPEN_AT_MOST_NS + row[5]
            self._ahead = narrowed(self._ahead, seen)
            # A turn stands on this one answer alone: then not even a clock that is set meanwhile shortens a gap.
            plan = _reservation(row, self._ahead if late_ns is None else seen)
            return plan if plan.starts_at_ns >= self._free_at_ns else _spent(plan, self._free_at_ns)

        return await self._plans.run(work)

    @asynccontextmanager
    async def _alone(self, source: str) -> AsyncIterator[Connection]:
        """The row lock, held until the connection's transaction ends."""
        async with self._turns.connection() as connection:
            await connection.execute("BEGIN")
            await connection.execute(SQL["lock"], {"name": _turn_name(source)})
            yield connection

    def _no_plan(self) -> Reservation:
        now_ns = self._clock.monotonic_ns()
        return Reservation(0, now_ns, now_ns, 0, SharedPace(), 0)

    async def _take_turn(self, connection: Connection, source: str, interval_ns: int) -> Turn:
        turn = Turn(await self._plan(source, interval_ns, want=1, late_ns=LATE_AT_MOST_NS))
        if turn.plan.count:
            await self._clock.sleep_until(turn.plan.starts_at_ns - STILL_THERE_NS)
            # Only a session that still lives holds the lock: a process that was frozen learns here that it lost it. From
            # here on its own clock tells: a turn that is late has expired.
            await connection.execute(SQL["still_there"])
            await self._clock.sleep_until(turn.plan.starts_at_ns)
        return turn

    async def _sleep_off(self, source: str) -> None:
        """Sleep what is longer than a turn may last before asking for one, so that nobody waits behind it."""
        parameters = {"source": source, "horizon_ns": HORIZON_NS}

        async def work(connection: Connection) -> int:
            row = await (await connection.execute(SQL["peek_gate"], parameters)).fetchone()
            return int(_only(row)[0])

        wait_ns = await self._plans.run(work)
        if wait_ns > AHEAD_AT_MOST_NS:
            # Not for longer than a second at once: a pace that rises brings the next departure closer.
            nap_ns = min(wait_ns - AHEAD_AT_MOST_NS // 2, AHEAD_AT_MOST_NS)
            await self._clock.sleep_until(self._clock.monotonic_ns() + nap_ns)

    async def _give_back(self, connection: Connection, source: str, turn: Turn) -> None:
        """Replace what was planned on the safe side by what happened, unless somebody has planned on top of it."""
        if turn.plan.count == 0:
            return
        now_ns = self._clock.monotonic_ns()
        parameters = {
            "source": source,
            "planned_ns": turn.plan.next_ns,
            "left_ago_ns": None if turn.departed_at_ns is None else now_ns - turn.departed_at_ns,
            "interval_ns": turn.plan.interval_ns,
            "late_ns": LATE_AT_MOST_NS,
            "unused_probe": turn.plan.is_probe and turn.departed_at_ns is None,
        }
        await connection.execute(GATE["give_back"], parameters)


def _turn_name(source: str) -> str:
    return f"turn:{source}"


def _only(row: Row | None) -> Row:
    assert row is not None, "a gate's row is never removed"
    return row


def _spent(plan: Reservation, free_at_ns: int) -> Reservation:
    """A plan that is not used: ask again at this moment."""
    return replace(plan, count=0, starts_at_ns=free_at_ns, expires_at_ns=free_at_ns, is_probe=False)


def _reservation(row: Row, ahead: Ahead) -> Reservation:
    """The database's moments on our own clock, on the safe side."""
    count, now_ns, start_ns, expires_ns, next_ns, interval_ns, *shared, is_probe, shut_in_ns, cool_down_ns = row
    record, version, paced_ns, not_before_ns = shared
    return Reservation(
        count=count,
        starts_at_ns=ahead.surely_from_ns(start_ns),
        expires_at_ns=ahead.surely_until_ns(expires_ns),
        interval_ns=interval_ns,
        pace=SharedPace(
            load_json(record),
            version,
            paced_ns,
            max(0, not_before_ns - now_ns),
            ahead_ns=ahead.least_ns,
            shut_in_ns=shut_in_ns,
            cool_down_ns=cool_down_ns,
        ),
        next_ns=next_ns,
        binds=start_ns > now_ns,
        is_probe=is_probe,
    )
