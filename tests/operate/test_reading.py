"""Can the mirror be read from another process, byte for byte, whoever runs? Through the command line and a real file."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from click.testing import Result

from remora.contracts import Observation
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, RateFacts
from remora.core.reasons import GapReason
from remora.core.status.snapshot import Role, Snapshot, SourceFacts
from remora.core.verdict import Trouble
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.heartbeat import Heart
from remora.stores import open_store
from tests.library import ATTACK_STORY, CHATS, NEWS, make_library
from tests.operate.command_line import CommandLine
from tests.operate.small_mirror import DEAD_ID, NEWEST_ID, OWED_ID, SOURCE, body_of, fill, owe
from tests.prepared_sqlite import prepare

RATE = RateFacts(
    interval_ns=8_000_000, ceiling_interval_ns=4_000_000, limited_by=LimitedBy.PACE, circuit=CircuitState.CLOSED
)


async def make_mirror(folder: Path, *, beating: bool, rate: RateFacts | None = None) -> None:
    store = open_store(f"sqlite:///{prepare(folder / 'remora.db')}")
    await store.open()
    await fill(store, now_ns=time.time_ns())
    if beating:
        snapshot = Snapshot(
            role=Role.SERVICE,
            started_at_ns=time.time_ns(),
            sources={SOURCE: SourceFacts(rate=rate, newest_id=NEWEST_ID, newest_id_at_ns=time.time_ns())},
        )
        await Heart("service", store, lambda: snapshot, clock=SystemClock()).run_once()
    await store.close()


@pytest.fixture
def mirror(remora: CommandLine) -> CommandLine:
    asyncio.run(make_mirror(remora.folder, beating=True))
    return remora


def test_export_gives_back_what_the_provider_sent_byte_for_byte(mirror: CommandLine) -> None:
    result = mirror("export")
    held = [body_of(item_id) for item_id in range(1, NEWEST_ID + 1) if item_id not in {OWED_ID, DEAD_ID}]
    assert result.exit_code == 0
    assert result.stdout_bytes.splitlines() == held


def test_export_into_a_file_leaves_no_half_file(mirror: CommandLine) -> None:
    assert mirror("export", "--out", "all.ndjson", "--start-id", "9").exit_code == 0
    assert (mirror.folder / "all.ndjson").read_bytes().splitlines() == [body_of(9), body_of(10)]
    assert not list(mirror.folder.glob("*.part"))


def test_export_into_a_missing_folder_says_so(mirror: CommandLine) -> None:
    assert "cannot be written" in mirror.refused("export", "--out", "absent/all.ndjson")


def test_show_prints_one_item_and_json_its_history(mirror: CommandLine) -> None:
    assert json.loads(mirror("show", "2", "--body").stdout)["id"] == 2
    told = json.loads(mirror("show", "2", "--json").stdout)
    assert (told["key"], told["revision"], told["body"]["title"]) == ("2", 1, "Café")


@pytest.mark.slow
def test_show_writes_a_page_of_its_own_and_the_history_of_documents(remora: CommandLine) -> None:
    asyncio.run(make_library(f"sqlite:///{remora.folder}/remora.db"))
    page = remora("show", str(ATTACK_STORY), "--html", "--source", NEWS).stdout
    assert "<!doctype html>" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "<script" not in page
    assert "<link" not in page
    assert 'href="/' not in page
    document = remora("show", "chat/1", "--html", "--source", CHATS).stdout
    assert document.index("I have one for my harbour.") < document.index("Raw JSON")
    assert "+ name: With another name" in remora("show", "chat/2", "--history", "--source", CHATS).stdout
    assert "--json and --html are given together" in remora.refused("show", "1", "--html", "--json")


@pytest.mark.slow
def test_show_says_when_a_document_was_deleted_upstream(remora: CommandLine) -> None:
    asyncio.run(make_library(f"sqlite:///{remora.folder}/remora.db"))
    told = [json.loads(remora("show", key, "--json", "--source", CHATS).stdout) for key in ("chat/2", "chat/3")]
    assert [(each["gone"], each["vanished_at"]) for each in told] == [(False, None), (True, None)]
    assert "Deleted upstream" in remora("show", "chat/3", "--html", "--source", CHATS).stdout


def test_show_does_not_say_that_an_item_from_a_dump_was_fetched_in_1970(remora: CommandLine) -> None:
    (remora.folder / "dump.ndjson").write_bytes(body_of(3) + b"\n")
    assert remora("import", "dump.ndjson", "--source", NEWS).exit_code == 0
    assert json.loads(remora("show", "3", "--json", "--source", NEWS).stdout)["fetched_at"] is None


def test_show_says_when_an_item_is_not_held(mirror: CommandLine) -> None:
    result = mirror("show", str(OWED_ID))
    assert result.exit_code == 1
    assert "4 is not in the mirror" in result.stderr
    assert "remora gaps" in result.stderr


def test_a_list_of_gaps_that_was_cut_does_not_pass_for_all_of_them(mirror: CommandLine) -> None:
    asyncio.run(owe_many(mirror.folder, 1_100))
    result = mirror("gaps")
    assert len(result.stdout.splitlines()) == 1_000
    assert "only the oldest 1,000 gaps are shown" in result.stderr


async def owe_many(folder: Path, count: int) -> None:
    store = open_store(f"sqlite:///{folder}/remora.db")
    await store.open()
    await asyncio.gather(*(owe(store, NEWEST_ID + number, now_ns=time.time_ns()) for number in range(count)))
    await store.close()


def test_gaps_lists_what_is_owed_with_its_reason(mirror: CommandLine) -> None:
    lines = mirror("gaps").stdout.splitlines()
    assert len(lines) == 2
    assert f"item {OWED_ID}  owed  timeout" in lines[0] + lines[1]
    dead = json.loads(mirror("gaps", "--state", "dead", "--json").stdout)
    assert [(gap["key"], gap["reason"], gap["state"]) for gap in dead] == [(str(DEAD_ID), "unauthorized", "dead")]


def test_a_replayed_dead_letter_is_owed_again(mirror: CommandLine) -> None:
    assert json.loads(mirror("gaps", "replay", "--id", str(DEAD_ID), "--json").stdout) == {"replayed": 1}
    assert json.loads(mirror("gaps", "--state", "dead", "--json").stdout) == []


def test_a_document_is_replayed_by_its_own_key_and_by_its_fingerprint(mirror: CommandLine) -> None:
    (mirror.folder / "remora.toml").write_text(
        '[sources.chats]\nkind = "listed"\nurl = "http://127.0.0.1:9"\nceiling = "1/s"\n'
    )

    async def owe_a_document() -> None:
        store = open_store(f"sqlite:///{mirror.folder}/remora.db")
        await store.open()
        discovery, now_ns = Discovery(Kind.DOCUMENT, "c-6", Lane.DETAIL), time.time_ns()
        await store.record("chats", Observation(discovery, Trouble(GapReason.TIMEOUT), now_ns, now_ns))
        await store.close()

    asyncio.run(owe_a_document())
    for key in ("c-6", fingerprint("chats", "c-6")):
        assert json.loads(mirror("gaps", "replay", "--id", key, "--json").stdout) == {"replayed": 1}


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_gap_that_is_not_there_is_not_replayed_in_silence(mirror: CommandLine, form: tuple[str, ...]) -> None:
    result = mirror("gaps", "replay", "--id", "nope", *form)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "there is no gap of nope" in result.stderr
    assert "remora gaps" in result.stderr


def test_a_replay_beside_a_writing_service_is_refused_and_says_where_to_go(mirror: CommandLine) -> None:
    async def hold_and_replay() -> Result:
        store = open_store(f"sqlite:///{mirror.folder}/remora.db")
        await store.open()
        try:
            return await asyncio.to_thread(mirror, "gaps", "replay", "--all")
        finally:
            await store.close()

    result = asyncio.run(hold_and_replay())
    assert result.exit_code == 1
    assert "replay from its console" in result.stderr


def test_status_adds_up_and_answers_the_four_questions(mirror: CommandLine) -> None:
    status = json.loads(mirror("status", "--json").stdout)
    source = status["sources"][SOURCE]
    coverage = source["coverage"]
    assert [coverage[part] for part in ("settled", "pending", "owed", "absent", "dead")] == [8, 0, 1, 0, 1]
    assert set(source["answers"]) == {"complete", "fresh", "polite", "working"}
    assert source["rate"]["known"] is False


def test_status_reads_as_text(mirror: CommandLine) -> None:
    text = mirror("status").stdout
    assert "complete?  no      1 waiting for a retry, 1 dead" in text
    assert "rate       unknown: " in text


def test_status_check_tells_monitoring_the_worst(remora: CommandLine) -> None:
    asyncio.run(make_mirror(remora.folder, beating=True, rate=RATE))
    assert remora("status", "--check").exit_code == 1


def test_a_runtime_that_says_nothing_of_its_rate_is_unknown_to_monitoring(mirror: CommandLine) -> None:
    assert mirror("status", "--check").exit_code == 3


def test_a_runtime_that_never_beat_is_unknown_to_monitoring(remora: CommandLine) -> None:
    asyncio.run(make_mirror(remora.folder, beating=False))
    assert remora("status", "--check").exit_code == 3
    assert "never started" in remora("status").stdout


def test_store_stats_and_migrate_work_on_the_same_file(mirror: CommandLine) -> None:
    assert json.loads(mirror("store", "stats", "--json").stdout)["hackernews.settled"] == 8
    size = (mirror.folder / "remora.db").stat().st_size
    assert f"{size:,}" in mirror("store", "stats").stdout
    assert mirror("store", "migrate").exit_code == 0


def test_check_offline_finds_nothing_wrong_and_asks_for_a_contact(mirror: CommandLine) -> None:
    result = mirror("check", "--offline")
    assert result.exit_code == 0
    assert "contact" in result.stdout
    assert "can be read" in result.stdout
