"""Do `show`, `query` and `changes` print what the mirror holds, for people and for machines?"""

import asyncio
import codecs
import csv
import io
import json

import pytest
from click.testing import CliRunner

from remora.contracts import Observation
from remora.core.item import Document, Entry, Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_walk import WalkState
from remora.core.reasons import GapReason
from remora.core.verdict import Deferred
from remora.operate.cli.common import run
from remora.operate.cli.main import main
from remora.stores import open_store
from tests.contract.answers import ARCHIVE, at, record_document
from tests.operate.command_line import CommandLine, with_mirror
from tests.read.conftest import item, keep

CHATS = '[sources.hackernews]\n[sources.chats]\nkind = "listed"\nurl = "http://127.0.0.1:9"\nceiling = "1/s"\n'


@pytest.fixture
def mirror(remora: CommandLine) -> CommandLine:
    return with_mirror(remora)


def test_show_prints_the_thread_as_a_tree_of_plain_text(mirror: CommandLine) -> None:
    lines = mirror("show", "1").stdout.splitlines()
    assert lines[:3] == [
        "hackernews 1  story  120 points  by ada  2026-09-21 14:13",
        "Show HN: Remora & friends",
        "https://www.example.com/a?b=1",
    ]
    assert "    First reply about rate limits" in lines
    assert "      It's a reply to the reply" in lines
    assert "! 9 is a reply to 1, but is not in the mirror" in lines
    assert "! 7 is named as a reply to 1, but has another parent" in lines


TITLE_77 = "SELECT title FROM item_fields WHERE id = 77"


@pytest.mark.parametrize(
    "words, printed",
    [
        (("show", "77"), r"Zürich \u20ac".encode("latin-1")),
        (("query", TITLE_77), r"Zürich \u20ac".encode("latin-1")),
        (("query", TITLE_77, "--csv"), "Zürich €".encode()),
        (("query", TITLE_77, "--json"), "Zürich €".encode()),
    ],
)
def test_a_character_that_the_terminal_lacks_is_a_number_for_people_and_itself_for_machines(
    mirror: CommandLine, words: tuple[str, ...], printed: bytes
) -> None:
    async def add() -> None:
        store = open_store(f"sqlite:///{mirror.folder}/remora.db")
        await store.open()
        await keep(store, item(77, title="Zürich €"))
        await store.close()

    asyncio.run(add())
    result = CliRunner(charset="latin-1", env={"REMORA_CONFIG": ""}).invoke(main, words)
    assert result.exit_code == 0, result.stderr
    assert printed in result.stdout_bytes


def test_show_body_prints_what_the_provider_sent(mirror: CommandLine) -> None:
    assert json.loads(mirror("show", "1", "--body").stdout)["score"] == 120


ODD = b'{"id":1,"price":1.10,"e":1E5,"huge":1e400,"a":1,"a":2,"half":"\\ud800","private":"\xee\x80\x80\xc2\x9b"}'


async def make_odd(folder: str) -> None:
    store = open_store(f"sqlite:///{folder}/remora.db")
    await store.open()
    await keep(store, Item(1, ODD), Item(2, b"\xff no JSON"), Item(3, codecs.BOM_UTF8 + b'{"id":3}'))
    await store.record_page(ARCHIVE, [Entry("odd", None)], WalkState(), now_ns=at(1))
    await record_document(store, "odd", Document("odd", ODD), at_s=2)
    await store.close()


def test_show_body_changes_nothing_but_the_space_between_tokens(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text(CHATS)
    asyncio.run(make_odd(str(remora.folder)))
    for words in (["1", "--source", "hackernews", "--body"], ["odd", "--source", "chats"]):
        assert b"".join(remora("show", *words).stdout_bytes.split()) == ODD
    assert remora("show", "2", "--source", "hackernews", "--body").stdout_bytes == b"\xff no JSON\n"


def test_show_json_is_one_json_document_whatever_the_provider_sent(remora: CommandLine) -> None:
    asyncio.run(make_odd(str(remora.folder)))
    bodies = [json.loads(remora("show", key, "--json").stdout_bytes)["body"] for key in "123"]
    assert bodies == [json.loads(ODD), "\ufffd no JSON", {"id": 3}]


def test_show_html_has_every_number_as_it_was_sent(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text(CHATS)
    asyncio.run(make_odd(str(remora.folder)))
    page = remora("show", "odd", "--source", "chats", "--html").stdout
    for number in ("1.10", "1E5", "1e400"):
        assert page.count(number) == 2, "once among the fields and once in the raw JSON"
    assert "\\ud800" in page
    assert "\\ue000\\u009b" in page


def test_show_history_prints_what_changed(mirror: CommandLine) -> None:
    lines = mirror("show", "5", "--history").stdout.splitlines()
    assert lines[0].startswith("revision 1  ")
    assert "  - title: Before" in lines
    assert "  + title: After" in lines
    assert not [line for line in lines if line.startswith("  - by")]


def test_show_json_has_the_history_and_the_thread(mirror: CommandLine) -> None:
    told = json.loads(mirror("show", "1", "--json").stdout)
    assert [(node["depth"], node["id"]) for node in told["thread"]] == [(0, 1), (1, 4), (1, 2), (2, 3)]
    assert (told["thread"][0]["missing"], told["earlier"]) == ([9], [])
    edited = json.loads(mirror("show", "5", "--json").stdout)
    assert [past["body"]["title"] for past in edited["earlier"]] == ["Before"]


def test_show_prints_a_document_of_a_listed_source(mirror: CommandLine) -> None:
    (mirror.folder / "remora.toml").write_text(CHATS)
    assert json.loads(mirror("show", "chat-1", "--source", "chats").stdout)["title"] == "About chat-1"
    assert mirror("show", "chat-3", "--source", "chats").exit_code == 1
    unclear = mirror("show", "1")
    assert unclear.exit_code == 2
    assert "name one with --source" in unclear.stderr


def test_show_knows_a_listed_source_before_its_first_page(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text(CHATS)

    async def leave_a_gap() -> None:
        store = open_store(f"sqlite:///{remora.folder}/remora.db")
        await store.open()
        backlog = Discovery(Kind.PAGE, "backlog", Lane.WALK)
        await store.record("chats", Observation(backlog, Deferred(GapReason.SERVER_ERROR), 1, 1))
        await store.close()

    asyncio.run(leave_a_gap())
    shown = remora("show", "p", "--source", "chats")
    assert shown.exit_code == 1, shown.output
    assert "p is not in the mirror" in shown.stderr


def test_text_of_others_cannot_move_the_cursor(remora: CommandLine) -> None:
    asyncio.run(make_hostile(str(remora.folder)))
    for words in (["show", "1"], ["show", "1", "--body"], ["query", "SELECT body FROM items"]):
        shown = remora(*words).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown


async def make_hostile(folder: str) -> None:
    store = open_store(f"sqlite:///{folder}/remora.db")
    await store.open()
    await keep(store, item(1, title="a\x1b[2Jb\u202e", text="<p>&#27;[31mred"))
    await store.close()


def test_query_prints_a_table_csv_or_json(mirror: CommandLine) -> None:
    statement = "SELECT id, \"by\" FROM items WHERE type = 'story' ORDER BY id"
    assert mirror("query", statement).stdout.splitlines() == ["id  by", "──  ───", " 1  ada", " 5  ada", "30  eve"]
    rows = list(csv.reader(io.StringIO(mirror("query", statement, "--csv").stdout)))
    assert rows == [["id", "by"], ["1", "ada"], ["5", "ada"], ["30", "eve"]]
    assert json.loads(mirror("query", statement, "--json").stdout)[2] == {"id": 30, "by": "eve"}
    assert json.loads(mirror("query", "SELECT body FROM items WHERE id = 30", "--json").stdout)[0]["body"].startswith(
        "{"
    )


def test_a_table_shows_the_beginning_of_a_long_cell_and_that_there_is_more(mirror: CommandLine) -> None:
    blank, long = "' ' || hex(zeroblob(30))", "printf('%5000s', 'x')"
    lines = mirror("query", f"SELECT {blank} AS a, {long} AS b, 'short' AS c").stdout.splitlines()
    assert lines[-1].split() == ["0" * 60, "…", "short"]


def test_what_a_command_has_read_is_not_put_into_words_by_the_event_loop() -> None:
    worded = []

    class Long:
        """An answer may have hundreds of megabytes."""

        def __repr__(self) -> str:
            worded.append("all of it")
            return "all of it"

    async def read() -> Long:
        return Long()

    assert isinstance(run(read()), Long)
    assert worded == []


def test_a_query_that_was_cut_says_so(mirror: CommandLine) -> None:
    result = mirror("query", "SELECT id FROM items", "--limit", "2")
    assert len(result.stdout.splitlines()) == 4
    assert "only the first 2 rows" in result.stderr


def test_a_query_that_writes_is_refused_in_one_sentence(mirror: CommandLine) -> None:
    refused = mirror("query", "DELETE FROM stored_items")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        "remora: only a query that reads is allowed (this statement writes or opens something)",
        "  write one SELECT; nothing in the mirror was changed",
    ]
    assert "write one of them" in mirror.refused("query", "SELECT 1", "--csv", "--json")


def test_changes_resume_after_the_position_that_was_read_last(mirror: CommandLine) -> None:
    lines = mirror("changes").stdout.splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("1  2026-")
    assert lines[0].endswith("  hackernews  item 1  new")
    rest = [
        json.loads(line) for line in mirror("changes", "--since", lines[9].split()[0], "--json").stdout.splitlines()
    ]
    assert [(change["kind"], change["key"]) for change in rest] == [
        ("user", "ada"),
        ("document", "chat-1"),
        ("document", "chat-2"),
    ]
    refused = mirror("changes", "--since", "monday")
    assert refused.exit_code == 2
    assert "not a position" in refused.stderr


def test_search_builds_its_index_and_prints_hits(mirror: CommandLine) -> None:
    missing = mirror("search", "fish")
    assert (missing.exit_code, "remora search --build" in missing.stderr) == (2, True)
    assert mirror("search", "--build").stdout.startswith("the search index has 11 entries, ")
    assert mirror("search", "--stats").stdout.endswith("up to date\n")
    found = mirror("search", "rate", "limits")
    assert found.stdout.splitlines() == [
        "hackernews 2  comment  by ada  2026-09-21",
        "    First reply about «rate» «limits»",
    ]
    assert found.stderr.startswith("1 hit; index: 11 entries, ")
    told = json.loads(mirror("search", "type:story score>5", "--json").stdout)
    assert [(hit["key"], hit["title"], hit["score"]) for hit in told] == [("1", "Show HN: Remora & friends", 120)]
    assert json.loads(mirror("search", "--stats", "--json").stdout)["entries"] == 11


def test_search_without_words_and_with_too_much_is_refused(mirror: CommandLine) -> None:
    assert "nothing to search for" in mirror.refused("search")
    assert "both given" in mirror.refused("search", "fish", "--build")


def test_export_writes_csv_and_parquet(mirror: CommandLine) -> None:
    assert len(mirror("export", "--format", "csv", "--start-id", "20").stdout.splitlines()) == 4
    done = mirror("export", "--format", "parquet", "--out", "lake")
    assert (done.exit_code, done.stderr) == (0, "9 written\n")
    assert (mirror.folder / "lake" / "month=2026-09" / "part-0001.parquet").exists()
    assert mirror("export", "--since", "2100").stderr == "0 written\n"


def test_export_says_what_is_missing(mirror: CommandLine) -> None:
    assert "--out FOLDER" in mirror.refused("export", "--format", "parquet")
    assert "--since has no date" in mirror.refused("export", "--since", "monday")


@pytest.mark.parametrize("words", [("--start-id", "5"), ("--end-id", "5"), ("--format", "parquet", "--start-id", "5")])
def test_a_range_of_ids_of_a_listed_source_is_refused(mirror: CommandLine, words: tuple[str, ...]) -> None:
    (mirror.folder / "remora.toml").write_text(CHATS)
    refused = mirror("export", "--source", "chats", "--out", "out", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "chats is a listed source, which has no ids to begin or end with" in refused.stderr
    assert "--since DATE" in refused.stderr
    assert not list(mirror.folder.glob("out*"))


def test_the_first_id_of_an_export_is_at_least_one(mirror: CommandLine) -> None:
    assert "--start-id is 0" in mirror.refused("export", "--source", "hackernews", "--start-id", "0")
