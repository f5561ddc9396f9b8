"""What do the logs never show? Secrets, credentials in addresses, and the same event a thousand times a second."""

import json

import pytest
import structlog

from remora.operate.observe.logs import EVENTS_PER_SECOND_MAX, RateLimit, Redaction, set_up_logs
from remora.sources.secret import MASK


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
    set_up_logs(secrets=["s3cret"], as_json=True)
    structlog.get_logger().info("backed_off", source="hackernews", why="s3cret")
    out, err = capsys.readouterr()
    assert out == ""
    event = json.loads(err)
    assert (event["event"], event["why"], event["level"]) == ("backed_off", MASK, "info")
    assert event["timestamp"].endswith("Z")


def test_on_a_terminal_an_event_reads_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(as_json=False)
    structlog.get_logger().warning("lease_lost", source="hackernews")
    assert "lease_lost" in capsys.readouterr().err


def test_an_error_is_told_with_its_trace_and_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(secrets=["s3cret"], as_json=True)
    try:
        int("s3cret")
    except ValueError:
        structlog.get_logger().exception("loop_failed")
    told = json.loads(capsys.readouterr().err)
    assert "ValueError" in told["exception"]
    assert "s3cret" not in told["exception"]
