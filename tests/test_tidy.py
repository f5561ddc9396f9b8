"""Is the tree as tidy as we say it is? Every rule of the house that a program can check is checked here."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from tests.tidy_rules import (
    RULES,
    Module,
    factless_tests,
    function_lines,
    impure_core,
    long_files,
    long_functions,
    many_parameters,
    missing_opening,
    mocks,
    stray_connections,
    stray_environment,
    stray_sql,
    stray_status_codes,
    swallowed_errors,
)

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools", "bench", "docs", "deploy", "examples", ".ci")
TEXT_SUFFIXES = frozenset({".css", ".html", ".ini", ".js", ".md", ".py", ".service", ".sql", ".toml", ".txt", ".yml"})
THIS_FILE = "tests/test_tidy.py"
MEDIAN_FUNCTION_LINES_BELOW = 15
Rule = Callable[[Module], Iterator[str]]

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|work|tmp|Users|home/\w+)/")
ISSUE_NUMBER = re.compile(r"(?<![&\w/#\"'])#\d{1,4}\b(?!\w)|\b(?:issue|ticket|pull request) \d+\b", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
PACKAGE_REGISTRY = re.compile(r"\b(?:pypi\.org|pythonhosted\.org|/simple/)")


def test_the_rules_hold_in_every_module() -> None:
    findings = [finding for module in modules() for rule in RULES for finding in rule(module)]
    assert not findings, "\n".join(["", *findings])


def test_most_functions_are_short() -> None:
    lengths = [
        function_lines(function) for module in modules() if module.lies_in("src") for function in module.functions
    ]
    assert median(lengths) < MEDIAN_FUNCTION_LINES_BELOW


@pytest.mark.parametrize(
    "pattern, complaint",
    [
        (UNFINISHED, "unfinished work"),
        (MACHINE_PATH, "a path of one machine"),
        (ISSUE_NUMBER, "a number that means nothing to a reader of this file"),
        (PACKAGE_REGISTRY, "the address of a package registry"),
    ],
)
def test_no_file_holds_what_only_its_writer_understands(pattern: re.Pattern[str], complaint: str) -> None:
    found = [
        f"{path}:{number}: {complaint}: {line.strip()[:80]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(["", *found])


def test_constraints_hold_names_and_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_every_named_query_says_what_it_is_for_and_is_used() -> None:
    findings = [finding for path in query_files() for finding in query_findings(path)]
    assert not findings, "\n".join(["", *findings])


def test_only_the_configuration_and_the_opening_of_a_source_know_its_kind() -> None:
    """Everybody else asks what a source can do."""
    rooms = ("src/remora/operate/config/", "src/remora/operate/jobs/runtime.py")
    knowing = [module.path for module in modules() if module.lies_in("src") and "SourceKind" in module.text]
    assert knowing
    assert [path for path in knowing if not path.startswith(rooms)] == []


PLANTED: tuple[tuple[Rule, str, str], ...] = (
    (long_files, "src/remora/a.py", "x = 1\n" * 401),
    (long_functions, "src/remora/a.py", "def f():\n" + "    x = 1\n" * 60),
    (many_parameters, "src/remora/a.py", "def f(self, a, b, c, d, *, e, f, g, h, i): ..."),
    (missing_opening, "src/remora/a.py", "x = 1"),
    (missing_opening, "src/remora/a.py", '"""misc"""'),
    (impure_core, "src/remora/core/a.py", "import time"),
    (impure_core, "src/remora/core/a.py", "from random import random"),
    (impure_core, "src/remora/core/a.py", "from datetime import datetime\ndatetime.now()"),
    (impure_core, "src/remora/core/a.py", "async def f(): ..."),
    (stray_sql, "src/remora/loops/a.py", "q = 'SELECT id FROM items'"),
    (stray_sql, "src/remora/operate/a.py", "q = 'PRAGMA journal_mode'"),
    (stray_sql, "src/remora/stores/sqlite/a.py", "q = f'UPDATE items SET {x} = 1'"),
    (stray_connections, "src/remora/loops/a.py", "import aiohttp"),
    (stray_connections, "src/remora/operate/a.py", "from aiohttp import ClientSession"),
    (stray_connections, "src/remora/sim/a.py", "import asyncio\nx = asyncio.open_connection"),
    (stray_status_codes, "src/remora/sources/a.py", "bad = reply.status == 429"),
    (stray_status_codes, "src/remora/sources/a.py", "bad = status in (500, 503)"),
    (stray_status_codes, "src/remora/sources/a.py", "match reply.status:\n    case 404: ..."),
    (stray_status_codes, "src/remora/sources/a.py", "ok = reply.status == HTTPStatus.OK"),
    (stray_environment, "src/remora/stores/a.py", "import os\nx = os.environ['A']"),
    (swallowed_errors, "src/remora/a.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (swallowed_errors, "src/remora/a.py", "try:\n    f()\nexcept:\n    ..."),
    (mocks, "tests/a.py", "from unittest import mock"),
    (factless_tests, "tests/a.py", "def test_it_runs():\n    run()"),
)


@pytest.mark.parametrize("rule, path, text", PLANTED)
def test_a_planted_mistake_is_found(rule: Rule, path: str, text: str) -> None:
    assert len(list(rule(Module(path, text)))) == 1


INNOCENT: tuple[tuple[Rule, str, str], ...] = (
    (missing_opening, "src/remora/__init__.py", ""),
    (stray_sql, "src/remora/loops/a.py", '"""SELECT id FROM items is what a store does."""'),
    (stray_sql, "src/remora/loops/a.py", "hint = 'Select a source from the list'"),
    (stray_sql, "src/remora/stores/sqlite/a.py", "q = 'BEGIN IMMEDIATE'"),
    (stray_connections, "src/remora/operate/a.py", "from aiohttp import web"),
    (stray_connections, "src/remora/sources/transport", "import aiohttp"),
    (stray_status_codes, "src/remora/core/verdict.py", "pressed = status == 429"),
    (stray_status_codes, "src/remora/operate/a.py", "calm = status.state == 'open' and count > 100"),
    (swallowed_errors, "src/remora/a.py", "try:\n    f()\nexcept KeyError:\n    pass"),
    (factless_tests, "tests/a.py", "def test_it_refuses():\n    with raises(KeyError):\n        run()"),
)


@pytest.mark.parametrize("rule, path, text", INNOCENT)
def test_an_innocent_line_is_left_alone(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Module(path, text))) == []


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("-- name: a\nSELECT 1;", "a says nothing"),
        ("-- name: a\n-- For a.\nSELECT 1;\n-- name: a\n-- Again.\nSELECT 2;", "a is named twice"),
        ("SELECT 1;\n-- name: a\n-- For a.\nSELECT 2;", "before the first name"),
    ],
)
def test_a_query_without_its_line_is_found(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "queries.sql").write_text(text)
    (tmp_path / "store.py").write_text("run('a')")
    assert complaint in "".join(query_findings(tmp_path / "queries.sql"))


def modules() -> Iterator[Module]:
    return (Module(path, text) for path, text in texts() if path.endswith(".py"))


@cache
def texts() -> tuple[tuple[str, str], ...]:
    return tuple(read_texts())


def read_texts() -> Iterator[tuple[str, str]]:
    """Every text file of ours with its path from the root; this one holds the words it looks for."""
    in_folders = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
    at_the_root = (path for path in sorted(ROOT.iterdir()) if path.name == "Makefile" or path.suffix in TEXT_SUFFIXES)
    for path in (*in_folders, *at_the_root):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and (path.suffix in TEXT_SUFFIXES or path.name == "Makefile") and name != THIS_FILE:
            yield name, path.read_text()


def query_files() -> list[Path]:
    """The stores' SQL, without the schemas: those are whole scripts, not queries."""
    return [path for path in sorted((ROOT / "src").rglob("*.sql")) if "schema" not in path.parent.parts]


def query_findings(path: Path) -> Iterator[str]:
    lines = path.read_text().splitlines()
    # What both stores do alike is beside their folders and names statements of both.
    modules = [*sorted(path.parent.rglob("*.py")), *sorted(path.parent.parent.glob("*.py"))]
    code = "".join(module.read_text() for module in modules)
    seen: set[str] = set()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        name = line.removeprefix("-- name:").strip() if line.startswith("-- name:") else None
        if name is None:
            if not seen and line.strip() and not line.startswith("--"):
                yield f"{path.name}: a statement before the first name"
            continue
        if not re.match(r"-- \w+", following) or following.startswith("-- name:"):
            yield f"{path.name}: {name} says nothing about what it is for"
        if name in seen:
            yield f"{path.name}: {name} is named twice"
        verb = name.partition("_")[0]  # one query per table is named by its verb: f"export_{table.name}"
        if not re.search(rf"\b{re.escape(name)}\b|\"{verb}_\{{", code):
            yield f"{path.name}: {name} is used nowhere"
        seen.add(name)
