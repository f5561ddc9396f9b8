"""How many small mistakes in core/ do the tests notice? `python -m tools.mutation_run --mutants 300 --record`.

A mistake inside a function is planted into a fork of a session of pytest (tools/mutation_session.py). One in a constant or in a
default gets a process that has imported nothing of Remora yet, and loads the changed module instead.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec
import pytest

from tools.forks import DID_NOT_END, forked
from tools.mutation import Mutant, planted, sample
from tools.mutation_session import CANNOT, KILLED, LIMIT_S, SURVIVED, TOO_SLOW, Found, Session, tell
from tools.mutation_tests import Choice, RanTest, files, is_record

RECORD: Final = Path("docs/reliability-mutants.json")
PYTEST: Final = ("-x", "-q", "-n0", "-s", "-p", "no:cacheprovider", "-m", "not slow and not postgres")
# It was imported before the fork.
QUIET: Final = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
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
    noticed_first: int | None = None  # before tests were written for its survivors; None: none were


def main() -> int:
    """Try a sample of mutants, and name those that survive."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation_run")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", help="only files with this in their path")
    parser.add_argument(
        "--map", type=Path, help="a file that keeps which test runs which lines, from one run to the next"
    )
    parser.add_argument("--control", action="store_true", help="run the tests of the sample without its changes")
    parser.add_argument("--again", action="store_true", help="only the survivors of the record, with the tests of now")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD}")
    options = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "quick"
    before = read() if options.again else None
    chosen = [one for one in sample(options.mutants, options.seed) if options.only is None or options.only in one.file]
    if before is not None:
        chosen = survivors(before)
    found = in_session([] if options.control else chosen, options.workers, options.map)
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    if options.control:
        return control(chosen, found.ran, options.workers)
    tried = try_all(chosen, found, options.workers)
    killed = sum(one.fate != SURVIVED for one in tried)
    print(f"mutation: {killed} of {len(tried)} were noticed", flush=True)
    if options.record and before is not None:
        noticed = sum(one.fate != SURVIVED for one in before.mutants)
        first = noticed if before.noticed_first is None else before.noticed_first
        keep(merged(before, tried), seed=before.seed, places=before.places, first=first)
    elif options.record:
        keep(tried, seed=options.seed, places=len(sample(10**9, 0)))
    return 0


def survivors(run: MutationRun) -> list[Mutant]:
    """Those of a recorded sample that no test noticed. Tests that were added since may notice them."""
    left = {(one.file, one.line, one.change) for one in run.mutants if one.fate == SURVIVED}
    found = [one for one in sample(10**9, 0) if (one.file, one.line, one.change) in left]
    assert len({(one.file, one.line, one.change) for one in found}) == len(left), "core/ has changed: draw a new sample"
    return found


def merged(run: MutationRun, tried: Sequence[Tried]) -> list[Tried]:
    """The recorded sample with the new fates."""
    fates = {(one.file, one.line, one.change): one for one in tried}
    return [fates.get((one.file, one.line, one.change), one) for one in run.mutants]


def in_session(mutants: Sequence[Mutant], workers: int, kept: Path | None) -> Found:
    """What a session of pytest finds, in a process of its own: this one must not import Remora."""
    ran = msgspec.json.decode(kept.read_bytes(), type=list[RanTest]) if kept is not None and kept.exists() else None
    with tempfile.TemporaryDirectory(prefix="remora-mutation-") as folder:
        child = os.fork()
        if child == 0:
            session = Session(mutants, workers=workers, folder=Path(folder), ran=ran)
            named = files() if ran is None else sorted({test.name.partition("::")[0] for test in ran})
            os._exit(int(pytest.main([*QUIET, *PYTEST, *named], [session])))
        os.waitpid(child, 0)
        found = msgspec.json.decode((Path(folder) / "found.json").read_bytes(), type=Found)
    if kept is not None:
        kept.write_bytes(msgspec.json.encode(found.ran))
    return found


def try_all(mutants: Sequence[Mutant], found: Found, workers: int) -> list[Tried]:
    """The fates of these mutants, in their order."""
    tests, fates = Choice(found.ran), dict(found.fates)
    left = [number for number in range(len(mutants)) if fates.get(number, CANNOT) == CANNOT]
    works = [partial(run_tests, tests.of(mutants[number]), mutants[number]) for number in left]
    for at, code in forked(works, limit_s=LIMIT_S, workers=workers):
        fates[left[at]] = {0: SURVIVED, DID_NOT_END: TOO_SLOW}.get(code, KILLED)
        if code == 0:
            tell(mutants[left[at]])
    return [
        Tried(file=one.file, line=one.line, operator=one.operator, change=one.change, fate=fates[number])
        for number, one in enumerate(mutants)
    ]


def control(mutants: Sequence[Mutant], ran: Sequence[RanTest], workers: int) -> int:
    """The same tests without any change: one that fails here would count as a kill that is none."""
    chosen = [Choice(ran).of(mutant) for mutant in mutants]
    works = [partial(run_tests, names, None) for names in chosen]
    failed = [mutants[number].change for number, code in forked(works, limit_s=LIMIT_S, workers=workers) if code]
    print(f"mutation: without a change, the tests of {len(failed)} of {len(works)} fail: {failed}", flush=True)
    return 1 if failed else 0


class OnlyThese:
    """A plugin of pytest that runs these tests, in this order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._order = {name: at for at, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        chosen = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid])


def run_tests(names: Sequence[str], mutant: Mutant | None) -> int:
    """In a fork: 0 if all pass, also if there are none."""
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant))
    # Those that compare with a record first: most changes need no other, and each file that is collected takes time.
    records = [name for name in names if is_record(name)]
    for some in (records, [name for name in names if name not in records]):
        named = sorted({name.partition("::")[0] for name in some})
        code = int(pytest.main([*QUIET, *PYTEST, *named], [OnlyThese(some)])) if named else 0
        if code not in {0, int(pytest.ExitCode.NO_TESTS_COLLECTED)}:
            return code
    return 0


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


def keep(tried: list[Tried], *, seed: int, places: int, first: int | None = None) -> None:
    """Write the record: the latest sample only."""
    from tools.prove_kills import commit  # noqa: PLC0415  it imports Remora, which no fork may have

    date = f"{datetime.now(UTC):%Y-%m-%d}"
    run = MutationRun(date=date, commit=commit(), seed=seed, places=places, mutants=tried, noticed_first=first)
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def read() -> MutationRun | None:
    """The recorded sample."""
    return msgspec.json.decode(RECORD.read_bytes(), type=MutationRun) if RECORD.exists() else None


if __name__ == "__main__":
    sys.exit(main())
