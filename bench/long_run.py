"""Does a long backfill over TLS keep its pace, its ceiling and the quick way of live items? At 2,600 requests a second.

Run it with `python -m bench.long_run [--rate 2600] --for-s 600` on a quiet machine. The simulated provider is a process of its own on
loopback and answers 40 ms later. The line is the product's own: walkers, gate, transport, SQLite. Twice a second an item is
asked for in the live lane, first while nothing else runs, then beside the backfill; its delay ends when it is durable.

Where it can, the run has a core of its own, the provider another, and the quiet part of the run is told apart: see `bench.quiet`.
"""

import argparse
import asyncio
import logging
import os
import random
import resource
import statistics
import tempfile
from array import array
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from bench.catchup import CA_FILE, SOURCE, authority, provider
from bench.quiet import (
    PROGRAMS_CORE,
    PROVIDERS_CORE,
    Look,
    Loop,
    can_separate,
    loops_in,
    stolen_s,
    stolen_share,
    timed_beside,
    while_quiet,
)
from remora.collect import Collector
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.pacing import Pacer, burst_allowance, interval_for
from remora.core.rate.stretches import Stretch
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.loops.numbered.backfill import walk_until_done, walkers
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.stopping import run_job
from remora.operate.observe.recent_meter import RecentMeter, Uncounted
from remora.sim.fuzz.stage import Ceiling
from remora.sources.dialects import Dialects
from remora.sources.hackernews import HackerNews
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from remora.stores.sqlite import SqliteStore
from tests.warm_start import warm_up

LATENCY_MS: Final = 40
IN_FLIGHT: Final = 256
LIVE_EVERY_NS: Final = SECOND_NS // 2
LOOK_EVERY_NS: Final = SECOND_NS // 4
LIVE_ITEMS: Final = 10_000  # ids that only the live lane asks for, above those of the backfill
IDLE_S: Final = 30.0


class WatchedHome(LocalHome):
    """Notes every departure at its own moment; they are looked at when the run is over."""

    def __init__(self, source: str, store: SqliteStore, interval_ns: int) -> None:
        super().__init__(source, store)
        self._interval_ns = interval_ns
        self._departed_ns = array("q")

    def departed(self, stretch: Stretch, pacer: Pacer, *, now_ns: int) -> None:
        self._departed_ns.append(now_ns)

    @property
    def departures(self) -> int:
        """How many requests were sent."""
        return len(self._departed_ns)

    def excess(self) -> float:
        """By how many requests the fullest window of any length exceeds `burst + T / F`; at most 0."""
        ceiling = Ceiling(self._interval_ns, burst_allowance(self._interval_ns))
        return max(map(ceiling.excess_ns, self._departed_ns)) / self._interval_ns


@dataclass
class Delays:
    """How long live items took until they were durable, in milliseconds."""

    ms: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"p50 {statistics.median(self.ms):.0f} ms, p99 {self.p99:.0f} ms ({len(self.ms)} items)"

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.ms, n=100)[98]


async def ask_live(collector: Collector, clock: SystemClock, ids: Iterator[int], delays: Delays) -> None:
    """One live item after the other, at fixed moments, for ever."""
    at_ns = clock.monotonic_ns()
    while True:
        at_ns += LIVE_EVERY_NS
        await clock.sleep_until(at_ns)
        began_ns = clock.monotonic_ns()
        await collector.collect(Discovery.item(next(ids), via=Lane.LIVE))
        delays.ms.append((clock.monotonic_ns() - began_ns) / MILLISECOND_NS)


async def look_on(home: WatchedHome, clock: SystemClock, looks: list[Look]) -> None:
    """Note what was sent and used, for ever."""
    while True:
        looks.append(Look(clock.monotonic_ns(), home.departures, used_s(), stolen_s()))
        await clock.sleep_until(clock.monotonic_ns() + LOOK_EVERY_NS)


def used_s() -> float:
    """Processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(url: str, folder: Path, rate_per_s: float, for_s: float, items: int) -> list[Look]:
    """Idle, then the backfill; prints what both gave, and returns the looks at the backfill."""
    clock, limits = SystemClock(), Limits(interval_for(rate_per_s), in_flight=IN_FLIGHT)
    await warm_up(folder / "mirror.db", SOURCE, rate_per_s)
    store = SqliteStore(folder / "mirror.db")
    await store.open()
    meter, home = RecentMeter(Uncounted(), clock=clock), WatchedHome(SOURCE, store, limits.ceiling_interval_ns)
    governor = Governor(SOURCE, limits, clock=clock, home=home, meter=meter, chance=random.random)
    await governor.open()
    settings = HttpSettings(in_flight_max=IN_FLIGHT, ca_file=str(folder / CA_FILE))
    async with HttpTransport(settings, clock=clock, wire_sent=lambda: meter.wire_sent(SOURCE)) as transport:
        source = HackerNews(transport, url)
        collector = Collector(source, store, governor, clock=clock, meter=meter, dialect=Dialects())
        ids, idle, beside = iter(range(items + 1, items + LIVE_ITEMS)), Delays(), Delays()
        looks: list[Look] = []
        await for_a_while(ask_live(collector, clock, ids, idle), min(IDLE_S, for_s))
        await store.plan(SOURCE, SegmentKind.BACKFILL, (IdRange(1, items),), now_ns=clock.wall_ns())
        walking = walk_until_done(
            walkers(
                SOURCE,
                collector,
                store,
                clock=clock,
                owner="bench",
                kinds=(SegmentKind.BACKFILL,),
                width=IN_FLIGHT,
            )
        )
        before_s, began_ns, before = used_s(), clock.monotonic_ns(), home.departures
        stolen_before_s = stolen_s()
        work = asyncio.gather(walking, ask_live(collector, clock, ids, beside), look_on(home, clock, looks))
        await for_a_while(work, for_s)
        took_s = (clock.monotonic_ns() - began_ns) / SECOND_NS
        cpu, sent = (used_s() - before_s) / took_s, home.departures - before
        stolen = stolen_share(stolen_s() - stolen_before_s, took_s)
    recent, facts = meter.recent(SOURCE), governor.state()
    await governor.close()
    await store.close()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{took_s:.0f} s at {rate_per_s:,g}/s, provider {LATENCY_MS} ms away over TLS, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| | measured | goal |\n|---|--:|--:|")
    print(f"| achieved share of the pace | {sent / took_s / rate_per_s:.1%} | ≥ 98 % |")
    print(f"| processor, share of one core | {cpu:.1%} ({cpu / (sent / took_s) * 1e6:.0f} µs per item) | ≤ 35 % |")
    print(f"| requests above the ceiling in the fullest window | {home.excess():+.2f} | ≤ 0 |")
    print(f"| live items, idle | {idle} | |")
    print(f"| live items beside the backfill | {beside} | p99 ≤ {2 * idle.p99:.0f} ms |")
    slowed = "never slowed down" if facts.last_back_off is None else f"last slowed down: {facts.last_back_off.reason}"
    print(f"| pace at the end | {SECOND_NS / facts.interval_ns:,.0f}/s, {slowed} | {rate_per_s:,.0f}/s |")
    print(f"| refused in the last ten seconds | {recent.refused if recent else 'unknown'} | 0 |")
    print(f"| peak memory | {peak_mb:.0f} MB | |")
    print(f"| time of all processors that the host took | {stolen:.1%} | |")
    return looks


def print_quiet_part(looks: Sequence[Look], loops: Sequence[Loop], rate_per_s: float) -> None:
    """The goals again, of the time in which nobody else used the machine."""
    quiet = while_quiet(looks, loops)
    print(f"| seconds in which the machine was quiet | {quiet.seconds:.0f} | |")
    if quiet.done:
        print(f"| then: achieved share of the pace | {quiet.done / quiet.seconds / rate_per_s:.1%} | ≥ 98 % |")
        cost_us = quiet.used_s / quiet.done * 1e6
        print(f"| then: processor | {quiet.used_s / quiet.seconds:.1%} ({cost_us:.0f} µs per item) | ≤ 35 % |")


async def for_a_while(work: Awaitable[object], for_s: float) -> None:
    """Run this for so long."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=for_s)
    if task.done():
        task.result()  # it must not end by itself
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=float, default=2_600.0)
    parser.add_argument("--for-s", type=float, default=60.0)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    items = int(arguments.rate * arguments.for_s * 1.1)
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        pem, faults = authority(folder), folder / "faults.toml"
        faults.write_text(f"latency_ms = {LATENCY_MS}\n")
        is_apart = can_separate()
        if is_apart:
            os.sched_setaffinity(0, PROVIDERS_CORE)
        with provider(items + LIVE_ITEMS, "--tls", str(pem), "--faults", str(faults)) as url:
            work = measure(url.removesuffix("/"), folder, arguments.rate, arguments.for_s, items)
            if is_apart:
                os.sched_setaffinity(0, PROGRAMS_CORE)
                log = folder / "loops"
                with timed_beside(log):
                    looks = run_job(work).result or []
                print_quiet_part(looks, loops_in(log), arguments.rate)
            else:
                run_job(work)


if __name__ == "__main__":
    main()
