"""Is the public API small, cheap to import, typed and documented? `import remora` is compared with `docs/python.md`."""

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import remora
from remora.operate.jobs.search_index import build
from remora.stores import open_store
from tests.docs_reader import ROOT, page
from tests.read.conftest import fill

PAGE = page("docs/python.md")
assert PAGE is not None


def loaded_by(code: str) -> set[str]:
    """The modules of Remora and other packages that a fresh interpreter loads for some code."""
    told = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before), sep='\\n', file=sys.stderr)"
    finished = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(finished.stderr.split())


def test_importing_the_package_loads_nothing_but_its_version() -> None:
    assert {name for name in loaded_by("import remora") if name.startswith("remora")} == {"remora", "remora.version"}


def test_asking_for_the_version_loads_no_store_no_client_and_no_loop() -> None:
    code = "import sys; sys.argv = ['remora', '--version']\nfrom remora.operate.cli.main import main\ntry: main()\nexcept SystemExit: pass"
    heavy = {"aiohttp", "asyncio", "msgspec", "psycopg", "pyarrow", "rich", "sqlite3", "structlog"}
    assert not loaded_by(code) & heavy


def test_a_command_loads_structlog_without_rich_and_can_still_load_rich() -> None:
    words = "['remora', 'gaps', '--store', 'sqlite:////nowhere/at/all.db']"
    code = f"import sys; sys.argv = {words}\nfrom remora.operate.cli.main import main\ntry: main()\nexcept SystemExit: pass"
    loaded = loaded_by(code)
    assert "structlog" in loaded
    assert "rich" not in loaded
    assert "rich.console" in loaded_by(f"{code}\nimport rich.console")


@pytest.mark.parametrize("name", sorted(remora.__all__))
def test_every_public_name_can_be_loaded_and_is_documented(name: str) -> None:
    assert getattr(remora, name) is not None
    assert PAGE is not None
    assert name in PAGE.first_cells


def test_every_name_in_the_tables_of_the_page_is_public() -> None:
    assert PAGE is not None
    named = {cell for cell in PAGE.first_cells if re.fullmatch(r"_*[A-Za-z]\w+", cell)}
    assert named
    assert named - set(remora.__all__) == set()


def test_a_type_checker_sees_the_names_that_are_loaded_on_use() -> None:
    tree = ast.parse((ROOT / "src/remora/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen | {"__version__"} == set(remora.__all__)
    assert set(dir(remora)) == set(remora.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Governor'"):
        remora.Governor  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_class_says_what_it_is() -> None:
    classes = [value for name in remora.__all__ if inspect.isclass(value := getattr(remora, name))]
    assert [found.__name__ for found in classes if not found.__doc__] == []


async def test_the_snippets_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PAGE is not None
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///hn.db")
    await store.open()
    await fill(store)
    await store.close()
    await build("sqlite:///hn.db", rebuild=False, tell=lambda _: None)
    for number, snippet in enumerate(PAGE.blocks("python"), start=1):
        await asyncio.to_thread(exec, compile(snippet, f"docs/python.md snippet {number}", "exec"), {})


def test_every_method_of_an_open_mirror_is_in_the_table_and_the_twin_has_it() -> None:
    assert PAGE is not None
    told = {cell.partition("(")[0] for cell in PAGE.first_cells if "(" in cell}
    twin = {name for name in vars(remora.SyncMirrorReader) if not name.startswith("_")}
    own = {name for name in vars(remora.MirrorReader) if not name.startswith("_")}
    assert told == twin
    assert twin <= own
