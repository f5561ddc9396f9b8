"""What do the logs never show? Secrets, credentials in addresses, and the same event a thousand times a second."""

import json
import re
from pathlib import Path

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from remora.core.status.readout import read_out
from remora.operate.jobs.clock import SystemClock
from remora.operate.observe.log_format import LogFormat, format_for
from remora.operate.observe.logs import EVENTS_PER_SECOND_MAX, RateLimit, Redaction, set_up_logs, tell
from remora.operate.observe.summary import HourlySummary
from remora.sources.secret import MASK
from tests.core.test_readout import NAME, NOW_NS, a_rate, beat, facts, ledger
from tests.operate.command_line import command_line_in


@pytest.fixture(autouse=True)
def _restore_logs() -> object:
    yield
    structlog.reset_defaults()


def redact(*secrets: str, **fields: object) -> dict[str, object]:
    return dict(Redaction(secrets)(None, "info", dict(fields)))


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    assert redact("s3cret", event="x", why="sent s3cret", inner={"a": ["s3cret"]}) == {
        "event": "x",
        "why": f"sent {MASK}",
        "inner": {"a": [MASK]},
    }


def test_fields_with_a_telling_name_are_masked_whatever_they_hold() -> None:
    assert redact(event="x", token="abc", Authorization="Bearer abc") == {
        "event": "x",
        "token": MASK,
        "Authorization": MASK,
    }


def test_credentials_and_queries_of_addresses_are_masked() -> None:
    shown = redact(event="x", url="https://me:word@host/a?key=1", store="postgresql://me:word@host/db")
    assert shown == {"event": "x", "url": f"https://{MASK}@host/a?{MASK}", "store": f"postgresql://{MASK}@host/db"}


def test_numbers_stay_numbers() -> None:
    assert redact("1234", event="x", count=1234, known=True, nothing=None)["count"] == 1234


def test_a_secret_that_contains_another_is_masked_as_a_whole() -> None:
    assert redact("word", "password", event="my password")["event"] == f"my {MASK}"


def test_an_event_is_told_a_bounded_number_of_times_a_second_and_the_rest_is_counted() -> None:
    now = [0.0]
    limit = RateLimit(monotonic_s=lambda: now[0])
    told = 0
    for _ in range(100):
        try:
            limit(None, "info", {"event": "sped_up"})
        except structlog.DropEvent:
            continue
        told += 1
    assert told == EVENTS_PER_SECOND_MAX
    assert limit(None, "info", {"event": "other"}) == {"event": "other"}
    now[0] = 1.0
    assert limit(None, "info", {"event": "sped_up"}) == {"event": "sped_up", "left_out": 100 - EVENTS_PER_SECOND_MAX}


def test_in_a_pipe_every_event_is_one_line_of_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(secrets=["s3cret"], log_format=LogFormat.JSON)
    structlog.get_logger().info("backed_off", source="hackernews", why="s3cret")
    out, err = capsys.readouterr()
    assert out == ""
    event = json.loads(err)
    assert (event["event"], event["why"], event["level"]) == ("backed_off", MASK, "info")
    assert event["timestamp"].endswith("Z")


def test_as_text_an_event_is_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(log_format=LogFormat.TEXT)
    structlog.get_logger().warning("lease_lost", source="hackernews", why="two words", count=3)
    line = capsys.readouterr().err
    assert re.fullmatch(r'\d\d:\d\d:\d\d warning lease lost  source=hackernews why="two words" count=3\n', line), line


def test_in_the_journal_every_line_has_its_priority(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(log_format=LogFormat.JOURNAL)
    structlog.get_logger().info("watching", source="hackernews")
    try:
        int("x")
    except ValueError:
        structlog.get_logger().exception("loop_failed")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "<6>watching  source=hackernews"
    assert {line[:3] for line in lines[1:]} == {"<3>"}


def test_under_systemd_the_journal_format_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1234")
    assert format_for(LogFormat.AUTO) is LogFormat.JOURNAL
    monkeypatch.delenv("JOURNAL_STREAM")
    assert format_for(LogFormat.AUTO) is LogFormat.JSON
    assert format_for(LogFormat.TEXT) is LogFormat.TEXT


def test_a_command_that_ends_writes_text_into_a_pipe() -> None:
    assert format_for(LogFormat.AUTO, is_service=False) is LogFormat.TEXT


def test_a_sentence_is_an_event_where_a_machine_reads_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    told = {}
    for log_format in (LogFormat.JSON, LogFormat.JOURNAL, LogFormat.TEXT):
        set_up_logs(log_format=log_format)
        tell("the console is at http://127.0.0.1:8611")
        told[log_format] = capsys.readouterr().err.removesuffix("\n")
    event = json.loads(told[LogFormat.JSON])
    assert (event["event"], event["level"]) == ("notice", "info")
    assert event["message"] == "the console is at http://127.0.0.1:8611"
    assert told[LogFormat.JOURNAL] == "<6>the console is at http://127.0.0.1:8611"
    assert told[LogFormat.TEXT] == "the console is at http://127.0.0.1:8611"


def test_a_refusal_is_json_too_when_json_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remora = command_line_in(tmp_path, monkeypatch)
    words = ("up", "--url", "http://127.0.0.1:9/v0", "--ceiling", "fast")
    (told,) = remora.refused(*words, "--log-format", "json").splitlines()
    assert json.loads(told)["level"] == "error"
    structlog.reset_defaults()
    assert json.loads(told)["message"] == remora.refused(*words).removesuffix("\n")


@pytest.mark.parametrize("level, told", [("debug", 3), ("info", 2), ("warning", 1), (None, 2)])
def test_the_level_decides_what_is_written(capsys: pytest.CaptureFixture[str], level: str | None, told: int) -> None:
    set_up_logs(level=level)
    for name in ("debug", "info", "warning"):
        getattr(structlog.get_logger(), name)("watching")
    assert len(capsys.readouterr().err.splitlines()) == told


def test_a_summary_tells_each_source_in_one_line_and_the_requests_since_the_last() -> None:
    rate = a_rate(departures=120)
    summary = HourlySummary(clock=SystemClock())
    with capture_logs() as logs:
        for departures in (120, 150):
            told = facts(rate=msgspec.structs.replace(rate, departures=departures))
            assert summary.run_once(read_out((beat(of=told),), {NAME: ledger()}, now_ns=NOW_NS)) == 1
    assert [(line["event"], line["requests"], line["held"]) for line in logs] == [
        ("summary", 120, 100),
        ("summary", 30, 100),
    ]
    assert logs[0]["state"] == "Complete and fresh"


def test_an_error_is_told_with_its_trace_and_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(secrets=["s3cret"], log_format=LogFormat.JSON)
    try:
        int("s3cret")
    except ValueError:
        structlog.get_logger().exception("loop_failed")
    told = json.loads(capsys.readouterr().err)
    assert "ValueError" in told["exception"]
    assert "s3cret" not in told["exception"]
