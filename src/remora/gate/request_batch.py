"""How are many requests sent without a task for each? They queue for their turns together, and are heard together.

Each request still has its own turn, permit and departure. A request that cannot be sent at once, because a connection
must be opened or the gate holds it back, gets a task. What was answered together is heard in one go, even while the store
is slow: see `Unheard`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType, TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from remora.contracts import OnReply, Sent
from remora.core.lanes import PATIENT
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import Fault, NoReply, Reply
from remora.gate.admission_queue import Waiter
from remora.gate.governor import GovernedPermit, Governor
from remora.gate.unheard import Came

T = TypeVar("T")
R = TypeVar("R")

# Sends at once, or returns None and does nothing.
FetchNow = Callable[[Discovery, GovernedPermit, OnReply], Sent | None]
Fetch = Callable[[Discovery, GovernedPermit], Awaitable[Reply | NoReply]]
# What was asked for, what came back, and whether that is known to be plain.
Answer = tuple[Discovery, GovernedPermit, Reply | NoReply, bool]
# Whether an answer is what was asked for, and not a word more. Such answers may wait to be heard together.
IsPlain = Callable[[Reply | NoReply], bool]
# What these answers mean: for each a result, or a coroutine that gives it later, after another request.
Hear = Callable[[Sequence[Answer]], Sequence[T | Coroutine[None, None, T]]]


class RequestBatch(Generic[T]):
    """Requests of one lane: `async with batch`, then `answered()` until it is empty."""

    def __init__(
        self,
        governor: Governor,
        source: str,
        discoveries: Sequence[Discovery],
        *,
        fetch_now: FetchNow | None,
        fetch: Fetch,
        hear: Hear[T],
        is_plain: IsPlain,
    ) -> None:
        self._governor = governor
        self._source = source
        self._lane = discoveries[0].via
        self._is_patient = self._lane in PATIENT
        self._waiting = deque(discoveries)
        self._left = len(discoveries)
        self._fetch_now = fetch_now
        self._fetch = fetch
        self._hear = hear
        self._is_plain = is_plain
        self._loop = asyncio.get_running_loop()
        self._queued: Waiter | None = None
        self._in_flight: dict[GovernedPermit, tuple[Discovery, Sent | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._news: asyncio.Future[None] | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._queued = self._governor.many_turns(self._lane, self._left, self._on_turns)
        self._queued.turn.add_done_callback(self._after_last_turn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is not answered."""
        # It knows this batch: without this, neither would be freed before the next collection.
        queued, self._queued = self._queued, None
        assert queued is not None, "left without having entered"
        queued.turn.remove_done_callback(self._after_last_turn)
        queued.turn.cancel()  # no more turns
        self._is_over = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._governor.unheard.hear()  # what was answered is learned, although nobody waits for it
            for permit, (_, sent) in self._in_flight.items():
                if sent is not None:
                    sent.cancel()
                self._governor.give_back(permit)
            self._in_flight.clear()

    async def answered(self) -> list[T]:
        """The results since the last call, at least one; empty when there are no more."""
        while not self._results and self._left and self._error is None:
            self._news = self._loop.create_future()
            await self._news
        if self._error is not None:
            raise self._error
        results, self._results = self._results, []
        return results

    def give_up(self, discoveries: Sequence[Discovery], *, departed_before_ns: int, now_ns: int) -> None:
        """End their requests, if they were sent at once and before this moment: there was no answer."""
        for permit, (asked_for, sent) in self._in_flight.items():
            departed_at_ns = permit.departed_at_ns
            if sent is None or departed_at_ns is None or departed_at_ns > departed_before_ns:
                continue  # the usual case first: this runs for everything in flight
            if asked_for in discoveries:
                sent.cancel()
                self._on_reply(permit, NoReply(Fault.TIMEOUT, departed_at_ns, now_ns))

    def _on_turns(self, permits: Sequence[GovernedPermit]) -> None:
        for permit in permits:
            discovery = self._waiting.popleft()
            permit.source = self._source
            sent = None
            if self._fetch_now is not None:
                sent = self._fetch_now(discovery, permit, partial(self._on_reply, permit))
            self._in_flight[permit] = discovery, sent
            if sent is None:
                self._start(self._fetch_later(discovery, permit), self._after_task)

    async def _fetch_later(self, discovery: Discovery, permit: GovernedPermit) -> None:
        self._on_reply(permit, await self._fetch(discovery, permit))

    def _on_reply(self, permit: GovernedPermit, reply: Reply | NoReply) -> None:
        try:
            can_wait = self._is_patient and self._is_plain(reply)
        except Exception:  # noqa: BLE001 - met again when it is heard, which tells it
            can_wait = False
        self._governor.unheard.add(self._hear_all, permit, reply, can_wait=can_wait)

    def _hear_all(self, replies: Sequence[Came]) -> None:
        """Hear what was answered together."""
        answers: list[Answer] = []
        for permit, reply, is_plain in replies:
            asked = self._in_flight.pop(permit, None)
            if asked is not None:  # else it was given up before it was heard: the first counts
                answers.append((asked[0], permit, reply, is_plain))
        try:
            results = self._hear(answers)
            others = [result for result in results if isinstance(result, CoroutineType)]
            for other in others:
                if self._is_over:
                    other.close()  # what was answered is learned, but nobody waits for another request
                else:
                    self._start(other, self._after_result)
            if others:
                results = [result for result in results if not isinstance(result, CoroutineType)]
            self._results += cast("Sequence[T]", results)
            self._left -= len(results)
        except Exception as error:  # noqa: BLE001 - our own bug must reach the caller, who would wait for ever
            self._fail(error)
        finally:
            self._governor.give_back(*[permit for _, permit, _, _ in answers])
            self._tell()

    def _finish(self, result: T) -> None:
        self._results.append(result)
        self._left -= 1
        self._tell()

    def _start(self, work: Coroutine[None, None, R], then: "Callable[[asyncio.Task[R]], object]") -> None:
        task = self._loop.create_task(work, name="asking")
        self._tasks.add(task)
        task.add_done_callback(then)

    def _after_result(self, task: "asyncio.Task[T]") -> None:
        if self._after_task(task):
            self._finish(task.result())

    def _after_task(self, task: "asyncio.Task[Any]") -> bool:
        """Whether it has ended well."""
        self._tasks.discard(task)
        if task.cancelled():
            if not self._is_over:  # the gate was closed
                self._fail(asyncio.CancelledError())
            return False
        if (error := task.exception()) is not None:
            self._fail(error)
        return error is None

    def _after_last_turn(self, turn: "asyncio.Future[GovernedPermit]") -> None:
        """All turns were given, or the gate was closed or has failed."""
        if turn.cancelled():
            self._fail(asyncio.CancelledError())
        elif (error := turn.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
