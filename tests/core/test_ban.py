"""Does a ban teach how many refusals are too many, and is nothing else taken for a ban?"""

from dataclasses import replace
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.controllers.hard_providers import BanOnRefusals
from bench.controllers.ours import Remora
from bench.controllers.rows import BANS_FOR_HOURS, ROWS, Row
from bench.controllers.world import Trace, run
from remora.core.rate.ban import BAN_REFUSALS, BAN_VOLLEY, LONG_NS, WITHIN_NS, BanWatch
from remora.core.rate.ban_record import NOTHING, from_stored, stricter, to_stored
from remora.core.rate.law import cold_start
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS

LATENCY_NS = SECOND_NS // 10


def refused(watch: BanWatch, *at_s: float) -> BanWatch:
    for moment_s in at_s:
        at_ns = int(moment_s * SECOND_NS)
        watch = watch.hear_refusal(sent_ns=at_ns, answered_ns=at_ns + LATENCY_NS)
    return watch


def good(watch: BanWatch, at_s: float) -> BanWatch:
    return watch.hear_good(sent_ns=int(at_s * SECOND_NS))


def most(watch: BanWatch) -> int | None:
    return None if watch.learned is None else watch.learned.limit.most


def scattered(count: int, watch: BanWatch = NOTHING, *, from_s: float = 0.0) -> BanWatch:
    """So many refusals, one each second, and something accepted after each but the last."""
    for number in range(count):
        watch = refused(watch, from_s + number)
        if number < count - 1:
            watch = good(watch, from_s + number + 0.5)
    return watch


def ours(row: Row, in_flight: int, seed: int) -> tuple[BanOnRefusals, Trace]:
    provider = row.provider(in_flight, seed)
    assert isinstance(provider, BanOnRefusals)
    ceiling_ns = row.ceiling_interval_ns
    law = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    trace = run(law, provider, in_flight=in_flight, ceiling_interval_ns=ceiling_ns, until_ns=row.until_ns)
    return provider, trace


# ── the promise ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 8])
@pytest.mark.parametrize("row", BANS_FOR_HOURS, ids=lambda row: row.name)
def test_a_provider_that_bans_us_bans_us_once(row: Row, in_flight: int) -> None:
    until_ns = 3 * HOUR_NS if row.limit_per_s <= 10 else HOUR_NS + 30 * MINUTE_NS
    provider, trace = ours(replace(row, until_ns=until_ns), in_flight, seed=1)
    assert provider.bans <= 1
    at_the_end = sum(at_ns > until_ns - HOUR_NS // 4 for at_ns in trace.good_at_ns)
    assert at_the_end > 0.6 * 900 * provider.capacity_per_s(until_ns)


@pytest.mark.slow
@given(st.integers(3, 12), st.sampled_from([1, 2, 8]), st.integers(1, 3), st.integers(0, 1_000))
def test_the_limit_is_always_below_what_the_provider_bans_for(
    bans_at: int, in_flight: int, slow: int, seed: int
) -> None:
    """Whatever is in flight and in whichever order it is answered."""
    chance, watch = Random(seed), NOTHING
    recent: list[int] = []
    answers: list[tuple[int, int, bool]] = []
    now_ns = banned_from_ns = 0
    while now_ns < 10 * MINUTE_NS:
        now_ns += chance.randrange(1, 2 * SECOND_NS)
        is_banned = banned_from_ns > 0
        is_refused = is_banned or chance.random() < 0.3
        if is_refused and not is_banned:
            recent = [at_ns for at_ns in recent if at_ns > now_ns - WITHIN_NS] + [now_ns]
            banned_from_ns = now_ns if len(recent) >= bans_at else 0
        answers.append((now_ns + chance.randrange(in_flight * slow * SECOND_NS), now_ns, is_refused))
    for answered_ns, sent_ns, is_refused in sorted(answers):
        if is_refused:
            watch = watch.hear_refusal(sent_ns=sent_ns, answered_ns=answered_ns)
        else:
            watch = watch.hear_good(sent_ns=sent_ns)
    assert watch.tolerated < bans_at
    if watch.learned is not None and watch.learned.is_sure:
        assert watch.learned.limit.most < bans_at


# ── what a ban is ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_outage_after_the_fifth_refusal_teaches_four_per_minute() -> None:
    watch = scattered(5)
    assert most(refused(watch, 4 + LONG_NS / SECOND_NS - 1)) is None, "a minute's window is no ban"
    watch = refused(watch, 4 + LONG_NS / SECOND_NS)
    assert most(watch) == 4
    assert watch.learned is not None
    assert watch.learned.limit.within_ns == MINUTE_NS


def test_after_two_refusals_a_long_outage_may_be_chance() -> None:
    assert most(refused(scattered(BAN_REFUSALS - 1), 400)) is None
    assert most(refused(scattered(BAN_REFUSALS), 400)) == BAN_REFUSALS - 1


def test_refusals_of_another_minute_did_not_cause_it() -> None:
    assert most(refused(good(scattered(4), 4), 100, 500)) is None


def test_as_many_refusals_as_were_tolerated_before_did_not_cause_it() -> None:
    watch = good(scattered(6), 6)
    assert watch.tolerated == 6
    assert most(refused(scattered(6, watch, from_s=200), 600)) is None
    assert most(refused(scattered(7, watch, from_s=200), 600)) == 6


def test_a_block_with_few_in_flight_is_no_ban() -> None:
    """As at the end of an hour's quota: nothing was refused before, and the waits grow."""
    assert most(refused(NOTHING, 0, 0.1, 0.2, 3, 16, 50, 250, 1_000)) is None


VOLLEY = [number / 100 for number in range(BAN_VOLLEY)]


def test_many_refusals_at_once_may_be_a_ban_for_any_of_them() -> None:
    watch = refused(NOTHING, *VOLLEY, 400)
    assert most(watch) == BAN_VOLLEY // 2
    assert watch.learned is not None
    assert not watch.learned.is_sure


def test_more_refusals_at_once_than_that_were_tolerated_before() -> None:
    assert most(refused(good(scattered(BAN_VOLLEY), 60), *(200 + at_s for at_s in VOLLEY), 600)) is None
    assert most(refused(good(scattered(6), 60), *(200 + at_s for at_s in VOLLEY), 600)) == 6


def test_a_ban_for_refusals_that_come_all_at_once_was_a_quota_if_it_comes_again_although_the_limit_was_kept() -> None:
    first = good(refused(NOTHING, *VOLLEY, 400, 800), 3_600)
    second = refused(first, 3_700, 3_701, 4_000, 4_900)
    assert most(second) == BAN_REFUSALS - 1, "perhaps fewer are too many"
    third = refused(good(second, 7_200), 7_300, 7_301, 7_700, 8_600)
    assert most(third) is None
    assert third.has_quota
    fourth = refused(good(third, 10_800), *(10_900 + at_s for at_s in VOLLEY), 11_300)
    assert most(fourth) is None, "it is not taken for a ban again"
    fifth = refused(scattered(5, good(fourth, 14_000), from_s=14_001), 14_600)
    assert most(fifth) == 4, "but one after single refusals is"


def test_a_ban_after_single_refusals_is_believed_whatever_comes_later() -> None:
    watch = good(refused(scattered(5), 400), 3_600)
    assert most(refused(watch, 3_700, 3_701, 4_000)) == 4
    assert most(refused(watch, *(3_700 + at_s for at_s in VOLLEY), 4_000)) == 4


def test_a_second_ban_can_only_lower_the_limit() -> None:
    watch = good(refused(scattered(5), 400), 3_600)
    assert most(refused(scattered(7, watch, from_s=3_700), 4_200)) == 4


def test_answers_that_arrive_late_do_not_hide_when_the_outage_began() -> None:
    """The last accepted request was sent before the fifth refusal, and answered after the seventh."""
    watch = scattered(4)
    watch = refused(watch, 5, 6, 7)
    watch = good(watch, 4.5)
    watch = refused(watch, 400)
    assert most(watch) == 4


def forbidden(watch: BanWatch, *at_s: float) -> BanWatch:
    for moment_s in at_s:
        at_ns = int(moment_s * SECOND_NS)
        watch = watch.hear_forbidden(sent_ns=at_ns, answered_ns=at_ns + LATENCY_NS)
    return watch


def test_a_ban_may_be_told_by_forbidding_everything() -> None:
    assert most(forbidden(scattered(5), 6, 7, 400)) == 4
    assert most(forbidden(good(scattered(4), 4), 5, 6, 400)) == 4, "the fifth was told by it, too"


def test_a_token_that_is_no_longer_valid_is_no_ban() -> None:
    assert most(forbidden(NOTHING, *range(500))) is None
    assert most(forbidden(good(refused(NOTHING, 0), 1), *range(2, 500))) is None


def test_forbidden_items_are_no_refusals() -> None:
    watch = good(forbidden(good(scattered(2), 3), *range(4, 40)), 41)
    assert (watch.tolerated, watch.outage) == (2, None)


def test_the_limit_is_kept_fifty_times_as_long_as_the_ban_lasted() -> None:
    watch = good(refused(scattered(5), 404, 3_604), 3_700)
    kept_until_ns = (3_604 + 50 * 3_600) * SECOND_NS
    assert most(watch.at(kept_until_ns - 1)) == 4
    assert most(watch.at(kept_until_ns)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["5,000/h", "sliding 60/min", "penalty doubles", "stray 429 1 %", "503 for 30 s each 20 min"]
)
def test_what_is_no_ban_is_not_taken_for_one(name: str) -> None:
    row = ROWS[name]
    for in_flight in row.in_flight:
        law = Remora(cold_start(ceiling_interval_ns=row.ceiling_interval_ns, now_ns=0))
        provider = row.provider(in_flight, 1)
        until_ns = min(row.until_ns, 4 * HOUR_NS)
        run(law, provider, in_flight=in_flight, ceiling_interval_ns=row.ceiling_interval_ns, until_ns=until_ns)
        assert law.pace.refusal_limit is None


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────────────


def through_a_restart(watch: BanWatch, *, stored_at_s: float, for_s: float = 0.0) -> BanWatch:
    stored = msgspec.json.decode(msgspec.json.encode(to_stored(watch, now_ns=int(stored_at_s * SECOND_NS))))
    now_ns = int((stored_at_s + for_s) * SECOND_NS)
    return from_stored(stored, age_ns=int(for_s * SECOND_NS), now_ns=now_ns)


def test_a_learned_limit_survives_a_restart_until_its_end() -> None:
    watch = refused(scattered(5), 404)
    kept = through_a_restart(watch, stored_at_s=500, for_s=100)
    assert kept.learned == watch.learned
    assert most(through_a_restart(watch, stored_at_s=500, for_s=50 * 400)) is None


def test_a_restart_in_the_middle_of_a_ban_is_no_second_ban() -> None:
    watch = through_a_restart(refused(NOTHING, *VOLLEY, 400), stored_at_s=500, for_s=100)
    assert most(refused(watch, 900, 1_800)) == BAN_VOLLEY // 2


def test_an_outage_that_may_become_a_ban_survives_a_restart() -> None:
    assert most(refused(through_a_restart(scattered(5), stored_at_s=10), 404)) == 4


def test_what_was_tolerated_survives_a_restart() -> None:
    watch = through_a_restart(good(scattered(6), 6), stored_at_s=100)
    assert most(refused(scattered(6, watch, from_s=200), 600)) is None


NO_LIMIT = {"most": 0, "left_ns": 1, "began_ago_ns": 1, "refusals": 1, "lasted_ns": 1, "is_sure": True}
NO_OUTAGE = {"began_ago_ns": -1, "count": 1, "around": 1}


@pytest.mark.parametrize("stored", [None, [], {"tolerated": "x"}, {"outage": NO_OUTAGE}, {"learned": NO_LIMIT}])
def test_a_damaged_record_teaches_nothing(stored: object) -> None:
    assert from_stored(stored, age_ns=0, now_ns=0) == NOTHING


def test_of_two_processes_the_lower_limit_counts() -> None:
    five, four = refused(scattered(5), 404), refused(scattered(4), 404)
    assert most(stricter(five, four)) == 3
    assert most(stricter(four, five)) == 3
    assert most(stricter(NOTHING, five)) == 4
    assert most(stricter(five, NOTHING)) == 4
