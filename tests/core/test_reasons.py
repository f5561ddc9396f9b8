"""Are the sets of reasons disjoint and complete?"""

from itertools import combinations

from remora.core.reasons import FAMILY, GapFamily, GapReason

SETS = {
    GapFamily.PRESSURE: {"rate_limited", "upstream_pressure"},
    GapFamily.RUN_CAP: {"max_wall_clock", "max_fetches", "retry_budget"},
    GapFamily.ITEM: {"not_found", "gone", "unauthorized", "forbidden", "malformed", "too_large", "moved"},
    GapFamily.TRANSPORT: {"timeout", "connection", "server_error"},
    GapFamily.YOUNG: {"not_yet"},
}


def test_every_reason_belongs_to_exactly_one_family() -> None:
    assert set(FAMILY) == set(GapReason)
    assert all(reason.family is FAMILY[reason] for reason in GapReason)


def test_the_families_are_the_documented_sets() -> None:
    found = {family: {str(reason) for reason in GapReason if reason.family is family} for family in GapFamily}
    assert found == SETS


def test_no_two_families_share_a_reason() -> None:
    assert all(not (one & other) for one, other in combinations(SETS.values(), 2))
