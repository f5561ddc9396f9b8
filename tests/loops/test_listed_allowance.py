"""Does asking within the allowance of a run keep its budget to the request and to the second?"""

from collections.abc import Awaitable, Callable

from remora.collect import Collector
from remora.core.lanes import Lane
from remora.core.ledger.asking import LISTED
from remora.core.ledger.budget import Budget
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.run import RunCounts, StoppedBy
from remora.core.reasons import GapReason
from remora.core.units import HOUR_NS, MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Trouble
from remora.gate.governor import Limits
from remora.loops.listed.allowance import RunAllowance
from remora.sim.clock import SimClock
from tests.gate.numbers import Numbers, process
from tests.gate.rig import BROKEN, Answer, simulated

SEVEN = Discovery.item(7, via=Lane.DETAIL)


def within(
    budget: Budget,
    source: Callable[[SimClock], Numbers],
    check: Callable[[Collector, RunAllowance, Numbers], Awaitable[None]],
) -> None:
    """Let a collector ask within a budget, at a ceiling of one request a second."""

    async def main(clock: SimClock) -> None:
        asked = source(clock)
        async with process(clock, asked, limits=Limits(SECOND_NS)) as one:
            allowance = RunAllowance(one.governor, clock=clock, budget=budget, counts=RunCounts(), policy=LISTED)
            await check(one.collector, allowance, asked)

    simulated(main)


def test_a_request_that_was_sent_in_time_is_let_finish() -> None:
    async def check(collector: Collector, allowance: RunAllowance, source: Numbers) -> None:
        asked = await collector.ask(SEVEN, allowance)
        assert isinstance(asked.verdict, Found)
        assert (asked.requests, allowance.budget.fetches, len(source.asked)) == (1, 1, 1)
        assert not allowance.may_ask()

    slow = Answer(latency_ns=10 * SECOND_NS)
    within(Budget(0, max_wall_ns=3 * SECOND_NS), lambda clock: Numbers(clock, says=lambda _id, _attempt: slow), check)


def test_a_request_that_could_not_leave_before_the_end_of_the_budget_is_never_sent() -> None:
    async def check(collector: Collector, allowance: RunAllowance, source: Numbers) -> None:
        await collector.ask(SEVEN, allowance)
        asked = await collector.ask(Discovery.item(8, via=Lane.DETAIL), allowance)
        assert (asked.verdict, asked.requests) == (Deferred(GapReason.MAX_WALL_CLOCK), 0)
        assert allowance.stop is not None
        assert allowance.stop.by is StoppedBy.MAX_WALL_CLOCK
        assert len(source.asked) == allowance.budget.fetches == 1

    within(Budget(0, max_wall_ns=1_500 * MILLISECOND_NS), Numbers, check)


def test_what_failed_before_the_account_was_used_up_keeps_its_own_reason() -> None:
    async def check(collector: Collector, allowance: RunAllowance, source: Numbers) -> None:
        asked = await collector.ask(SEVEN, allowance)
        assert (asked.verdict, asked.requests) == (Trouble(GapReason.SERVER_ERROR), 2)
        assert allowance.stop is not None
        assert allowance.stop.by is StoppedBy.MAX_FETCHES
        assert len(source.asked) == 2

    budget = Budget(0, max_wall_ns=HOUR_NS, max_fetches=2)
    within(budget, lambda clock: Numbers(clock, says=lambda _id, _attempt: BROKEN), check)
