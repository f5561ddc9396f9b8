"""Do the rows of items mean what they meant when what they have alike is written as nothing (schemas 5 and 6)?"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.units import MILLISECOND_NS
from remora.core.verdict import Found
from remora.sources.hackernews_item import content_of
from remora.stores.decisions import HASHED_FROM_BYTES, Held, new_item
from remora.stores.sqlite import SqliteStore
from remora.stores.sqlite.database import connect_writer
from remora.stores.sqlite.item_rows import USUAL_END, add_items, item_row, write_items
from remora.stores.sqlite.portable import PortableSqliteStore
from remora.stores.sqlite.statements import many_rows
from remora.stores.tables import TABLES
from tests.fixtures import frozen

SEEN = 1_790_000_000_000
LARGEST = 2**53
FIELDS = """(source, id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at,
changed_at, revision, hash, content_hash, body)"""
# type, parent, dead, deleted, last_fetched_at, changed_at, revision
KINDS: tuple[tuple[Any, ...], ...] = (
    ("comment", 1, 0, 0, SEEN - 250, SEEN, 1),
    ("comment", 1, 0, 0, SEEN, SEEN, 1),
    ("story", None, 0, 0, SEEN - 90_000, SEEN, 1),
    ("story", None, 1, 0, SEEN + 86_400_000, SEEN + 86_400_100, 2),
    ("comment", 7, 0, 1, SEEN + 500, SEEN - 3_600_000, 3),  # the clock was set back
    ("comment", 7, 1, 1, 0, SEEN, 1),  # from a file, never read from its source
    ("job", None, 0, 0, 0, SEEN + 5, 1),
    ("", None, 0, 0, SEEN - 1, SEEN, 1),
    (None, None, 0, 1, 1, SEEN, 1),
    ("é", None, 0, 0, SEEN - 1, SEEN, 1),
)
VIEWS = ("items", "item_fields", "threads", "revisions", "changes", "users", "user_fields")


def fill(connection: sqlite3.Connection) -> None:
    """Every kind of row in two sources that use the same ids, small ones and the largest."""
    for number in (1, 2):
        for place, (kind, parent, dead, deleted, fetched, changed, revision) in enumerate(KINDS, 1):
            for item_id in (place, LARGEST - place):
                body = f'{{"id":{item_id},"url":"https://www.x.org/{number}"}}'
                row = (
                    number,
                    item_id,
                    kind,
                    "ada",
                    7,
                    parent,
                    3,
                    None,
                    dead,
                    deleted,
                    SEEN,
                    fetched,
                    changed,
                    revision,
                )
                connection.execute(
                    f"INSERT INTO stored_items {FIELDS} VALUES ({'?,' * 16}?)", (*row, b"", b"h" * 16, body)
                )
                for earlier in range(1, revision):
                    values = (number, item_id, earlier, SEEN, SEEN + earlier, "{}")
                    connection.execute("INSERT INTO stored_revisions VALUES (?, ?, ?, ?, ?, ?)", values)
        connection.execute("INSERT INTO reads VALUES (?, 1, 3, ?)", (number, SEEN + 60_000))
        connection.execute(
            "INSERT INTO stored_users VALUES (?, 'ada', ?, ?, ?, x'00', '{}')", (number, SEEN, SEEN, SEEN)
        )
    connection.commit()


def shown(connection: sqlite3.Connection) -> Mapping[str, list[Any]]:
    return {view: connection.execute(f"SELECT * FROM {view} ORDER BY 1, 2, 3").fetchall() for view in VIEWS}


def test_every_view_of_a_store_of_the_fourth_schema_shows_what_it_showed(tmp_path: Path) -> None:
    path = tmp_path / "remora.db"
    with closing(sqlite3.connect(path)) as connection:
        frozen.bring_to(connection, 4)
        connection.execute("DELETE FROM stored_revisions")
        connection.execute("DELETE FROM stored_items")
        connection.execute("DELETE FROM stored_users")
        fill(connection)
        before = shown(connection)
    connect_writer(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert shown(connection) == before
        assert len(before["items"]) == 4 * len(KINDS)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for kind in ("comment", "story", ""):
            found = connection.execute("SELECT count(*) FROM items WHERE type = ?", (kind,)).fetchone()
            assert found == (sum(row[2] == kind for row in before["items"]),)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    """The connection of a writer to an empty store."""
    path = tmp_path_factory.mktemp("rows") / "remora.db"
    path.touch()
    return connect_writer(path)


OWN = '"kids":[8],"parent":1,"text":"https://x.org/ é"'
USUAL_BODY = f'{{"by":"ada","id":7,{OWN},"time":9,"type":"comment"}}'.encode()

moments = st.integers(1, 2**52)
types = st.sampled_from(["comment", "story", "", None]) | st.text(max_size=3)
READ = "SELECT type, first_seen_at, last_fetched_at, changed_at FROM stored_items WHERE source = 1 AND id = 1"
WRITE = many_rows("write_items", 1)


@given(types, moments, st.just(0) | moments, moments, st.just(0) | moments)
def test_what_is_written_is_shown_and_the_first_moment_stays(
    table: sqlite3.Connection, kind: str | None, first: int, fetched: int, later: int, fetched_later: int
) -> None:
    item, held = Item(1, b"{}", type=kind), Held(b"", b"", 1, 0)
    name = None if kind is None else kind.replace("\0", "\N{REPLACEMENT CHARACTER}")
    table.execute(WRITE, item_row(1, item, held, now=first, fetched=fetched))
    assert table.execute(READ).fetchone() == (name, first, fetched, first)
    table.execute(WRITE, item_row(1, item, held, now=later, fetched=fetched_later))
    assert table.execute(READ).fetchone() == (name, first, fetched_later, later)
    table.execute("DELETE FROM stored_items")


rows_of_items = st.builds(
    lambda item, held, first, fetched: item_row(1, item, held, now=first, fetched=fetched),
    st.builds(
        Item,
        st.integers(1, 5),
        st.just(b'{"text":"\xc3\xa9"}'),
        type=types,
        by=st.none() | st.just("ada"),
        time=st.none() | moments,
        parent=st.none() | moments,
        score=st.sampled_from([None, None, 0, 7]),
        descendants=st.sampled_from([None, None, 0, 7]),
        dead=st.sampled_from([False, False, True]),
        deleted=st.sampled_from([False, False, True]),
    ),
    st.sampled_from([Held(b"", b"", 1, 0), Held(b"", b"", 2, 0), Held(b"h" * 16, b"c" * 16, 1, 0)]),
    moments,
    st.just(0) | moments,
)
ALL = "SELECT * FROM stored_items ORDER BY id"


@given(st.lists(st.lists(rows_of_items, max_size=4, unique_by=lambda row: row[1]), max_size=3))
def test_rows_that_end_as_usual_are_written_as_all_others(
    table: sqlite3.Connection, batches: list[list[tuple[Any, ...]]]
) -> None:
    for rows in batches:
        for row in rows:
            table.execute(WRITE, row)
    one_by_one = table.execute(ALL).fetchall()
    table.execute("DELETE FROM stored_items")
    for rows in batches:
        write_items(table, rows)
    assert table.execute(ALL).fetchall() == one_by_one
    table.execute("DELETE FROM stored_items")


def test_a_new_comment_that_is_alive_ends_as_usual() -> None:
    item = Item(7, USUAL_BODY, type="comment", by="ada", time=9, parent=1)
    row = item_row(1, item, Held(b"", b"", 1, 0), now=2, fetched=1)
    assert row[-len(USUAL_END) :] == USUAL_END


names = st.sampled_from(["ada", "", "é", 'a"b', "\ud800", "\0", "None"]) | st.text(max_size=4)
whole = st.sampled_from([0, 1, -1, 2**53, 2**63 - 1, 2**63, -(2**63)])
middles = st.sampled_from(
    [',"parent":1', "", ",", ',"kids":[2],"parent":1,"text":"é \\u0000 }"', ',"time":1,"type":"comment"}', ",\0x"]
)
# Some are no JSON: a plug-in may read another format.
BODIES = [
    '{{"by":"{by}","id":{item_id}{middle},"time":{time},"type":"comment"}}',
    '{{"by":"{by}","id":{item_id},"time":{time},"type":"comment"}}',
    '{{"by":"{by}","dead":true,"id":{item_id}{middle},"time":{time},"type":"comment"}}',
    '{{"by":"{by}","id":{item_id}{middle},"time":{time},"type":"story"}}',
    '{{"by":"{by}","id":{item_id}{middle},"time":{time}.0,"type":"comment"}}',
    '{{"by":"{by}","id":{item_id}{middle},"time":{time},"type":"comment"}} ',
    "{middle}",
]


@given(
    st.sampled_from(BODIES),
    st.integers(1, 2**53),
    st.none() | names,
    st.none() | whole,
    st.none() | whole,
    middles,
    st.sampled_from(["comment", "comment", "story", None]),
)
def test_a_body_is_read_as_it_was_written_whatever_part_of_it_is_kept(
    table: sqlite3.Connection,
    form: str,
    item_id: int,
    by: str | None,
    time: int | None,
    parent: int | None,
    middle: str,
    kind: str | None,
) -> None:
    body = form.format(by=by, item_id=item_id, middle=middle, time=time).encode(errors="replace")
    assert read_again(table, Item(item_id, body, type=kind, by=by, time=time, parent=parent))[1:3] == (body, len(body))


def mostly(usual: object, others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual in four of five draws, so that most rows have one oddity at most."""
    return st.integers(0, 4).flatmap(lambda draw: others if draw == 4 else st.just(usual))


@given(
    st.lists(
        st.tuples(
            mostly(BODIES[0], st.sampled_from(BODIES)),
            st.integers(1, 5),
            mostly("ada", st.none() | names),
            mostly(9, st.none() | whole),
            mostly(1, st.none() | whole),
            middles,
            mostly("comment", st.sampled_from(["story", None])),
            mostly({}, st.sampled_from([{"score": 0}, {"descendants": 1}, {"dead": True}, {"deleted": True}])),
            mostly(content_of, st.none()),
            mostly(0, st.just(HASHED_FROM_BYTES)),
            mostly((2, 1), st.sampled_from([(2, 2), (1, 2), (1, 0), (2**52, 1)])),
        ),
        max_size=6,
        unique_by=lambda values: values[1],
    )
)
@example([(BODIES[0], 1, "\ud800", 9, 1, ',"a":1', "comment", {}, content_of, 0, (2, 1))])
@example([(BODIES[0], 1, "\0", 9, 1, ',"a":1', "comment", {}, content_of, 0, (2, 1))])
@example([(BODIES[0], 1, "ada", 2**63, 1, ',"a":1', "comment", {}, content_of, 0, (2, 1))])
@example([(BODIES[0], 1, "ada", 9, -(2**63) - 1, ',"a":1', "comment", {}, content_of, 0, (2, 1))])
def test_new_items_are_written_as_any_others(table: sqlite3.Connection, drawn: list[tuple[Any, ...]]) -> None:
    added = []
    for form, item_id, by, time, parent, middle, kind, others, content, longer, (now, fetched) in drawn:
        body = form.format(by=by, item_id=item_id, middle=middle + " " * longer, time=time).encode(errors="replace")
        item = Item(item_id, body, type=kind, by=by, time=time, parent=parent, content_of=content, **others)
        seen = Found(item), fetched * MILLISECOND_NS, now * MILLISECOND_NS
        added.append((item, Observation(Discovery.item(item_id, via=Lane.BACKFILL), *seen)))
    for item, each in added:
        held, now = new_item(item, started_at_ns=each.started_at_ns), each.now_ns // MILLISECOND_NS
        table.execute(WRITE, item_row(1, item, held, now=now, fetched=each.started_at_ns // MILLISECOND_NS))
    one_by_one = table.execute(ALL).fetchall()
    table.execute("DELETE FROM stored_items")
    add_items(table, 1, added)
    assert table.execute(ALL).fetchall() == one_by_one
    table.execute("DELETE FROM stored_items")


def read_again(table: sqlite3.Connection, item: Item) -> tuple[Any, ...]:
    """What the table holds of a body, the body itself, its length and its domain."""
    write_items(table, [item_row(1, item, Held(b"", b"", 1, 0), now=2, fetched=1)])
    shown = table.execute(
        "SELECT CAST(stored_body AS BLOB), CAST(body AS BLOB), length(CAST(body AS BLOB)), domain FROM whole_items"
    ).fetchall()
    table.execute("DELETE FROM stored_items")
    (found,) = shown
    return tuple(found)


def test_of_a_usual_comment_only_the_fields_are_kept_that_no_column_has(table: sqlite3.Connection) -> None:
    item = Item(7, USUAL_BODY, type="comment", by="ada", time=9, parent=1)
    assert read_again(table, item)[:2] == (f"{{{OWN}}}".encode(), USUAL_BODY)


@pytest.mark.parametrize(
    "body",
    [
        b'{"by":"ada","id":7,"time":9,"type":"comment"}',  # nothing between
        b'{"by":"ada","id":8,"parent":1,"time":9,"type":"comment"}',
        b'{"by":"ada","id":7,"parent":1,"time":9.0,"type":"comment"}',
        b",9,ada",
    ],
)
def test_a_body_that_its_columns_do_not_give_back_is_kept_whole(table: sqlite3.Connection, body: bytes) -> None:
    item = Item(7, body, type="comment", by="ada", time=9, parent=1)
    assert read_again(table, item)[:2] == (body, body)


def test_a_time_that_is_no_whole_number_is_never_taken_out_of_a_body(table: sqlite3.Connection) -> None:
    body = b'{"by":"ada","id":7,"parent":1,"time":9.0,"type":"comment"}'
    item = Item(7, body, type="comment", by="ada", time=cast("int", 9.0), parent=1)
    assert read_again(table, item)[:2] == (body, body)


def test_the_domain_of_a_comment_without_a_parent_is_derived_as_before(table: sqlite3.Connection) -> None:
    body = b'{"by":"ada","id":7,"url":"https://x.org/","time":9,"type":"comment"}'
    assert read_again(table, Item(7, body, type="comment", by="ada", time=9))[1:] == (body, len(body), "x.org")


async def test_a_copy_keeps_the_same_fields(tmp_path: Path) -> None:
    (table,) = (one for one in TABLES if one.name == "items")
    row = (1, 7, "comment", "ada", 9, 1, None, None, 0, 0, SEEN, SEEN, SEEN, 1, b"", b"", USUAL_BODY)
    store = PortableSqliteStore(tmp_path / "copy.db")
    await store.open()
    await store.import_rows(table, [row])
    assert await store.export_rows(table, after=table.below_first, limit=100) == [row]
    await store.close()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute("SELECT body, body_form FROM stored_items").fetchone() == (f"{{{OWN}}}", 1)


async def test_a_copy_shows_the_same_items(tmp_path: Path) -> None:
    (table,) = (one for one in TABLES if one.name == "items")
    rows = [
        (1, place, kind, "ada", 7, parent, 3, None, dead, deleted, SEEN, fetched, changed, revision, b"", b"h", b"{}")
        for place, (kind, parent, dead, deleted, fetched, changed, revision) in enumerate(KINDS, 1)
    ]
    store = PortableSqliteStore(tmp_path / "copy.db")
    await store.open()
    await store.import_rows(table, rows)
    assert await store.export_rows(table, after=table.below_first, limit=100) == rows
    await store.close()


async def test_a_new_comment_is_stored_without_its_type_and_with_small_numbers_for_its_moments(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    item, now_ns = Item(1, b"{}", type="comment"), SEEN * MILLISECOND_NS
    found = Observation(Discovery.item(1, via=Lane.LIVE), Found(item), now_ns - 200 * MILLISECOND_NS, now_ns)
    await store.record("hn", found)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "remora.db")) as connection:
        marks = connection.execute("SELECT type_mark, fetched_mark, changed_mark FROM stored_items").fetchone()
        assert marks == ("", -201, 0)
        seen = connection.execute("SELECT type, first_seen_at, last_fetched_at, changed_at FROM items").fetchone()
        assert seen == ("comment", SEEN, SEEN - 200, SEEN)
