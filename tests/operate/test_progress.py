"""Does a long job show itself honestly? The rate is unknown until it is known, and lines come at a bounded pace."""

import io
import json

import msgspec
import pytest
import structlog
from rich.console import Console

from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, RateFacts, Recent
from remora.core.units import SECOND_NS
from remora.operate.cli.terminal import TerminalView
from remora.operate.jobs.progress import JsonView, PlainView, Progress, ServiceView, eta_s, in_words, is_learning

HALF = Progress(
    source="hackernews",
    done=5_000,
    total=10_000,
    gaps=3,
    rate_per_second=250.0,
    ceiling_per_second=250.0,
    limited_by="ceiling",
)


def test_progress_reads_as_one_line() -> None:
    told = "hackernews 5,000 of 10,000 (50%), 250/s of at most 250/s (limited by ceiling), 3 gaps, 20s left"
    assert in_words(HALF) == told


def test_only_what_is_whole_is_called_a_hundred_percent() -> None:
    assert "(99%)" in in_words(msgspec.structs.replace(HALF, done=9_999))
    assert "(100%)" in in_words(msgspec.structs.replace(HALF, done=10_000))


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    assert in_words(Progress(source="x", done=3)) == "x 3, rate unknown"
    assert eta_s(Progress(source="x", done=3, total=10, rate_per_second=0.0)) is None


def test_while_the_pace_is_being_learned_no_time_left_is_told() -> None:
    cold = msgspec.structs.replace(HALF, rate_per_second=1.0, is_learning=True)
    assert in_words(cold).endswith("3 gaps, learning the pace")
    assert eta_s(cold) is None


@pytest.mark.parametrize(
    "rate_per_second, pace_per_second, edge_per_second, elapsed_s, learning",
    [
        (1.0, 1.0, None, 3.0, True),
        (1.0, 1.0, None, 61.0, False),  # as fast as it gets, whatever the reason
        (250.0, 250.0, None, 3.0, False),  # at the ceiling
        (75.0, 75.0, 150.0, 3.0, False),  # refused once: the pace stays near that
        (4.0, 75.0, 150.0, 30.0, True),  # the pace is found, the measured rate still remembers the slow beginning
    ],
)
def test_a_pace_is_learned_until_something_holds_it_or_time_has_passed(
    rate_per_second: float, pace_per_second: float, edge_per_second: float | None, elapsed_s: float, learning: bool
) -> None:
    rate = RateFacts(
        interval_ns=int(SECOND_NS / pace_per_second),
        ceiling_interval_ns=SECOND_NS // 250,
        limited_by=LimitedBy.PACE,
        circuit=CircuitState.CLOSED,
        edge_per_s=edge_per_second,
        recent=Recent(int(rate_per_second * 10), 0, 0, 0, 10 * SECOND_NS),
    )
    assert is_learning(rate, elapsed_s=elapsed_s) is learning


def test_plain_lines_come_at_a_bounded_pace_and_the_last_one_always() -> None:
    out, now = io.StringIO(), [0.0]
    view = PlainView(out, monotonic_s=lambda: now[0])
    for done in range(100):
        now[0] = done / 10
        view.show(Progress(source="x", done=done))
    view.close()
    view.close()
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == ["x 0", "x 50", "x 99"]


def test_machines_get_one_json_object_per_line() -> None:
    out = io.StringIO()
    view = JsonView(out, monotonic_s=lambda: 0.0)
    view.say("starting")
    view.show(HALF)
    view.close()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["note", "progress"]
    assert (lines[1]["done"], lines[1]["eta_s"]) == (5_000, 20.0)


@pytest.mark.parametrize("progress", [HALF, Progress(source="x", done=1)])
def test_a_terminal_shows_a_bar_with_the_rate_and_the_ceiling(progress: Progress) -> None:
    out = io.StringIO()
    view = TerminalView(Console(file=out, force_terminal=True, width=160))
    view.show(progress)
    view.close()
    assert progress.source in out.getvalue()
    assert ("of at most 250/s" in out.getvalue()) is (progress is HALF)


def test_on_a_narrow_terminal_the_counts_are_not_cut_off() -> None:
    out = io.StringIO()
    view = TerminalView(Console(file=out, force_terminal=True, width=80))
    large = {"done": 27_936_641, "total": 48_212_640, "gaps": 1_234, "is_learning": True}
    view.show(msgspec.structs.replace(HALF, source="hackernews", **large))
    view.close()
    assert "27936641/48212640" in out.getvalue()
    assert "learning the pace" in out.getvalue()
    assert "…" not in out.getvalue()


def test_a_service_without_a_terminal_logs_its_backfill_once_a_minute_and_is_silent_afterwards() -> None:
    now_s = [0]
    view = ServiceView(monotonic_s=lambda: now_s[0])
    assert HALF.total is not None
    complete = msgspec.structs.replace(HALF, done=HALF.total, gaps=7)
    with structlog.testing.capture_logs() as told:
        for _ in range(30):
            view.show(HALF)
            now_s[0] += 5
        for _ in range(1_000):
            view.show(complete)
            now_s[0] += 5
            view.show(HALF)  # a new item is pending for a moment
        view.show(complete)
        view.close()
    assert [event["done"] for event in told] == [HALF.done] * 2 + [HALF.total]
    assert {event["event"] for event in told} == {"backfill_progress"}
