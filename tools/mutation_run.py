"""How many small mistakes in core/ do the tests notice? `python -m tools.mutation_run --mutants 300 --record`.

Each mutant gets a process of its own, forked from one that has imported pytest but nothing of Remora. There the changed
module is loaded instead of the real one, and the tests that import it run until one fails. The quickest come first.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec
import pytest

from tools.mutation import Mutant, planted, sample

RECORD: Final = Path("docs/reliability-mutants.json")
TESTS: Final = Path("tests")
FOLDERS: Final = ("core", "contract")
BASELINE_S: Final = 8.0  # a file of tests that needs more is left out
TESTS_S: Final = 15.0  # of processor time, for all tests of one module
TIMES_BASELINE: Final = 3
BYTES_MAX: Final = 4 << 30
_REAL_TIMES_PROCESSOR: Final = 20
# Imported once, so that no fork has to: two thirds of the processor time of a short file of tests.
PRELOADED: Final = (
    "aiohttp",
    "anyio",
    "hypothesis.strategies",
    "psycopg.rows",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "rich.traceback",
    "structlog",
    "xdist.plugin",
)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one mutant."""

    file: str
    line: int
    operator: str
    change: str
    fate: str  # "killed", "too slow" (the tests did not end) or "survived"


class MutationRun(msgspec.Struct, frozen=True, kw_only=True):
    """One sample."""

    date: str
    commit: str
    seed: int
    places: int  # of how many the sample was drawn
    mutants: list[Tried]


def main() -> int:
    """Try a sample of mutants, and name those that survive."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation_run")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", help="only files with this in their path")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD}")
    options = parser.parse_args()
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    chosen = [one for one in sample(options.mutants, options.seed) if options.only is None or options.only in one.file]
    tried = try_all(chosen, Tests(options.workers), options.workers)
    killed = sum(one.fate != "survived" for one in tried)
    print(f"mutation: {killed} of {len(tried)} were noticed", flush=True)
    if options.record:
        keep(tried, seed=options.seed, places=len(sample(10**9, 0)))
    return 0


def try_all(mutants: Sequence[Mutant], tests: "Tests", workers: int) -> list[Tried]:
    """The fates of these mutants, in their order."""
    jobs = [Job(tests.of(mutant.module), tests.limit_s(mutant.module), mutant) for mutant in mutants]
    fates = {0: "survived", 1: "killed", 2: "too slow"}
    tried: dict[int, Tried] = {}
    for number, code, _ in side_by_side(jobs, workers):
        tried[number] = _tell(mutants[number], fates[code])
    return [tried[number] for number in range(len(mutants))]


def _tell(mutant: Mutant, fate: str) -> Tried:
    if fate == "survived":
        print(f"mutation: survived: {mutant.file}:{mutant.line} {mutant.operator}: {mutant.change[:200]}", flush=True)
    return Tried(file=mutant.file, line=mutant.line, operator=mutant.operator, change=mutant.change, fate=fate)


class Tests:
    """Which files of tests import a module, and how long each takes."""

    def __init__(self, workers: int) -> None:
        files = [file for folder in FOLDERS for file in sorted((TESTS / folder).glob("test_*.py"))]
        imports = {file: _imported(file) for file in files}
        self._imports = {file: names for file, names in imports.items() if any("remora.core" in name for name in names)}
        jobs = [Job([file], BASELINE_S) for file in self._imports]
        self._took_s = {
            jobs[number].files[0]: took_s for number, code, took_s in side_by_side(jobs, workers) if code == 0
        }
        print(f"mutation: {len(self._took_s)} files of tests take {sum(self._took_s.values()):.0f} s", flush=True)

    def of(self, module: str) -> list[Path]:
        """The files that import it, best first: those with its name, then those of core/, then the quickest."""
        name = module.rpartition(".")[2]
        near = [file for file in self._took_s if module in self._imports[file]]
        near.sort(key=lambda file: (name not in file.stem, file.parts[1] != "core", self._took_s[file]))
        further = sorted(set(self._took_s) - set(near), key=lambda file: (file.parts[1] != "core", self._took_s[file]))
        chosen, left_s = [], TESTS_S
        for file in [*near, *further]:
            if self._took_s[file] < left_s:
                chosen.append(file)
                left_s -= self._took_s[file]
        return chosen

    def limit_s(self, module: str) -> float:
        """How much processor time the tests of a mutant of this module may take."""
        return 5 + TIMES_BASELINE * sum(self._took_s[file] for file in self.of(module))


def _imported(file: Path) -> set[str]:
    """The modules that a file of tests names, directly or through a helper beside it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
            helper = Path(*node.module.split(".")).with_suffix(".py")
            if node.module.startswith("tests.") and helper.exists() and helper != file:
                found |= _imported(helper)
    return found


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Loads one module from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The changed module instead of the real one."""
        if fullname != self._mutant.module:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=self._mutant.file)

    def get_source(self, fullname: str) -> str | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(planted(self._mutant), self._mutant.file, "exec"), module.__dict__)  # noqa: S102  that is the point


@dataclass(frozen=True, slots=True)
class Job:
    """Some files of tests, to be run in a fork."""

    files: Sequence[Path]
    limit_s: float  # of processor time
    mutant: Mutant | None = None


def side_by_side(jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, int, float]]:
    """For each job as it ends: its number, 0 (all passed), 1 (one failed) or 2 (did not end), and the processor time."""
    waiting, running = deque(enumerate(jobs)), dict[int, tuple[int, float]]()
    while waiting or running:
        while waiting and len(running) < workers:
            number, job = waiting.popleft()
            child = os.fork()
            if child == 0:
                _run_tests(job)
            running[child] = (number, time.monotonic() + _REAL_TIMES_PROCESSOR * job.limit_s)
        time.sleep(0.02)
        for child, (number, until_s) in list(running.items()):
            if time.monotonic() > until_s:
                os.kill(child, signal.SIGKILL)
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                del running[child]
                code = 2 if os.WIFSIGNALED(status) else min(1, os.WEXITSTATUS(status))
                yield number, code, used.ru_utime + used.ru_stime


def _run_tests(job: Job) -> None:
    """In the fork: never returns."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.environ["HYPOTHESIS_PROFILE"] = "quick"
    resource.setrlimit(resource.RLIMIT_CPU, (int(job.limit_s) + 1, int(job.limit_s) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_MAX, BYTES_MAX))
    if job.mutant is not None:
        sys.meta_path.insert(0, _Changed(job.mutant))
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # it was imported before the fork
    words = [
        *quiet,
        "-x",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not postgres",
        *map(str, job.files),
    ]
    code = 1
    try:
        code = int(pytest.main(words))
    finally:
        os._exit(code)  # whatever happened: the rest of this program belongs to the parent


def keep(tried: list[Tried], *, seed: int, places: int) -> None:
    """Write the record: the latest sample only."""
    from tools.prove_kills import commit  # noqa: PLC0415  it imports Remora, which no fork may have

    date = f"{datetime.now(UTC):%Y-%m-%d}"
    run = MutationRun(date=date, commit=commit(), seed=seed, places=places, mutants=tried)
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def read() -> MutationRun | None:
    """The recorded sample."""
    return msgspec.json.decode(RECORD.read_bytes(), type=MutationRun) if RECORD.exists() else None


if __name__ == "__main__":
    sys.exit(main())
