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


def test_a_busy_machine_that_sends_less_than_the_pace_proves_nothing_about_the_pace() -> None:
    interval_ns = interval_for(100)
    pacer = new_pacer(ceiling_interval_ns=interval_for(200), interval_ns=interval_ns, now_ns=0)
    schedule = Schedule(ShortHome(1_000 * SECOND_NS), pacer)

    def depart(late_ns: int, *, was_ready: bool = True) -> bool:
        now_ns = schedule.departed.earliest_ns() + late_ns
        stretch = schedule.departure_in(now_ns=now_ns)
        assert stretch is not None
        schedule.depart(stretch, now_ns=now_ns, was_ready=was_ready)
        return schedule.is_kept

    assert all(depart(0) for _ in range(100))
    assert depart(interval_ns), "one late request is chance"
    assert all(depart(interval_ns // 20) for _ in range(100)), "a twentieth of an interval is as good as exact"
    assert not [depart(interval_ns // 5) for _ in range(100)][-1]
    assert [depart(0) for _ in range(100)][-1], "as soon as the machine keeps the pace again, it counts again"
    assert all(depart(SECOND_NS, was_ready=False) for _ in range(100)), "idle, or still connecting: not our machine"


def test_a_late_departure_that_a_burst_makes_up_for_still_proves_the_pace() -> None:
    interval_ns = interval_for(1_000)
    pacer = new_pacer(ceiling_interval_ns=interval_ns // 2, interval_ns=interval_ns, now_ns=0)
    schedule = Schedule(ShortHome(1_000 * SECOND_NS), pacer)
    for number in range(1, 1_000):
        now_ns = max(schedule.departed.earliest_ns(), number // 5 * 5 * interval_ns)  # it wakes for every fifth one
        stretch = schedule.departure_in(now_ns=now_ns)
        assert stretch is not None
        schedule.depart(stretch, now_ns=now_ns, was_ready=True)
        assert schedule.is_kept
