"""Which tests can notice a mutant? Every quick test runs once, traced; a mutant gets those that run its line."""

import ast
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from tools.mutation import CORE, Mutant

TESTS: Final = Path("tests")
FOLDERS: Final = ("core", "contract", "gate", "loops", "sources")
OTHERS: Final = ("test_collect.py", "operate/test_status_text.py", "operate/test_metrics.py", "operate/test_rates.py")
# They import every module and compare its figures, its constants and its defaults.
FIGURES: Final = ("test_figures", "test_values")
# They compare what is decided with a record. Quick to differ, and made for this: tried first, and never left out.
RECORDS: Final = (*FIGURES, "test_decisions_")
LAW: Final = "test_law_traces"  # the same for whole providers: it takes longer
FILE_S: Final = 30.0  # of processor time, traced: the rest of a longer file is not looked at
ALL_S: Final = 20.0  # of processor time, traced: how many tests a mutant gets at most


class RanTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test that passed."""

    name: str  # its node id
    took_s: float
    lines: dict[str, list[int]]  # of each file of core/

    @classmethod
    def of(cls, name: str, took_s: float, lines: Iterable[tuple[str, int]]) -> "RanTest":
        """From the lines that were seen, by absolute path."""
        by_file: dict[str, list[int]] = {}
        for file, line in sorted(lines):
            by_file.setdefault(os.path.relpath(file), []).append(line)
        return cls(name=name, took_s=took_s, lines=by_file)


def files() -> list[str]:
    """All files that are looked at."""
    found = [file for folder in FOLDERS for file in sorted((TESTS / folder).glob("test_*.py"))]
    return [str(file) for file in [*found, *(TESTS / other for other in OTHERS)]]


class Choice:
    """The tests of each mutant."""

    def __init__(self, ran: Sequence[RanTest]) -> None:
        self._ran = ran
        self._imports = {str(file): _imported(file) for file in CORE.rglob("*.py")}

    def of(self, mutant: Mutant) -> list[str]:
        """Those that compare with a record, then those of a file with its name, then the quickest."""
        running = self._running(mutant)
        records = [test for test in running if is_record(test.name)]
        stem = Path(mutant.file).stem.removesuffix("_breaker")
        others = sorted(
            (test for test in running if not is_record(test.name) and LAW not in test.name),
            key=lambda test: (stem not in _file(test.name), test.took_s),
        )
        chosen = sorted(records, key=lambda test: test.took_s)
        used_s = 0.0
        for test in others:
            used_s += test.took_s
            if used_s < ALL_S:
                chosen.append(test)
        return [test.name for test in (*chosen, *(test for test in running if LAW in test.name))]

    def _running(self, mutant: Mutant) -> list[RanTest]:
        lines = _lines(mutant)
        running = [test for test in self._ran if not lines.isdisjoint(test.lines.get(mutant.file, ()))]
        if running or is_inside_a_function(mutant):
            return running
        # Only an import runs it: it is a constant. Those who import its module may use it, and all are documented.
        users = {mutant.file} | {file for file, names in self._imports.items() if mutant.module in names}
        return [test for test in self._ran if not users.isdisjoint(test.lines) or _is_one_of(FIGURES, test.name)]


def is_inside_a_function(mutant: Mutant) -> bool:
    """Whether it changes what a function does, and not what is computed while its module is imported."""
    return any(first <= mutant.line <= last for first, last in _bodies(mutant.file))


@cache
def _bodies(file: str) -> list[tuple[int, int]]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(Path(file).read_text())) if isinstance(node, functions)]
    return [(node.body[0].lineno, node.end_lineno or node.lineno) for node in nodes]


def _lines(mutant: Mutant) -> set[int]:
    """The lines of the smallest statement around the mutant, without the statements inside it."""
    tree = ast.parse(Path(mutant.file).read_text())
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or node.lineno)
    ]
    best = max(around, key=lambda node: node.lineno)
    body = getattr(best, "body", None)
    end = body[0].lineno - 1 if body else best.end_lineno or best.lineno
    return set(range(best.lineno, max(best.lineno, end) + 1))


def is_record(name: str) -> bool:
    """Whether a test compares with a record."""
    return _is_one_of(RECORDS, name)


def _is_one_of(words: Sequence[str], name: str) -> bool:
    return any(word in _file(name) for word in words)


def _file(name: str) -> str:
    return name.partition("::")[0]


def _imported(file: Path) -> set[str]:
    """The modules that a file names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found
