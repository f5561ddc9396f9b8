"""Is a provider that refuses every request told as such, with what a person has to do?"""

import pytest

from remora.contracts import Meter
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.rate.gate_types import Barred, ProviderDown, Recent
from remora.core.reasons import GapReason
from remora.core.status.model import Attention, Standing, YesNo
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.core.verdict import Found, Missing, Pressure, Refused, Trouble, Verdict
from remora.operate.observe.recent_meter import RecentMeter
from remora.sim.clock import SimClock, run
from remora.sim.meter import CountingMeter
from tests.core.test_readout import NOW_NS, a_rate, beat, facts, seen

FORBIDDEN = Refused(GapReason.FORBIDDEN)


def barred(*, since_ns: int, answers: int) -> Barred:
    return Barred(NOW_NS - since_ns, "forbidden", answers)


def test_a_ban_needs_a_person_and_says_what_to_do() -> None:
    banned = facts(
        rate=a_rate(barred=barred(since_ns=2 * MINUTE_NS, answers=1_212)), newest_id_at_ns=None, backfill=True
    )
    status = seen(beat(of=banned))
    working = status.answers.working
    assert (working.answer, working.attention) == (YesNo.NO, Attention.ACT)
    assert "forbidden, 1,212 in a row): check the token, then ask the provider" in working.reason
    assert status.headline.standing is Standing.ATTENTION
    assert not status.only_provider_is_down


def down(*, for_ns: int, answers: str = "it answers HTTP 429 (rate limited)", refusals_left: int | None = None) -> str:
    """What is said of a provider that has been down for so long."""
    rate = a_rate(provider_down=ProviderDown(NOW_NS - for_ns, answers), refusals_left=refusals_left)
    return seen(beat(of=facts(rate=rate))).answers.working.reason


def test_a_ban_says_that_a_limit_on_refusals_can_be_written_unless_there_is_one() -> None:
    assert "write a refusal_limit; next probe" in down(for_ns=20 * MINUTE_NS)
    assert "refusal_limit" not in down(for_ns=20 * MINUTE_NS, refusals_left=4)
    assert "refusal_limit" not in down(for_ns=5 * MINUTE_NS)
    assert "refusal_limit" not in down(for_ns=20 * MINUTE_NS, answers="it answers HTTP 500 (server error)")
    forbidden = a_rate(barred=barred(since_ns=2 * MINUTE_NS, answers=1_212))
    assert "write a refusal_limit" in seen(beat(of=facts(rate=forbidden))).answers.working.reason


@pytest.mark.parametrize("since_ns, answers", [(50 * SECOND_NS, 9_000), (MINUTE_NS, 3)])
def test_a_row_of_private_items_is_no_ban(since_ns: int, answers: int) -> None:
    rate = a_rate(barred=barred(since_ns=since_ns, answers=answers))
    assert seen(beat(of=facts(rate=rate))).answers.working.answer is YesNo.YES


@pytest.mark.parametrize("refused, failed, works", [(1, 0, YesNo.UNKNOWN), (2, 3, YesNo.UNKNOWN), (2, 2, YesNo.YES)])
def test_a_provider_that_has_only_refused_since_the_start_is_not_called_working(
    refused: int, failed: int, works: YesNo
) -> None:
    recent = Recent(departures=5, answers=5 if refused > 1 else 1, refused=refused, failed=failed, window_ns=SECOND_NS)
    source = facts(rate=a_rate(recent=recent), newest_id_at_ns=None, backfill=True)
    assert seen(beat(of=source)).answers.working.answer is works


@pytest.mark.parametrize(
    "then, answers",
    [
        (Refused(GapReason.UNAUTHORIZED), 3),
        (Pressure(GapReason.RATE_LIMITED), 2),
        (Trouble(GapReason.TIMEOUT), 2),
        (Found(Item(item_id=1, body=b"{}", content=b"{}")), None),
        (Missing(GapReason.NOT_FOUND), None),
    ],
)
def test_only_an_answer_that_is_no_refusal_ends_the_row(then: Verdict, answers: int | None) -> None:
    async def main(clock: SimClock) -> Barred | None:
        inner: Meter = CountingMeter()
        meter = RecentMeter(inner, clock=clock)
        for verdict in (FORBIDDEN, FORBIDDEN, then):
            meter.judged("news", Lane.LIVE, verdict)
        return meter.barred("news")

    found = run(main)
    assert (found and found.answers) == answers
