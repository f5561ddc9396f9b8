"""Is every sentence about what limits the rate true? Each is shown a world that makes it true and one that makes it false."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import BanFacts, LimitedBy, ProviderDown, QuotaFacts, RateFacts, Recent
from remora.core.status.limits import gate_limit, quota_in_words, refusals_in_words, sentence, wait_in_words
from remora.core.status.model import SourceStatus, YesNo
from remora.core.status.readout import read_out
from remora.core.status.snapshot import (
    Beat,
    LedgerFacts,
    LoopFacts,
    Orders,
    Role,
    RunFacts,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.status.words import CIRCUIT, GAP_REASONS, LIMITS, STOPPED
from remora.core.units import MINUTE_NS, SECOND_NS
from tools.console_words import FILE, brought_up_to_date

NOW_NS = 1_800_000_000 * SECOND_NS
NAME = "hackernews"
WINDOW_NS = 10 * SECOND_NS
WHOLE = LedgerFacts(kind=NAME, coverage=Coverage((IdRange(1, 5_000),)), newest_id=5_000)
PENDING = LedgerFacts(kind=NAME, coverage=Coverage((IdRange(4_549, 5_000),)), newest_id=5_000)


def rate(limited_by: LimitedBy, *, per_s: float = 100, answers: int = 10, **changes: object) -> RateFacts:
    count = round(per_s * 10)
    made = RateFacts(
        at_ns=NOW_NS,
        interval_ns=SECOND_NS // 100,
        ceiling_interval_ns=SECOND_NS // 100,
        limited_by=limited_by,
        circuit=CircuitState.CLOSED,
        recent=Recent(count, answers, 0, 0, WINDOW_NS),
    )
    return msgspec.structs.replace(made, **changes)


def watching(limited_by: LimitedBy = LimitedBy.NO_WORK, **changes: object) -> SourceFacts:
    facts = SourceFacts(
        rate=rate(limited_by, per_s=0.1),
        stream=StreamFacts(connected=True, last_byte_at_ns=NOW_NS),
        newest_id=5_000,
        newest_id_at_ns=NOW_NS,
        backfill=True,
        loops={"live": LoopFacts(alive=True)},
    )
    return msgspec.structs.replace(facts, **changes)


def seen(facts: SourceFacts, ledger: LedgerFacts) -> SourceStatus:
    beat = Beat(NOW_NS, Snapshot(role=Role.SERVICE, started_at_ns=NOW_NS - MINUTE_NS, sources={NAME: facts}))
    return read_out([beat], {NAME: ledger}, now_ns=NOW_NS).sources[NAME]


def limit_of(facts: SourceFacts, ledger: LedgerFacts) -> tuple[LimitedBy, str]:
    found = seen(facts, ledger).rate
    assert isinstance(found, RateFacts)
    return found.limited_by, found.limit


def a_list(*, stopped_by: str, pending: int) -> LedgerFacts:
    run = RunFacts(run_id=1, started_at_ns=NOW_NS - MINUTE_NS, ended_at_ns=NOW_NS - SECOND_NS, stopped_by=stopped_by)
    return LedgerFacts(kind="listed", owed_details=pending, runs=(run,))


SILENT: dict[str, Any] = {"newest_id": None, "newest_id_at_ns": None}
RESTING = SourceFacts(rate=rate(LimitedBy.NO_WORK, per_s=0), doing="waiting", next_run_at_ns=NOW_NS + MINUTE_NS)


@pytest.mark.parametrize(
    "facts, ledger, limited_by",
    [
        (watching(), WHOLE, LimitedBy.NO_WORK),
        (watching(), PENDING, LimitedBy.NOT_ASKED),
        (watching(backfill=False), PENDING, LimitedBy.BY_CHOICE),
        (watching(backfill=False), WHOLE, LimitedBy.NO_WORK),
        (watching(rate=rate(LimitedBy.NO_WORK, per_s=0, answers=0), **SILENT), WHOLE, LimitedBy.NO_ANSWER),
        (watching(rate=rate(LimitedBy.ANSWERS, per_s=0.1, answers=0), **SILENT), PENDING, LimitedBy.NO_ANSWER),
        (watching(LimitedBy.ANSWERS), PENDING, LimitedBy.ANSWERS),
        (watching(LimitedBy.STORE), PENDING, LimitedBy.STORE),
        (RESTING, a_list(stopped_by="complete", pending=0), LimitedBy.SCHEDULE),
        (RESTING, a_list(stopped_by="max_fetches", pending=7), LimitedBy.BUDGET),
        (RESTING, a_list(stopped_by="max_fetches", pending=0), LimitedBy.SCHEDULE),
        (RESTING, a_list(stopped_by="upstream_pressure", pending=7), LimitedBy.SCHEDULE),
    ],
)
def test_an_idle_gate_is_explained_by_what_the_ledger_knows(
    facts: SourceFacts, ledger: LedgerFacts, limited_by: LimitedBy
) -> None:
    assert limit_of(facts, ledger)[0] is limited_by


def test_idle_is_never_said_while_the_provider_is_down() -> None:
    down = rate(LimitedBy.NO_WORK, per_s=0, provider_down=ProviderDown(NOW_NS, "no connection can be opened"))
    assert limit_of(watching(rate=down), WHOLE)[0] is LimitedBy.CIRCUIT


def test_between_two_runs_a_provider_that_was_down_waits_for_the_next_run() -> None:
    was_down = ProviderDown(NOW_NS - 2 * MINUTE_NS, "it answers HTTP 500 (server error)")
    ledger = a_list(stopped_by="list_trouble", pending=7)
    resting = rate(LimitedBy.NO_WORK, per_s=0, provider_down=was_down, circuit=CircuitState.OPEN)
    source = seen(msgspec.structs.replace(RESTING, rate=resting), ledger)
    assert isinstance(source.rate, RateFacts)
    assert source.rate.limited_by is LimitedBy.SCHEDULE
    assert source.answers.working.reason.endswith("server error); next probe with the next run")
    cooling = msgspec.structs.replace(resting, circuit_wait_ns=9 * SECOND_NS)
    source = seen(msgspec.structs.replace(RESTING, rate=cooling), ledger)
    assert isinstance(source.rate, RateFacts)
    assert source.rate.limited_by is LimitedBy.CIRCUIT
    assert source.answers.working.reason.endswith("next probe in 9 s")


def test_idle_is_never_said_while_ids_are_pending() -> None:
    assert (
        limit_of(watching(), PENDING)[1] == "4,548 ids are pending, but no loop has asked for one in the last seconds."
    )
    assert "4,548 ids stay pending" in limit_of(watching(backfill=False), PENDING)[1]
    assert limit_of(watching(), WHOLE)[1] == "Idle: nothing to fetch right now."


@pytest.mark.parametrize(
    "found, limited_by",
    [
        (rate(LimitedBy.CEILING, per_s=98), LimitedBy.CEILING),
        (rate(LimitedBy.CEILING, per_s=7, held={LimitedBy.CEILING: 0.6, LimitedBy.STORE: 0.4}), LimitedBy.STORE),
        (rate(LimitedBy.CEILING, per_s=7), LimitedBy.NO_WORK),
        (rate(LimitedBy.CPU, per_s=99), LimitedBy.CEILING),
        (rate(LimitedBy.CPU, per_s=99, ceiling_interval_ns=SECOND_NS // 250), LimitedBy.PACE),
        (rate(LimitedBy.CPU, per_s=60), LimitedBy.CPU),
        (rate(LimitedBy.CEILING, recent=None), LimitedBy.CEILING),
    ],
)
def test_what_really_left_corrects_the_record(found: RateFacts, limited_by: LimitedBy) -> None:
    assert gate_limit(found) is limited_by


@pytest.mark.parametrize("limited_by", LimitedBy)
def test_every_cause_has_one_sentence_of_its_own(limited_by: LimitedBy) -> None:
    told = sentence(limited_by, pending=3)
    assert told.endswith(".")
    assert [other for other in LimitedBy if sentence(other, pending=3) == told] == [limited_by]


def test_a_pace_that_met_no_refusal_yet_is_being_learned() -> None:
    assert sentence(LimitedBy.PACE, edge_is_known=False).startswith("Learning the pace")
    assert sentence(LimitedBy.PACE).startswith("At the learned pace")


# -- waits and a provider that is down -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", [LimitedBy.PACE, LimitedBy.CEILING])
def test_a_ceiling_that_an_operator_lowered_is_not_blamed_on_the_provider(cause: LimitedBy) -> None:
    orders = Orders(interval_ns=10 * SECOND_NS, until_ns=NOW_NS + MINUTE_NS)
    held = rate(cause, per_s=0.1, interval_ns=10 * SECOND_NS, edge_per_s=5.0)
    _, told = limit_of(watching(rate=held, orders=orders), PENDING)
    assert told == "An operator lowered the ceiling to 6/min until 2027-01-15T08:01:00.000Z."
    slower = msgspec.structs.replace(held, interval_ns=20 * SECOND_NS, limited_by=LimitedBy.PACE)
    _, told = limit_of(watching(rate=slower, orders=orders), PENDING)
    assert told == LIMITS[LimitedBy.PACE]


def test_a_long_wait_is_told_with_its_end_and_its_reason() -> None:
    waiting = rate(LimitedBy.RETRY_AFTER, next_in_ns=3_600 * SECOND_NS, next_held_by=LimitedBy.RETRY_AFTER)
    told = "waits 60 min, until 2027-01-15T09:00:00.000Z: the provider asked for a pause (Retry-After)"
    assert wait_in_words(waiting) == told
    assert wait_in_words(rate(LimitedBy.CEILING, next_in_ns=SECOND_NS, next_held_by=LimitedBy.CEILING)) is None
    assert wait_in_words(rate(LimitedBy.NO_WORK)) is None


def test_a_quota_is_told_in_one_line() -> None:
    today = QuotaFacts(2_114, 5_000, NOW_NS + 300 * SECOND_NS)
    assert quota_in_words(today, now_ns=NOW_NS) == "2,114 of 5,000 left until 08:05"
    tomorrow = QuotaFacts(3, None, NOW_NS + 86_400 * SECOND_NS)
    assert quota_in_words(tomorrow, now_ns=NOW_NS) == "3 left until 2027-01-16 08:00"


def test_a_limit_on_refusals_says_who_set_it() -> None:
    assert refusals_in_words(rate(LimitedBy.PACE)) is None
    assert refusals_in_words(rate(LimitedBy.PACE, refusals_left=3)) == "3 more allowed by the owner's limit"
    ban = BanFacts(refusals=8, lasted_ns=3_500 * SECOND_NS, most_per_min=4, until_ns=NOW_NS + 86_400 * SECOND_NS)
    assert refusals_in_words(rate(LimitedBy.PACE, refusals_left=3, ban=ban)) == (
        "3 more allowed: after 8 refusals within about a minute the provider refused everything for 58 min, so until "
        "2027-01-16T08:00:00.000Z no more than 4 a minute are risked; if you know what it tolerates, write a refusal_limit"
    )


DOWN = rate(
    LimitedBy.CIRCUIT,
    per_s=0.1,
    circuit=CircuitState.OPEN,
    circuit_wait_ns=84 * SECOND_NS,
    provider_down=ProviderDown(NOW_NS - 300 * SECOND_NS, "it answers HTTP 503 (server error)"),
)


def test_a_provider_that_is_down_is_not_our_impoliteness_and_not_working() -> None:
    status = seen(watching(rate=DOWN), WHOLE)
    assert status.answers.polite.answer is YesNo.YES
    assert status.answers.working.answer is YesNo.NO
    assert status.answers.working.reason == (
        "the provider has been down since 2027-01-15T07:55:00.000Z (5 min): it answers HTTP 503 (server error); "
        "next probe in 84 s"
    )
    assert status.only_provider_is_down


def test_a_probe_under_way_is_told() -> None:
    probing = msgspec.structs.replace(DOWN, circuit=CircuitState.HALF_OPEN, circuit_wait_ns=None)
    assert seen(watching(rate=probing), WHOLE).answers.working.reason.endswith("a probe is under way")


def test_a_dead_loop_is_told_before_a_provider_that_is_down() -> None:
    status = seen(watching(rate=DOWN, loops={"live": LoopFacts(alive=False)}), WHOLE)
    assert status.answers.working.reason == "not running: live"
    assert not status.only_provider_is_down


# -- words ---------------------------------------------------------------------------------------------------------------


def test_the_words_of_the_console_are_those_of_the_core() -> None:
    text = FILE.read_text()
    assert text == brought_up_to_date(text), "run: python -m tools.console_words"


def test_every_word_of_a_closed_set_is_explained() -> None:
    for words in (LIMITS, CIRCUIT, GAP_REASONS, STOPPED):
        members = set(type(next(iter(words))))
        assert set(words) == members


def test_every_cause_is_on_the_page_about_the_console() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    assert [str(cause) for cause in LimitedBy if f"| `{cause}` |" not in page] == []


@pytest.mark.parametrize(
    "per_min, departures, window_s, shown_per_min",
    [
        (40, 4, 5, 40),  # three intervals fit into five seconds, and four departures
        (40, 3, 5, 36),
        (6, 1, 2, 6),  # the first request
        (6_000, 1_001, 10, 6_000),
        (6_000, 990, 10, 5_940),
        (40, 10, 5, 108),  # a real crossing is shown
    ],
)
def test_the_rate_shown_is_above_the_ceiling_only_if_the_ceiling_was_crossed(
    per_min: int, departures: int, window_s: int, shown_per_min: float
) -> None:
    recent = Recent(departures, departures, 0, 0, window_s * SECOND_NS)
    shown = rate(LimitedBy.CEILING, recent=recent, ceiling_interval_ns=60 * SECOND_NS // per_min)
    assert shown.recent_per_s == pytest.approx(shown_per_min / 60)
