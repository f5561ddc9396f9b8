"""How does a request reach the simulated provider in virtual time? A `Transport` without a network.

Production code gets this in place of the HTTP transport. It uses the permit right before the request is sent, and
returns a reply, or the reason why there is none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

from remora.contracts import Clock, ConnectGate, OnReply, Permit, PromptPermit, Sent, StreamBroken
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply
from remora.sim.clock import SimClock
from remora.sim.replies import Answer, Hang, Reset, Response
from remora.sim.streams import EventStream

TIMEOUT_NS: Final = 30 * SECOND_NS
SILENCE_NS: Final = 60 * SECOND_NS
LATENCY_NS: Final = 40 * MILLISECOND_NS
BODY_BYTES_MAX: Final = 16 * 1024 * 1024


class Answering(Protocol):
    """Anything that acts as a provider."""

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, /) -> Response:
        """What happens to one request that arrives now."""

    def open_stream(self, target: str) -> EventStream | Answer | None:
        """The stream of a path, a refusal, or None if there is no stream."""


class SimTransport:
    """One client of the provider. Latency comes from the clock's seeded generator: sometimes it is far above normal."""

    def __init__(
        self,
        provider: Answering,
        clock: SimClock,
        *,
        latency_ns: int = LATENCY_NS,
        timeout_ns: int = TIMEOUT_NS,
        silence_ns: int = SILENCE_NS,
        body_bytes_max: int = BODY_BYTES_MAX,
        wire_sent: Callable[[], None] | None = None,
    ) -> None:
        self._provider = provider
        self._clock: Clock = clock
        self._chance = clock.random
        self._latency_ns = latency_ns
        self._timeout_ns = timeout_ns
        self._silence_ns = silence_ns
        self._body_bytes_max = body_bytes_max
        self._wire_sent = wire_sent
        self.wire_sends = 0

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        return await self._send(url, permit, headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        return await self._send(url, permit, headers, body)

    def get_now(
        self,
        around: tuple[str, ...],
        name: str,
        permit: PromptPermit,
        on_reply: OnReply,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Sent | None:
        departed_ns = permit.depart_now()
        if departed_ns is None:
            return None
        response = self._respond(name.join(around), permit, headers)
        return _Answering(self._answer(response, departed_ns), on_reply)

    async def _send(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Reply | NoReply:
        departed_ns = await permit.depart()
        return await self._answer(self._respond(url, permit, headers, body), departed_ns)

    def _respond(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Response:
        """A request that was sent arrives even if the client then goes away: only the answer is delayed."""
        self._sent(permit)
        return self._provider.respond(_target(url), headers, body)

    async def _answer(self, response: Response, departed_ns: int) -> Reply | NoReply:
        match response:
            case Hang():
                return await self._nothing(Fault.TIMEOUT, departed_ns, self._timeout_ns)
            case Reset():
                return await self._nothing(Fault.CONNECTION, departed_ns, self._round_trip_ns())
            case Answer(cut_at=int()):
                return await self._nothing(Fault.CONNECTION, departed_ns, self._round_trip_ns())
            case Answer():
                wait_ns = self._round_trip_ns() + response.delay_ns
                if wait_ns >= self._timeout_ns:
                    return await self._nothing(Fault.TIMEOUT, departed_ns, self._timeout_ns)
                if len(response.body) > self._body_bytes_max:
                    return await self._nothing(Fault.TOO_LARGE, departed_ns, wait_ns)
                await self._clock.sleep_until(departed_ns + wait_ns)
                return Reply(
                    status=response.status,
                    body=response.body,
                    departed_at_ns=departed_ns,
                    answered_at_ns=self._clock.monotonic_ns(),
                    headers=response.headers,
                )

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        stream = await self._open(url, connect)
        yield b""
        heard_ns = self._clock.monotonic_ns()
        while True:
            chunk = stream.take()
            if chunk:
                heard_ns = self._clock.monotonic_ns()
                yield chunk
            if stream.ended:
                raise StreamBroken("closed")
            silent_ns = heard_ns + self._silence_ns
            await self._clock.sleep_until(min(stream.wake_ns, silent_ns))
            if self._clock.monotonic_ns() >= silent_ns:
                raise StreamBroken("silent")

    async def _open(self, url: str, connect: ConnectGate) -> EventStream:
        async with connect() as connecting:
            departed_ns = await connecting.permit.depart()
            self._sent(connecting.permit)
            opened = self._provider.open_stream(_target(url))
            await self._sleep(self._round_trip_ns())
            now_ns = self._clock.monotonic_ns()
            match opened:
                case None:
                    connecting.answered(NoReply(Fault.CONNECTION, departed_ns, now_ns))
                    raise StreamBroken("refused")
                case Answer():
                    connecting.answered(Reply(opened.status, b"", departed_ns, now_ns, opened.headers))
                    raise StreamBroken(f"status_{opened.status}")
                case EventStream():
                    connecting.answered(Reply(200, b"", departed_ns, now_ns))
                    return opened

    def _sent(self, permit: Permit) -> None:
        permit.sent()
        self.wire_sends += 1
        if self._wire_sent is not None:
            self._wire_sent()

    async def _nothing(self, fault: Fault, departed_ns: int, after_ns: int) -> NoReply:
        await self._clock.sleep_until(departed_ns + after_ns)
        return NoReply(fault, departed_ns, self._clock.monotonic_ns())

    async def _sleep(self, for_ns: int) -> None:
        await self._clock.sleep_until(self._clock.monotonic_ns() + for_ns)

    def _round_trip_ns(self) -> int:
        return int(self._latency_ns * (0.5 + 0.5 * self._chance.expovariate(1.0)))


class _Answering:
    """`contracts.Sent`: a request whose answer comes by a callback."""

    def __init__(self, answer: Coroutine[None, None, Reply | NoReply], on_reply: OnReply) -> None:
        self._on_reply = on_reply
        self._task = asyncio.get_running_loop().create_task(answer, name="answering")
        self._task.add_done_callback(self._answered)

    def cancel(self) -> None:
        self._task.cancel()

    def _answered(self, task: "asyncio.Task[Reply | NoReply]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._on_reply(task.result())


class FreePermit:
    """A permit without a gate, for tests of a transport alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def depart(self) -> int:
        await asyncio.sleep(0)
        return self._clock.monotonic_ns()

    def sent(self) -> None:
        """Nothing to do: there is no gate."""


class FreeConnect:
    """`contracts.ConnectGate` without a gate, for tests of a transport alone."""

    def __init__(self, clock: Clock) -> None:
        self.permit: Permit = FreePermit(clock)

    def __call__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to do: there is no permit to give back."""

    def answered(self, reply: Reply | NoReply) -> None:
        """Nothing to do: there is no gate to learn from it."""


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
