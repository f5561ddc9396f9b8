"""Are answers that are heard together learned in their order, and only if they are ordinary?"""

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from remora.contracts import Dialect
from remora.core.lanes import Lane
from remora.core.ledger.asking import Asked, Refusals
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.known_good import KnownGood
from remora.core.reasons import GapReason
from remora.core.translation import NOTHING_SAID, Means, Translation
from remora.core.verdict import Fault, Found, Malformed, NoReply, Reply, Verdict
from remora.gate.governor import Governor
from remora.gate.permit import Gate, GovernedPermit
from remora.ordinary_answers import OrdinaryAnswers
from remora.sim.clock import SimClock, run
from tests.gate.numbers import NULL, POISON, Numbers

GOOD_BODY = b'{"id": %d}'


class Learned:
    """Stands for the gate and for the general way: notes what each of them hears."""

    def __init__(self) -> None:
        self.heard: list[list[int] | int] = []

    def learn_found(self, answers: Sequence[tuple[GovernedPermit, Reply, Verdict]]) -> None:
        found = [verdict.thing for _, _, verdict in answers if isinstance(verdict, Found)]
        self.heard.append([getattr(item, "item_id", 0) for item in found])

    def other(self, discovery: Discovery, _permit: GovernedPermit, _reply: Reply | NoReply, *_: object) -> Asked:
        self.heard.append(discovery.item_id)
        return Asked(Malformed(GapReason.MALFORMED), 0, 1)


class Says:
    """A dialect for which some bodies have a meaning of their own."""

    def translate(self, reply: Reply, *, now_wall_ns: int) -> Translation:
        return NOTHING_SAID if self.is_silent(reply) else Translation(Means.PRESSURE)

    def is_silent(self, reply: Reply) -> bool:
        return b"slow down" not in reply.body


def permit(*, departed: bool = True) -> GovernedPermit:
    gate, at = cast("Gate", None), 1 if departed else None
    return GovernedPermit(gate, Lane.BACKFILL, 0, pace_bound=True, departed_at_ns=at, departed_wall_ns=at)


def reply(item_id: int, **changes: object) -> Reply:
    return Reply(**{"status": 200, "body": GOOD_BODY % item_id, "departed_at_ns": 1, "answered_at_ns": 2, **changes})  # type: ignore[arg-type]


def hear(
    replies: dict[int, Reply | NoReply],
    dialect: Dialect | None = None,
    *,
    odd: Reply | NoReply | None = None,
    is_known: bool = False,
) -> tuple[list[list[int] | int], list[int]]:
    """What was learned in which order, and the items of the results in theirs. `is_known`: all but the odd one are plain."""
    learned, results = Learned(), list[int]()

    async def scenario(clock: SimClock) -> None:
        governor = cast("Governor", learned)
        ordinary = OrdinaryAnswers(Numbers(clock), governor, dialect, KnownGood(), Refusals())
        answers = [
            (Discovery.item(item_id, via=Lane.BACKFILL), permit(), each, is_known and each is not odd)
            for item_id, each in replies.items()
        ]
        results.extend(one.item_id for one, _ in ordinary.hear(answers, learned.other, now_wall_ns=3))

    run(scenario)
    return learned.heard, results


def test_a_run_of_ordinary_answers_is_heard_in_one_go() -> None:
    assert hear({each: reply(each) for each in range(1, 6)}) == ([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5])


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    "odd",
    [
        reply(3, status=429),
        reply(3, body=NULL),
        reply(3, body=POISON),
        reply(3, body=b'{"id": 4}'),
        reply(3, body=b'{"id": 3, "error": "slow down"}'),
        reply(3, headers={"x-ratelimit-remaining": "3"}),
        NoReply(Fault.TIMEOUT, 1, 2),
    ],
)
def test_any_other_answer_is_heard_alone_between_those_before_and_those_after_it(
    odd: Reply | NoReply, is_known: bool
) -> None:
    replies: dict[int, Reply | NoReply] = {1: reply(1), 2: reply(2), 3: odd, 4: reply(4), 5: reply(5)}
    assert hear(replies, Says(), odd=odd, is_known=is_known) == ([[1, 2], 3, [4, 5]], [1, 2, 3, 4, 5])


def test_what_an_ordinary_answer_means_is_when_it_was_sent_and_what_it_found() -> None:
    async def scenario(clock: SimClock) -> None:
        known, governor = KnownGood(), cast("Governor", Learned())
        ordinary = OrdinaryAnswers(Numbers(clock), governor, None, known, Refusals())
        asked_for = Discovery.item(7, via=Lane.BACKFILL)
        never: Callable[..., Asked] = Learned().other
        ((_, asked),) = ordinary.hear([(asked_for, permit(), reply(7), False)], never, now_wall_ns=3)
        assert isinstance(asked.verdict, Found)
        assert (asked.started_at_ns, asked.requests, asked.took_ns) == (1, 1, 1)
        assert known.is_answering

    run(scenario)
