"""What do the other parts of the rate decide? Records, the circuit breaker, blame, limits on refusals and lanes."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.core.item import Page
from remora.core.lanes import Lane, Turns, choose
from remora.core.rate import attribution, circuit_breaker, signal
from remora.core.rate.ban import LONG_NS, BanWatch
from remora.core.rate.ban_record import from_stored, stricter, to_stored
from remora.core.rate.circuit_breaker import CircuitBreaker, CircuitEvent, CircuitState
from remora.core.rate.gate_types import LimitedBy, RateFacts, Recent
from remora.core.rate.law import Answer, Answered
from remora.core.rate.limits import Limits
from remora.core.rate.pace import changed
from remora.core.rate.pace_record import (
    PaceRecord,
    damage,
    in_bounds,
    record_from_json,
    record_to_json,
    restore,
    since_saved_ns,
    to_record,
    wait_ns_of,
)
from remora.core.rate.refusal_limit import RefusalLimit, Refusals, parse_refusal_limit
from remora.core.rate.shared_pace import NEVER_NEGATIVE, Common, UnsharedAnswers, from_common, heard_on_top, to_common
from remora.core.reasons import GapReason
from remora.core.repeats import Repeats
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import (
    Deferred,
    Fault,
    Found,
    Malformed,
    Missing,
    NoReply,
    NotYet,
    Pressure,
    Refused,
    Reply,
    Trouble,
    Verdict,
)
from tests.core.decisions.drawing import NOW_NS, Case, Decision, Draw
from tests.core.decisions.law import MOMENT_NS, drawn_answer, drawn_pace


def drawn_verdict(draw: Draw) -> Verdict:
    """Any verdict on an answer."""
    reason = draw.one(*GapReason)
    verdicts: tuple[Verdict, ...] = (
        Found(Page((), None)),
        NotYet(),
        Missing(draw.one(GapReason.NOT_FOUND, GapReason.GONE)),
        Pressure(reason, draw.one(None, 0, SECOND_NS)),
        Trouble(draw.one(GapReason.TIMEOUT, GapReason.SERVER_ERROR)),
        Refused(reason),
        Malformed(reason),
        Deferred(reason),
    )
    return draw.one(*verdicts)


def circuit(draw: Draw) -> Case:
    """A circuit that opens, is probed and closes."""
    breaker, now_ns = CircuitBreaker(), 0
    said: list[object] = []
    share = draw.one(0.2, 0.5, 0.9)
    for _ in range(draw.one(5, 20, 40)):
        now_ns += draw.one(0, SECOND_NS, 10 * SECOND_NS)
        event = CircuitEvent.BAD if draw.chance(share) else CircuitEvent.GOOD
        if breaker.state is not CircuitState.CLOSED or draw.chance(0.05):
            event = draw.one(*CircuitEvent, CircuitEvent.PROBE)
        if draw.chance(0.1):
            breaker = draw.one(circuit_breaker.note(breaker, bad=True), circuit_breaker.opened(breaker, now_ns=now_ns))
        breaker = circuit_breaker.after(breaker, event, now_ns=now_ns)
        waits = [breaker.wait_ns(now_ns=breaker.open_until_ns + by_ns) for by_ns in (-1, 0, 1)]
        said.append((breaker, breaker.is_calm, breaker.looks_down, waits))
    return Case(share, said)


def blame(draw: Draw) -> Case:
    """Whether items or the provider cause trouble, by canaries."""
    known = attribution.Attribution()
    said: list[object] = []
    for _ in range(draw.one(5, 30, 60)):
        steps: tuple[Callable[[attribution.Attribution], attribution.Attribution], ...] = (
            attribution.after_good,
            attribution.after_good,
            attribution.after_good,
            attribution.after_good,
            attribution.after_trouble,
            lambda before: attribution.asked(before, opens=draw.chance()),
            lambda before: attribution.after_canary(before, is_good=draw.chance(0.8)),
            attribution.after_lost_canary,
        )
        known = draw.one(*steps)(known)
        said.append((known, known.is_forgotten, known.troubled))
    return Case(None, said)


def bans(draw: Draw) -> Case:
    """What an outage after refusals teaches, and what is stored of it."""
    watch, now_ns = BanWatch(), 0
    said: list[object] = []
    for _ in range(draw.one(6, 12, 24)):
        now_ns += draw.one(1, SECOND_NS, SECOND_NS, SECOND_NS, MINUTE_NS, LONG_NS - MINUTE_NS, LONG_NS)
        sent_ns = now_ns - draw.one(0, 0, 2 * SECOND_NS)
        if draw.chance(0.6):
            watch = watch.hear_refusal(sent_ns=sent_ns, answered_ns=now_ns)
        elif draw.chance(0.4):
            watch = watch.hear_forbidden(sent_ns=sent_ns, answered_ns=now_ns)
        else:
            watch = watch.hear_good(sent_ns=sent_ns)
        said += [
            watch,
            watch.at(now_ns + draw.one(0, HOUR_NS)).learned,
        ]
    age_ns = draw.one(0, SECOND_NS, HOUR_NS)
    stored = msgspec.to_builtins(to_stored(watch, now_ns=now_ns))
    if draw.chance(0.2):
        stored[draw.one("tolerated", "outage", "learned")] = draw.one(None, -1, {"most": 0}, "x")
    kept = from_stored(stored, age_ns=age_ns, now_ns=now_ns + age_ns)
    return Case(None, [*said, stored, kept, stricter(watch, kept), stricter(kept, watch), stricter(BanWatch(), kept)])


def refusals(draw: Draw) -> Case:
    """The owner's limit on refusals."""
    limit = RefusalLimit(draw.one(1, 2, 4), draw.one(1, SECOND_NS, MINUTE_NS))
    counted, now_ns = Refusals(limit), 0
    said: list[object] = []
    for _ in range(draw.one(1, 4, 8)):
        now_ns += draw.one(0, 1, SECOND_NS - 1, SECOND_NS, SECOND_NS + 1, MINUTE_NS)
        if draw.chance(0.7):
            counted = counted.refused(at_ns=now_ns, times=draw.one(0, 1, 1, 2))
        for at_ns in (now_ns, now_ns + 1, now_ns + limit.within_ns, now_ns + limit.within_ns + 1):
            said += [counted.count(now_ns=at_ns)]
            said += [
                (counted.allows(busy, now_ns=at_ns), counted.free_at_ns(busy, now_ns=at_ns)) for busy in (0, 1, 3, 5)
            ]
    text = f"{draw.one('', ' ', '0', '1', '4', '-1', 'x', '1000000', '1000001', '٤')}/{draw.one(*SPANS)}"
    written: object = draw.one(text, text, text, text.replace("/", ""), 4, None)
    try:
        said.append(parse_refusal_limit(written, "here"))
    except ConfigurationError as error:
        said.append(error)
    return Case((limit, written), said)


SPANS: Final = ("s", "min", "m", "h", "hour", "d", "day", "10m", "25h", "24h", "0s", "", "1ms", "2d", "1 m", "x")


def limits(draw: Draw) -> Case:
    """The owner's settings, and the jitter."""
    ceiling_ns = draw.one(-1, 0, 1, MILLISECOND_NS, 20 * MILLISECOND_NS, SECOND_NS)
    least_ns = draw.one(0, 1, MILLISECOND_NS, MILLISECOND_NS + 1, 2 * SECOND_NS)
    given = (ceiling_ns, draw.one(-1, 0, 1, 2), least_ns, draw.one(0, MILLISECOND_NS, 20 * MILLISECOND_NS))
    try:
        kept = Limits(*given)
    except ConfigurationError as error:
        return Case(given, error)
    return Case(given, [kept.jitter_ns(chance) for chance in (0.0, 0.25, 0.5, 0.999)])


def stored_pace(draw: Draw) -> Case:
    """A pace that is stored, and the next run that reads it."""
    pace = changed(drawn_pace(draw), learned_at_ns=MOMENT_NS - draw.one(-1, 0, 5, HOUR_NS))
    if draw.chance(0.3):
        pace = changed(
            pace, quiet_until_ns=MOMENT_NS + draw.one(0, 1, HOUR_NS), quota_until_ns=MOMENT_NS + draw.one(0, 1, HOUR_NS)
        )
    record = to_record(pace, now_ns=MOMENT_NS, now_wall_ns=NOW_NS)
    late_ns = draw.one(
        0, SECOND_NS, HOUR_NS, HOUR_NS + 1, 6 * HOUR_NS, 6 * HOUR_NS + 1, 7 * HOUR_NS, -2 * SECOND_NS, -3 * SECOND_NS
    )
    now_wall_ns = record.learned_at_wall_ns + late_ns
    if draw.chance(0.3):
        now_wall_ns = draw.one(record.quiet_until_wall_ns, record.quota_until_wall_ns) + draw.one(-1, 0, 1)
    again = restore(
        record,
        ceiling_interval_ns=draw.one(pace.ceiling_interval_ns, SECOND_NS),
        now_ns=5 * SECOND_NS,
        now_wall_ns=now_wall_ns,
        stale_after_ns=draw.one(0, HOUR_NS, 6 * HOUR_NS),
    )
    return Case(
        (pace, late_ns), (record, vars(again.pace), again.how, record_from_json(record_to_json(record)) == record)
    )


def damaged_record(draw: Draw) -> Case:
    """A record in which one number or two are wrong."""
    pace = drawn_pace(draw)
    data = record_to_json(to_record(pace, now_ns=MOMENT_NS, now_wall_ns=NOW_NS))
    numbers = (
        -1,
        0,
        -0.5,
        1,
        1.0,
        1.1,
        1e-6,
        9e-7,
        1e9,
        1.1e9,
        1 << 62,
        (1 << 62) + 1,
        -(1 << 62),
        15 * MINUTE_NS,
        15 * MINUTE_NS + 1,
    )
    for _ in range(draw.one(1, 1, 2)):
        name = draw.one(*data)
        edges: list[object] = [*draw.some(3, lambda: draw.one(*numbers))]
        data[name] = (
            draw.one(edges, "x", 5) if name == "edges_per_s" and draw.chance(0.8) else draw.one(*numbers, True, None)
        )
        if draw.chance(0.2):
            del data[draw.one(*data)]
    given: object = draw.one(data, data, data, data, None, [], 5)
    found = record_from_json(given)
    said: list[object] = [found]
    if isinstance(found, PaceRecord):
        said += [
            damage(found),
            vars(restore(found, ceiling_interval_ns=MILLISECOND_NS, now_ns=0, now_wall_ns=NOW_NS).pace),
        ]
    waits = {
        "wait": draw.one(-1, 0, 5, 40 * DAY_NS, True, 1.5, None),
        "saved_at_wall_ns": draw.one(NOW_NS + 1, NOW_NS - 1, None),
    }
    said += [wait_ns_of(waits, "wait"), since_saved_ns(waits, NOW_NS)]
    wild = changed(
        pace,
        rate_per_s=draw.one(0.1, 1e6),
        octave_per_s=draw.one(0.1, 1e7),
        account=draw.one(-1e6, 0.0, 1e6),
        stray_share=draw.one(0.0, 0.005, 0.5),
        trouble_share=draw.one(0.0, 0.1, 0.9),
    )
    bounded = in_bounds(wild)
    return Case(
        given,
        (said, [bounded.rate_per_s, bounded.octave_per_s, bounded.account, bounded.stray_share, bounded.trouble_share]),
    )


def common_pace(draw: Draw) -> Case:
    """A pace that processes share."""
    pace = changed(drawn_pace(draw), quiet_until_ns=MOMENT_NS + draw.one(-MOMENT_NS, -1, 0, 1, HOUR_NS))
    told: dict[str, object] = dict(to_common(Common(pace, draw.one(-1, 0, 3)), now_ns=MOMENT_NS))
    if draw.chance(0.6):
        name = draw.one(*(told if draw.chance(0.3) else (*NEVER_NEGATIVE, "octave_per_s", "streak", "edges_per_s")))
        told[name] = draw.one(
            -1, -0.5, 0, 1, 0.5, True, None, [], [1.0], [1], ["x"], 1 << 62, (1 << 62) + 1, 1e-7, 1e-6, 1e-5
        )
    if draw.chance(0.1):
        told["edges_per_s"] = []
    if draw.chance(0.1):
        told.pop(draw.one(*told))
    read = from_common(
        draw.one({"common": told}, {"common": told}, {"common": told}, {}, None, {"common": 5}),
        age_ns=draw.one(0, SECOND_NS, HOUR_NS),
        quiet_in_ns=draw.one(0, 5, HOUR_NS),
        ceiling_interval_ns=draw.one(pace.ceiling_interval_ns, SECOND_NS),
        now_ns=2 * MOMENT_NS,
    )
    said: list[object] = [told, None if read is None else (vars(read.pace), read.cuts)]
    if read is not None:
        heard = [drawn_answer(draw, pace, from_ns=2 * MOMENT_NS) for _ in range(2)]
        said.append(vars(heard_on_top(read.pace, pace, heard)))
    return Case(told, said)


def unshared(draw: Draw) -> Case:
    """The answers that a process has not shared yet."""
    answers = UnsharedAnswers()
    all_of_them = [Answered(draw.one(*Answer), at, at + 5, pace_bound=True) for at in range(draw.one(0, 3, 9))]
    answers.add(*all_of_them)
    if draw.chance():
        answers.forget(all_of_them[: draw.one(0, 1, 4)])
    if draw.chance():
        answers.excuse()
        answers.forget(all_of_them[:2])
    return Case(len(all_of_them), (len(answers), [(one.answer, one.departed_at_ns) for one in answers]))


def signals(draw: Draw) -> Case:
    """What an answer says about the source."""
    verdict = drawn_verdict(draw)
    sent_ns = draw.one(0, 50)
    reply: Reply | NoReply = NoReply(draw.one(*Fault), sent_ns, 90)
    if draw.chance(0.6):
        reply = Reply(draw.one(200, 429, 500), b"", sent_ns, draw.one(50, 90), late_ns=draw.one(0, 1, 39, 40, 41))
    before, learned = drawn_pace(draw), drawn_pace(draw)
    learned = changed(learned, last_cut_at_ns=before.last_cut_at_ns + draw.one(-1, 0, 1), queue_ns=draw.one(0.0, 1.0))
    known = signal.WellAnswered()
    known.add(*range(draw.one(0, 18, 19, 20, 21, 30)))
    said = (
        [signal.answer_of(verdict), signal.is_nonsense(verdict), signal.is_unanswered(verdict)],
        [signal.in_words(reply, verdict), signal.came_at_ns(reply), signal.slowed_because(before, learned, verdict)],
        [signal.slowed_because(before, learned, None), [known.have_overtaken(at) for at in (-1, 0, 1, 10)]],
    )
    return Case((verdict, reply), said)


def lanes(draw: Draw) -> Case:
    """Which lane is next, several times in a row."""
    turns, said = Turns(), list[object]()
    for _ in range(draw.one(3, 12, 30)):
        waiting = {draw.one(*Lane) for _ in range(draw.one(1, 2, 4))}
        lane, turns = choose(turns, waiting)
        said.append((lane, turns.credit))
    return Case(None, said)


def recently(draw: Draw) -> Case:
    """The facts about the rate that are derived, and failures that repeat."""
    window_ns = draw.one(0, SECOND_NS - 1, SECOND_NS, 10 * SECOND_NS)
    ceiling_ns = draw.one(2 * MILLISECOND_NS, 100 * MILLISECOND_NS, SECOND_NS)
    recent = Recent(draw.one(0, 1, 10, 11, 100, 101, 6_000), 5, 1, 1, window_ns)
    facts = RateFacts(
        interval_ns=draw.one(ceiling_ns, 3 * SECOND_NS),
        ceiling_interval_ns=ceiling_ns,
        limited_by=LimitedBy.PACE,
        circuit=CircuitState.CLOSED,
        recent=draw.one(recent, recent, None),
    )
    repeats, now_ns, told = Repeats(), 0, list[object]()
    for _ in range(5):
        now_ns += draw.one(0, MINUTE_NS - 1, MINUTE_NS, MINUTE_NS + 1)
        told.append(repeats.over() if draw.chance(0.2) else repeats.is_worth_telling(now_ns=now_ns))
    return Case((window_ns, ceiling_ns), (facts.recent_per_s, facts.per_s, facts.ceiling_per_s, told, repeats.failures))


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "rate: the circuit breaker": (circuit, 100),
    "rate: who is to blame": (blame, 100),
    "rate: a limit on refusals": (refusals, 300),
    "rate: bans": (bans, 400),
    "rate: limits and jitter": (limits, 300),
    "rate: a stored pace": (stored_pace, 600),
    "rate: a damaged record": (damaged_record, 1_500),
    "rate: a common pace": (common_pace, 800),
    "rate: answers not shared yet": (unshared, 100),
    "rate: what an answer says": (signals, 400),
    "rate: lanes": (lanes, 100),
    "rate: the last seconds": (recently, 200),
}
