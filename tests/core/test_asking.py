"""How often is one thing asked for, and when is a refusal the key's own and no news about the provider?"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Newest
from remora.core.lanes import Lane
from remora.core.ledger.asking import (
    ANSWERS_REMEMBERED,
    ITEM,
    KEYS_REMEMBERED,
    LISTED,
    ONCE,
    REQUEST_TIME_MAX_NS,
    RETRY_DELAYS_NS,
    AskPolicy,
    Refusals,
)
from remora.core.ledger.discovery import Discovery, FromGap
from remora.core.reasons import GapReason
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

GOOD = Found(Newest(1))
PRESSED = Pressure(GapReason.RATE_LIMITED)
BROKEN = Trouble(GapReason.SERVER_ERROR)
FINAL = (
    GOOD,
    NotYet(),
    Missing(GapReason.NOT_FOUND),
    Refused(GapReason.FORBIDDEN),
    Malformed(GapReason.MALFORMED),
    Deferred(GapReason.MAX_FETCHES),
)


def item(item_id: int, *, owed: GapReason | None = None) -> Discovery:
    return Discovery.item(item_id, via=Lane.DETAIL, origin=None if owed is None else FromGap("one", owed))


def heard(refusals: Refusals, *answers: tuple[int, Verdict]) -> list[bool]:
    return [refusals.hear(item(item_id), verdict) for item_id, verdict in answers]


@pytest.mark.parametrize("policy", [ITEM, LISTED, ONCE])
def test_a_fault_is_repeated_after_each_delay_of_the_policy_and_then_no_more(policy: AskPolicy) -> None:
    delays = [policy.delay_ns(BROKEN, requests=requests, taken_ns=0) for requests in range(1, 6)]
    assert delays == [*policy.retry_delays_ns, *[None] * (5 - len(policy.retry_delays_ns))]


@pytest.mark.parametrize("policy", [ITEM, LISTED, ONCE])
@pytest.mark.parametrize("verdict", FINAL)
def test_an_answer_that_would_be_the_same_in_a_moment_is_never_repeated(policy: AskPolicy, verdict: Verdict) -> None:
    assert policy.delay_ns(verdict, requests=1, taken_ns=0) is None


def test_pressure_is_repeated_only_where_nobody_else_could_be_asked_instead() -> None:
    assert ITEM.delay_ns(PRESSED, requests=1, taken_ns=0) == RETRY_DELAYS_NS[0]
    assert LISTED.delay_ns(PRESSED, requests=1, taken_ns=0) is None


def test_an_item_whose_requests_took_long_is_not_repeated_unless_a_run_bounds_the_time() -> None:
    assert ITEM.delay_ns(BROKEN, requests=1, taken_ns=REQUEST_TIME_MAX_NS - 1) is not None
    assert ITEM.delay_ns(BROKEN, requests=1, taken_ns=REQUEST_TIME_MAX_NS) is None
    assert LISTED.delay_ns(BROKEN, requests=1, taken_ns=REQUEST_TIME_MAX_NS) is not None


def test_a_run_may_repeat_100_requests_and_one_in_ten_of_a_long_one() -> None:
    assert LISTED.covers_retry(retries=99, requests=0)
    assert not LISTED.covers_retry(retries=100, requests=9)
    assert LISTED.covers_retry(retries=100, requests=10)
    assert not LISTED.covers_retry(retries=101, requests=10)
    assert ITEM.covers_retry(retries=1_000_000, requests=0)


def test_the_first_refusal_of_a_key_is_news_and_the_next_one_is_not_while_others_are_answered() -> None:
    assert heard(Refusals(), (1, PRESSED), (2, GOOD), (1, PRESSED), (3, GOOD), (1, PRESSED)) == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_second_refusal_in_a_row_is_news_also_for_a_key_that_was_refused_before() -> None:
    assert heard(Refusals(), (1, PRESSED), (1, PRESSED), (2, GOOD), (1, PRESSED), (1, PRESSED))[1:] == [
        False,
        False,
        True,
        False,
    ]


def test_refusals_of_different_keys_are_the_providers_until_many_answers_lie_between() -> None:
    refusals = Refusals()
    heard(refusals, (1, PRESSED), (2, GOOD), (3, PRESSED))
    assert heard(refusals, *[(2, GOOD)] * (ANSWERS_REMEMBERED - 1), (1, PRESSED))[-1] is False
    refusals = Refusals()
    heard(refusals, (1, PRESSED), (2, GOOD), (3, PRESSED))
    assert heard(refusals, *[(2, GOOD)] * ANSWERS_REMEMBERED, (1, PRESSED))[-1] is True


def test_a_gap_remembers_its_refusal_for_the_next_process() -> None:
    assert Refusals().hear(item(1, owed=GapReason.RATE_LIMITED), PRESSED) is True
    assert Refusals().hear(item(1, owed=GapReason.UPSTREAM_PRESSURE), PRESSED) is True
    assert Refusals().hear(item(1, owed=GapReason.NOT_FOUND), PRESSED) is False
    assert Refusals().hear(item(1), PRESSED) is False


def test_a_key_that_was_answered_is_an_ordinary_key_again() -> None:
    assert heard(Refusals(), (1, PRESSED), (2, GOOD), (1, GOOD), (1, PRESSED))[-1] is False


def test_a_fault_is_neither_a_refusal_nor_a_good_answer() -> None:
    assert heard(Refusals(), (1, PRESSED), (2, BROKEN), (1, PRESSED)) == [False, False, False]
    assert heard(Refusals(), (1, PRESSED), (2, GOOD), (2, BROKEN), (1, PRESSED))[-1] is True


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([GOOD, PRESSED])), max_size=60))
def test_of_two_refusals_without_a_good_answer_between_them_one_is_always_news(
    answers: list[tuple[int, Verdict]],
) -> None:
    said = heard(Refusals(), *answers)
    for nth, (first, second) in enumerate(itertools.pairwise(answers)):
        if first[1] is PRESSED and second[1] is PRESSED:
            assert not said[nth + 1]


def test_no_more_keys_are_remembered_than_a_bound() -> None:
    refusals = Refusals()
    heard(refusals, *[(number, PRESSED) for number in range(KEYS_REMEMBERED + 1)])
    heard(refusals, *[(-1, GOOD)] * ANSWERS_REMEMBERED)
    assert heard(refusals, (0, PRESSED), (-1, GOOD)) == [False, False], "the oldest one was forgotten"
    heard(refusals, *[(-1, GOOD)] * ANSWERS_REMEMBERED)
    assert heard(refusals, (KEYS_REMEMBERED, PRESSED)) == [True]
