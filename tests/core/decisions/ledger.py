"""What does the ledger decide? Gaps, segments, coverage, freshness, runs and samples."""

from collections.abc import Mapping
from typing import Final

from remora.core.errors import ConfigurationError
from remora.core.item import Document, Item, Page, Piece
from remora.core.lanes import Lane
from remora.core.ledger import asking, freshness, gap, newest_id, reads, run, sampling, segment, source_clock
from remora.core.ledger.budget import Budget
from remora.core.ledger.coverage import Coverage, IdRange, newest_first
from remora.core.ledger.discovery import Discovery, FromGap, Kind, fingerprint
from remora.core.ledger.gap import Gap, GapEvent, Listing
from remora.core.ledger.known_good import KnownGood
from remora.core.ledger.run import RunCounts, Stop, StoppedBy
from remora.core.pieces import fits, joined, version_of
from remora.core.quantities import (
    format_duration,
    format_exactly,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from remora.core.reasons import GapReason
from remora.core.status.why_not_now import why_not_now
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Found, Missing, NotYet, Verdict
from tests.core.decisions.drawing import NOW_NS, Case, Decision, Draw
from tests.core.decisions.lists import drawn_page
from tests.core.decisions.rate import drawn_verdict

SPANS_NS: Final = (
    *(0, MILLISECOND_NS, SECOND_NS, 2 * SECOND_NS, 30 * SECOND_NS, MINUTE_NS, 2 * MINUTE_NS, 5 * MINUTE_NS, HOUR_NS),
    *(gap.YOUNG_FOR_NS, gap.DOUBTED_FOR_NS, gap.NOT_BEFORE_MAX_NS, gap.CLOCK_SLACK_NS, 6 * HOUR_NS, DAY_NS, 7 * DAY_NS),
)


def _gap(draw: Draw) -> Gap:
    draw.spans_ns = SPANS_NS
    attempts = draw.near(1, gap.ATTEMPTS_BEFORE_DEAD, gap.LOOKS_AT_A_NEW_ID)
    nulls = draw.near(0, gap.LOOKS_AT_AN_OLD_ID, gap.LOOKS_AT_A_NEW_ID)
    return draw.of(Gap, key="7", attempts=max(1, attempts), null_count=max(0, nulls))


def after_an_answer(draw: Draw) -> Case:
    """What an owed item is after one more answer."""
    before = _gap(draw) if draw.chance(0.85) else None
    verdict: Verdict = draw.one(
        drawn_verdict(draw), Missing(GapReason.NOT_FOUND), Missing(GapReason.GONE), NotYet(), _item(draw), _item(draw)
    )
    kind = draw.one(*Kind) if before is None else before.kind
    given = (before, verdict, kind)
    listing = draw.one(*Listing, Listing.UNKNOWN)
    try:
        then = gap.after(before, verdict, kind=kind, key="7", now_ns=NOW_NS, listing=listing)
    except KeyError as error:
        return Case(given, error)
    return Case((given, listing), (then, gap.owed_reason(verdict)))


def _item(draw: Draw) -> Found:
    return Found(Item(7, b"", delayed=draw.chance(0.8)))


def due(draw: Draw) -> Case:
    """When an owed item is asked for again, and in which words."""
    owed = _gap(draw)
    delay_ns = gap.retry_delay_ns(owed.reason, owed.attempts)
    ago_ns = draw.one(delay_ns // 2 - 1, delay_ns // 2, 0, delay_ns)
    if draw.chance():
        last_ns = NOW_NS - draw.near(*SPANS_NS)
        not_before_ns = last_ns + delay_ns - draw.one(0, 1, MILLISECOND_NS, MILLISECOND_NS + 1)
        owed = draw.of(
            Gap, key="7", last_seen_ns=last_ns, not_before_ns=not_before_ns, reason=owed.reason, attempts=owed.attempts
        )
    moves = {event: gap.moved(owed, event).state for event in GapEvent if (owed.state, event) in gap.TRANSITIONS}
    said = (gap.is_due(owed, now_ns=NOW_NS), gap.is_too_soon(owed, asked_ago_ns=ago_ns), delay_ns, moves)
    return Case((owed, ago_ns), (said, why_not_now(owed, now_ns=NOW_NS)))


def _ranges(draw: Draw) -> Coverage:
    pieces = []
    for _ in range(draw.one(0, 1, 3, 5)):
        start = draw.random.randrange(1, 30)
        pieces.append(IdRange(start, start + draw.one(0, 0, 1, 2, 9)))
    return Coverage.of(pieces)


def covered(draw: Draw) -> Case:
    """Which ids are covered, and which are not."""
    known = _ranges(draw)
    start = draw.random.randrange(1, 30)
    wanted = IdRange(start, start + draw.one(0, 1, 5, 20))
    holes = known.uncovered(wanted)
    said = (
        [
            known,
            len(known),
            [item_id in known for item_id in range(42)],
            known.with_range(wanted),
            known.within(wanted),
        ],
        [holes, newest_first(holes), [known.frontier(first_id=first) for first in (1, start, 5)], len(wanted)],
    )
    return Case((known, wanted), said)


def sampled(draw: Draw) -> Case:
    """A random sample, and what it says about the whole."""
    known = _ranges(draw)
    bad, sample = draw.one(0, 0, 1, 2, 5), draw.one(5, 6, 20, 100)
    population = sample + draw.one(0, 1, 1_000)
    share = draw.one(0.0, 1e-7, 9.9e-5, 1e-4, 1.2e-4, 0.00099, 0.001, 0.0011, 0.5, 0.999999, 1.0)
    ids = sampling.draw_ids(known, draw.one(0, 1, 3, 9, 60), below=draw.random.randrange)
    bound = sampling.share_at_most(bad, sample, population=population, confidence=draw.one(0.95, 0.5))
    return Case(
        (known, bad, sample, population, share), (ids, bound, sampling.as_percent(share), sampling.as_percent(bound))
    )


def walked(draw: Draw) -> Case:
    """A walk over a segment whose answers come in any order."""
    start = draw.one(1, 500)
    ids = IdRange(start, start + draw.one(0, 5, 98, 99, 100, 101, 150))
    recorded = {item_id for item_id in range(ids.start, ids.end + 1) if draw.chance(draw.one(0.0, 0.1, 0.9))}
    walk = segment.Walk(ids, recorded if draw.chance() else ())
    said: list[object] = []
    taken: list[int] = []
    for _ in range(draw.one(3, 30)):
        for _ in range(draw.one(1, 5, 60)):
            taken.extend(walk.take(1))
        if taken and draw.chance(0.9):
            done = [taken.pop(draw.random.randrange(len(taken))) for _ in range(min(len(taken), draw.one(1, 3, 30)))]
            walk.complete(*done)
        if draw.chance():
            walk.stored(draw.one(walk.cursor, walk.stored_cursor))
        said.append((walk.cursor, walk.held_up_by, walk.all_taken))
    left = segment.Segment(1, draw.one(*segment.SegmentKind), ids, draw.one(ids.start - 1, ids.end - 1, ids.end), 1, "")
    wide = IdRange(start, start + draw.one(998, 999, 1_000, 5_000))
    return Case(
        (ids, len(recorded)),
        (said, left.left, left.kind.lane, segment.top_piece(wide), segment.top_piece(ids, size=50)),
    )


def fresh(draw: Draw) -> Case:
    """Streams, blind windows and rescans."""
    draw.spans_ns = (0, SECOND_NS, 5 * MINUTE_NS, DAY_NS)
    last = freshness.LastEvent(draw.moment_ns(), draw.one(None, 10, 100), draw.moment_ns())
    newest = draw.one(10, 11, 29, 30, 31, 509, 510, 511, 120)
    ceiling_ns = draw.one(1, SECOND_NS, 1_500 * MILLISECOND_NS, 3 * SECOND_NS, 3 * SECOND_NS + 1)
    streams, every_ns = draw.one(1, 2), draw.one(HOUR_NS, DAY_NS)
    done = draw.of(
        freshness.RescanPass, processed=draw.one(0, 1, 2), unread=draw.one(0, 1, 2), time_s=draw.one(None, 5, 500)
    )
    before = draw.one(None, done, done)
    notes = (freshness.last_event_to_json(last), freshness.pass_to_json(done))
    broken: dict[str, object] = {**draw.one(*notes)}
    broken[draw.one(*broken)] = draw.one(None, "x", 5)
    said = (
        [freshness.back_off_ns(failures) for failures in range(12)],
        [freshness.reconnect_every_ns(ceiling_interval_ns=ceiling_ns, streams=streams)],
        [freshness.is_stream_too_dear(ceiling_interval_ns=ceiling_ns, streams=streams)],
        freshness.poll_interval_ns(draw.one(1, 15 * SECOND_NS), ceiling_interval_ns=ceiling_ns),
        freshness.is_deaf(last, newest_id=draw.one(None, newest, newest), now_ns=NOW_NS),
        freshness.blind_window(
            last, newest_id=newest, now_ns=NOW_NS, blind_for_ns=draw.one(0, 0, 5 * MINUTE_NS, 5 * MINUTE_NS + 1)
        ),
        [done.is_success, freshness.rescan_is_due(before, every_ns=every_ns, now_ns=NOW_NS)],
        freshness.rescan_since_s(
            time_s=draw.one(3, 400, 10**6), previous=before, horizon_ns=draw.one(SECOND_NS, HOUR_NS)
        ),
        [freshness.last_event_from_json(notes[0]), freshness.pass_from_json(notes[1])],
        [freshness.last_event_from_json(broken), freshness.pass_from_json(broken)],
    )
    return Case((last, newest, done), said)


def ages(draw: Draw) -> Case:
    """How old items are when they change."""
    counts = [0] * len(freshness.UpdateAges().counts)
    for _ in range(draw.one(0, 1, 4)):
        counts[draw.random.randrange(len(counts))] = draw.one(1, 99, 100, 198, 199, 200, 499_999, 999_998)
    known = freshness.UpdateAges(tuple(counts))
    age_s = draw.one(-5.0, 0.0, 60.0, 60.5, 74.9, 75.0, 76.0, 1e5, 1e9)
    then = known.seen(age_s)
    note: object = freshness.ages_to_json(known)
    if isinstance(note, list) and draw.chance():
        note[draw.random.randrange(len(note))] = draw.one(-1, 0, 1, 10**6, 10**6 + 1, True, "x")
    note = draw.one(note, note, note, None, [1], [1, *([0] * 66)])
    said = (
        [
            then,
            then.total,
            [known.percentile_s(percent) for percent in (1, 50, 99, 100)],
            freshness.ages_from_json(note),
        ],
        [freshness.suggested_window_ns(known), freshness.window_ns(draw.one(None, 5), known), freshness.AGE_BOUNDS_S],
    )
    return Case((known, age_s, note), said)


def clock_of_the_source(draw: Draw) -> Case:
    """From which id on items are newer than a time."""
    every = [
        source_clock.Timed(item_id, item_id * 10) for item_id in range(1, draw.one(1, 2, 40, 300)) if draw.chance(0.7)
    ]
    every = [source_clock.Timed(one.item_id, draw.one(0, 10**9)) if draw.chance(0.1) else one for one in every]
    newest, time_s = draw.one(0, 1, 30, 299), draw.one(0, 10, 11, 150, 2_000, 10**10)
    search = source_clock.first_id_since(time_s, newest_id=newest)
    asked: list[object] = []
    wanted = next(search)
    try:
        while len(asked) < 60:
            block = [one for one in every if one.item_id <= wanted][-source_clock.BLOCK_ITEMS :]
            asked.append((wanted, source_clock.time_of(block)))
            wanted = search.send(block)
    except StopIteration as end:
        asked.append(("found", end.value))
    return Case((len(every), newest, time_s), asked)


def read_again(draw: Draw) -> Case:
    """When unchanged items were last read, in ranges; and whether a claim about the newest id is believed."""
    ids = sorted({draw.near(99, 100, 101, 102, 200, 250) for _ in range(draw.one(0, 3, 9))})
    first = reads.merged([], {item_id: draw.one(5, 6) for item_id in ids})
    then = reads.merged(first, {draw.near(100, 101, 150): draw.one(5, 6)})
    doubt, told = None, draw.one(1, 3, 500, 1_000, 9_000)
    doubts = []
    for _ in range(draw.one(1, 3, 12)):
        doubt = newest_id.doubted(doubt, told, now_ns=SECOND_NS, now_wall_ns=NOW_NS)
        doubts.append((doubt, doubt.covers(told - draw.one(-1, 0, 1), now_ns=doubt.again_at_ns - draw.one(0, 1))))
    claims = [newest_id.needs_proof(told, proven_id=told - below) for below in (0, 999, 1_000, 1_001)]
    probed = [newest_id.probes(told, attempt=attempt) for attempt in (0, 1, 2, 5)]
    return Case(
        (ids, told),
        (first, then, reads.blocks(ids), reads.whole_second(NOW_NS + draw.one(-1, 0, 1)), doubts, claims, probed),
    )


def retried(draw: Draw) -> Case:
    """How often one thing is requested."""
    policy = draw.one(
        asking.ITEM,
        asking.LISTED,
        asking.ONCE,
        draw.of(asking.AskPolicy, retry_delays_ns=(5, 6), retries_one_in=draw.one(1, 10)),
    )
    took_ns = draw.near(0, asking.REQUEST_TIME_MAX_NS, SECOND_NS)
    requests = draw.one(1, 2, 3, 4)
    delay_ns = policy.delay_ns(drawn_verdict(draw), requests=requests, taken_ns=took_ns)
    covers = policy.covers_retry(retries=draw.near(0, 2, 100, 101), requests=draw.near(9, 10, 20))
    refusals, said = asking.Refusals(), list[object]()
    for _ in range(draw.one(2, 6, 25)):
        origin = FromGap("me", draw.one(GapReason.RATE_LIMITED, GapReason.TIMEOUT, None)) if draw.chance(0.3) else None
        found = Discovery(Kind.ITEM, draw.one("1", "1", "2"), Lane.LIVE, origin)
        said.append((refusals.hear(found, drawn_verdict(draw)), asking.owed_because(found)))
    return Case((policy, took_ns, requests), (delay_ns, covers, said))


def canaries(draw: Draw) -> Case:
    """Which items are known to be good."""
    known, said = KnownGood(), list[object]()
    for _ in range(draw.one(2, 8, 25)):
        if draw.chance(0.8):
            kind = draw.one(Kind.ITEM, Kind.DOCUMENT, Kind.PAGE)
            verdict = Found(drawn_page(draw)) if kind is Kind.PAGE and draw.chance() else drawn_verdict(draw)
            known.hear(Discovery(kind, str(draw.random.randrange(12)), Lane.LIVE), verdict)
        canary = known.canary(newest_id=draw.one(None, 1, 2, 5, 64, 65, 66, 9_000))
        said.append((None if canary is None else (canary.kind, canary.key, canary.via), known.is_answering))
    return Case(None, said)


def ended(draw: Draw) -> Case:
    """Why a run stopped, in words, and what its budget allows."""
    spent_ns = draw.one(0, 5 * SECOND_NS, 2 * MINUTE_NS - 1, 2 * MINUTE_NS, 61 * MINUTE_NS, 2 * HOUR_NS)
    most_ns = draw.one(None, spent_ns, spent_ns + 1, spent_ns + MINUTE_NS, HOUR_NS)
    fetches = draw.one(0, 1, 5)
    budget = Budget(0, most_ns, draw.one(None, 1, 5, 6), fetches)
    held_ns = draw.one(0, 1, MINUTE_NS, MINUTE_NS + 1, DAY_NS)
    stop = Stop(
        draw.one(*StoppedBy), draw.one(None, *GapReason), draw.one(0, 3 * SECOND_NS), held_ns, draw.one("", "why")
    )
    counts = draw.of(RunCounts, outcomes={"new": 3})
    cap = draw.one(GapReason.MAX_FETCHES, GapReason.MAX_WALL_CLOCK, GapReason.RETRY_BUDGET)
    said = (
        [run.in_words(stop, budget, counts, now_ns=spent_ns), run.in_words(None, budget, counts, now_ns=0)],
        [stop.is_ours, stop.is_pressure, stop.by.exit_code, counts.as_mapping(), run.span(spent_ns), run.span(-5)],
        [run.stop_for_cap(cap, wait_ns=3, held_ns=held_ns), run.stop_for_pressure(wait_ns=4, held_ns=held_ns)],
        [budget.cap(now_ns=spent_ns), budget.left_ns(now_ns=spent_ns + 5), budget.after_fetch().fetches],
        [budget.covers(wait_ns, now_ns=spent_ns) for wait_ns in (0, 1, MINUTE_NS - 1, MINUTE_NS)],
    )
    return Case((stop, budget, counts), said)


def written(draw: Draw) -> Case:
    """Rates, spans and sizes as an owner writes them, and as we write them back."""
    number = draw.one(
        "0", "0.0", "1", "5", "0.5", "1.000000001", "86400", "3650", "3651", "100000", "100001", "999999999999", "x"
    )
    unit = draw.one(
        "", "s", "ms", "m", "min", "h", "d", "/s", "/min", "/h", "/day", " / hour", "KiB", " MiB", "GiB", "TB"
    )
    text: object = draw.one(f"{number}{unit}", f"{number}{unit}", f" {number}{unit} ", 5, None)
    said: list[object] = []
    for read in (parse_rate, parse_duration, parse_size):
        try:
            said.append(read(text, "here"))
        except ConfigurationError as error:
            said.append(error)
    span_ns = draw.near(
        0, MILLISECOND_NS, SECOND_NS, MINUTE_NS, HOUR_NS, DAY_NS, 400 * DAY_NS, 90 * SECOND_NS, 1_500 * MILLISECOND_NS
    )
    size = draw.near(0, 999, 10**3, 10**6, 10**9, 10**12, 99_500, 123_456_789)
    per_s = draw.one(
        0.0, 1e-6, 1 / 86_400, 1 / 3_600, 0.9 / 3_600, 1 / 60, 0.99 / 60, 0.5, 1.0, 2.5, 99.4, 99.96, 100.0, 1_234.5
    )
    said += [
        format_duration(span_ns),
        format_duration(-span_ns),
        format_exactly(abs(span_ns)),
        format_size(size),
        format_rate(per_s),
    ]
    return Case(text, said)


def pieces(draw: Draw) -> Case:
    """A document that comes in pieces."""
    head = Piece("k", draw.one(b'{"a":1}', b" [] "), draw.one(None, "2026-01-01", ""))
    pages = []
    for at in range(draw.one(0, 1, 4)):
        keys = tuple(str(key) for key in range(at, at + draw.one(0, 1, 3)))
        pages.append(
            Piece("k", part=draw.one("x", "y"), lines=tuple(f'"{key}{at}"'.encode() for key in keys), line_keys=keys)
        )
    last = Piece(
        "k", part=draw.one("x", "y"), line_keys=draw.one(("0",), ("9",), ("2", "9"), ()), shared=draw.one(0, 1)
    )
    whole: Document = joined(head, pages)
    empty = fits(Piece("k"), ())
    return Case(
        (head, pages, last),
        (version_of(head), fits(last, pages), whole, empty, fingerprint("s", head.key), Page((), None)),
    )


DECISIONS: Final[Mapping[str, tuple[Decision, int]]] = {
    "gap: after an answer": (after_an_answer, 1_500),
    "gap: when it is due": (due, 800),
    "ledger: coverage": (covered, 250),
    "ledger: a sample": (sampled, 300),
    "ledger: a walk over a segment": (walked, 250),
    "ledger: freshness": (fresh, 600),
    "ledger: ages of changes": (ages, 400),
    "ledger: the source's clock": (clock_of_the_source, 200),
    "ledger: reads and newest ids": (read_again, 200),
    "ledger: retries": (retried, 400),
    "ledger: canaries": (canaries, 300),
    "ledger: why a run ended": (ended, 500),
    "text: quantities": (written, 800),
    "text: pieces of a document": (pieces, 150),
}
