"""Is everything that fails owed, and does nothing die of pressure? The table walked, and properties over whole lives."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.item import Item
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import (
    ATTEMPTS_BEFORE_DEAD,
    CLOCK_SLACK_NS,
    DEAD_LETTER_RETRY_NS,
    DOUBTED_FOR_NS,
    LOOKS_AT_A_NEW_ID,
    LOOKS_AT_AN_OLD_ID,
    NOT_BEFORE_MAX_NS,
    SCHEDULE,
    TRANSITIONS,
    YOUNG_FOR_NS,
    Gap,
    GapEvent,
    GapState,
    Listing,
    after,
    is_due,
    is_too_soon,
    moved,
    owed_reason,
    retry_delay_ns,
)
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

T0 = 1_767_700_800 * SECOND_NS
FOUND = Found(Item(item_id=7, body=b"{}"))
PLACEHOLDER = Found(Item(item_id=7, body=b"{}", delayed=True))
NULL = Missing(GapReason.NOT_FOUND)
GONE = Missing(GapReason.GONE)

verdicts: st.SearchStrategy[Verdict] = st.sampled_from(
    [
        FOUND,
        PLACEHOLDER,
        NotYet(),
        NULL,
        Missing(GapReason.GONE),
        Pressure(GapReason.RATE_LIMITED),
        Pressure(GapReason.UPSTREAM_PRESSURE, SECOND_NS),
        Trouble(GapReason.TIMEOUT),
        Trouble(GapReason.CONNECTION),
        Trouble(GapReason.SERVER_ERROR),
        Refused(GapReason.UNAUTHORIZED),
        Refused(GapReason.FORBIDDEN),
        Malformed(GapReason.MALFORMED),
        Malformed(GapReason.TOO_LARGE),
        Deferred(GapReason.MAX_FETCHES),
    ]
)
numbered = st.sampled_from([Kind.ITEM, Kind.USER])
kinds = st.sampled_from([Kind.ITEM, Kind.USER, Kind.DOCUMENT])
# Seconds between two answers; sometimes the clock steps back.
steps = st.one_of(st.integers(0, 100), st.integers(0, 8 * 86_400), st.integers(-7_200, -1))


def heard(gap: Gap | None, *answers: Verdict, kind: Kind = Kind.ITEM, now_ns: int = T0) -> Gap | None:
    for answer in answers:
        gap = after(gap, answer, kind=kind, key="7", now_ns=now_ns)
    return gap


def served(gap: Gap | None, *answers: Verdict, kind: Kind = Kind.ITEM, now_ns: int = T0) -> tuple[Gap, int]:
    """Each answer comes as soon as the gap is due, through a lease."""
    for answer in answers:
        if gap is not None:
            now_ns = max(now_ns, gap.not_before_ns)
            gap = moved(gap, GapEvent.LEASE) if (gap.state, GapEvent.LEASE) in TRANSITIONS else gap
        gap = after(gap, answer, kind=kind, key="7", now_ns=now_ns)
    assert gap is not None
    return gap, now_ns


@pytest.mark.parametrize("state, event", list(product(GapState, GapEvent)))
def test_every_pair_of_state_and_event_is_in_the_table_or_impossible(state: GapState, event: GapEvent) -> None:
    gap = Gap(Kind.ITEM, "7", state, GapReason.TIMEOUT, 1, 0, False, T0, T0, T0)
    if (state, event) in TRANSITIONS:
        assert moved(gap, event).state is TRANSITIONS[state, event]
        assert replace(moved(gap, event), state=state) == gap
    else:
        with pytest.raises(KeyError):
            moved(gap, event)


def test_a_find_settles_from_every_state_and_a_failure_never_hides_an_item() -> None:
    assert all(TRANSITIONS[state, GapEvent.FOUND] is GapState.SETTLED for state in GapState)
    assert all(TRANSITIONS[state, GapEvent.FAILED] is GapState.OWED for state in GapState)


@given(kinds, st.lists(st.tuples(verdicts, steps, st.booleans(), st.sampled_from(Listing)), max_size=40))
def test_whatever_is_answered_the_item_is_settled_owed_absent_gone_or_dead_and_comes_due(
    kind: Kind, life: list[tuple[Verdict, int, bool, Listing]]
) -> None:
    gap: Gap | None = None
    now_ns = T0
    for answer, step_s, is_served, listing in life:
        now_ns += step_s * SECOND_NS
        if is_served and gap is not None and gap.state in {GapState.OWED, GapState.DEAD}:
            gap = moved(gap, GapEvent.LEASE)
        gap = after(gap, answer, kind=kind, key="7", now_ns=now_ns, listing=listing)
        if gap is None:
            assert owed_reason(answer) is None
            continue
        assert gap.state is not GapState.LEASED
        assert (gap.state is GapState.SETTLED) or owed_reason(answer) is gap.reason
        assert gap.attempts >= 1
        assert gap.null_count >= 0
        assert gap.last_seen_ns == now_ns
        if gap.state in {GapState.OWED, GapState.DEAD}:
            assert now_ns <= gap.not_before_ns <= now_ns + DEAD_LETTER_RETRY_NS
            assert is_due(gap, now_ns=gap.not_before_ns)


@given(kinds, st.lists(st.tuples(verdicts, st.booleans()), max_size=60))
def test_pressure_faults_and_our_own_caps_never_make_or_keep_an_item_dead_or_absent(
    kind: Kind, life: list[tuple[Verdict, bool]]
) -> None:
    gap: Gap | None = None
    for number, (answer, is_served) in enumerate(life):
        if is_served and gap is not None and gap.state in {GapState.OWED, GapState.DEAD}:
            gap = moved(gap, GapEvent.LEASE)
        gap = after(gap, answer, kind=kind, key="7", now_ns=T0 + number * HOUR_NS)
        if gap is not None and isinstance(answer, Pressure | Trouble | Deferred | NotYet):
            assert gap.state is GapState.OWED
        if gap is not None and gap.state is GapState.DEAD:
            assert gap.reason.family is GapFamily.ITEM


@given(
    st.lists(st.tuples(st.sampled_from([NotYet(), NULL, Trouble(GapReason.TIMEOUT)]), st.integers(0, 600)), max_size=60)
)
def test_a_young_id_is_absent_only_after_enough_looks_an_hour_and_at_a_distance(
    life: list[tuple[Verdict, int]],
) -> None:
    gap = heard(None, NotYet())
    now_ns, looks = T0, 1
    for answer, step_s in life:
        now_ns += step_s * SECOND_NS
        gap = heard(gap, answer, now_ns=now_ns)
        looks += not isinstance(answer, Trouble)
        assert gap is not None
        if gap.state is GapState.ABSENT:
            assert answer == NULL  # a look from a distance, not one near the newest id
            assert looks >= LOOKS_AT_A_NEW_ID
            assert now_ns - T0 >= YOUNG_FOR_NS
            return


def test_a_young_id_that_stays_null_ends_absent_after_twelve_looks_and_an_hour() -> None:
    gap, now_ns = served(None, *[NotYet()] * (LOOKS_AT_A_NEW_ID - 1))
    assert gap.state is GapState.OWED
    gap, now_ns = served(gap, NULL, now_ns=now_ns)
    assert (gap.state is GapState.ABSENT) == (now_ns - T0 >= YOUNG_FOR_NS)
    gap, _ = served(gap, *[NULL] * 3, now_ns=now_ns)
    assert gap.state is GapState.ABSENT


def test_an_old_id_is_absent_after_three_looks_and_not_after_two() -> None:
    assert _state(heard(None, *[NULL] * (LOOKS_AT_AN_OLD_ID - 1))) is GapState.OWED
    assert _state(heard(None, *[NULL] * LOOKS_AT_AN_OLD_ID)) is GapState.ABSENT


def test_an_absent_item_that_appears_is_settled_and_one_that_fails_is_owed() -> None:
    absent = heard(None, *[NULL] * LOOKS_AT_AN_OLD_ID)
    assert _state(heard(absent, FOUND)) is GapState.SETTLED
    assert _state(heard(absent, Pressure(GapReason.RATE_LIMITED))) is GapState.OWED
    assert _state(heard(absent, NULL)) is GapState.ABSENT


def test_one_null_after_placeholders_does_not_make_an_item_absent() -> None:
    shown = heard(None, *[PLACEHOLDER] * 5)
    assert _state(heard(shown, NULL)) is GapState.OWED
    assert _state(heard(shown, *[NULL] * LOOKS_AT_AN_OLD_ID)) is GapState.ABSENT


def test_a_placeholder_refutes_the_nulls_before_it() -> None:
    gap = heard(None, NULL, NULL, PLACEHOLDER, NULL)
    assert _state(gap) is GapState.OWED
    assert gap is not None
    assert gap.null_count == 1


def test_a_placeholder_is_looked_at_again_and_settles_when_it_never_goes_away() -> None:
    assert _state(heard(None, PLACEHOLDER)) is GapState.OWED
    assert _state(heard(None, PLACEHOLDER, FOUND)) is GapState.SETTLED
    assert _state(heard(None, *[PLACEHOLDER] * (LOOKS_AT_A_NEW_ID - 1))) is GapState.OWED
    assert _state(heard(None, *[PLACEHOLDER] * LOOKS_AT_A_NEW_ID)) is GapState.SETTLED


def test_a_single_placeholder_after_many_nulls_does_not_settle_at_once() -> None:
    assert _state(heard(None, *[NotYet()] * 20, PLACEHOLDER)) is GapState.OWED


@pytest.mark.parametrize("answer", [Refused(GapReason.UNAUTHORIZED), Malformed(GapReason.MALFORMED)])
def test_one_items_refusals_end_dead_after_half_a_day_of_attempts_and_then_slowly_go_on(answer: Verdict) -> None:
    gap, now_ns = served(None, *[answer] * (ATTEMPTS_BEFORE_DEAD - 1))
    assert gap.state is GapState.OWED
    gap, now_ns = served(gap, answer, now_ns=now_ns)
    assert gap.state is GapState.DEAD
    assert now_ns - T0 >= 10 * HOUR_NS
    assert gap.not_before_ns == now_ns + DEAD_LETTER_RETRY_NS
    assert served(gap, FOUND)[0].state is GapState.SETTLED


def test_a_dead_item_that_meets_pressure_is_owed_and_asked_for_again_soon() -> None:
    dead, now_ns = served(None, *[Malformed(GapReason.MALFORMED)] * ATTEMPTS_BEFORE_DEAD)
    for gap in (dead, moved(dead, GapEvent.LEASE)):
        pressed = heard(gap, Pressure(GapReason.RATE_LIMITED), now_ns=now_ns)
        assert pressed is not None
        assert pressed.state is GapState.OWED
        assert pressed.not_before_ns <= now_ns + MINUTE_NS


def test_a_missing_document_that_its_list_still_shows_is_dead_only_after_a_full_walk_had_time_to_tell() -> None:
    gap, now_ns = served(None, NULL, kind=Kind.DOCUMENT)
    while gap.state is GapState.OWED:
        gap, now_ns = served(gap, NULL, kind=Kind.DOCUMENT, now_ns=now_ns)
    assert gap.state is GapState.DEAD
    assert gap.attempts >= ATTEMPTS_BEFORE_DEAD
    assert now_ns - T0 >= DOUBTED_FOR_NS


def test_a_missing_document_that_its_list_no_longer_shows_is_gone_at_once() -> None:
    assert _state(document_after(None, NULL, Listing.VANISHED)) is GapState.GONE
    assert _state(document_after(None, NULL, Listing.UNKNOWN)) is GapState.OWED
    assert _state(document_after(None, NULL, Listing.SHOWN_SINCE)) is GapState.OWED


def test_a_document_that_the_provider_calls_gone_is_gone_at_once() -> None:
    assert _state(document_after(None, GONE, Listing.UNKNOWN)) is GapState.GONE
    refused = [Refused(GapReason.FORBIDDEN)] * ATTEMPTS_BEFORE_DEAD
    assert _state(heard(None, *refused, GONE, kind=Kind.DOCUMENT)) is GapState.GONE


@pytest.mark.parametrize("kind", [Kind.ITEM, Kind.USER])
def test_a_numbered_item_that_the_provider_calls_gone_is_gone_after_three_looks(kind: Kind) -> None:
    assert _state(heard(None, *[GONE] * (LOOKS_AT_AN_OLD_ID - 1), kind=kind)) is GapState.OWED
    assert _state(heard(None, *[GONE] * LOOKS_AT_AN_OLD_ID, kind=kind)) is GapState.GONE
    assert _state(heard(None, *[NULL] * LOOKS_AT_AN_OLD_ID, GONE, kind=kind)) is GapState.GONE


def test_an_answer_that_is_older_than_what_the_list_showed_never_makes_a_document_gone() -> None:
    assert _state(document_after(None, GONE, Listing.SHOWN_SINCE)) is GapState.OWED


def test_what_is_gone_stays_gone_while_it_is_missing_and_is_owed_or_settled_by_anything_else() -> None:
    gone = heard(None, *[GONE] * LOOKS_AT_AN_OLD_ID)
    assert _state(heard(gone, *[NULL] * 5)) is GapState.GONE
    assert _state(heard(gone, FOUND)) is GapState.SETTLED
    assert _state(heard(gone, Trouble(GapReason.TIMEOUT))) is GapState.OWED
    assert _state(heard(gone, *[Refused(GapReason.FORBIDDEN)] * ATTEMPTS_BEFORE_DEAD)) is GapState.DEAD


@given(st.sampled_from([NULL, GONE]), st.sampled_from(Listing), st.sampled_from(GapState), st.integers(0, 40))
def test_a_document_is_gone_only_by_word_of_its_provider_or_its_list(
    answer: Missing, listing: Listing, state: GapState, attempts: int
) -> None:
    gap = Gap(Kind.DOCUMENT, "7", state, GapReason.NOT_FOUND, attempts, 0, False, T0, T0, T0)
    ended = after(gap, answer, kind=Kind.DOCUMENT, key="7", now_ns=T0, listing=listing)
    told = answer == GONE or listing is Listing.VANISHED or state is GapState.GONE
    assert (_state(ended) is GapState.GONE) == (told and listing is not Listing.SHOWN_SINCE)


def test_a_lease_is_not_an_attempt() -> None:
    gap = heard(None, Pressure(GapReason.RATE_LIMITED))
    assert gap is not None
    again = moved(moved(moved(gap, GapEvent.LEASE), GapEvent.RELEASE), GapEvent.LEASE)
    assert replace(again, state=gap.state) == gap


def test_attempts_are_counted_within_one_family_of_reasons() -> None:
    gap = heard(None, *[Refused(GapReason.FORBIDDEN)] * 3, Refused(GapReason.UNAUTHORIZED))
    assert gap is not None
    assert gap.attempts == 4
    gap = heard(gap, Trouble(GapReason.TIMEOUT))
    assert gap is not None
    assert gap.attempts == 1


def test_a_settled_gap_that_fails_again_starts_anew() -> None:
    settled = heard(None, *[Refused(GapReason.FORBIDDEN)] * 5, FOUND)
    again = heard(settled, Refused(GapReason.FORBIDDEN), now_ns=T0 + DAY_NS)
    assert again is not None
    assert (again.state, again.attempts, again.first_seen_ns) == (GapState.OWED, 1, T0 + DAY_NS)


def test_nothing_is_owed_for_what_was_found() -> None:
    assert heard(None, FOUND) is None


@given(st.sampled_from(GapReason), st.integers(1, 500))
def test_every_reason_has_a_schedule_that_never_shrinks_and_stays_below_the_longest_wait(
    reason: GapReason, attempts: int
) -> None:
    assert retry_delay_ns(reason, attempts) <= retry_delay_ns(reason, attempts + 1)
    assert 0 <= retry_delay_ns(reason, attempts) < NOT_BEFORE_MAX_NS
    assert set(SCHEDULE) == set(GapFamily)


@given(verdicts, st.integers(0, 400 * 86_400))
def test_a_clock_that_steps_back_parks_nothing_in_the_future(answer: Verdict, back_s: int) -> None:
    gap = heard(None, answer)
    if gap is None or gap.state is not GapState.OWED:
        return
    now_ns = T0 - back_s * SECOND_NS
    if back_s * SECOND_NS > CLOCK_SLACK_NS:
        assert is_due(gap, now_ns=now_ns)
    assert is_due(gap, now_ns=gap.not_before_ns)


def document_after(gap: Gap | None, answer: Verdict, listing: Listing) -> Gap | None:
    return after(gap, answer, kind=Kind.DOCUMENT, key="7", now_ns=T0, listing=listing)


def _state(gap: Gap | None) -> GapState | None:
    return None if gap is None else gap.state


@pytest.mark.parametrize("verdict", [NotYet(), Pressure(GapReason.RATE_LIMITED), Trouble(GapReason.TIMEOUT), NULL])
def test_a_process_waits_half_of_the_delay_by_its_own_clock_unless_somebody_replayed_the_gap(verdict: Verdict) -> None:
    gap = after(None, verdict, kind=Kind.ITEM, key="7", now_ns=T0)
    assert gap is not None
    half_ns = (gap.not_before_ns - T0) // 2
    assert is_too_soon(gap, asked_ago_ns=half_ns - 1)
    assert not is_too_soon(gap, asked_ago_ns=half_ns)
    assert not is_too_soon(replace(gap, not_before_ns=T0 + SECOND_NS), asked_ago_ns=0)


def test_what_has_no_delay_is_never_asked_for_too_soon() -> None:
    gap = after(None, Deferred(GapReason.MAX_FETCHES), kind=Kind.ITEM, key="7", now_ns=T0)
    assert gap is not None
    assert not is_too_soon(gap, asked_ago_ns=0)


def test_an_item_that_is_gone_stays_gone_whatever_a_list_says() -> None:
    gap: Gap | None = None
    for _ in range(LOOKS_AT_AN_OLD_ID):
        gap = after(gap, GONE, kind=Kind.ITEM, key="7", now_ns=T0)
    gap = after(gap, NULL, kind=Kind.ITEM, key="7", now_ns=T0, listing=Listing.SHOWN_SINCE)
    assert gap is not None
    assert gap.state is GapState.GONE
