"""Does a busy machine take its own lateness for a slow provider? A cold catch-up beside programs that never rest.

Run it with `python -m bench.busy [--for-s 45] [--burners 8]`, as a user that may set real-time priorities. The simulated provider
gets one, so it is neither slow nor refuses: whatever slows the pace down is our own doing. It is asked with several
ceilings, each in an empty store, and says when each request arrived. Some are delayed between the gate's last look at the clock and
the arrival, so a window may seem too full by a request; `bench.packets` tells the two apart.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from remora.core.rate.pacing import burst_allowance, interval_for
from remora.sim.checks import worst_window
from tests.processes import SimulatedProvider, simulated_provider

RATES: Final = (20.0, 300.0, 1_000.0, 100_000.0)
ITEMS: Final = 1_000_000
PRIORITY: Final = 50
END_S: Final = 60.0
SLOWED: Final = ("backed_off", "quieted")


@dataclass(frozen=True)
class Seen:
    """What one catch-up did."""

    stored: int
    fastest_per_s: float
    reasons: Sequence[str]  # of each time that the pace went down
    excess: float
    load: float


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many programs that never rest."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def in_real_time(process_id: int) -> bool:
    """Let this process run whenever it can. False: we may not."""
    try:
        os.sched_setscheduler(process_id, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except (AttributeError, PermissionError):
        return False
    return True


def catch_up(provider: SimulatedProvider, folder: Path, rate_per_s: float, for_s: float) -> Seen:
    """Fetch for a while from nothing, then ask it to stop."""
    config, mirror, log = (folder / name for name in ("remora.toml", "mirror.db", "log"))
    config.write_text(f'[sources.hackernews]\nurl = "{provider.url}/"\nceiling = "{rate_per_s:g}/s"\n')
    words = ["catchup", "--config", str(config), "--store", f"sqlite:///{mirror}", "--log-level", "debug"]
    with log.open("w") as told:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "remora", *words, "--log-format", "json"], stdout=told, stderr=told, cwd=folder
        )
        time.sleep(for_s)
        load = os.getloadavg()[0]
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        process.wait()
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    with sqlite3.connect(mirror) as connection:
        (stored,) = connection.execute("SELECT count(*) FROM items").fetchone()
    connection.close()
    times_ns, _ = provider.arrivals()
    interval_ns = interval_for(rate_per_s)
    return Seen(
        stored,
        max((event["rate_per_s"] for event in events if event.get("event") == "sped_up"), default=0.0),
        [str(event.get("reason")) for event in events if event.get("event") in SLOWED],
        worst_window(times_ns, interval_ns, burst_allowance(interval_ns)).excess,
        load,
    )


def main() -> None:
    """Print a line for each ceiling."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--for-s", type=float, default=45.0)
    parser.add_argument("--burners", type=int, default=8)
    given = parser.parse_args()
    print(
        f"{given.for_s:g} s from a cold start beside {given.burners} programs that never rest, {os.cpu_count()} cores\n"
    )
    print("| ceiling | items stored | fastest pace | slowed down | above the ceiling in the fullest window | load |")
    print("|--:|--:|--:|---|--:|--:|", flush=True)
    for rate_per_s in RATES:
        with simulated_provider(items=ITEMS) as provider, tempfile.TemporaryDirectory(prefix="remora-") as folder:
            if not in_real_time(provider.process_id):
                raise SystemExit("the provider would be slow, too: this user may not set real-time priorities")
            with burning(given.burners):
                seen = catch_up(provider, Path(folder), rate_per_s, given.for_s)
        slowed = ", ".join(seen.reasons) or "never"
        print(
            f"| {rate_per_s:,.0f}/s | {seen.stored:,} | {seen.fastest_per_s:,.0f}/s | {slowed} | {seen.excess:+.2f} "
            f"| {seen.load:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
