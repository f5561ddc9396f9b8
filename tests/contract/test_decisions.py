"""Do the decisions that all stores share hold for any order of arrival?"""

from collections.abc import Sequence
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import Observation, Outcome
from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.gap import Gap, GapState
from remora.core.verdict import Found, Verdict
from remora.stores.decisions import (
    Decision,
    Held,
    RecentFetches,
    clean_integer,
    decide,
    new_item,
    settled_item,
    unplanned,
)
from tests.contract.answers import MISSING, REFUSED, TIMEOUT, at, observed, story

VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(
    [TIMEOUT, MISSING, REFUSED, *(Found(story(1, text=text, score=score)) for text in "abc" for score in (1, 2))]
)
RANGES = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: IdRange(pair[0], pair[0] + pair[1]))


def arrivals(draw: st.DrawFn) -> list[Observation]:
    """Answers to fetches that left one after the other and came back in any order."""
    verdicts = draw(st.lists(VERDICTS, min_size=1, max_size=12))
    answers = [observed(1, verdict, started_s=moment, done_s=100) for moment, verdict in enumerate(verdicts)]
    return draw(st.permutations(answers))


def recorded(answers: Sequence[Observation]) -> tuple[list[Outcome], list[Held | None], Gap | None]:
    held: Held | None = None
    gap: Gap | None = None
    outcomes: list[Outcome] = []
    history: list[Held | None] = []
    for answer in answers:
        decision = decide(answer, gap_key="1", held=held, gap=gap)
        held, gap = decision.held, decision.gap or gap
        outcomes.append(decision.outcome)
        history.append(held)
    return outcomes, history, gap


@given(st.composite(arrivals)())
def test_the_body_that_is_held_in_the_end_is_that_of_the_latest_departure(answers: list[Observation]) -> None:
    found = [answer for answer in answers if isinstance(answer.verdict, Found)]
    _, history, _ = recorded(answers)
    latest = max(found, key=lambda answer: answer.started_at_ns, default=None)
    if latest is None:
        assert history[-1] is None
    else:
        assert history[-1] is not None
        assert history[-1].fetched_ns == latest.started_at_ns
        expected = decide(latest, gap_key="1", held=None, gap=None).held
        assert expected is not None
        assert history[-1].body == expected.body


@given(st.one_of(VERDICTS, st.just(Found(msgspec.structs.replace(story(1), delayed=True)))))
def test_an_item_that_is_found_for_the_first_time_is_held_as_decided(verdict: Verdict) -> None:
    answer = observed(1, verdict, started_s=5, done_s=7)
    item, decision = settled_item(verdict), decide(answer, gap_key="1", held=None, gap=None)
    assert (item is None) is (decision.outcome is not Outcome.NEW or decision.gap is not None)
    if item is not None:
        assert decision == Decision(Outcome.NEW, new_item(item, started_at_ns=answer.started_at_ns))


@given(st.composite(arrivals)())
def test_a_revision_is_kept_exactly_when_the_content_changes(answers: list[Observation]) -> None:
    _, history, _ = recorded(answers)
    before: Held | None = None
    for after in history:
        if before is not None and after is not None:
            assert after.revision - before.revision == int(after.content_hash != before.content_hash)
        before = after


@given(st.composite(arrivals)())
def test_an_item_that_was_never_found_is_owed_absent_gone_or_dead_and_nothing_else(answers: list[Observation]) -> None:
    outcomes, history, gap = recorded(answers)
    if history[-1] is None:
        assert gap is not None
        assert gap.state in {GapState.OWED, GapState.ABSENT, GapState.GONE, GapState.DEAD}
        assert set(outcomes) <= {Outcome.OWED, Outcome.ABSENT, Outcome.GONE, Outcome.DEAD}
    elif isinstance(answers[-1].verdict, Found) and outcomes[-1] is not Outcome.STALE:
        assert gap is None or gap.state is GapState.SETTLED


@given(st.lists(RANGES, max_size=8), st.lists(RANGES, max_size=8))
def test_a_plan_adds_every_wanted_id_once_and_none_that_is_planned_already(
    pieces: list[IdRange], unfinished: list[IdRange]
) -> None:
    added = unplanned(pieces, unfinished)
    assert sum(len(piece) for piece in added) == len(Coverage.of(added))
    assert Coverage.of([*added, *unfinished]) == Coverage.of([*pieces, *unfinished])
    planned = Coverage.of(unfinished)
    assert not any(item_id in planned for piece in added for item_id in range(piece.start, piece.end + 1))


def test_a_plan_keeps_the_order_of_its_pieces() -> None:
    pieces = [IdRange(50, 60), IdRange(10, 30), IdRange(55, 70)]
    assert unplanned(pieces, [IdRange(20, 22)]) == [IdRange(50, 60), IdRange(10, 19), IdRange(23, 30), IdRange(61, 70)]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_plan_of_a_hundred_thousand_holes_is_one_walk_over_them() -> None:
    holes = [IdRange(10 * number, 10 * number) for number in range(100_000, 0, -1)]
    covered = [IdRange(10 * number + 1, 10 * number + 9) for number in range(100_000)]
    assert unplanned(holes, covered) == holes


@given(st.integers())
def test_a_cleaned_number_fits_into_64_bits(number: int) -> None:
    assert clean_integer(number) == (number if -(2**63) <= number < 2**63 else None)


def test_recent_fetches_are_bounded_and_the_latest_half_is_never_forgotten() -> None:
    recent = RecentFetches(most=10)
    for number in range(100):
        recent.remember({str(number): number})
    known = [number for number in range(100) if recent.of(str(number)) is not None]
    assert 5 <= len(known) <= 10
    assert known == list(range(100 - len(known), 100))


def test_a_fetch_that_is_remembered_again_keeps_its_latest_departure() -> None:
    recent, moments = RecentFetches(most=4), count()
    for key in ("a", "b", "a", "c", "a"):
        recent.remember({key: at(next(moments))})
    assert recent.of("a") == at(4)
