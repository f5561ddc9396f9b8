"""When is a mirror not fresh although its last answer seems young?"""

from remora.core.ledger.newest_id import WentBack
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import LimitedBy, ProviderDown, RateFacts
from remora.core.status.answers import is_fresh
from remora.core.status.model import Answer, Fresh, NoStream, YesNo
from remora.core.status.snapshot import Role, SourceFacts
from remora.core.units import DAY_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

NOW_NS = 1_800_000_000 * SECOND_NS


def answer(*, told_at_ns: int, down: ProviderDown | None = None) -> Answer:
    rate = RateFacts(
        interval_ns=8 * MILLISECOND_NS,
        ceiling_interval_ns=4 * MILLISECOND_NS,
        limited_by=LimitedBy.PACE,
        circuit=CircuitState.CLOSED if down is None else CircuitState.OPEN,
        provider_down=down,
    )
    fresh = Fresh(newest_id=100, newest_id_at_ns=told_at_ns, lag=0, stale_after_ns=5 * MINUTE_NS)
    return is_fresh(fresh, NoStream("none declared"), SourceFacts(rate=rate), Role.SERVICE, now_ns=NOW_NS)


def test_a_clock_that_was_set_back_makes_no_old_answer_fresh() -> None:
    told = answer(told_at_ns=NOW_NS + DAY_NS)
    assert (told.answer, told.reason) == (
        YesNo.NO,
        "the clock was set back since the source last reported its newest id",
    )
    assert answer(told_at_ns=NOW_NS + SECOND_NS).answer is YesNo.YES


def test_nothing_is_fresh_while_the_provider_is_down_however_young_the_last_answer_seems() -> None:
    told = answer(told_at_ns=NOW_NS, down=ProviderDown(NOW_NS, "it answers HTTP 503"))
    assert told.answer is YesNo.NO
    assert "it answers HTTP 503" in told.reason


def test_a_source_that_has_gone_far_back_is_not_fresh_however_young_its_last_answer_is() -> None:
    back = WentBack(told=10, since_ns=NOW_NS - 5 * MINUTE_NS, heard_ns=NOW_NS - SECOND_NS)
    fresh = Fresh(newest_id=2_499, newest_id_at_ns=NOW_NS, lag=0, stale_after_ns=5 * MINUTE_NS, went_back=back)
    told = is_fresh(fresh, NoStream("none declared"), SourceFacts(), Role.SERVICE, now_ns=NOW_NS)
    assert told.answer is YesNo.NO
    assert "for 5 min the source has reported a far lower newest id than before (10, not 2,499)" in told.reason
