"""How many requests per second does the simulated provider answer? It must never be the bottleneck of a measurement.

Starts the server as a process of its own and reads items over a few keep-alive connections, first every id once (as a
backfill does; bodies are made as they are asked for), then the same ids again (as with `--warm`). Prints requests per
second of wall clock, and per second of the server's own processor time, which depends less on what else is running.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CONNECTIONS: Final = 16
AHEAD: Final = 8  # requests in flight on each connection
_TICKS_PER_SECOND: Final = 100
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"Content-Length: "


@dataclass
class Work:
    """Ids to read, and what has been read."""

    ids: list[int]
    finished: asyncio.Event
    answered: int = 0
    body_bytes: int = 0
    taken: int = field(default=0)

    def take(self) -> int | None:
        if self.taken == len(self.ids):
            return None
        self.taken += 1
        return self.ids[self.taken - 1]


class Client(asyncio.Protocol):
    """Keeps a few requests in flight and counts the answers."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._buffer = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._ask(AHEAD)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data
        answers, at = 0, 0
        while (end := buffer.find(_END_OF_HEAD, at)) >= 0:
            start = buffer.index(_LENGTH, at) + len(_LENGTH)
            length = int(buffer[start : buffer.index(b"\r\n", start)])
            if end + 4 + length > len(buffer):
                break
            at = end + 4 + length
            answers += 1
            self._work.body_bytes += length
        self._buffer = buffer[at:]
        self._work.answered += answers
        if self._work.answered == len(self._work.ids):
            self._work.finished.set()
        self._ask(answers)

    def _ask(self, count: int) -> None:
        wanted = [item_id for item_id in (self._work.take() for _ in range(count)) if item_id is not None]
        if wanted:
            requests = [b"GET /v0/item/%d.json HTTP/1.1\r\nHost: x\r\n\r\n" % item_id for item_id in wanted]
            self._transport.write(b"".join(requests))


def processor_s(pid: int) -> float:
    """The processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


async def measure(port: int, pid: int, ids: list[int]) -> dict[str, float]:
    """Read these ids once."""
    work = Work(ids, asyncio.Event())
    loop = asyncio.get_running_loop()
    used_s, started_s = processor_s(pid), time.perf_counter()
    connections = [await loop.create_connection(lambda: Client(work), "127.0.0.1", port) for _ in range(CONNECTIONS)]
    await asyncio.wait_for(work.finished.wait(), 300)
    wall_s, used_s = time.perf_counter() - started_s, processor_s(pid) - used_s
    for transport, _client in connections:
        transport.close()
    return {
        "requests": len(ids),
        "requests_per_s": round(len(ids) / wall_s),
        "requests_per_processor_s": round(len(ids) / max(used_s, 1 / _TICKS_PER_SECOND)),
        "mean_body_bytes": round(work.body_bytes / len(ids), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=60_000)
    items = parser.parse_args().items
    words = [sys.executable, "-m", "remora.sim.server", "--items", str(items), "--until-eof", "--speed", "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # noqa: S603  our own module
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        for name in ("first look", "second look"):
            result = asyncio.run(measure(port, server.pid, list(range(1, items + 1))))
            print(json.dumps({"measured": name, **result}))
        server.communicate()


if __name__ == "__main__":
    main()
