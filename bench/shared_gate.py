"""How much of one ceiling do processes reach that share it through PostgreSQL, and is it ever exceeded?

`python -m bench.shared_gate` starts a PostgreSQL and processes that always have something to send, each with a real
governor and no network. *Reached* is the share of the ceiling that left in all processes together. *Over the bound* is by
how many departures the fullest window of any length exceeds burst + T / F: zero or less means that the ceiling was kept.
*Least/most* compares the busiest process with the laziest. Measured on the clock read right before a request would be
written, after a second to warm up. *Local* is one process without a database: what can be reached at best.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from typing import cast

import structlog

from bench.postgres import Server, running
from remora.contracts import GateHome, Json
from remora.core.lanes import Lane
from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import record_to_json, to_record
from remora.core.rate.pacing import burst_allowance, interval_for
from remora.core.rate.shared_pace import COMMON, Common, to_common
from remora.core.rate.stretches import Stretches
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.gate.local import LocalHome
from remora.gate.shared import SharedHome
from remora.operate.jobs.clock import SystemClock
from remora.sim.checks import worst_window
from remora.sim.meter import CountingMeter
from remora.stores.memory import MemoryStore
from remora.stores.postgres import migrate
from remora.stores.postgres.sharing import PostgresSharing

SOURCE = "bench"
RATES = (100.0, 1_000.0, 5_000.0)
PROCESSES = (0, 1, 4)
ANSWER_AFTER_NS = 5 * MILLISECOND_NS
WARM_UP_NS = SECOND_NS
# When requests left, how long each had waited, and the CPU seconds they took.
Done = tuple[list[int], list[int], float]


def warm_record(clock: SystemClock, ceiling_ns: int) -> dict[str, Json]:
    """What processes that ended at the ceiling would have shared."""
    now_ns, rate_per_s = clock.monotonic_ns(), SECOND_NS / ceiling_ns
    cold = cold_start(ceiling_interval_ns=ceiling_ns, now_ns=now_ns)
    pace = replace(cold, rate_per_s=rate_per_s, octave_per_s=rate_per_s)
    record = to_record(pace, now_ns=now_ns, now_wall_ns=clock.wall_ns())
    return {
        "pace": cast("Json", record_to_json(record)),
        COMMON: cast("Json", to_common(Common(pace), now_ns=now_ns)),
    }


async def send(url: str, rate: float, *, pause_ns: int, is_local: bool) -> None:
    """One process: send until the moment it is told, then print every departure. With a pause, one request at a time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    clock, ceiling_ns = SystemClock(), interval_for(rate)
    callers = 1 if pause_ns else max(2, int(3 * rate * ANSWER_AFTER_NS / SECOND_NS))
    sharing, book = PostgresSharing(url, owner=str(os.getpid()), clock=clock), MemoryStore()
    home: GateHome = SharedHome(SOURCE, sharing.gate_store, ceiling_interval_ns=ceiling_ns, clock=clock)
    if is_local:
        await book.save_pace(SOURCE, warm_record(clock, ceiling_ns))
        home = LocalHome(SOURCE, book)
    limits = Limits(ceiling_ns, in_flight=callers, jitter_max_ns=0)
    governor = Governor(SOURCE, limits, clock=clock, home=home, meter=CountingMeter(), chance=random.random)
    await governor.open()
    left_at_ns: list[int] = []
    waited_ns: list[int] = []

    async def call() -> None:
        while True:
            asked_ns = clock.monotonic_ns()
            async with governor.admit(Lane.BACKFILL) as permit:
                departed_ns = await permit.depart()
                permit.sent()
                left_at_ns.append(departed_ns)
                waited_ns.append(departed_ns - asked_ns)
                await clock.sleep_until(departed_ns + ANSWER_AFTER_NS)
                # Nothing is learned: on a busy machine answers are late, and the pace would follow them.
            if pause_ns:
                await clock.sleep_until(clock.monotonic_ns() + pause_ns)

    print("ready", flush=True)
    until_ns = int(await asyncio.to_thread(sys.stdin.readline))
    began_s = time.process_time()
    tasks = [asyncio.ensure_future(call()) for _ in range(callers)]
    await clock.sleep_until(until_ns)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cpu_s = time.process_time() - began_s
    await governor.close()
    await sharing.close()
    print(json.dumps([left_at_ns, waited_ns, cpu_s]), flush=True)


async def prepare(url: str, rate: float, source: str = SOURCE) -> None:
    """A new source at its ceiling."""
    await migrate(url)
    sharing = PostgresSharing(url, owner="bench", clock=SystemClock())
    record = warm_record(SystemClock(), interval_for(rate))
    await sharing.gate_store.share(source, record=record, interval_ns=interval_for(rate), seen_version=None)
    asked = Stretches(interval_for(rate)).question(interval_ns=0, ready=1, now_ns=0)
    while True:
        grant, _ = await sharing.gate_store.borrow(source, asked, seen_version=0)
        # A gate that nobody used yet grants time that begins a second or two later: an earlier run would have passed it.
        left_ns = max(100 * MILLISECOND_NS, grant.ends_ns - grant.now_ns)
        await SystemClock().sleep_until(SystemClock().monotonic_ns() + left_ns)
        if grant.departures:
            break
    await sharing.close()


def processes(url: str, rate: float, count: int, for_ns: int, *, pause_ns: int = 0) -> tuple[int, list[Done]]:
    """When all of them began, and what each did until `for_ns` later. None (0) is one process with a local home."""
    command = [sys.executable, "-m", "bench.shared_gate", "--send", url, "--rate", str(rate)]
    if count == 0:
        command.append("--local")
    started = [
        subprocess.Popen(  # noqa: S603 - our own module
            [*command, "--pause-ns", str(pause_ns)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count or 1)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    began_ns = time.monotonic_ns()
    done = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write(f"{began_ns + for_ns}\n")
        process.stdin.flush()
    for process in started:
        left, waited, cpu_s = json.loads(process.communicate()[0])
        done.append((left, waited, cpu_s))
    return began_ns, done


def saturated(url: str, server: Server, rate: float, count: int, seconds: float) -> str:
    """A row: processes that always have something to send."""
    asyncio.run(prepare(url, rate))
    server_s = server.cpu_s()
    began_ns, done = processes(url, rate, count, WARM_UP_NS + int(seconds * SECOND_NS))
    from_ns = began_ns + WARM_UP_NS
    server_s = server.cpu_s() - server_s
    everything = [at_ns for left, _, _ in done for at_ns in left]
    shares = [sum(at_ns >= from_ns for at_ns in left) for left, _, _ in done]
    ceiling_ns = interval_for(rate)
    worst = worst_window(everything, ceiling_ns, burst_allowance(ceiling_ns))
    ours_us, servers_us = (1e6 * cpu_s / max(1, len(everything)) for cpu_s in (sum(each[2] for each in done), server_s))
    return (
        f"| {rate:,g}/s | {count or 'local'} | {sum(shares) / (rate * seconds):.3f} | {worst.excess:+.2f} "
        f"| {min(shares) / max(1, *shares):.2f} | {ours_us:,.0f} | {servers_us:,.0f} |"
    )


def lone(url: str, rate: float) -> str:
    """A row: one request every 200 ms."""
    asyncio.run(prepare(url, rate))
    _, ((left, waited, _),) = processes(url, rate, 1, 5 * SECOND_NS, pause_ns=200 * MILLISECOND_NS)
    waited.sort()
    middle = (
        f"{waited[len(waited) // 2] / MILLISECOND_NS:.1f} | {waited[-1] / MILLISECOND_NS:.1f}" if waited else "- | -"
    )
    return f"| {rate:,g}/s | {len(left)} | {middle} |"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--local", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--pause-ns", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        await send(options.send, options.rate, pause_ns=options.pause_ns, is_local=options.local)
        return
    async with running(fsync=True) as (server, url):
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(
            "| ceiling | processes | reached | over the bound | least/most | our CPU, µs each | server's CPU, µs each |"
        )
        print("|---|---|---|---|---|---|---|")
        for rate in options.rates:
            for count in options.processes:
                print(await asyncio.to_thread(saturated, url, server, rate, count, options.seconds), flush=True)
        print(
            "\n| one request every 200 ms, ceiling | left | waited, ms: half of them | the longest |\n|---|---|---|---|"
        )
        for rate in options.rates:
            print(await asyncio.to_thread(lone, url, rate), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
