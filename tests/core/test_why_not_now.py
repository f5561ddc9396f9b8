"""Does an operator read why an owed thing is not here yet, in whatever state it is?"""

import pytest

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.status.why_not_now import why_not_now
from remora.core.units import SECOND_NS


@pytest.mark.parametrize(
    "state, said",
    [
        (GapState.OWED, "next attempt in 30 s"),
        (GapState.LEASED, "being fetched, or next in line; 2 attempts"),
        (GapState.DEAD, "given up for now after 2 attempts"),
        (GapState.ABSENT, "said 3 times that it has no such item"),
        (GapState.GONE, "deleted upstream"),
        (GapState.SETTLED, "here"),
    ],
)
def test_every_state_has_its_sentence(state: GapState, said: str) -> None:
    gap = Gap(Kind.ITEM, "7", state, GapReason.TIMEOUT, 2, 3, False, 30 * SECOND_NS, 0, 0)
    assert said in why_not_now(gap, now_ns=0)
