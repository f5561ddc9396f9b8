"""Does an import read what a source is declared to be, and does a refused one leave nothing behind?"""

import asyncio
import json
from pathlib import Path

import pytest

from remora.contracts import Observation
from remora.core.item import Item, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import Found
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.operate.jobs.importing import reading_of
from remora.stores import open_store
from tests.operate.command_line import CommandLine

SOURCE = "tickets"
PLACES = 'id = "meta.number", time = "meta.made_at", type = "kind", by = "who.name", parent = "above", title = "name"'
COLUMNS = 'SELECT id, type, "by", time, parent, title, body FROM item_fields ORDER BY id'


def declared(folder: Path, name: str, item: str) -> str:
    """A configuration of one numbered source; returns the name of its file."""
    (folder / name).write_text(
        f'[sources.{SOURCE}]\nkind = "numbered"\nurl = "http://127.0.0.1:9"\nceiling = "1/s"\n'
        f'item = {{ path = "/items/{{id}}", {item} }}\nnewest = {{ path = "/newest" }}\n'
    )
    return name


def ticket(number: int) -> bytes:
    """A body with an `id` that is not its id, a time as text, and a field that a table of Hacker News has."""
    told = {
        "id": f"T-{number}",
        "meta": {"number": str(number), "made_at": f"2026-01-0{number}T00:00:00Z"},
        "kind": "bug",
        "who": {"name": "ada"},
        "above": number - 1 or None,
        "name": f"Ticket {number}",
        "timestamp": "kept as it is",
    }
    return json.dumps(told).encode()


async def record(url: str, config: str) -> None:
    """Record five tickets as a fetch would."""
    reading = reading_of(load(Flags(config=config), {}).sources[SOURCE])
    store = open_store(url)
    await store.open()
    for number in range(1, 6):
        found = reading.item(number, ticket(number))
        assert isinstance(found, Readable)
        assert isinstance(found.thing, Item)
        seen = Observation(Discovery.item(number, via=Lane.LIVE), Found(found.thing), number, number)
        await store.record(SOURCE, seen)
    await store.close()


@pytest.mark.parametrize("words", [(), ("--format", "parquet")], ids=["ndjson", "parquet"])
def test_an_export_of_a_declared_source_can_be_imported_into_an_empty_store(
    remora: CommandLine, words: tuple[str, ...]
) -> None:
    config = declared(remora.folder, "remora.toml", PLACES)
    asyncio.run(record("sqlite:///first.db", config))
    assert remora("export", "--store", "sqlite:///first.db", "--out", "all", *words).exit_code == 0
    files = [str(path) for path in (remora.folder / "all").rglob("*.parquet")] or ["all"]
    done = remora("import", *files, "--store", "sqlite:///second.db", "--json")
    assert sum(each["items"] for each in json.loads(done.stdout)) == 5, done.stderr
    held = [
        remora("query", COLUMNS, "--json", "--store", f"sqlite:///{name}.db").stdout for name in ("first", "second")
    ]
    assert held[0] == held[1]
    assert held[0].count("Ticket") >= 5


@pytest.fixture
def lines(remora: CommandLine) -> CommandLine:
    """Five lines, and two configurations: one looks for the id in the wrong place."""
    rows = [b'{"id":%d,"title":"t%d"}' % (number, number) for number in range(1, 6)]
    (remora.folder / "d.nd").write_bytes(b"\n".join([*rows, b""]))
    declared(remora.folder, "wrong.toml", 'id = "nr"')
    declared(remora.folder, "right.toml", 'id = "id"')
    return remora


def new_items(remora: CommandLine, config: str) -> int:
    done = remora("import", "d.nd", "--config", config, "--json")
    assert done.exit_code == 0, done.stderr
    (told,) = json.loads(done.stdout)
    return int(told["items"])


def test_a_refused_import_leaves_nothing_behind_and_the_corrected_one_takes_everything(lines: CommandLine) -> None:
    for _ in range(2):
        said = lines.refused("import", "d.nd", "--config", "wrong.toml")
        assert "d.nd holds no item of tickets" in said
        assert 'item.id is "nr"' in said
    assert new_items(lines, "right.toml") == 5
    assert "holds no item" in lines.refused("import", "d.nd", "--config", "wrong.toml")


def test_no_file_is_imported_if_one_of_them_holds_no_item(lines: CommandLine) -> None:
    (lines.folder / "junk.nd").write_text("hello\n")
    assert "junk.nd holds no item" in lines.refused("import", "d.nd", "junk.nd", "--config", "right.toml")


def test_a_corrected_declaration_reads_a_file_again_that_was_taken_in_part(lines: CommandLine) -> None:
    with (lines.folder / "d.nd").open("a") as file:
        file.write('{"id":6,"nr":6}\n')
    assert new_items(lines, "wrong.toml") == 1
    assert new_items(lines, "right.toml") == 5
    assert new_items(lines, "right.toml") == 5  # what it brought then; nothing is read again
    held = lines("query", "SELECT count(*) FROM items", "--config", "right.toml", "--json").stdout
    assert "6" in held


def test_without_a_declared_id_a_line_is_read_by_its_field_id(lines: CommandLine) -> None:
    declared(lines.folder, "none.toml", 'title = "title"')
    assert new_items(lines, "none.toml") == 5
