"""How is a changed function tried without starting anew? pytest collects all tests once; each mutant is a fork of that.

In the fork the code of the changed function is exchanged, and the tests that run its line are run until one fails. What is
computed while a module is imported (constants, default values) cannot be exchanged like that: see tools/mutation_run.py.
"""

import gc
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

import msgspec
import pytest

from tools.forks import DID_NOT_END, forked
from tools.mutation import CORE, Mutant, planted
from tools.mutation_tests import FILE_S, Choice, RanTest, is_inside_a_function

SURVIVED, KILLED, TOO_SLOW, CANNOT = "survived", "killed", "too slow", "cannot be exchanged"
LIMIT_S: Final = 60.0
CALLS_WATCHED: Final = 100  # of one function in one test; of further calls one in so many, for a trace that costs less
_CANNOT: Final = 3
_FATES: Final = {0: SURVIVED, 1: KILLED, _CANNOT: CANNOT, DID_NOT_END: TOO_SLOW}
_ROOT: Final = str(CORE.resolve()) + os.sep


class Found(msgspec.Struct):
    """What the session hands over."""

    ran: list[RanTest]
    fates: dict[int, str]  # of the mutants that could be tried here, by their number


class Session:
    """A plugin of pytest that runs no test itself, but many forks."""

    def __init__(self, mutants: Sequence[Mutant], *, workers: int, folder: Path, ran: list[RanTest] | None) -> None:
        self._mutants = mutants
        self._workers = workers
        self._folder = folder
        self._ran = ran
        self._items: dict[str, pytest.Item] = {}
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that is skipped shows nothing either."""
        self._failed = self._failed or not report.passed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All forks, instead of all tests."""
        self._items = {item.nodeid: item for item in session.items}
        ran = self._look() if self._ran is None else self._ran
        tests = Choice(ran)
        here = [number for number, mutant in enumerate(self._mutants) if is_inside_a_function(mutant)]
        works = [lambda at=number: self._try(self._mutants[at], tests.of(self._mutants[at])) for number in here]
        fates: dict[int, str] = {}
        for at, code in forked(works, limit_s=LIMIT_S, workers=self._workers):
            fates[here[at]] = _FATES.get(code, KILLED)
            if code == 0:
                tell(self._mutants[here[at]])
            if len(fates) % 50 == 0:
                print(f"mutation: {len(fates)} of {len(here)} tried", file=sys.stderr, flush=True)
        (self._folder / "found.json").write_bytes(msgspec.json.encode(Found(ran, fates)))
        return True

    def _look(self) -> list[RanTest]:
        """What each test runs, one fork for each file of tests."""
        by_file: dict[str, list[pytest.Item]] = {}
        for name, item in self._items.items():
            by_file.setdefault(name.partition("::")[0], []).append(item)
        works = [lambda at=at, items=items: self._trace(items, at) for at, items in enumerate(by_file.values())]
        names = list(by_file)
        ran: list[RanTest] = []
        for number, code in forked(works, limit_s=3 * FILE_S, workers=self._workers):
            into = self._folder / f"{number}.json"
            if code or not into.exists():
                print(f"mutation: {names[number]} is left out", file=sys.stderr, flush=True)
                continue
            ran += msgspec.json.decode(into.read_bytes(), type=list[RanTest])
        took_s = sum(test.took_s for test in ran)
        print(f"mutation: {len(ran)} tests take {took_s:.0f} s, traced", file=sys.stderr, flush=True)
        return ran

    # -- in a fork -----------------------------------------------------------------------------------------------------

    def _passes(self, item: pytest.Item) -> bool:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _try(self, mutant: Mutant, names: Sequence[str]) -> int:
        if not exchange(mutant):
            return _CANNOT
        return 0 if all(self._passes(self._items[name]) for name in names if name in self._items) else 1

    def _trace(self, items: Sequence[pytest.Item], number: int) -> int:
        lines: set[tuple[str, int]] = set()
        calls: Counter[CodeType] = Counter()
        is_ours: dict[CodeType, bool] = {}

        def line(frame: FrameType, event: str, arg: object) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        def enter(frame: FrameType, event: str, arg: object) -> Any:
            code = frame.f_code
            ours = is_ours.get(code)
            if ours is None:
                ours = is_ours[code] = code.co_filename.startswith(_ROOT)
            if not ours:
                return None
            calls[code] += 1
            return line if calls[code] <= CALLS_WATCHED or calls[code] % CALLS_WATCHED == 0 else None

        threading.settrace(enter)
        sys.settrace(enter)
        ran: list[RanTest] = []
        for item in items:
            lines.clear()
            calls.clear()
            began_s = time.process_time()
            if self._passes(item):
                ran.append(RanTest.of(item.nodeid, time.process_time() - began_s, lines))
            if time.process_time() > FILE_S:
                break
        sys.settrace(None)
        (self._folder / f"{number}.json").write_bytes(msgspec.json.encode(ran))
        return 0


def tell(mutant: Mutant) -> None:
    """Name one that survived."""
    print(f"mutation: survived: {mutant.file}:{mutant.line} {mutant.operator}: {mutant.change[:200]}", flush=True)


def exchange(mutant: Mutant) -> bool:
    """Give every function of the changed file its code from the changed tree; False if that cannot be done."""
    path = str(Path(mutant.file).resolve())
    codes = dict(_codes(compile(planted(mutant), path, "exec")))
    found = False
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is None or code == function.__code__:
                continue
            if code.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = code
            found = True
    return found


def _codes(code: CodeType) -> list[tuple[tuple[str, int], CodeType]]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [((one.co_qualname, one.co_firstlineno), one) for one in inner] + [
        pair for one in inner for pair in _codes(one)
    ]
