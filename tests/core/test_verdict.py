"""What does each reply mean? Every fault, status and form of Retry-After, and what nobody expects."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Decoded, Item, Nothing, Readable, Unreadable, WrongShape
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS
from remora.core.verdict import (
    FAR_ABOVE_NEWEST_IDS,
    NEAR_NEWEST_IDS,
    RETRY_AFTER_MAX_NS,
    Deferred,
    Fault,
    Found,
    Malformed,
    Missing,
    NoReply,
    NotYet,
    Pressure,
    Refused,
    Reply,
    Trouble,
    Verdict,
    can_mean_absent,
    classify,
    has_content,
    parse_retry_after,
)

NOW_WALL_NS = 1_767_700_800 * SECOND_NS
ITEM = Item(item_id=1, body=b"{}")


def reply(status: int, **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=b"", departed_at_ns=0, answered_at_ns=1, headers=names)


def verdict(status: int, decoded: Decoded | None = None, behind: int | None = None, **headers: str) -> Verdict:
    return classify(reply(status, **headers), decoded, behind_newest=behind, now_wall_ns=NOW_WALL_NS)


def http_date(wall_ns: int) -> str:
    return format_datetime(datetime.fromtimestamp(wall_ns // SECOND_NS, UTC), usegmt=True)


@pytest.mark.parametrize(
    "fault, expected",
    [
        (Fault.TIMEOUT, Trouble(GapReason.TIMEOUT)),
        (Fault.CONNECTION, Trouble(GapReason.CONNECTION)),
        (Fault.BAD_ENCODING, Malformed(GapReason.MALFORMED)),
        (Fault.FAILED, Malformed(GapReason.MALFORMED)),
        (Fault.TOO_LARGE, Malformed(GapReason.TOO_LARGE)),
        (Fault.EXHAUSTED, Deferred(GapReason.CONNECTION)),
    ],
)
def test_every_fault_has_its_verdict(fault: Fault, expected: Verdict) -> None:
    assert classify(NoReply(fault, None, 1), None, behind_newest=None, now_wall_ns=NOW_WALL_NS) == expected
    assert not has_content(NoReply(fault, None, 1))


@pytest.mark.parametrize(
    "decoded, behind, expected",
    [
        (Readable(ITEM), None, Found(ITEM)),
        (Nothing(), None, Missing(GapReason.NOT_FOUND)),
        (Nothing(), 0, NotYet()),
        (Nothing(), -3, NotYet()),
        (Nothing(), NEAR_NEWEST_IDS - 1, NotYet()),
        (Nothing(), NEAR_NEWEST_IDS, Missing(GapReason.NOT_FOUND)),
        (Nothing(), -FAR_ABOVE_NEWEST_IDS, NotYet()),
        (Nothing(), -FAR_ABOVE_NEWEST_IDS - 1, Missing(GapReason.NOT_FOUND)),
        (Unreadable("cut off"), 0, Malformed(GapReason.MALFORMED)),
        (WrongShape("another id"), 0, Malformed(GapReason.MALFORMED)),
    ],
)
def test_a_body_is_judged_by_what_it_holds_and_a_null_by_its_distance(
    decoded: Decoded, behind: int | None, expected: Verdict
) -> None:
    assert verdict(200, decoded, behind) == expected


@pytest.mark.parametrize(
    "status, expected",
    [
        (401, Refused(GapReason.UNAUTHORIZED)),
        (403, Refused(GapReason.FORBIDDEN)),
        (400, Refused(GapReason.FORBIDDEN)),
        (404, Missing(GapReason.NOT_FOUND)),
        (407, Trouble(GapReason.CONNECTION)),
        (408, Trouble(GapReason.TIMEOUT)),
        (410, Missing(GapReason.GONE)),
        (413, Malformed(GapReason.TOO_LARGE)),
        (429, Pressure(GapReason.RATE_LIMITED)),
        (500, Trouble(GapReason.SERVER_ERROR)),
        (502, Trouble(GapReason.SERVER_ERROR)),
        (503, Trouble(GapReason.SERVER_ERROR)),
        (301, Malformed(GapReason.MOVED)),
        (304, Malformed(GapReason.MALFORMED)),
        (307, Malformed(GapReason.MOVED)),
        (204, Malformed(GapReason.MALFORMED)),
        (999, Trouble(GapReason.SERVER_ERROR)),
    ],
)
def test_statuses_without_a_hint(status: int, expected: Verdict) -> None:
    assert verdict(status) == expected


@pytest.mark.parametrize(
    "reply, decoded, reason",
    [
        (Reply(204, b"", 0, 1), None, None),
        (Reply(304, b"", 0, 1), None, None),
        (Reply(302, b"", 0, 1), None, GapReason.MOVED),
        (Reply(200, b"<html>", 0, 1), Unreadable("not JSON"), None),
        (NoReply(Fault.BAD_ENCODING, 0, 1), None, None),
    ],
    ids=["no content", "not modified", "redirect", "not JSON", "wrong encoding"],
)
def test_nonsense_is_the_items_own_and_trouble_where_nothing_else_can_be_asked_for(
    reply: Reply | NoReply, decoded: Decoded | None, reason: GapReason | None
) -> None:
    def judged(*, is_one_of_many: bool) -> Verdict:
        return classify(reply, decoded, behind_newest=None, now_wall_ns=NOW_WALL_NS, is_one_of_many=is_one_of_many)

    assert judged(is_one_of_many=True) == Malformed(reason or GapReason.MALFORMED)
    assert judged(is_one_of_many=False) == Trouble(reason or GapReason.SERVER_ERROR)


@pytest.mark.parametrize("status", [403, 500, 502, 503, 504])
def test_a_refusal_that_names_a_wait_is_pressure(status: int) -> None:
    answer = verdict(status, retry_after="7")
    assert isinstance(answer, Pressure)
    assert answer.retry_after_ns == 7 * SECOND_NS
    assert answer.reason.family is GapFamily.PRESSURE


@pytest.mark.parametrize("status", [401, 404, 410, 413])
def test_one_items_own_refusal_stays_its_own_even_with_a_hint(status: int) -> None:
    assert not isinstance(verdict(status, retry_after="7"), Pressure)


def test_a_missing_page_near_the_newest_id_is_not_yet() -> None:
    assert verdict(404, behind=3) == NotYet()
    assert verdict(404, behind=NEAR_NEWEST_IDS) == Missing(GapReason.NOT_FOUND)


def test_what_the_provider_calls_gone_is_gone_however_new_its_id_is() -> None:
    assert verdict(410, behind=3) == verdict(410, behind=NEAR_NEWEST_IDS) == Missing(GapReason.GONE)


@given(st.integers(100, 999), st.text(max_size=30), st.text(max_size=30))
def test_no_status_and_no_header_is_ever_too_strange(status: int, retry_after: str, date: str) -> None:
    answer = verdict(status, Readable(ITEM), None, retry_after=retry_after, date=date)
    if status == 429:
        assert isinstance(answer, Pressure)
    if isinstance(answer, Pressure) and answer.retry_after_ns is not None:
        assert 0 <= answer.retry_after_ns <= RETRY_AFTER_MAX_NS


@pytest.mark.parametrize(
    "text, wait_ns",
    [
        ("0", 0),
        ("1", SECOND_NS),
        (" 120 ", 120 * SECOND_NS),
        ("+3", 3 * SECOND_NS),
        ("0.25", 250 * MILLISECOND_NS),
        ("1.", SECOND_NS),
        (".5", 500 * MILLISECOND_NS),
        ("0.29", 290 * MILLISECOND_NS),
        ("-5", 0),
        ("2592000", 30 * DAY_NS),
        ("99999999999", RETRY_AFTER_MAX_NS),
        ("9" * 400, RETRY_AFTER_MAX_NS),
        ("", None),
        ("   ", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1_000", None),
        ("1e3", None),
        ("5 minutes", None),
        ("٣", None),
        ("0x10", None),
    ],
)
def test_a_wait_in_seconds_is_read_exactly_or_not_at_all(text: str, wait_ns: int | None) -> None:
    assert parse_retry_after({"retry-after": text}, now_wall_ns=NOW_WALL_NS) == wait_ns


@given(st.decimals(min_value=0, max_value=86_400, places=3))
def test_a_wait_is_never_shorter_than_it_was_asked_for(seconds: object) -> None:
    wait_ns = parse_retry_after({"retry-after": str(seconds)}, now_wall_ns=NOW_WALL_NS)
    assert wait_ns is not None
    assert 0 <= wait_ns - round(float(str(seconds)) * 1_000) * MILLISECOND_NS <= 1_000


@pytest.mark.parametrize("skew_ns", [0, -HOUR_NS, HOUR_NS, 400 * DAY_NS])
def test_a_date_is_measured_on_the_providers_own_clock_where_it_tells_it(skew_ns: int) -> None:
    provider_ns = NOW_WALL_NS + skew_ns
    headers = {"retry-after": http_date(provider_ns + 90 * SECOND_NS), "date": http_date(provider_ns)}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == 90 * SECOND_NS


@pytest.mark.parametrize("date", ["", "yesterday", "Thu, 99 Foo 2026 99:99:99 GMT"])
def test_without_a_readable_date_of_the_provider_our_own_clock_must_do(date: str) -> None:
    headers = {"retry-after": http_date(NOW_WALL_NS + 90 * SECOND_NS), "date": date}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == 90 * SECOND_NS


def test_a_date_in_the_past_is_a_hint_without_a_wait() -> None:
    headers = {"retry-after": http_date(NOW_WALL_NS - HOUR_NS)}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == 0
    assert verdict(503, retry_after=headers["retry-after"]) == Pressure(GapReason.UPSTREAM_PRESSURE, 0)


@pytest.mark.parametrize("units_per_s", [1, 1_000], ids=["seconds", "milliseconds"])
def test_a_moment_since_1970_is_no_wait_of_fifty_years(units_per_s: int) -> None:
    moment_s = NOW_WALL_NS // SECOND_NS
    headers = {"retry-after": str((moment_s + 90) * units_per_s), "date": http_date(moment_s * SECOND_NS)}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == 90 * SECOND_NS
    headers = {"retry-after": str((moment_s - 90) * units_per_s)}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == 0


@pytest.mark.parametrize("name", ["retry-after-ms", "x-ms-retry-after-ms"])
def test_a_wait_in_milliseconds_has_a_header_of_its_own(name: str) -> None:
    assert parse_retry_after({name: "2500"}, now_wall_ns=NOW_WALL_NS) == 2_500 * MILLISECOND_NS
    assert parse_retry_after({name: "soon"}, now_wall_ns=NOW_WALL_NS) is None
    assert parse_retry_after({name: "9" * 400}, now_wall_ns=NOW_WALL_NS) == RETRY_AFTER_MAX_NS


def test_the_longer_of_two_waits_is_kept() -> None:
    both = {"retry-after": "3", "retry-after-ms": "2500"}
    assert parse_retry_after(both, now_wall_ns=NOW_WALL_NS) == 3 * SECOND_NS
    assert parse_retry_after(both | {"retry-after-ms": "3500"}, now_wall_ns=NOW_WALL_NS) == 3_500 * MILLISECOND_NS


def test_a_date_far_in_the_future_is_bounded() -> None:
    headers = {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}
    assert parse_retry_after(headers, now_wall_ns=NOW_WALL_NS) == RETRY_AFTER_MAX_NS


@pytest.mark.parametrize(
    "text",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
)
def test_all_three_forms_of_an_http_date_are_understood(text: str) -> None:
    moment_ns = int(datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC).timestamp()) * SECOND_NS
    assert parse_retry_after({"retry-after": text}, now_wall_ns=moment_ns - 5 * SECOND_NS) == 5 * SECOND_NS


@pytest.mark.parametrize(
    "status, expected",
    [(400, True), (404, True), (410, True), (499, True), (399, False), (500, False)]
    + [(status, False) for status in (401, 407, 408, 429)],
)
def test_an_owner_may_declare_a_status_as_absent_unless_it_means_something_else(status: int, expected: bool) -> None:
    assert can_mean_absent(status) is expected


def test_a_body_that_was_not_decoded_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="must be decoded"):
        verdict(200)


@pytest.mark.parametrize(
    "content_range, is_whole",
    [
        ("0-24/3573458", True),
        ("25-49/*", True),
        ("items 0-24/100", True),
        ("bytes 0-499/2000", False),
        ("Bytes 0-499/2000", False),
        ("*/100", True),
        ("items */100", True),
        ("bytes */100", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_a_206_is_a_page_of_a_list_if_it_says_which_entries_it_holds(content_range: str, is_whole: bool) -> None:
    reply = Reply(206, b"[]", 0, 1, {"content-range": content_range})
    assert has_content(reply, is_page=True) is is_whole
    assert not has_content(reply), "an item or a document is never a part of something"


@pytest.mark.parametrize("status", [409, 412, 423, 425])
def test_a_thing_that_is_locked_for_a_while_does_not_hold_up_the_others(status: int) -> None:
    assert verdict(status, retry_after="3600") == Refused(GapReason.FORBIDDEN)


@pytest.mark.parametrize("status", [400, 406, 420, 430])
def test_a_refusal_that_names_a_wait_asks_for_less_whatever_its_status(status: int) -> None:
    assert verdict(status, retry_after="4") == Pressure(GapReason.RATE_LIMITED, 4 * SECOND_NS)
    assert verdict(status) == Refused(GapReason.FORBIDDEN)
