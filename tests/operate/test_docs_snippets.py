"""Does everything work that the docs tell a person to type? A block that is not run here says where or why not."""

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import duckdb
import pytest

from remora.core.errors import ConfigurationError
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.sim.world import World, WorldSettings
from tests.docs_reader import ROOT, pages
from tests.docs_session import DocsSession, Provider, shown_commands, simulated
from tests.operate.command_line import CommandLine
from tests.warm_start import warm_up

WORLD = WorldSettings(items=3_000)  # as `remora simulate --items 3000`
PAGES = {page.name: page for page in pages() if page.name == "README.md" or page.name.startswith("docs/")}
WITH_COMMANDS = sorted(name for name, page in PAGES.items() if shown_commands(page))
# Pages whose reader has a mirror already; the others start in an empty folder.
WITH_MIRROR = frozenset(
    {"README.md", "docs/cli.md", "docs/mirror-hacker-news.md", "docs/operating.md", "docs/use-the-copy.md"}
)
# Pages whose reader has a configuration already.
WITH_CONFIGURATION = frozenset({"docs/cli.md", "docs/operating.md"})

# (page, how a command begins) and why it is not run here. A whole page is run where the reason names a test.
NOT_RUN = {
    ("README.md", "pipx install"): "tests/integration/test_wheel.py builds and runs the wheel",
    ("README.md", "remora up --demo"): "tests/integration/test_wheel.py runs it from the wheel",
    ("docs/adding-a-source.md", ""): "tests/integration/test_numbered_example.py has a provider for it",
    ("docs/freshness.md", ".venv/bin/python -m pytest"): "it is a test itself",
    ("docs/operating.md", "# "): "needs root and a running systemd; tests/operate/test_deploy.py checks the unit",
    ("docs/plug-ins.md", ""): "the package does not exist; tests/sources/test_plugins.py runs the code of the page",
    (
        "docs/shelf.md",
        "remora check",
    ): "needs an account at the provider; tests/shelf/test_shelf.py has fakes of all of them",
    ("docs/tables.md", "datasette"): "another program; tests/read/test_lookups.py runs the queries of its metadata",
    ("docs/walk.md", ""): "tests/operate/test_walk.py runs it, with another world",
}
PYTHON_RUN_BY = {
    "docs/adding-a-source.md": "tests/sources/test_adding_a_source.py",
    "docs/http-api.md": "tests/operate/test_read_api.py",
    "docs/plug-ins.md": "tests/sources/test_plugins.py",
    "docs/python.md": "tests/test_public_face.py",
    "docs/walk.md": "tests/operate/test_walk.py",
}
SQL_NOT_RUN = {
    ("docs/tables.md", "pg_snapshot_xmin"): "tests/integration/test_postgres_feed.py runs it on PostgreSQL",
    ("docs/scaling.md", "GRANT"): "needs a second role of PostgreSQL; tests/operate/test_bad_database.py has roles",
}
# The files of a mirror of documents; the page about archives writes them.
DOCUMENTS = "'chats/*/*.parquet'"
# What a fragment of a configuration belongs to.
FRAGMENT_OF = {"[[sources.chats.rules]]": "[sources.chats]"}


def reason(name: str, line: str) -> str | None:
    found = (why for (page, start), why in NOT_RUN.items() if page == name and line.startswith(start))
    return next(found, None)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with simulated("--items", "3000", "--conversations", "60") as running:
        yield running


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of the simulated Hacker News, as after `remora catchup`."""
    folder = tmp_path_factory.mktemp("mirror")
    with (folder / "dump.ndjson").open("wb") as dump:
        dump.writelines(body.replace(b"\n", b" ") + b"\n" for _, body in World(WORLD).dump(WORLD.start_ns))
    done = CommandLine(folder)("import", f"{folder}/dump.ndjson", "--store", f"sqlite:///{folder}/remora.db")
    assert done.exit_code == 0, done.output
    return folder / "remora.db"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_COMMANDS if (name, "") not in NOT_RUN])
def test_every_command_of_a_page_works(
    name: str, tmp_path: Path, mirror: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in WITH_MIRROR:
        shutil.copy(mirror, tmp_path / "remora.db")
    for source, rate_per_s in (("hackernews", 250), ("chats", 20)):
        asyncio.run(warm_up(tmp_path / "remora.db", source, rate_per_s))
    if name in WITH_CONFIGURATION:
        (tmp_path / "remora.toml").write_text(f'[sources.hackernews]\nurl = "{provider.origin}/v0"\n', "utf-8")
    session = DocsSession(tmp_path, provider, monkeypatch)
    remora = CommandLine(tmp_path)
    if name == "docs/cli.md":  # its reader has a dump
        assert remora("export", "--format", "parquet", "--out", "lake").exit_code == 0
        (tmp_path / "dump").mkdir()
        shutil.copy(next((tmp_path / "lake").glob("*/*.parquet")), tmp_path / "dump")
    for shown in shown_commands(PAGES[name]):
        if reason(name, shown.line) is None:
            session.type(shown)
    if name == "docs/archive-an-account.md":
        (about_documents,) = [text for _, text in queries() if DOCUMENTS in text]
        assert rows_of(about_documents.replace(DOCUMENTS, "'chats.parquet/*/*.parquet'")) == 57
        assert rows_of("SELECT * FROM 'chats.parquet/**/*.parquet'") == 57


def test_every_reason_not_to_run_a_command_is_still_needed_and_names_what_exists() -> None:
    lines = [(name, shown.line) for name in WITH_COMMANDS for shown in shown_commands(PAGES[name])]
    unused = [key for key in NOT_RUN if not any(key[0] == name and line.startswith(key[1]) for name, line in lines)]
    reasons = [*NOT_RUN.values(), *SQL_NOT_RUN.values(), *PYTHON_RUN_BY.values()]
    named = [path for why in reasons for path in re.findall(r"tests/[\w/]+\.py", why)]
    assert (unused, [path for path in named if not (ROOT / path).exists()]) == ([], [])


def test_every_snippet_of_python_is_run_by_the_test_of_its_page() -> None:
    with_python = {name for name, page in PAGES.items() if page.blocks("python")}
    assert with_python == set(PYTHON_RUN_BY)
    unnamed = [test for name, test in PYTHON_RUN_BY.items() if Path(name).name not in (ROOT / test).read_text("utf-8")]
    assert unnamed == []


def configurations() -> Iterator[tuple[str, str]]:
    """Every configuration of the docs, a fragment with the block that it belongs to."""
    for name, page in PAGES.items():
        blocks = page.blocks("toml")
        for block in blocks:
            whole = FRAGMENT_OF.get(block.partition("\n")[0])
            yield name, block if whole is None else next(other for other in blocks if other.startswith(whole)) + block


def test_every_configuration_is_read(tmp_path: Path) -> None:
    refused = []
    for name, text in configurations():
        (tmp_path / "remora.toml").write_text(text, "utf-8")
        try:
            load(Flags(config=str(tmp_path / "remora.toml")), {})
        except ConfigurationError as error:
            # The plug-in of the page is not installed; its own test reads the rest.
            if name != "docs/plug-ins.md" or "sources.weather has no kind" not in error.message:
                refused.append((name, error.message))
    assert refused == []


def queries() -> list[tuple[str, str]]:
    shown = [(name, block) for name, page in PAGES.items() for block in page.blocks("sql")]
    elsewhere = {
        (page, word): [(name, block) for name, block in shown if name == page and word in block]
        for page, word in SQL_NOT_RUN
    }
    assert all(elsewhere.values()), "an exception that no page needs"
    not_run = set(chain.from_iterable(elsewhere.values()))
    return [query for query in shown if query not in not_run]


@pytest.mark.slow
def test_every_query_answers(tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(mirror, tmp_path / "remora.db")
    monkeypatch.chdir(tmp_path)
    remora = CommandLine(tmp_path)
    assert remora("export", "--format", "parquet", "--out", "lake").exit_code == 0
    with closing(sqlite3.connect("file:remora.db?mode=ro", uri=True)) as connection:
        for _, text in queries():
            if "read_parquet" not in text:
                for statement in text.split(";"):
                    connection.execute(statement).fetchall()
            elif DOCUMENTS not in text:
                assert rows_of(text) > 0


def rows_of(query: str) -> int:
    """How many rows DuckDB answers with."""
    found = duckdb.connect().execute(f"SELECT count(*) FROM ({query.strip().removesuffix(';')})").fetchone()
    assert found is not None
    count: int = found[0]
    return count
