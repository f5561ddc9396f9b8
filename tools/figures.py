"""Which figures does `core/` decide by? `python -m tools.figures` writes docs/figures.md from the code and its comments.

A test compares the page with the code, so that no figure changes by accident.
"""

import ast
import importlib
import tokenize
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, TypeGuard

from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

SOURCES: Final = Path("src")
CORE: Final = SOURCES / "remora" / "core"
PAGE: Final = Path("docs/figures.md")
UNITS: Final = {"d": DAY_NS, "h": HOUR_NS, "min": MINUTE_NS, "s": SECOND_NS, "ms": MILLISECOND_NS}
INTRODUCTION: Final = """# Figures

Written by `python -m tools.figures`; do not edit. Every figure that `core/` decides by, with what the code says about it. The rate
law is explained in [rate-law.md](rate-law.md); [rate-law-measured.md](rate-law-measured.md) shows which of its rules earn how much.
"""


class Figure(NamedTuple):
    """One number that the code gives a name."""

    name: str
    value: str
    meaning: str


def page() -> str:
    """The page as it should be."""
    tables = []
    for file in sorted(CORE.rglob("*.py")):
        if figures := list(_figures(file)):
            rows = "\n".join(f"| `{name}` | {value} | {meaning} |" for name, value, meaning in figures)
            tables.append(f"\n## {file.relative_to(CORE)}\n\n| figure | value | |\n|---|--:|---|\n{rows}\n")
    return INTRODUCTION + "".join(tables)


def module_of(file: Path) -> ModuleType:
    """The module of a file of core/."""
    return importlib.import_module(".".join(file.relative_to(SOURCES).with_suffix("").parts))


def is_figure(value: object, name: str) -> TypeGuard[float]:
    """Whether a value of a module is a number that the page shows."""
    return name.strip("_").isupper() and isinstance(value, int | float) and not isinstance(value, bool)


def _figures(file: Path) -> Iterator[Figure]:
    text = file.read_text()
    module = module_of(file)
    comments = _comments(text)
    for node in ast.parse(text).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name = node.target.id
        value = getattr(module, name, None)
        if is_figure(value, name):
            own = comments.get(node.end_lineno or node.lineno)
            yield Figure(name, _in_words(name, value), own or _above(text, node.lineno))


def _in_words(name: str, value: float) -> str:
    """A time in its largest unit that divides it; any other number as it is."""
    if name.endswith("_NS") and isinstance(value, int) and value:
        unit = next((unit for unit, size in UNITS.items() if value % size == 0), None)
        if unit is not None:
            return f"{value // UNITS[unit]:,} {unit}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"


def _above(text: str, line: int) -> str:
    """The comment right above a line."""
    lines = text.splitlines()[: line - 1]
    block: list[str] = []
    while lines and lines[-1].startswith("#"):
        block.insert(0, lines.pop().removeprefix("#").strip())
    return " ".join(block).replace("|", "\\|")


def _comments(text: str) -> Mapping[int, str]:
    """The comment at the end of each line."""
    lines = text.splitlines()
    found = tokenize.generate_tokens(StringIO(text).readline)
    return {
        token.start[0]: token.string.removeprefix("#").strip().replace("|", "\\|")
        for token in found
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].split("#")[0].strip()
    }


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"figures: {PAGE} is written")
