"""Is the newer of two marks always found, whatever the source writes them as?"""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.marks import compare, is_from, is_newer, is_written_otherwise, may_be_newer, newest, rank

NUMBERS = st.one_of(st.integers().map(str), st.decimals(allow_nan=False, allow_infinity=False, places=6).map(str))
# hypothesis wants its bounds without a zone.
EARLIEST, LATEST = (datetime.fromisoformat(day) for day in ("0001-01-03", "9999-12-29"))
DATES = st.datetimes(EARLIEST, LATEST, timezones=st.just(UTC)).map(datetime.isoformat)
MARKS = st.one_of(NUMBERS, DATES, st.text(max_size=40))


@given(MARKS)
def test_a_mark_is_not_newer_than_itself(mark: str) -> None:
    assert compare(mark, mark) == 0
    assert not is_newer(mark, mark)


@given(MARKS, MARKS)
def test_of_two_marks_at_most_one_is_newer(left: str, right: str) -> None:
    assert compare(left, right) == -compare(right, left)


@pytest.mark.parametrize("marks", [NUMBERS, DATES, st.text(alphabet="xyz", max_size=4)])
@given(data=st.data())
def test_marks_of_one_way_of_writing_have_one_order(marks: st.SearchStrategy[str], data: st.DataObject) -> None:
    first, second, third = (data.draw(marks) for _ in range(3))
    if compare(first, second) <= 0 and compare(second, third) <= 0:
        assert compare(first, third) <= 0


@given(st.integers(), st.integers())
def test_numbers_are_compared_as_numbers(left: int, right: int) -> None:
    assert is_newer(str(left), str(right)) == (left > right)


@given(st.datetimes(EARLIEST, LATEST), st.integers(-23, 23))
def test_one_moment_written_in_two_zones_is_the_same_mark(moment: datetime, hours: int) -> None:
    here = moment.replace(tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=hours)))
    assert compare(here.isoformat(), there.isoformat()) == 0


@given(st.lists(st.one_of(st.none(), NUMBERS), max_size=8))
def test_the_newest_of_some_marks_is_one_of_them_and_none_is_newer(marks: list[str | None]) -> None:
    best = newest(*marks)
    assert best in marks or (best is None and set(marks) <= {None})
    assert not any(is_newer(mark, best) for mark in marks)


@given(st.lists(NUMBERS, min_size=2, max_size=6))
def test_ranks_never_contradict_the_order(marks: list[str]) -> None:
    for left, right in pairwise(marks):
        left_rank, right_rank = rank(left), rank(right)
        assert left_rank is not None
        assert right_rank is not None
        assert not (is_newer(left, right) and left_rank < right_rank)


@given(st.text(max_size=60))
def test_any_text_can_be_ranked(mark: str) -> None:
    ranked = rank(mark)
    assert ranked is None or -1e300 <= ranked <= 1e300


@pytest.mark.parametrize(
    "older, newer",
    [
        ("9", "10"),
        ("9", "9.5"),
        ("1e3", "1001"),
        ("-2", "-1"),
        ("1790000000.123456788", "1790000000.123456789"),
        ("2026-01-01", "2026-01-02"),
        ("2026-01-01T11:00:00+02:00", "2026-01-01T10:00:00Z"),
        ("2026-01-01T10:00:00", "2026-01-01T10:00:01Z"),
        ("2026-01-01T10:00:00.123456788Z", "2026-01-01T10:00:00.123456789Z"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00.5Z"),
        ("2026-9-30", "2026-10-1"),
        ("2026-9-30", "2026-09-30T00:00:01Z"),
        ("2026-1-1 9:05:00", "2026-1-1 10:05:00"),
        ("2026-1-1T9:05:00.5Z", "2026-1-1T9:05:00.75Z"),
        ("v9", "va"),
        ("10", "v1"),
    ],
)
def test_examples_of_older_and_newer(older: str, newer: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "nearly", [":00.0" * 40_000 + "\n", "2026-01-01T10:00:00." + "0:00." * 40_000, ":00 AM" * 40_000]
)
def test_a_long_text_that_nearly_is_a_date_is_text_at_once(nearly: str) -> None:
    """It took a minute, in which nothing else ran."""
    assert rank(nearly) is None
    assert is_newer("zzz", nearly)


@pytest.mark.parametrize("odd", ["nan", "inf", "1_000", "1e9999", "١٢", "", "2026-13-45", "+", "0x10"])
def test_what_only_looks_like_a_number_or_a_date_is_text(odd: str) -> None:
    assert rank(odd) is None
    assert compare(odd, "zzz") == (odd > "zzz") - (odd < "zzz")


WAYS = ("1790000000", "1790000000000", "1790000000000000", "1790000000000000000", "2026-09-21T14:13:20Z")


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_dates_seconds_and_smaller_units_are_ways_to_write_a_time(first: str, second: str) -> None:
    assert is_written_otherwise(first, second) is (first != second)


@pytest.mark.parametrize(
    "first, second",
    [("1790000000", "1790000000.5"), ("7", "1790000000"), ("v2", "2026-09-21"), (None, "7"), ("7", None)],
)
def test_marks_that_may_be_written_in_one_way_are_not_called_written_otherwise(
    first: str | None, second: str | None
) -> None:
    assert not is_written_otherwise(first, second)


@pytest.mark.parametrize("older, newer", [("f3a9", "1b22"), ("9/30/2026", "10/1/2026"), ("v2", "2026-09-21")])
def test_of_two_texts_that_differ_each_may_be_newer(older: str, newer: str) -> None:
    assert may_be_newer(newer, older)
    assert may_be_newer(older, newer)
    assert not may_be_newer(newer, newer)


@given(NUMBERS, NUMBERS)
def test_of_two_numbers_the_newer_one_or_one_in_other_units_may_be_newer(left: str, right: str) -> None:
    assert may_be_newer(left, right) == (is_newer(left, right) or is_written_otherwise(left, right))


def test_a_mark_may_be_newer_than_none_and_none_is_newer_than_no_mark() -> None:
    assert may_be_newer("a", None)
    assert not may_be_newer(None, "a")
    assert not may_be_newer(None, None)


def test_no_mark_is_older_than_any_mark() -> None:
    assert is_newer("0", None)
    assert not is_newer(None, "0")
    assert not is_newer(None, None)


def test_a_mark_in_smaller_units_is_the_same_time_as_one_in_seconds() -> None:
    assert is_from("1700000000000", 1_700_000_000)
    assert is_from("1700000000", 1_700_000_000)
    assert not is_from("1700000000000", 1_700_000_001)
    assert is_from("1700000000000000", 1_700_000_000)
    assert not is_from("1700000000999999", 1_700_000_001)
    assert is_from("1700000000000000000", 1_700_000_000)
    assert not is_from("1700000000999000000", 1_700_000_001)
    assert not is_from("1700000000", 1_700_000_001)


WITH_NAMES = (
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S +0000 %Y",
    "%d %b %Y %H:%M:%S +0000",
    "%a, %d %b %Y %I:%M:%S %p",
    "%A, %B %d, %Y %I:%M:%S%p GMT",
)


@pytest.mark.parametrize("form", WITH_NAMES)
@given(st.data())
def test_dates_with_names_are_compared_as_times(form: str, data: st.DataObject) -> None:
    moments = st.datetimes(datetime.fromisoformat("1970-01-02"), datetime.fromisoformat("2067-12-31"))
    left, right = (data.draw(moments).replace(microsecond=0) for _ in range(2))
    assert is_newer(left.strftime(form), right.strftime(form)) == (left > right)
    assert compare(left.strftime(form), left.replace(tzinfo=UTC).isoformat()) == 0


def test_an_offset_behind_the_name_of_a_zone_counts() -> None:
    summer = "Sun Oct 25 2026 02:30:00 GMT+0200 (Central European Summer Time)"
    winter = "Sun Oct 25 2026 02:10:00 GMT+0100 (Central European Standard Time)"
    assert is_newer(winter, summer)
    assert compare(summer, "2026-10-25T00:30:00Z") == 0


@pytest.mark.parametrize(
    "mark", ["Mon, 99 Jan 2026 10:00:00 GMT", "Monday comes before Tuesday", "Tue, 1 Jan 99999999 1:1:1 Z"]
)
def test_what_only_looks_like_a_date_is_text(mark: str) -> None:
    assert rank(mark) is None
