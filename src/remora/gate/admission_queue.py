"""Which waiting request gets the next turn? One queue per lane, in order of arrival; shares decide between lanes."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from remora.core.lanes import ORDER, Lane, Turns, choose
from remora.gate.permit import GovernedPermit


@dataclass(slots=True, eq=False)
class Waiter:
    """One request that waits, or many that wait together."""

    ready_at_ns: int  # when its jitter is over
    turn: asyncio.Future[GovernedPermit]  # gets the permit; of many, the last one
    is_canary: bool = False
    left: int = 1  # turns that it still waits for
    on_turns: Callable[[Sequence[GovernedPermit]], None] | None = None  # gets the permits of many

    def give(self, permits: Sequence[GovernedPermit]) -> None:
        """It is its turn, once for each permit."""
        if self.on_turns is not None:
            self.on_turns(permits)
        if not self.left and not self.turn.done():
            self.turn.set_result(permits[-1])

    @property
    def permit(self) -> GovernedPermit | None:
        """Its permit; None while it waits, and when it will get no turn any more."""
        if not self.turn.done() or self.turn.cancelled() or self.turn.exception() is not None:
            return None
        return self.turn.result()


class AdmissionQueue:
    """The requests of one source that wait for their turn."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._waiting: dict[Lane, deque[Waiter]] = {lane: deque() for lane in ORDER}
        self._lines = tuple(self._waiting.items())
        self._canary: tuple[Lane, Waiter] | None = None

    def __len__(self) -> int:
        return sum(waiter.left for line in self._waiting.values() for waiter in line if not waiter.turn.done())

    @property
    def has_canary(self) -> bool:
        """Whether a canary waits."""
        return self._canary is not None

    def join(self, lane: Lane, *, ready_at_ns: int, is_canary: bool = False) -> Waiter:
        """Wait at the end of a lane. A canary goes before all lanes."""
        waiter = Waiter(ready_at_ns, asyncio.get_running_loop().create_future(), is_canary)
        if is_canary:
            self._waiting[lane].appendleft(waiter)
            self._canary = lane, waiter
        else:
            self._waiting[lane].append(waiter)
        return waiter

    def join_many(
        self, lane: Lane, count: int, on_turns: Callable[[Sequence[GovernedPermit]], None], *, ready_at_ns: int
    ) -> Waiter:
        """The same for many requests of one lane, without a future for each: `on_turns` gets their permits.

        They leave when the future is cancelled.
        """
        assert count > 0, "nothing to wait for"
        future = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(waiter := Waiter(ready_at_ns, future, left=count, on_turns=on_turns))
        return waiter

    def leave(self, lane: Lane, waiter: Waiter) -> None:
        """Stop waiting; nothing happens if it already got its turn."""
        if waiter in self._waiting[lane]:
            self._waiting[lane].remove(waiter)
        self._forget(waiter)

    def lanes(self) -> list[Lane]:
        """The lanes in which a request waits, in order of priority."""
        lanes = []
        for lane, line in self._lines:
            while line and line[0].turn.done():  # just cancelled, but still in the queue
                line.popleft()
            if line:
                lanes.append(lane)
        return lanes

    def is_one_batch(self, lanes: list[Lane]) -> bool:
        """Whether the next turn can only be for requests that wait together."""
        return len(lanes) == 1 and self._waiting[lanes[0]][0].on_turns is not None

    def ready_at_ns(self, lanes: list[Lane]) -> int:
        """When the first request at the head of one of these lanes is ready."""
        if len(lanes) == 1:
            return self._waiting[lanes[0]][0].ready_at_ns
        return min(self._waiting[lane][0].ready_at_ns for lane in lanes)

    def take_next(self, lanes: list[Lane], *, now_ns: int, is_probe: bool = False) -> tuple[Lane, Waiter]:
        """The next request among those at the head of these lanes; one of them must be ready.

        A canary is always next. Without one, a probe is not an owed item if anything else waits: an owed item may be a
        bad item.
        """
        if self._canary is not None and not self._canary[1].turn.done():
            lane, waiter = self._canary
            self._waiting[lane].remove(waiter)
            self._forget(waiter)
            waiter.left = 0
            return lane, waiter
        ready = lanes
        if len(lanes) > 1:
            ready = [lane for lane in lanes if self._waiting[lane][0].ready_at_ns <= now_ns]
            if is_probe:
                ready = [lane for lane in ready if lane is not Lane.RECOVER] or ready
        lane, self._turns = choose(self._turns, ready)
        waiter = self._waiting[lane][0]
        self.take_again(lane, waiter)
        return lane, waiter

    def take_again(self, lane: Lane, waiter: Waiter, count: int = 1) -> None:
        """The next of the requests that wait together at the head of this lane, while no other lane waits."""
        waiter.left -= count
        if not waiter.left:
            self._waiting[lane].popleft()

    def _forget(self, waiter: Waiter) -> None:
        if self._canary is not None and self._canary[1] is waiter:
            self._canary = None

    def cancel(self) -> None:
        """Cancel all that wait."""
        for waiter in self._everybody():
            waiter.turn.cancel()

    def fail(self, error: Exception) -> None:
        """We have a bug: all that wait must get the error instead of waiting for ever."""
        for waiter in self._everybody():
            if not waiter.turn.done():
                waiter.turn.set_exception(error)

    def _everybody(self) -> Iterator[Waiter]:
        return (waiter for line in self._waiting.values() for waiter in line)
