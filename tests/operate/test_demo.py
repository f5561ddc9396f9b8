"""Does the demo go on where an earlier one ended?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from remora.operate.jobs.demo import FILE, newest_mirrored
from tests.fixtures import frozen


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_a_first_demo_has_nothing_to_go_on_from() -> None:
    assert await newest_mirrored() == 0


@pytest.mark.parametrize("version", range(1, len(frozen.steps("sqlite")) + 1))
async def test_a_demo_of_an_older_version_is_brought_up_to_date_and_goes_on(version: int) -> None:
    FILE.parent.mkdir()
    with closing(sqlite3.connect(FILE)) as connection:
        connection.executescript(frozen.SQLITE.read_text("utf-8"))
        for step in frozen.steps("sqlite")[1:version]:
            connection.executescript(step.read_text("utf-8"))
        connection.execute("INSERT INTO coverage (source, first_id, last_id) VALUES ('hackernews', 8000, 8123)")
        connection.commit()
    assert await newest_mirrored() == 8_123
    with closing(sqlite3.connect(FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(frozen.steps("sqlite")),)
