"""What does one of several processes do that share a database? This program; the tests start, freeze and kill it.

It prints one line per event, `<what> <monotonic nanoseconds>`: that clock is the same for all processes of a machine.
"""

import argparse
import asyncio
import random
import sys
import time

from remora.core.rate.pacing import interval_for
from remora.core.units import SECOND_NS
from remora.gate.shared import SharedHome
from remora.operate.jobs.clock import SystemClock
from remora.stores.postgres import PostgresGate, Singleton
from tests.integration.gate_sender import Sender

SOURCE = "shared"
MILLISECOND_S = 0.001
ACT_EVERY_NS = 5_000_000


def say(what: str, at_ns: int | None = None) -> None:
    sys.stdout.write(f"{what} {time.monotonic_ns() if at_ns is None else at_ns}\n")
    sys.stdout.flush()


class WrongClock(SystemClock):
    """A clock of another machine: both its readings are off by minutes."""

    def __init__(self, off_by_s: float) -> None:
        super().__init__()
        self._off_by_ns = int(off_by_s * SECOND_NS)

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self._off_by_ns

    def true_ns(self, monotonic_ns: int) -> int:
        """A moment of this clock on the one that all processes of the machine share."""
        return monotonic_ns - self._off_by_ns

    def wall_ns(self) -> int:
        return super().wall_ns() + self._off_by_ns

    async def sleep_until(self, monotonic_ns: int) -> None:
        await super().sleep_until(monotonic_ns - self._off_by_ns)

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        await super().sleep_exactly_until(monotonic_ns - self._off_by_ns)


class Stalls:
    """A process that now and then stands still, in the middle of anything."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance = random.Random(seed)
        self._share = share

    def maybe(self, most_ms: float) -> None:
        if self._chance.random() < self._share:
            # On purpose not asyncio.sleep: the whole process stands still.
            time.sleep(self._chance.uniform(0, most_ms) * MILLISECOND_S)


async def send(url: str, clock: WrongClock, interval_ns: int, stalls: Stalls) -> None:
    """As fast as the gate lets it. The event is the last look at the clock before the request would be written."""
    home = SharedHome(SOURCE, PostgresGate(url, clock=clock), ceiling_interval_ns=interval_ns, clock=clock)
    sender = Sender(home, interval_ns=interval_ns, clock=clock)
    while True:
        left_at_ns, _ = await sender.send(before_look=lambda: stalls.maybe(80))
        say("sent", clock.true_ns(left_at_ns))
        sender.on_the_wire()
        stalls.maybe(20)


async def be_the_one(url: str, clock: SystemClock, owner: str) -> None:
    """Hold the singleton and act as often as possible, but only while it is held."""

    async def act(alone: Singleton) -> None:
        say(f"took:{alone.fence}")
        while True:
            if alone.holds():
                say(f"acted:{alone.fence}")
            await clock.sleep_until(clock.monotonic_ns() + ACT_EVERY_NS)

    alone = Singleton(url, "stream:shared", owner=owner, clock=clock)
    while True:
        await alone.run(act)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["send", "singleton"])
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stall-share", type=float, default=0.0)
    parser.add_argument("--clock-off-by-s", type=float, default=0.0)
    options = parser.parse_args()
    clock = WrongClock(options.clock_off_by_s)
    stalls = Stalls(options.seed, options.stall_share)
    interval_ns = interval_for(options.rate)
    say("ready")
    match options.what:
        case "send":
            await send(options.url, clock, interval_ns, stalls)
        case _:
            await be_the_one(options.url, clock, f"owner-{options.seed}")


if __name__ == "__main__":
    asyncio.run(main())
