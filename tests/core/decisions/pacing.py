"""When may a request depart? Pacers, other clocks, shared time and the causes of waiting."""

from collections.abc import Mapping
from typing import Final

from remora.core.rate import clock_offset, held_time, pacing, stretches
from remora.core.rate.gate_types import LimitedBy
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from tests.core.decisions.drawing import NOW_NS, Case, Decision, Draw
from tests.core.decisions.law import drawn_pace

INTERVALS_NS: Final = (
    1,
    999,
    1_000_000,
    5_000_000,
    9_999_999,
    10_000_000,
    10_000_001,
    40_000_000,
    SECOND_NS,
    MINUTE_NS,
)


def _pacer(draw: Draw) -> pacing.Pacer:
    ceiling_ns = draw.one(*INTERVALS_NS)
    at_ns = draw.one(0, SECOND_NS, NOW_NS)
    return pacing.Pacer(
        ceiling_ns,
        max(ceiling_ns, draw.one(*INTERVALS_NS)),
        at_ns + draw.one(-ceiling_ns, 0, 1, ceiling_ns, 7 * ceiling_ns),
        at_ns + draw.one(-SECOND_NS, 0, 1, ceiling_ns, SECOND_NS, 9 * MINUTE_NS),
        at_ns + draw.one(0, -ceiling_ns, -SECOND_NS),
    )


def pacer(draw: Draw) -> Case:
    """When a request may depart, and what follows when it does."""
    first, second = _pacer(draw), _pacer(draw)
    late_ns = draw.one(0, 1, MILLISECOND_NS, SECOND_NS)
    earliest_ns, turn_ns = first.earliest_ns(), first.turn_ns()
    told = draw.one(0.0003, 1.0, 3.0, 99.9, 100.0, 101.0, 2e9)
    said = (
        [earliest_ns, turn_ns, first.pace_earliest_ns(), pacing.interval_for(told)],
        [first.at_interval(interval_ns) for interval_ns in (1, first.interval_ns, *INTERVALS_NS)],
        first.starting_at(first.ceiling_next_ns + draw.one(-first.ceiling_interval_ns, 0, 1, SECOND_NS)),
        first.sent(now_ns=first.ceiling_next_ns - first.ceiling_interval_ns + draw.one(-1, 0, 1)),
        [first.no_earlier_than(second), second.no_earlier_than(first), first.no_earlier_than(first)],
        first.departed(now_ns=earliest_ns + late_ns),
        first.took_turns(1, now_ns=turn_ns + late_ns),
        [first.turns_due(now_ns=turn_ns + ns) for ns in (-1, 0, late_ns, 7 * late_ns)],
        [first.paced_from(turn_ns + free_ns, now_ns=turn_ns + late_ns) for free_ns in (-1, 0, late_ns)],
        [pacing.burst_allowance(interval_ns) for interval_ns in INTERVALS_NS],
        pacing.new_pacer(
            ceiling_interval_ns=first.ceiling_interval_ns,
            interval_ns=second.interval_ns,
            now_ns=NOW_NS,
            idle_ns=draw.one(0, 5, SECOND_NS),
        ),
    )
    return Case((first, second, late_ns), said)


def offset(draw: Draw) -> Case:
    """How far another clock is ahead."""

    def looked(at_ns: int) -> clock_offset.Ahead:
        took_ns = draw.one(0, 500, 2_000, MILLISECOND_NS, 3 * MILLISECOND_NS)
        ahead_ns = draw.one(0, 1_000, -1_000, MILLISECOND_NS, 2 * MILLISECOND_NS, HOUR_NS)
        return clock_offset.look(asked_at_ns=at_ns, answered_at_ns=at_ns + took_ns, theirs_ns=at_ns + ahead_ns)

    known = looked(NOW_NS) if draw.chance(0.8) else None
    later_ns = draw.one(
        -1, 0, 1, SECOND_NS, 2 * SECOND_NS, 10 * SECOND_NS, 10 * SECOND_NS + 1, 11 * SECOND_NS, MINUTE_NS
    )
    last_ns = NOW_NS if known is None else known.answered_at_ns
    took_ns = draw.one(0, MILLISECOND_NS)
    answered_ns = last_ns + later_ns
    drift_ns = later_ns // clock_offset.DRIFT_ONE_IN + clock_offset.JUMP_LEAST_NS
    most_ns = 0 if known is None else known.most_ns
    theirs_ns = answered_ns + draw.one(most_ns + drift_ns, most_ns + drift_ns + 1, most_ns, 0, SECOND_NS)
    seen = clock_offset.look(asked_at_ns=answered_ns - took_ns, answered_at_ns=answered_ns, theirs_ns=theirs_ns)
    at_ns = NOW_NS + draw.one(-HOUR_NS, 0, HOUR_NS, DAY_NS)
    ours = clock_offset.narrowed(known, seen)
    said = (ours, clock_offset.was_set_forward(known, seen), ours.surely_from_ns(at_ns), ours.surely_until_ns(at_ns))
    return Case((known, seen, at_ns), (said, ours.unsure_ns(now_ns=answered_ns + draw.one(-5, 0, 2_000, HOUR_NS))))


def shared_time(draw: Draw) -> Case:
    """A process that asks a shared store for time, and departs in it."""
    ceiling_ns = draw.one(
        MILLISECOND_NS, 5 * MILLISECOND_NS, 10 * MILLISECOND_NS, 40 * MILLISECOND_NS, 300 * MILLISECOND_NS
    )
    ours = stretches.Stretches(ceiling_ns)
    now_ns, ahead_ns = SECOND_NS * 50, draw.one(0, 7 * SECOND_NS)
    schedule = pacing.new_pacer(ceiling_interval_ns=ceiling_ns, interval_ns=ceiling_ns, now_ns=now_ns)
    said: list[object] = [stretches.reach_for(ceiling_ns)]
    ends_ns = 0
    for _ in range(draw.one(3, 8, 14)):
        now_ns += draw.one(0, ceiling_ns // 2, ceiling_ns, 30 * MILLISECOND_NS, 200 * MILLISECOND_NS)
        ready = draw.one(0, 1, 2, 5, 40)
        said.append(ours.is_short(schedule, ready=ready, now_ns=now_ns))
        if draw.chance(0.6):
            asked = ours.question(interval_ns=draw.one(1, ceiling_ns, 3 * ceiling_ns), ready=ready, now_ns=now_ns)
            took_ns = draw.one(0, 500_000, MILLISECOND_NS, 8 * MILLISECOND_NS, 90 * MILLISECOND_NS)
            theirs_ns = now_ns + took_ns // 2 + ahead_ns + draw.one(0, 0, 0, 0, 5 * MILLISECOND_NS)
            starts_ns = draw.one(ends_ns, theirs_ns, theirs_ns + 20 * MILLISECOND_NS, asked.mine_ns or theirs_ns)
            interval_ns = draw.one(ceiling_ns, asked.interval_ns, 2 * ceiling_ns)
            # Of an answer that takes no time, rounding and drift leave exactly one interval.
            whole_ns = interval_ns + clock_offset.ROUNDED_NS + interval_ns // clock_offset.DRIFT_ONE_IN
            lasts_ns = draw.one(
                ceiling_ns - 1, ceiling_ns, 2 * ceiling_ns, 100 * MILLISECOND_NS, 5 * ceiling_ns, whole_ns
            )
            grant = stretches.Grant(
                draw.one(0, 1, asked.want, asked.want),
                theirs_ns,
                starts_ns,
                starts_ns + lasts_ns,
                interval_ns,
                draw.chance(),
                draw.chance(0.1),
            )
            ends_ns = grant.ends_ns
            got = ours.granted(grant, asked_at_ns=now_ns, answered_at_ns=now_ns + took_ns)
            now_ns += took_ns
            said += [asked, got, ours.ask_at_ns]
        found = ours.find(schedule, now_ns=now_ns)
        if found is not None and ready:
            here = schedule.starting_at(found.starts_ns)
            now_ns = max(now_ns, here.earliest_ns())
            if now_ns <= found.last_ns:
                ours.departed(found, here, now_ns=now_ns)
                schedule = here.departed(now_ns=now_ns)
        said += [found, schedule.ceiling_next_ns]
    return Case((ceiling_ns, ahead_ns), said)


def room_in_time(draw: Draw) -> Case:
    """Whether a stretch of time has room for the next request."""
    ceiling_ns = draw.one(MILLISECOND_NS, 20 * MILLISECOND_NS)
    stretch = stretches.Stretch(SECOND_NS, SECOND_NS)
    gap_ns, late_ns = draw.one(ceiling_ns, 3 * ceiling_ns), draw.one(0, 9 * ceiling_ns)
    stretch.end_at(SECOND_NS + draw.one(gap_ns - 1, gap_ns, gap_ns + 1, 5 * gap_ns), gap_ns=gap_ns, late_ns=late_ns)
    last_ns = max(0, stretch.last_ns)
    schedule = pacing.Pacer(
        ceiling_ns,
        draw.one(ceiling_ns, 2 * ceiling_ns),
        last_ns + draw.one(-5, 0, 1),
        last_ns + draw.one(-5, 0, 1, 9 * ceiling_ns, 9 * ceiling_ns + 1),
        0,
    )
    now_ns = last_ns - pacing.SEND_NS + draw.one(-1, 0, 1, -SECOND_NS)
    whole = stretches.ALL_OF_TIME.has_room(schedule, now_ns=now_ns)
    return Case((schedule, now_ns), (stretch, stretch.has_room(schedule, now_ns=now_ns), whole))


def causes(draw: Draw) -> Case:
    """What held requests back in the last seconds."""
    now_ns = draw.one(0, SECOND_NS // 2, 5 * SECOND_NS, NOW_NS)
    held = held_time.HeldTime(now_ns=now_ns)
    said: list[object] = [held.shares(now_ns=now_ns)]
    for _ in range(draw.one(1, 3, 9)):
        until_ns = draw.one(None, None, now_ns - 1, now_ns + 3 * MILLISECOND_NS, now_ns + SECOND_NS)
        cause = draw.one(LimitedBy.PACE, LimitedBy.CEILING, LimitedBy.ANSWERS)
        held.switch(cause, until_ns=until_ns, now_ns=now_ns)
        steps_ns = (0, 1, MILLISECOND_NS, 2 * MILLISECOND_NS, 600 * MILLISECOND_NS, SECOND_NS, 11 * SECOND_NS)
        ends_ns = () if until_ns is None else (until_ns + held_time.LATE_NS, until_ns + held_time.LATE_NS + 1)
        now_ns = draw.one(*(now_ns + step_ns for step_ns in steps_ns), *(max(now_ns, end_ns) for end_ns in ends_ns))
        shares = held.shares(now_ns=now_ns)
        said += [shares, held_time.limiting(shares), held.is_open_ended(LimitedBy.PACE)]
    pace = drawn_pace(draw)
    in_flight, bound, storing = draw.one(0, 1, 4), draw.one(1, 4, 5), draw.one(0, 1, 2)
    said.append(held_time.cause_without_hold(in_flight, bound=bound, storing=storing))
    said.append(
        [held_time.pacing_limit(pace, interval_ns=pace.ceiling_interval_ns + more_ns) for more_ns in (-1, 0, 1)]
    )
    return Case((in_flight, bound, storing), said)


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "pacing: a pacer": (pacer, 400),
    "pacing: another clock": (offset, 600),
    "pacing: shared time": (shared_time, 600),
    "pacing: room in shared time": (room_in_time, 400),
    "pacing: causes of waiting": (causes, 500),
}
