"""How long is a canary's word good for, and what does a canary ask for?"""

from remora.core.item import Entry, Item, Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.known_good import KEYS_PER_KIND, KnownGood
from remora.core.rate.attribution import (
    EXCUSED_FIRST,
    EXCUSED_MOST,
    GOOD_IN_A_ROW_TO_FORGET,
    Attribution,
    after_canary,
    after_good,
    after_lost_canary,
    after_trouble,
    asked,
)
from remora.core.reasons import GapReason
from remora.core.verdict import Found, Pressure, Refused, Trouble

BROKEN = Trouble(GapReason.SERVER_ERROR)


def test_each_canary_excuses_twice_as_many_as_the_last_one_within_a_bound() -> None:
    attribution, excused = Attribution(), []
    for _ in range(4):
        attribution = after_canary(asked(attribution, opens=True), is_good=True)
        excused.append(attribution.excused)
        while attribution.left:
            attribution = after_trouble(attribution)
    assert excused == [EXCUSED_FIRST, EXCUSED_MOST, EXCUSED_MOST, EXCUSED_MOST]


def test_good_answers_in_a_row_make_it_forget_and_one_fault_in_between_does_not() -> None:
    excused = after_canary(asked(Attribution(), opens=True), is_good=True)
    mixed = excused
    for _ in range(GOOD_IN_A_ROW_TO_FORGET - 1):
        mixed = after_good(mixed)
    assert after_good(mixed) == Attribution()
    assert after_good(after_trouble(mixed)).excused == EXCUSED_FIRST


def test_a_canary_that_failed_excuses_nothing_and_a_lost_one_changes_nothing() -> None:
    excused = after_canary(asked(Attribution(), opens=True), is_good=True)
    assert after_canary(asked(excused, opens=True), is_good=False) == Attribution()
    assert after_lost_canary(asked(excused, opens=True)).left == excused.left


def item(item_id: int) -> Discovery:
    return Discovery.item(item_id, via=Lane.BACKFILL)


def asked_for(known: KnownGood, count: int, *, newest_id: int | None = None) -> list[str]:
    canaries = [known.canary(newest_id=newest_id) for _ in range(count)]
    return [canary.key for canary in canaries if canary is not None]


def test_canaries_take_turns_among_the_keys_that_were_answered_well_last_and_never_ask_for_a_bad_one() -> None:
    known = KnownGood()
    for item_id in range(1, 21):
        known.hear(item(item_id), Found(Item(item_id, b"")))
    known.hear(item(20), BROKEN)
    turns = asked_for(known, 2 * KEYS_PER_KIND)
    assert set(turns) == {str(item_id) for item_id in range(13, 20)}
    assert turns[0] != turns[1]


def test_before_anything_is_known_an_item_at_or_below_the_newest_one_is_asked_for() -> None:
    known = KnownGood()
    known.hear(item(5), BROKEN)
    assert asked_for(known, 4, newest_id=1_000) == ["1000", "997", "985", "937"]
    assert known.canary(newest_id=None) is None


def test_a_canary_is_of_the_kind_that_fails_and_the_list_names_documents_that_are_likely_to_be_good() -> None:
    known = KnownGood()
    page = Page(tuple(Entry(f"c{number}", None) for number in range(40)), None)
    known.hear(Discovery(Kind.DOCUMENT, "c39", Lane.DETAIL), BROKEN)
    assert known.canary(newest_id=1_000) is None, "nothing of its kind is known"
    known.hear(Discovery(Kind.PAGE, "", Lane.WALK), Found(page))
    canary = known.canary(newest_id=1_000)
    assert canary is not None
    assert (canary.kind, canary.key in {entry.key for entry in page.entries}) == (Kind.DOCUMENT, True)


def test_who_was_in_trouble_answers_again_only_with_a_good_answer() -> None:
    known = KnownGood()
    known.hear(Discovery.item(1, via=Lane.LIVE), Found(Item(1, b"{}")))
    assert known.is_answering
    for bad in (BROKEN, Refused(GapReason.FORBIDDEN), Pressure(GapReason.RATE_LIMITED)):
        known.hear(Discovery.item(1, via=Lane.LIVE), Found(Item(1, b"{}")))
        assert known.is_answering
        known.hear(Discovery.item(2, via=Lane.LIVE), bad)
        assert not known.is_answering


def test_canaries_go_down_from_the_newest_id_and_begin_again_at_the_first() -> None:
    known = KnownGood()
    known.hear(Discovery.item(9, via=Lane.LIVE), BROKEN)
    asked_for = [known.canary(newest_id=4) for _ in range(4)]
    assert [one.item_id for one in asked_for if one is not None] == [4, 1, 4, 1]
