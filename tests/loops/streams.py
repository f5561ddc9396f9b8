"""What can a stream do to us? Scripted streams: each connection plays its lines and ends as it is told."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from remora.contracts import ConnectGate, Permit, StreamBroken, Transport
from remora.core.verdict import NoReply, Reply
from remora.sim.clock import SimClock
from remora.sim.streams import CANCEL, KEEP_ALIVE, event
from tests.sources.permits import OnlyGets

__all__ = ["CANCEL", "END", "KEEP_ALIVE", "SILENCE", "Scripted", "pause", "updates"]

SILENCE = b"silence"  # nothing more comes, and the connection stays open
END = b"end"


def updates(*item_ids: int, profiles: Sequence[str] = ()) -> bytes:
    """One event of the change stream."""
    return event("put", "/", {"items": list(item_ids), "profiles": list(profiles)})


def pause(seconds: float) -> float:
    """A while without a byte."""
    return seconds


@dataclass(slots=True)
class Scripted(OnlyGets):
    """A transport whose change stream follows a script, one list per connection; all else goes to another transport.

    A connection beyond the script is refused. The stream of newest ids is always refused, so ids are polled.
    """

    behind: Transport
    clock: SimClock
    connections: Sequence[Sequence[bytes | float | StreamBroken]]
    connected_s: list[float] = field(default_factory=list)

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        return await self.behind.get(url, permit, headers=headers)

    async def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        async with connect() as connecting:
            departed_ns = await connecting.permit.depart()
            connecting.permit.sent()
            number = len(self.connected_s)
            is_open = "updates" in url and number < len(self.connections)
            if "updates" in url:
                self.connected_s.append(asyncio.get_running_loop().time())
            answer = Reply(200 if is_open else 404, b"", departed_ns, self.clock.monotonic_ns())
            connecting.answered(answer)
        if not is_open:
            raise StreamBroken("refused")
        yield b""
        for line in self.connections[number]:
            if isinstance(line, StreamBroken):
                raise line
            if isinstance(line, float | int):
                await asyncio.sleep(line)
            elif line == SILENCE:
                await asyncio.sleep(86_400)
            elif line == END:
                return
            else:
                yield line
        raise StreamBroken("closed")
