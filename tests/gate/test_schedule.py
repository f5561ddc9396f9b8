"""How many requests get their turns at once?"""

from remora.core.rate.pacing import Pacer, interval_for, new_pacer
from remora.core.rate.stretches import Stretch
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.gate.local import LocalHome
from remora.gate.schedule import Schedule
from remora.stores.memory import MemoryStore


class ShortHome(LocalHome):
    """Grants one stretch that ends soon."""

    def __init__(self, ends_ns: int) -> None:
        super().__init__("hackernews", MemoryStore())
        self._stretch = Stretch(0, ends_ns, last_ns=ends_ns)

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch:
        return self._stretch


def test_a_block_has_no_more_turns_than_can_be_sent_before_the_stretch_ends() -> None:
    fast_ns, now_ns = interval_for(100_000), 10 * SECOND_NS
    pacer = new_pacer(ceiling_interval_ns=fast_ns, interval_ns=fast_ns, now_ns=0)
    schedule = Schedule(ShortHome(now_ns + 3 * MILLISECOND_NS), pacer)
    assert schedule.turn_in(now_ns=now_ns) is not None
    assert schedule.granted.turns_due(now_ns=now_ns) > 500
    assert 20 <= schedule.turns_due(now_ns=now_ns) <= 30
