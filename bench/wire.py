"""Does what leaves the wire keep the pace and the ceiling? The real gate and transport against a server that only counts.

Run it with `python -m bench.wire [--rate 100 --for-s 4]`. The server is a process of its own on loopback and notes when
each request arrived, on the same monotonic clock. Two columns decide: the achieved share of the pace, and by how many
requests the fullest window exceeded `burst + T / F` (0 or less: the ceiling was kept). What the server sees is also late
by its own scheduling, so its column is a check of the whole, not of the gate alone.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic_ns
from typing import Final, cast

import uvloop

from remora.contracts import Json
from remora.core.item import Newest, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import record_to_json, to_record
from remora.core.rate.pacing import burst_allowance, interval_for
from remora.core.units import MICROSECOND_NS, SECOND_NS
from remora.core.verdict import classify, has_content
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.operate.jobs.clock import SystemClock
from remora.sim.meter import CountingMeter
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from remora.stores.memory import MemoryStore

SOURCE: Final = "wire"
# Rates of the table and how long each is measured.
TABLE: Final = ((0.5, 10.0), (4.0, 5.0), (100.0, 4.0), (1_000.0, 4.0), (3_000.0, 4.0))
SERVER_LATENCY_S: Final = 0.01
# Connections, as a multiple of what the rate needs at this latency: they are never what is waited for.
PLENTY: Final = 10
BODY: Final = b"1"
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n" + BODY
_END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True)
class Measured:
    """What one rate gave on one event loop."""

    loop: str
    rate_per_s: float
    sent: int
    achieved: float  # share of the pace
    excess: float  # departures above the bound in the fullest window, seen at the gate
    excess_at_server: float  # the same, seen at the server
    silence_at_server_s: float  # the longest time without an arrival: how late the server may have read
    arrived: int
    cpu_us_per_request: float


class Counting(asyncio.Protocol):
    """The server's end of a connection: notes the moment, answers a little later."""

    def __init__(self, arrived_ns: list[int]) -> None:
        self._arrived_ns = arrived_ns
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        now_ns = monotonic_ns()
        heads = (self._rest + data).split(_END_OF_HEAD)
        self._rest = heads.pop()
        for _head in heads:
            self._arrived_ns.append(now_ns)
            asyncio.get_running_loop().call_later(SERVER_LATENCY_S, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(ANSWER)


async def serve() -> None:
    """Count until the standard input ends, then print every arrival."""
    arrived_ns: list[int] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Counting(arrived_ns), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    print(json.dumps(arrived_ns), flush=True)


@contextmanager
def counting_server() -> Iterator[tuple[int, Callable[[], list[int]]]]:
    """A running server's port, and a function that stops it and gives its arrivals."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.wire", "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = process.stdout
        port = int(lines.readline())

        def arrivals() -> list[int]:
            assert process.stdin is not None
            process.stdin.close()
            return cast("list[int]", json.loads(lines.readline()))

        try:
            yield port, arrivals
        finally:
            process.kill()


def warm_record(clock: SystemClock, limits: Limits) -> dict[str, Json]:
    """What a run that ended at the ceiling would have stored."""
    rate_per_s = SECOND_NS / limits.ceiling_interval_ns
    cold = cold_start(ceiling_interval_ns=limits.ceiling_interval_ns, now_ns=clock.monotonic_ns())
    pace = replace(cold, rate_per_s=rate_per_s, octave_per_s=rate_per_s)
    record = to_record(pace, now_ns=clock.monotonic_ns(), now_wall_ns=clock.wall_ns())
    return {"pace": cast("Json", record_to_json(record))}


async def send_for(port: int, rate_per_s: float, for_s: float) -> list[int]:
    """Saturate the gate for a while; gives the departures."""
    clock, store, meter = SystemClock(), MemoryStore(), CountingMeter()
    workers = max(2, int(rate_per_s * SERVER_LATENCY_S * PLENTY))
    limits = Limits(interval_for(rate_per_s), in_flight=workers)
    await store.save_pace(SOURCE, warm_record(clock, limits))
    governor = Governor(SOURCE, limits, clock=clock, home=LocalHome(SOURCE, store), meter=meter, chance=random.random)
    await governor.open()
    departed_ns: list[int] = []
    until_ns = clock.monotonic_ns() + int(for_s * SECOND_NS)
    discovery = Discovery.newest()

    async def work(transport: HttpTransport) -> None:
        while clock.monotonic_ns() < until_ns:
            async with governor.admit(Lane.LIVE) as permit:
                reply = await transport.get(f"http://127.0.0.1:{port}/{discovery.kind}", permit)
                decoded = Readable(Newest(1)) if has_content(reply) else None
                verdict = classify(reply, decoded, behind_newest=None, now_wall_ns=clock.wall_ns())
                governor.learn(permit, reply, verdict)
                if permit.departed_at_ns is not None:
                    departed_ns.append(permit.departed_at_ns)

    settings = HttpSettings(in_flight_max=workers)
    async with HttpTransport(settings, clock=clock, wire_sent=lambda: meter.wire_sent(SOURCE)) as transport:
        await asyncio.gather(*(work(transport) for _ in range(workers)))
    await governor.close()
    assert meter.wire_sends[SOURCE] == meter.total_departures(SOURCE) == len(departed_ns), "a send without a permit"
    return sorted(departed_ns)


def excess(moments_ns: Sequence[int], interval_ns: int) -> float:
    """By how many requests the fullest window of any length exceeds `burst + T / F`."""
    debt_ns, worst_ns, previous_ns = 0, -(1 << 62), moments_ns[0]
    for moment_ns in sorted(moments_ns):
        debt_ns = max(0, debt_ns - (moment_ns - previous_ns)) + interval_ns
        worst_ns = max(worst_ns, debt_ns)
        previous_ns = moment_ns
    return worst_ns / interval_ns - burst_allowance(interval_ns)


def measure(rate_per_s: float, for_s: float, *, fast_loop: bool = False) -> Measured:
    """One rate on one event loop."""
    interval_ns = interval_for(rate_per_s)
    with counting_server() as (port, arrivals):
        before = resource.getrusage(resource.RUSAGE_SELF)
        factory = uvloop.new_event_loop if fast_loop else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            departed_ns = runner.run(send_for(port, rate_per_s, for_s))
        after = resource.getrusage(resource.RUSAGE_SELF)
        arrived_ns = arrivals()
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(
        loop="uvloop" if fast_loop else "asyncio",
        rate_per_s=rate_per_s,
        sent=len(departed_ns),
        achieved=(len(departed_ns) - 1) * interval_ns / (departed_ns[-1] - departed_ns[0]),
        excess=excess(departed_ns, interval_ns),
        excess_at_server=excess(arrived_ns, interval_ns),
        silence_at_server_s=max(later - earlier for earlier, later in pairwise(sorted(arrived_ns))) / SECOND_NS,
        arrived=len(arrived_ns),
        cpu_us_per_request=cpu_s * SECOND_NS / MICROSECOND_NS / len(departed_ns),
    )


def table(results: Sequence[Measured]) -> str:
    """The results as Markdown."""
    lines = [
        "| Pace | Loop | Sent | Arrived | Achieved | Over the bound, at the gate | at the server | Processor per request |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {one.rate_per_s:,g}/s | {one.loop} | {one.sent:,} | {one.arrived:,} | {one.achieved:.1%} "
        f"| {one.excess:+.2f} | {one.excess_at_server:+.2f} | {one.cpu_us_per_request:,.0f} µs |"
        for one in results
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="be the counting server")
    parser.add_argument("--rate", type=float, help="measure this rate only")
    parser.add_argument("--for-s", type=float, default=4.0)
    arguments = parser.parse_args()
    if arguments.serve:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
        return
    rates = TABLE if arguments.rate is None else ((arguments.rate, arguments.for_s),)
    print(f"wire: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(table([measure(rate, for_s, fast_loop=fast) for fast in (False, True) for rate, for_s in rates]))


if __name__ == "__main__":
    main()
