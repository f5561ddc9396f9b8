"""Do the commands around changes, size and verification do what they say, and refuse what makes no sense?"""

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from remora.operate.jobs.following import NamedFeed
from remora.operate.jobs.startup_checks import tell_upgrade
from tests.fixtures import frozen
from tests.operate.command_line import CommandLine, command_line_in, with_mirror
from tests.operate.test_mirror_commands import CHATS


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return with_mirror(command_line_in(tmp_path, monkeypatch))


def test_a_named_reader_is_remembered_listed_waited_for_and_forgotten(mirror: CommandLine) -> None:
    assert len(mirror("changes", "--reader", "warehouse").stdout.splitlines()) == 13
    assert mirror("changes", "--reader", "warehouse").stdout == ""
    assert mirror("changes", "--readers").stdout.startswith("warehouse  13  ")
    kept = mirror("store", "compact", "--changes-older", "1s", "--json")
    assert json.loads(kept.stdout)["waits_for"] == "warehouse"
    assert json.loads(kept.stdout)["changes"] == 13
    assert mirror("changes", "--forget-reader", "warehouse").exit_code == 0
    assert mirror("changes", "--readers").stdout == ""


def test_the_size_of_a_store_counts_nothing_that_only_begins_with_its_name(mirror: CommandLine) -> None:
    own = mirror.folder / "remora[1].db"
    (mirror.folder / "remora.db").rename(own)
    for name in ("remora1.db", "remora[1].db.copy"):
        (mirror.folder / name).write_bytes(bytes(50_000_000))
    done = mirror("store", "compact", "--store", f"sqlite:///{own.name}", "--json")
    told = json.loads(done.stdout)
    assert 0 < told["bytes_after"] <= told["bytes_before"] < 1_000_000


def test_a_named_reader_of_one_source_and_one_of_all_sources_each_get_every_change(mirror: CommandLine) -> None:
    (mirror.folder / "remora.toml").write_text(CHATS)
    of_chats, of_all = ("changes", "--reader", "r2", "--source", "chats"), ("changes", "--reader", "r2")
    assert len(mirror(*of_chats).stdout.splitlines()) == 2
    assert len(mirror(*of_all).stdout.splitlines()) == 13
    assert mirror(*of_chats).stdout == mirror(*of_all).stdout == ""
    listed = [line.rpartition("  13  ")[0] for line in mirror("changes", "--readers").stdout.splitlines()]
    assert listed == ["r2", "r2 --source chats"]


@pytest.mark.parametrize("words", [("r2", "--source", "chats"), ("r2 --source chats",)], ids=["option", "as listed"])
def test_forgetting_a_reader_of_one_source_leaves_its_namesake(mirror: CommandLine, words: tuple[str, ...]) -> None:
    (mirror.folder / "remora.toml").write_text(CHATS)
    for only in (("--source", "chats"), ("--source", "hackernews"), ()):
        mirror("changes", "--reader", "r2", *only)
    assert mirror("changes", "--forget-reader", *words).exit_code == 0
    left = json.loads(mirror("changes", "--readers", "--json").stdout)
    assert sorted(left) == ["r2", "r2 --source hackernews"]


def test_a_reader_that_never_finished_a_page_says_never(mirror: CommandLine) -> None:
    async def begin() -> None:
        async with NamedFeed(f"sqlite:///{mirror.folder}/remora.db", "new\x1b[2J\none") as feed:
            await feed.done("0", now_ns=0)

    asyncio.run(begin())
    assert mirror("changes", "--readers").stdout == "new[2J one  0  never\n"
    assert json.loads(mirror("changes", "--readers", "--json").stdout) == {
        "new\x1b[2J\none": {"position": "0", "read_at": None}
    }
    assert mirror("changes", "--forget-reader", "new\x1b[2J\none").exit_code == 0


def test_without_a_request_nothing_is_deleted(mirror: CommandLine) -> None:
    done = mirror("store", "compact")
    assert done.stdout.startswith("0 changes, 0 revisions and 0 settled gaps deleted\n")
    assert len(mirror("changes").stdout.splitlines()) == 13


def test_stats_tell_bytes_per_table_growth_and_readers(mirror: CommandLine) -> None:
    found = json.loads(mirror("store", "stats", "--json").stdout)
    assert found["tables"]["stored_items"]["rows"] == 9
    assert found["tables"]["stored_items"]["bytes"] >= 4096
    assert found["free_bytes"] > 0
    exact = json.loads(mirror("store", "stats", "--exact", "--json").stdout)
    assert (found.pop("estimated"), exact.pop("estimated")) == (True, False)
    assert exact["tables"]["stored_items"] == found["tables"]["stored_items"]
    assert exact["last_day"] == found["last_day"]
    lines = {line.split()[1]: line.split()[2:] for line in mirror("store", "stats").stdout.splitlines()}
    assert lines["stored_items"][0] == "about"


@pytest.mark.parametrize(
    "words, told",
    [
        (("changes", "--reader", "a", "--since", "3"), "both given"),
        (("changes", "--reader", "a\nb"), "the reader's name has a line break or another control character"),
        (("changes", "--reader", " "), "the reader's name is empty"),
        (("changes", "--reader", "a --source b"), "the reader's name has --source in it"),
        (("changes", "--reader", "a" * 101), "the reader's name has more than 100 characters"),
        (("changes", "--webhook", "https://x.example/"), "needs a named reader"),
        (("changes", "--reader", "a", "--webhook", "x.example"), "is no address"),
        (("changes", "--reader", "a", "--webhook", "http://"), "is no address"),
        (("changes", "--reader", "a", "--webhook", "http://x.example:99999/"), "is no address"),
        (("changes", "--reader", "a", "--webhook", "http://[::1/"), "is no address"),
        (("changes", "--reader", "a", "--webhook", "https://x.example/"), "REMORA_WEBHOOK_SECRET is not set"),
        (("changes", "--forget-reader", "nobody"), "there is no reader nobody"),
        (("store", "compact", "--changes-older", "soon"), "--changes-older"),
        (("export", "--follow", "lake", "--out", "x"), "--follow goes with no --out"),
        (("export", "--follow", "lake", "--format", "csv"), "--follow writes Parquet files, not csv"),
        (("show", "1", "--history", "--body"), "--history and --body are given together"),
        (("import", "nothing.ndjson", "--source", "hackernews"), "cannot be read"),
    ],
)
@pytest.mark.slow
def test_bad_input_is_one_clear_sentence(mirror: CommandLine, words: tuple[str, ...], told: str) -> None:
    assert told in mirror.refused(*words)


@pytest.mark.parametrize(
    "free_beside, free_for_temporary_files, lacks",
    [(1.5, 1.5, "."), (9, 0.5, "temporary"), (9, 9, None)],
    ids=["twice on one disk", "no room for temporary files", "room"],
)
def test_a_store_is_shrunk_only_with_room_for_every_file_that_sqlite_writes(
    mirror: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    free_beside: float,
    free_for_temporary_files: float,
    lacks: str | None,
) -> None:
    size, temporary = (mirror.folder / "remora.db").stat().st_size, mirror.folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    free = {mirror.folder: free_beside * size, temporary: free_for_temporary_files * size}
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=int(free[folder.resolve()]), f_frsize=1))
    words = ("store", "compact", "--changes-older", "1s")
    if lacks is None:
        assert mirror(*words).exit_code == 0
    else:
        told = mirror(*words)
        assert told.exit_code == 2
        assert f"bytes in {(mirror.folder / lacks).resolve()}, which has" in told.stderr
        assert "SQLITE_TMPDIR" in told.stderr
        assert mirror("changes").stdout, "nothing is deleted before"


def test_a_backup_is_a_store_of_its_own_and_overwrites_nothing(mirror: CommandLine) -> None:
    done = mirror("store", "backup", "kept.db")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("kept.db: ")
    assert done.stdout.endswith(", checked\n")
    whole = mirror("query", "SELECT count(*) FROM items", "--store", "sqlite:///kept.db")
    assert whole.stdout == mirror("query", "SELECT count(*) FROM items").stdout
    assert "name a new file" in mirror.refused("store", "backup", "kept.db")


@pytest.mark.parametrize(
    "words, told",
    [
        (("kept.db", "--store", "postgresql://someone@localhost/mirror"), "pg_dump --format=custom --file=kept.db"),
        (("kept.db", "--store", "sqlite:///nothing.db"), "there is no store at nothing.db"),
        (("nowhere/kept.db",), "there is no folder nowhere"),
    ],
)
def test_a_backup_that_cannot_be_made_says_what_to_do(mirror: CommandLine, words: tuple[str, ...], told: str) -> None:
    assert told in mirror.refused("store", "backup", *words)


def test_an_older_store_says_that_its_tables_are_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "remora.db")) as connection:
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
    remora = command_line_in(tmp_path, monkeypatch)
    url = f"sqlite:///{tmp_path}/remora.db"
    with capture_logs() as told:
        tell_upgrade(url)
    steps = len(frozen.steps("sqlite")) - 1
    assert [(event["event"], event["steps"]) for event in told] == [("schema_upgraded", steps)]
    assert f"bringing the tables up to date ({steps} steps)" in remora("store", "migrate").stderr
    assert remora("store", "migrate").stderr == ""
    with capture_logs() as told:
        tell_upgrade(url)
        tell_upgrade(f"sqlite:///{tmp_path}/new.db")
        tell_upgrade("memory://")
    assert told == []
