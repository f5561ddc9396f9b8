"""Is a rate ever read faster than it was written? Rates, spans and sizes as owners write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.errors import ConfigurationError
from remora.core.quantities import (
    format_duration,
    format_exactly,
    format_rate,
    parse_duration,
    parse_rate,
    parse_size,
)
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

PERIODS = {"s": SECOND_NS, "min": MINUTE_NS, "h": HOUR_NS}


@pytest.mark.parametrize(
    "text, interval_ns",
    [
        ("240/min", 250 * MILLISECOND_NS),
        ("250/s", 4 * MILLISECOND_NS),
        ("5/h", 720 * SECOND_NS),
        ("0.5/s", 2 * SECOND_NS),
        ("4s", 4 * SECOND_NS),
        ("250ms", 250 * MILLISECOND_NS),
        (" 60 / min ", SECOND_NS),
        ("0.3333334ms", 333_334),  # an interval is rounded to the slower side, too
        ("1/day", DAY_NS),
    ],
)
def test_a_rate_is_read_as_the_interval_between_departures(text: str, interval_ns: int) -> None:
    assert parse_rate(text, "ceiling") == interval_ns


@given(count=st.integers(min_value=1, max_value=60_000), unit=st.sampled_from(sorted(PERIODS)))
def test_a_rate_is_never_read_faster_than_it_was_written(count: int, unit: str) -> None:
    interval_ns = parse_rate(f"{count}/{unit}", "ceiling")
    assert interval_ns * count >= PERIODS[unit]
    assert (interval_ns - 1) * count < PERIODS[unit]


@given(st.integers(min_value=1, max_value=DAY_NS))
def test_an_interval_written_back_is_read_as_the_same(interval_ns: int) -> None:
    assert parse_duration(format_exactly(interval_ns), "jitter_min") == interval_ns


@pytest.mark.parametrize(
    "wrong",
    ["0/s", "0s", "-5/s", "fast", "", "5", "5/", "/s", "5/fortnight", "1e3/s", "١/s", "nan/s", "9999999/s", "2d"],
)
def test_what_is_no_rate_is_refused_with_examples(wrong: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_rate(wrong, "sources.x.ceiling")
    assert "sources.x.ceiling" in refused.value.message
    assert '"240/min"' in refused.value.hint


@pytest.mark.parametrize("wrong", [250, 2.5, True, None, ["1/s"], "250", " 2.5 "])
def test_a_bare_number_has_no_unit(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="has no unit"):
        parse_rate(wrong, "ceiling")
    with pytest.raises(ConfigurationError, match="has no unit"):
        parse_duration(wrong, "timeout")


@pytest.mark.parametrize(
    "text, span_ns",
    [
        ("500ms", 500 * MILLISECOND_NS),
        ("90s", 90 * SECOND_NS),
        ("15m", 15 * MINUTE_NS),
        ("6h", 6 * HOUR_NS),
        ("3d", 3 * DAY_NS),
        ("0ms", 0),
        ("1.5h", 90 * MINUTE_NS),
    ],
)
def test_a_span_of_time_has_a_number_and_a_unit(text: str, span_ns: int) -> None:
    assert parse_duration(text, "timeout") == span_ns


@pytest.mark.parametrize("wrong", ["soon", "-1s", "10", "99999d", "1y"])
def test_what_is_no_span_of_time_is_refused_with_examples(wrong: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_duration(wrong, "timeout")
    assert '"90s"' in refused.value.hint


def test_a_size_has_a_number_and_a_unit() -> None:
    assert parse_size("16MiB", "body_max") == 16 << 20
    with pytest.raises(ConfigurationError, match="not a size"):
        parse_size("0MiB", "body_max")


@pytest.mark.parametrize(
    "per_second, text",
    [(250.0, "250/s"), (4.0, "4/s"), (0.5, "30/min"), (5 / 3600, "5/h"), (1 / 86_400, "1/d"), (0.0, "0/s")],
)
def test_a_rate_is_written_in_the_unit_a_person_would_choose(per_second: float, text: str) -> None:
    assert format_rate(per_second) == text


@given(st.integers(min_value=0, max_value=3_000 * DAY_NS))
def test_a_written_span_is_at_most_a_unit_shorter_than_the_span(span_ns: int) -> None:
    text = format_duration(span_ns)
    read_ns = sum(parse_duration(part, "x") for part in text.split())
    assert read_ns <= span_ns < read_ns * 1.05 + SECOND_NS
