"""How does a hung world end? Every world runs in a worker process, which is killed when it makes no progress.

A world interrupts itself after its bound of processor time (`world.at_most`). That is not enough where the interrupt is
swallowed, where cleaning up spins as well, or where a world waits for something real, such as a lock. Then the parent
kills the worker and reports the seed as violated, and a new worker takes the next seed.
"""

import faulthandler
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final

from remora.sim.fuzz.scenario import Scenario, draw
from remora.sim.fuzz.world import PROCESSOR_S_MAX, Verdict, judge_world

Judge = Callable[[Scenario], Verdict]

GRACE_S: Final = 60.0  # of processor time, for a world that has interrupted itself and cleans up
STANDSTILL_S: Final = 120.0  # on a busy machine a worker may get no processor for a while
_REAL_TIMES_PROCESSOR: Final = 20.0
_LOOK_EVERY_S: Final = 1.0
_LAST_WORDS_S: Final = 1.0
_ORPHANED_AFTER_S: Final = 5.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_FRAME: Final = re.compile(r'File "(?:.*/)?([^"/]+)", line (\d+) in (\S+)')


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a worker counts as hung. Times are real seconds or seconds of processor time."""

    processor_s: float | None = None  # None: as large as the world's own bound, plus a grace
    standstill_s: float = STANDSTILL_S  # no processor time was used for so long: it waits for something real

    def processor_s_of(self, scenario: Scenario) -> float:
        """How much processor time this world may use."""
        return PROCESSOR_S_MAX[scenario.size] + GRACE_S if self.processor_s is None else self.processor_s


class Workers:
    """Several worker processes, each with at most one world at a time."""

    def __init__(self, count: int, *, judge: Judge | None = None, bounds: Bounds | None = None) -> None:
        self._judge = judge or judge_world
        self._bounds = bounds or Bounds()
        self._workers = [_Worker(self._judge) for _ in range(count)]

    def verdicts(self, seeds: Iterator[int]) -> Iterator[Verdict]:
        """One verdict per seed, in the order in which the worlds end. A hung world is a violated one."""
        while True:
            for at, worker in enumerate(self._workers):
                if worker.scenario is None and (seed := next(seeds, None)) is not None:
                    self._workers[at] = self._with_work(worker, draw(seed))
            busy = [worker for worker in self._workers if worker.scenario is not None]
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy], timeout=_LOOK_EVERY_S)
            for worker in busy:
                verdict = worker.receive() if worker.pipe in ready else worker.hung(self._bounds)
                if verdict is not None:
                    yield verdict

    def close(self) -> None:
        """End all workers; a world under way has no verdict."""
        for worker in self._workers:
            worker.kill()

    def _with_work(self, worker: "_Worker", scenario: Scenario) -> "_Worker":
        if not worker.is_alive():
            worker = _Worker(self._judge)
        worker.begin(scenario)
        return worker


@dataclass(slots=True)
class _Worker:
    """One process, and the world that it judges."""

    judge: Judge
    scenario: Scenario | None = None
    pipe: Connection = field(init=False)
    _process: Process = field(init=False)
    _stack: Path = field(init=False)
    _used_s: float = 0.0  # processor time before this world
    _seen_s: float = 0.0  # at the last look
    _began_s: float = 0.0  # real time
    _moved_s: float = 0.0  # real time of the last look at which it had used more

    def __post_init__(self) -> None:
        self.pipe, theirs = Pipe()
        handle, name = tempfile.mkstemp(prefix="remora-fuzz-stack-")
        os.close(handle)
        self._stack = Path(name)
        self._process = Process(target=_work, args=(theirs, self.judge, self._stack), daemon=True)
        self._process.start()
        theirs.close()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def begin(self, scenario: Scenario) -> None:
        """Judge one more world."""
        self.scenario = scenario
        self._used_s = self._seen_s = self._processor_s() or 0.0
        self._began_s = self._moved_s = time.monotonic()
        self.pipe.send(scenario.seed)

    def receive(self) -> Verdict:
        """The verdict that the worker sent, or a violation because it died."""
        scenario = self._end()
        try:
            verdict: Verdict = self.pipe.recv()
        except EOFError:
            self._process.join()
            return Verdict(scenario, [f"the process of this world ended with {self._process.exitcode}"])
        return verdict

    def hung(self, bounds: Bounds) -> Verdict | None:
        """Kill the worker if its world hangs: the violation then; None while it goes on."""
        assert self.scenario is not None
        now_s, most_s, seen_s = time.monotonic(), bounds.processor_s_of(self.scenario), self._processor_s()
        if seen_s is None:
            is_hung = now_s - self._began_s > _REAL_TIMES_PROCESSOR * most_s
            why = f"the world did not end within {now_s - self._began_s:.0f} s"
        elif seen_s > self._seen_s:
            self._seen_s, self._moved_s = seen_s, now_s
            is_hung = seen_s - self._used_s > most_s
            why = f"the world did not end within {most_s:g} s of processor time, and could not be interrupted"
        else:
            is_hung = now_s - self._moved_s > bounds.standstill_s
            why = f"the world did nothing for {bounds.standstill_s:g} s"
        if not is_hung:
            return None
        place = self._last_words()
        self.kill()
        return Verdict(self._end(), [f"{why}{place}"])

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        self._stack.unlink(missing_ok=True)

    def _end(self) -> Scenario:
        scenario, self.scenario = self.scenario, None
        assert scenario is not None
        return scenario

    def _last_words(self) -> str:
        """Where the process is: it writes its stack when it gets this signal, whatever it does."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGUSR1)
        until_s = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < until_s:
            if (frame := _FRAME.search(self._stack.read_text())) is not None:
                return f" in {frame[1]}:{frame[2]} ({frame[3]})"
            time.sleep(_LAST_WORDS_S / 20)
        return ""

    def _processor_s(self) -> float | None:
        """How much processor time the process has used; None where the machine does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _work(pipe: Connection, judge: Judge, stack: Path) -> None:
    """Judge one seed after another, until the parent ends."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    with stack.open("w") as file:
        faulthandler.register(signal.SIGUSR1, file=file)
        while True:
            # A sibling may hold a copy of the parent's end, so that no end of file tells when the parent is gone.
            while not pipe.poll(_ORPHANED_AFTER_S):
                if os.getppid() != parent:
                    return
            try:
                seed = pipe.recv()
            except EOFError:
                return
            pipe.send(judge(draw(seed)))
