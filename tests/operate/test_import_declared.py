"""Does an import read what a source is declared to be, and does a refused one leave nothing behind?"""

import json
from pathlib import Path

import pytest

from tests.operate.command_line import CommandLine

SOURCE = "tickets"


def declared(folder: Path, name: str, item: str) -> str:
    """A configuration of one numbered source; returns the name of its file."""
    (folder / name).write_text(
        f'[sources.{SOURCE}]\nkind = "numbered"\nurl = "http://127.0.0.1:9"\nceiling = "1/s"\n'
        f'item = {{ path = "/items/{{id}}", {item} }}\nnewest = {{ path = "/newest" }}\n'
    )
    return name


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
