"""What does days over loopback need? A provider on a socket, daemons that are stopped and killed, and a look at both."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from remora.core.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.sim.faults import Faults
from remora.sim.provider import Provider
from remora.sim.replies import Answer
from remora.sim.streams import EventStream
from remora.sim.world import World, WorldSettings
from remora.stores.sqlite import InPlace, SqliteStore
from tests.world.lockstep import Conductor, LockstepClock

REPOSITORY = Path(__file__).parents[2]
# Keep-alives come every 30 s and silence is noticed after 60 s: in quiet times nobody minds being woken so much later.
STRIDE_NS = 25 * SECOND_NS
QUIET_AFTER_NS = 500 * MILLISECOND_NS
STOP_MAX_S = 60.0  # for the machine; the daemon's own ten seconds are counted in its own time
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Size:
    """How much memory a process held at one moment."""

    life: int
    at_ns: int
    bytes: int


@dataclass(slots=True)
class Life:
    """A daemon: loaded, then living, then gone."""

    number: int
    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def resident_bytes(self) -> int:
        """What the kernel says it holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * PAGE_BYTES


class Remembering(Provider):
    """A provider that remembers its streams."""

    streams: list[EventStream]

    def open_stream(self, target: str) -> EventStream | Answer | None:
        stream = super().open_stream(target)
        if isinstance(stream, EventStream):
            self.streams.append(stream)
        return stream


class Stage:
    """The world around the daemons, and what was seen of them."""

    def __init__(self, folder: Path, world: WorldSettings, faults: Faults) -> None:
        self.conductor = Conductor(self._stride_ns)
        self.clock = LockstepClock(self.conductor)
        self.world = World(world)
        self.provider = Remembering(self.world, faults, now=self.clock.wall_ns, ticks=self.clock.monotonic_ns)
        self.provider.streams = []
        self._folder = folder
        self._log = folder / "daemons.jsonl"
        self._lives = 0
        self._next: Life | None = None
        self.living: Life | None = None
        self.frontiers: list[int] = []
        self.sizes: list[Size] = []
        self.stops_ns: list[int] = []
        self.kills = 0

    def _stride_ns(self) -> int:
        """Exact while requests come, in strides while none does."""
        times_ns = self.provider.arrivals.times_ns
        return 0 if times_ns and self.clock.monotonic_ns() - times_ns[-1] < QUIET_AFTER_NS else STRIDE_NS

    # ── daemons ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> Life:
        """A process that has everything in memory and waits for the word to begin."""
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-m", "tests.loops.loopback_daemon", str(self._folder), str(theirs.fileno())]
        with theirs, self._log.open("ab") as log:
            process = subprocess.Popen(
                [*words, str(self._lives)], pass_fds=(theirs.fileno(),), cwd=REPOSITORY, stdout=log, stderr=log
            )
        self._lives += 1
        return Life(self._lives, process, ours)

    def begin(self) -> Life:
        """A daemon starts; the one after it is loaded meanwhile."""
        life, self._next = self._next or self._load(), None
        self.conductor.lead(life.channel, life.gone.set)
        self._next = self._load()
        self.living = life
        return life

    async def end(self, life: Life, *, kill: bool) -> None:
        """Ask it to stop, or kill it."""
        assert life.process.poll() is None, f"the daemon ended by itself: {self.last_words()}"
        asked_ns = self.clock.monotonic_ns()
        life.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        await life.gone.wait()
        self.living = None
        code = life.process.wait(timeout=STOP_MAX_S)
        if kill:
            assert code == -signal.SIGKILL
            self.kills += 1
        else:
            assert code == 0, f"it did not end well: {code}, {self.last_words()}"
            self.stops_ns.append(self.clock.monotonic_ns() - asked_ns)

    def clear(self) -> None:
        """Nobody is left behind, however the test ended."""
        for life in (self._next, self.living):
            if life is not None:
                life.process.kill()
                life.process.wait(timeout=STOP_MAX_S)
                life.channel.close()

    # ── what is seen ────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def store(self, *, read_only: bool = True) -> AsyncIterator[SqliteStore]:
        """The daemons' own file."""
        store = SqliteStore(self._folder / "remora.db", read_only=read_only, offload=InPlace)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def watch(self, source: str) -> None:
        """Look at what must hold at every moment."""
        while True:
            await self.clock.sleep_until(self.clock.monotonic_ns() + 30 * MINUTE_NS)
            async with self.store() as store:
                self.frontiers.append((await store.coverage(source)).frontier(first_id=1))
            if self.living is not None and self.living.process.poll() is None:
                size = self.living.resident_bytes()
                self.sizes.append(Size(self.living.number, self.clock.monotonic_ns(), size))

    def stream_ends(self) -> Counter[str]:
        """Why streams ended, as the daemons logged it."""
        events = [json.loads(line) for line in self._log.read_bytes().splitlines() if line.startswith(b"{")]
        return Counter(event["reason"] for event in events if event["event"] == "stream_ended")

    def last_words(self) -> str:
        """The end of the daemons' log."""
        return self._log.read_bytes()[-2_000:].decode(errors="replace")
