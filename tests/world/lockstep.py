"""How do real processes share one simulated time? It passes only while all of them rest, however slow the machine is.

One process conducts and one follows it, over a socket pair. Whoever has nothing to do says until when; when both have
said so, time jumps to the earlier of the two moments. Sockets, threads, signals and kills stay real. A process rests
only after it has looked at its sockets and its threads are done, and it is asked again whenever the other one did
something meanwhile. So an answer takes no simulated time but what the provider is told to take.
"""

import asyncio
import selectors
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Executor
from math import ceil
from typing import Final, TypeVar, TypeVarTuple

from remora.core.units import MICROSECOND_NS, SECOND_NS
from remora.sim.clock import START_WALL_NS, Deadlock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Ready = list[tuple[selectors.SelectorKey, int]]

_MESSAGE: Final = struct.Struct("<q?")  # a moment, and whether an answer is wanted
_CHANNEL: Final = "channel"
_NEVER_NS: Final = 1 << 62
# Timers are floating numbers: a jump that ends a little later never wakes anybody too early.
_LATE_NS: Final = MICROSECOND_NS


class Member(selectors.DefaultSelector):
    """One process in the common time: what its event loop calls in order to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.elsewhere = 0  # pieces of work that threads have in hand

    def select(self, timeout: float | None = None) -> Ready:
        """What is ready. Instead of waiting, rest."""
        before_ns = self.now_ns
        ready = self._look(0)
        if ready or (timeout is not None and timeout <= 0) or self.now_ns != before_ns:
            return ready
        until_ns = _NEVER_NS if timeout is None else self.now_ns + ceil(timeout * SECOND_NS) + _LATE_NS
        return self._rest(until_ns)

    def _look(self, timeout: float | None) -> Ready:
        """What is ready in this process; what the other one says is dealt with here."""
        ready = super().select(timeout)
        ours = [(key, events) for key, events in ready if key.data is not _CHANNEL]
        if len(ours) < len(ready):
            self._hear()
        return ours

    def _rest(self, until_ns: int) -> Ready:
        raise NotImplementedError

    def _hear(self) -> None:
        raise NotImplementedError


class Conductor(Member):
    """Lets time pass, for itself and for the process that follows, if there is one.

    `stride_ns` says how far a jump reaches at least: in quiet times nobody minds being woken a little late.
    """

    def __init__(self, stride_ns: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._stride_ns = stride_ns
        self._channel: socket.socket | None = None
        self._on_gone: Callable[[], None] = lambda: None
        self._rests_until_ns: int | None = None  # None: the follower has not answered yet
        self._moved = True  # whether something happened here since the follower was asked

    def lead(self, channel: socket.socket, on_gone: Callable[[], None]) -> None:
        """From now on time waits for the process at the other end, until that is gone."""
        assert self._channel is None, "one process follows at a time"
        self._channel, self._on_gone, self._moved = channel, on_gone, True
        self.register(channel, selectors.EVENT_READ, _CHANNEL)
        self._tell(and_ask=False)

    def select(self, timeout: float | None = None) -> Ready:
        ready = super().select(timeout)
        self._moved = self._moved or bool(ready)
        return ready

    def _rest(self, until_ns: int) -> Ready:
        while True:
            if self._channel is not None and self._moved:
                self._moved, self._rests_until_ns = False, None
                self._tell(and_ask=True)
            if self.elsewhere or (self._channel is not None and self._rests_until_ns is None):
                followed = self._channel is not None
                ready = self._look(None)
                if ready or (followed and self._channel is None):
                    return ready
            else:
                self._pass_time(until_ns if self._rests_until_ns is None else min(until_ns, self._rests_until_ns))
                return []

    def _pass_time(self, until_ns: int) -> None:
        if until_ns >= _NEVER_NS:
            raise Deadlock("everybody rests for ever")
        self.now_ns, self._moved = max(until_ns, self.now_ns + self._stride_ns()), True
        # Told at once: what is sent to the follower from now on must not reach it in the past.
        self._tell(and_ask=False)

    def _tell(self, *, and_ask: bool) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(_MESSAGE.pack(self.now_ns, and_ask))
        except OSError:
            self._let_go()

    def _hear(self) -> None:
        assert self._channel is not None, "nobody to hear from"
        said = _receive(self._channel)
        if said is None:
            self._let_go()
        else:
            self._rests_until_ns = said[0]

    def _let_go(self) -> None:
        assert self._channel is not None, "nobody to let go"
        self.unregister(self._channel)
        self._channel.close()
        self._channel, self._rests_until_ns = None, None
        self._on_gone()


class Follower(Member):
    """Lives in the conductor's time; begins when that says so, and ends with it."""

    def __init__(self, channel: socket.socket) -> None:
        super().__init__()
        self._channel = channel
        self._is_asked = False
        self._hear()
        self.register(channel, selectors.EVENT_READ, _CHANNEL)

    def _rest(self, until_ns: int) -> Ready:
        before_ns = self.now_ns
        while True:
            # What was sent before the question, as a signal, may have come after the look that found the question.
            will_answer = self._is_asked and not self.elsewhere
            ready = self._look(0 if will_answer else None)
            if ready or self.now_ns != before_ns:
                return ready
            if will_answer:
                self._is_asked = False
                self._channel.send(_MESSAGE.pack(until_ns, False))

    def _hear(self) -> None:
        said = _receive(self._channel)
        if said is None:
            raise SystemExit("the conductor is gone")
        self.now_ns, is_asked = said
        self._is_asked = self._is_asked or is_asked


def _receive(channel: socket.socket) -> tuple[int, bool] | None:
    """The moment the other end speaks of, and whether it wants an answer; None when it is gone."""
    try:
        message = channel.recv(_MESSAGE.size, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    if not message:
        return None
    moment_ns, wants_answer = _MESSAGE.unpack(message)
    return moment_ns, wants_answer


class LockstepLoop(asyncio.SelectorEventLoop):
    """The usual event loop in the common time."""

    def __init__(self, member: Member) -> None:
        self._member = member
        super().__init__(member)

    def time(self) -> float:
        return self._member.now_ns / SECOND_NS

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Time stands still while a thread works, so that its work takes as long on every machine."""
        future = super().run_in_executor(executor, func, *args)
        self._member.elsewhere += 1
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _future: "asyncio.Future[T]") -> None:
        self._member.elsewhere -= 1

    async def shutdown_default_executor(self, *timeout_s: float) -> None:
        """The last threads end in a thread as well: whoever waits for them is not at rest."""
        self._member.elsewhere += 1
        try:
            await super().shutdown_default_executor(*timeout_s)
        finally:
            self._member.elsewhere -= 1


class LockstepClock:
    """Implements `contracts.Clock` in the common time."""

    def __init__(self, member: Member, *, start_wall_ns: int = START_WALL_NS) -> None:
        self._member = member
        self._start_wall_ns = start_wall_ns

    def monotonic_ns(self) -> int:
        return self._member.now_ns

    def wall_ns(self) -> int:
        return self._start_wall_ns + self._member.now_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        while (left_ns := monotonic_ns - self._member.now_ns) > 0:  # noqa: ASYNC110  a timer may be a nanosecond early
            await asyncio.sleep(left_ns / SECOND_NS)

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await self.sleep_until(monotonic_ns)
