"""When may this process send, and when does it ask for more time? A shared store grants it stretches of time.

Processes that share a ceiling hold stretches of *time*, on the database's clock. Two stretches never overlap. Inside
its stretch a process paces itself with the same `Pacer` as a process alone.

F is the ceiling's interval, L the lateness that the burst allowance tolerates. Every departure has a *moment* in the
pacer's schedule, at least F after the previous one. The request departs at its moment or up to L later. A request that
is later than L moves its moment and all that follow. The first moment of a stretch is not before its start, the last
one at least F before its end. So the moments of all processes are at least F apart, and any window of length T holds at
most 1 + (T + L) / F = burst + T / F departures.

No I/O here. Times are nanoseconds of our own monotonic clock; those of a `Grant` and of `mine_ns` are the database's.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from remora.core.rate.clock_offset import DRIFT_ONE_IN, KNOWN_FOR_NS, Ahead, look, narrowed, was_set_forward
from remora.core.rate.pacing import SEND_NS, Pacer, burst_allowance
from remora.core.units import MILLISECOND_NS, SECOND_NS

# Later than any moment.
NEVER_NS: Final = 1 << 62
# Nothing is granted that starts later than this from now.
AHEAD_NS: Final = SECOND_NS
# How long a grant should last. With strict spacing a late departure costs more, so handovers are rarer.
BLOCK_NS: Final = 100 * MILLISECOND_NS
STRICT_BLOCK_NS: Final = 200 * MILLISECOND_NS
# With a slow database blocks are longer, to last for a few round trips: up to this many times the usual length.
BLOCKS_MOST: Final = 4
LEAD_MOST_NS: Final = 250 * MILLISECOND_NS
SPARE_MOST_NS: Final = 50 * MILLISECOND_NS
FIRST_ROUND_TRIP_NS: Final = 5 * MILLISECOND_NS
# Sending one request of a block takes this long on a busy machine; on a quiet one a third of it.
SENT_EVERY_NS: Final = MILLISECOND_NS // 10
# A new value enters an average with one part in this many.
AVERAGE_OVER: Final = 16


@dataclass(slots=True, eq=False)
class Stretch:
    """Time in which this process may send."""

    starts_ns: int  # rounded to the late side
    ends_ns: int  # rounded to the early side
    last_ns: int = NEVER_NS  # the latest time at which a request may depart, including the lateness it is allowed
    binds: bool = True  # it had to be placed behind other departures
    is_probe: bool = False  # for one request, while the circuit breaker holds all others back
    is_used: bool = False

    def has_room(self, pacer: Pacer, *, now_ns: int) -> bool:
        """Whether the pacer's next request can still depart in this stretch. Runs for every request."""
        last_ns = self.last_ns
        if pacer.ceiling_next_ns > last_ns or now_ns + SEND_NS > last_ns:
            return False
        return pacer.pace_next_ns <= last_ns or pacer.pace_earliest_ns() <= last_ns

    def room(self, pacer: Pacer, *, now_ns: int) -> int:
        """How many of the pacer's next requests can depart in this stretch, at least one: the next one can."""
        slots = (
            (self.last_ns - max(now_ns, pacer.ceiling_next_ns)) // pacer.ceiling_interval_ns,
            (self.last_ns - max(now_ns - pacer.pace_next_ns, 0) - pacer.pace_earliest_ns()) // pacer.interval_ns,
        )
        return 1 + max(0, min(slots))

    def sendable(self, *, now_ns: int) -> int:
        """How many requests can be sent one after the other before this stretch is over, at least one."""
        return 1 + max(0, (self.last_ns - SEND_NS - now_ns) // SENT_EVERY_NS)

    def end_at(self, ends_ns: int, *, gap_ns: int, late_ns: int) -> None:
        """End then, with the last moment `gap_ns` before; a request may depart `late_ns` after its moment."""
        self.ends_ns = ends_ns
        fits = self.starts_ns + gap_ns <= ends_ns
        self.last_ns = ends_ns - gap_ns + late_ns if fits else -NEVER_NS


ALL_OF_TIME: Final = Stretch(starts_ns=-NEVER_NS, ends_ns=NEVER_NS)


class Question(NamedTuple):
    """What a process asks the shared store for."""

    ceiling_interval_ns: int
    interval_ns: int  # this process's own pace
    want: int  # departures
    lead_ns: int  # about how long the answer takes: nothing is granted that would be over by then
    spare_ns: int  # added for the uncertainty of the clock and our usual lateness
    mine_ns: int  # the end of our last grant: if no other process came between, the new one continues it
    block_ns: int  # the longest grant with several departures
    reach_ns: int  # every grant ends within this time after it was made
    was_set_forward: bool  # the database's clock jumped forward: nobody may use what was granted before


class Grant(NamedTuple):
    """What the store answers, on its own clock."""

    departures: int  # 0: nothing yet, ask again at `starts_ns`
    now_ns: int
    starts_ns: int
    ends_ns: int
    interval_ns: int  # between two departures: the slowest of the ceiling, our own pace and the shared pace
    binds: bool = True
    is_probe: bool = False


def reach_for(ceiling_interval_ns: int) -> int:
    """How long after it was made a grant can end. If the row is lost, a new one starts after that."""
    return AHEAD_NS + LEAD_MOST_NS + BLOCKS_MOST * _block_ns(ceiling_interval_ns) + ceiling_interval_ns + SPARE_MOST_NS


class Stretches:
    """The stretches that one process holds."""

    def __init__(self, ceiling_interval_ns: int) -> None:
        self._ceiling_interval_ns = ceiling_interval_ns
        self._interval_ns = ceiling_interval_ns
        self._late_ns = (burst_allowance(ceiling_interval_ns) - 1) * ceiling_interval_ns
        self._block_ns = _block_ns(ceiling_interval_ns)
        self._held: deque[Stretch] = deque()
        self._tail: Stretch | None = None  # the last grant
        self._mine_ns = 0  # its end on the database's clock
        self.ask_at_ns = 0  # when the next question is due
        self._round_trip_ns = FIRST_ROUND_TRIP_NS  # a high estimate: up at once, down slowly
        self._moved_ns = 0  # by how much a departure delays later moments, on average
        self._wanted = 0  # departures, in the last question
        self._used = 0  # departures since the last question
        self._was_set_forward = False
        self.ahead: Ahead | None = None

    def find(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        """The first stretch with room for the pacer's next departure."""
        for held in self._held:
            if held.has_room(pacer, now_ns=now_ns):
                return held
        return None

    def departed(self, stretch: Stretch, pacer: Pacer, *, now_ns: int) -> None:
        """A request departed in this stretch; `pacer` is the schedule from before."""
        moved_ns = max(0, now_ns - max(pacer.ceiling_next_ns, pacer.pace_next_ns))
        self._moved_ns += (moved_ns - self._moved_ns) // AVERAGE_OVER
        self._used += 1
        stretch.is_used = True
        if stretch.is_probe:
            self.forget()

    def is_short(self, pacer: Pacer, *, ready: int, now_ns: int) -> bool:
        """Whether more requests are ready, or expected, than the held stretches have room for."""
        self._drop(pacer, now_ns=now_ns)
        usable = max(ready, self._usable()) if ready else 0
        return self._was_set_forward or usable > self._room(pacer, now_ns=now_ns)

    def question(self, *, interval_ns: int, ready: int, now_ns: int) -> Question:
        """What to ask for when `ready` requests wait; `interval_ns` is this process's own pace."""
        interval_ns = max(interval_ns, self._ceiling_interval_ns)
        reach_ns = min(max(self._block_ns, 4 * self._round_trip_ns), BLOCKS_MOST * self._block_ns)
        want = max(1, min(max(ready, self._usable()), reach_ns // interval_ns))
        self._wanted, self._used = want, 0
        unsure_ns = self._unsure_ns(now_ns) + 2 * AHEAD_NS // DRIFT_ONE_IN
        late_ns = 0 if self._late_ns else self._lateness_ns(want, interval_ns)
        return Question(
            ceiling_interval_ns=self._ceiling_interval_ns,
            interval_ns=interval_ns,
            want=want,
            lead_ns=min(max(0, self._round_trip_ns - self._late_ns // 2), LEAD_MOST_NS),
            spare_ns=min(unsure_ns + late_ns, SPARE_MOST_NS),
            mine_ns=self._mine_ns,
            block_ns=BLOCKS_MOST * self._block_ns,
            reach_ns=reach_for(self._ceiling_interval_ns),
            was_set_forward=self._was_set_forward,
        )

    def granted(self, grant: Grant, *, asked_at_ns: int, answered_at_ns: int) -> Stretch | None:
        """The store answered. Returns the stretch that it granted, or None: ask again at `ask_at_ns`."""
        took_ns = answered_at_ns - asked_at_ns
        self._round_trip_ns = max(took_ns, self._round_trip_ns - (self._round_trip_ns - took_ns) // AVERAGE_OVER)
        seen = look(asked_at_ns=asked_at_ns, answered_at_ns=answered_at_ns, theirs_ns=grant.now_ns)
        self._was_set_forward = was_set_forward(self.ahead, seen)
        self.ahead = narrowed(self.ahead, seen)
        if self._was_set_forward:
            # Other processes hold stretches on the old time that may overlap this one, so it is not used.
            self.ask_at_ns = answered_at_ns
            return None
        if grant.departures == 0:
            self.ask_at_ns = min(self.ahead.surely_from_ns(grant.starts_ns), answered_at_ns + AHEAD_NS)
            return None
        self._interval_ns = grant.interval_ns
        tail = self._continued(grant, self.ahead)
        ends_ns = self.ahead.surely_until_ns(grant.ends_ns)
        # If there is less room than one interval of the pace, only the ceiling is kept at the end.
        has_whole_gap = ends_ns - tail.starts_ns >= grant.interval_ns
        gap_ns = grant.interval_ns if has_whole_gap else self._ceiling_interval_ns
        tail.end_at(ends_ns, gap_ns=gap_ns, late_ns=self._late_ns)
        if not self._held or self._held[-1] is not tail:
            self._held.append(tail)  # new, or it was used up and is extended
        self._tail, self._mine_ns = tail, grant.ends_ns
        self._plan_next(gap_ns)
        return tail

    def forget(self) -> None:
        """Give up all stretches: something changed for all processes, or the probe was sent."""
        self._held.clear()
        self._tail, self._mine_ns, self.ask_at_ns = None, 0, 0

    def _plan_next(self, gap_ns: int) -> None:
        """Ask two slow round trips before the time runs out, but not so early that any grant would be too far ahead."""
        assert self._tail is not None, "nothing is held"
        soon_ns = self._tail.ends_ns - gap_ns - 2 * self._round_trip_ns - 2 * MILLISECOND_NS
        self.ask_at_ns = max(soon_ns, self._tail.ends_ns - AHEAD_NS * 3 // 4)

    def _continued(self, grant: Grant, ahead: Ahead) -> Stretch:
        if self._tail is not None and grant.starts_ns == self._mine_ns and not grant.is_probe:
            return self._tail
        starts_ns = ahead.surely_from_ns(grant.starts_ns)
        return Stretch(starts_ns, starts_ns, binds=grant.binds, is_probe=grant.is_probe)

    def _usable(self) -> int:
        """How many departures this process can use until the next answer: more than last time if it used nearly all."""
        return self._wanted * 3 // 2 + 1 if 4 * self._used >= 3 * self._wanted else self._used

    def _room(self, pacer: Pacer, *, now_ns: int) -> int:
        room = 0
        for held in self._held:
            first_ns = max(held.starts_ns + self._late_ns, pacer.ceiling_next_ns, pacer.pace_earliest_ns(), now_ns)
            room += max(0, (held.last_ns - first_ns) // self._interval_ns + 1)
        return room

    def _drop(self, pacer: Pacer, *, now_ns: int) -> None:
        """Forget stretches in which no further moment fits."""
        while self._held and not self._held[0].has_room(pacer, now_ns=now_ns):
            if not self._held.popleft().is_used:  # all of it came too late: ask for more room next time
                self._moved_ns = min(2 * self._moved_ns + MILLISECOND_NS, self._interval_ns)

    def _unsure_ns(self, now_ns: int) -> int:
        """How far apart the bounds of the database's clock will be after the next answer."""
        if self.ahead is None or now_ns - self.ahead.answered_at_ns > KNOWN_FOR_NS:
            return self._round_trip_ns
        return self.ahead.unsure_ns(now_ns=now_ns)

    def _lateness_ns(self, want: int, interval_ns: int) -> int:
        return SEND_NS + max(min(want * self._moved_ns, interval_ns) * 3 // 2, interval_ns // 64)


def _block_ns(ceiling_interval_ns: int) -> int:
    return BLOCK_NS if burst_allowance(ceiling_interval_ns) > 1 else STRICT_BLOCK_NS
