"""Which states should an operator recognise at a glance? Crafted facts, judged by the real readout."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import BackOff, LimitedBy, ProviderDown, RateFacts, Recent
from remora.core.reasons import GapReason
from remora.core.status.model import Status
from remora.core.status.readout import read_out
from remora.core.status.snapshot import (
    Beat,
    GapTally,
    InboxFacts,
    LedgerFacts,
    LoopFacts,
    RescanFacts,
    Role,
    RunFacts,
    Snapshot,
    SourceFacts,
    StreamFacts,
)
from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS

NEWEST_ID: Final = 48_212_640
# A back-off happened once: it does not move along with the clock.
BEGAN_NS: Final = time.time_ns()
CEILING_PER_S: Final = 250
LOOPS: Final = ("updates", "inbox", "live", "recover", "repair", "update_ages", "rescan", "backfill")


@dataclass(frozen=True)
class Scene:
    """One state of the world: what runtimes say and what the ledger holds, at any moment."""

    name: str
    facts: Callable[[int], dict[str, SourceFacts]]
    ledgers: Callable[[int], dict[str, LedgerFacts]]
    beat_age_ns: int = 0
    role: Role = Role.SERVICE
    ended_because: str | None = None
    pace_at: Callable[[float], float] = field(default=lambda ago_s: 150.0)
    back_offs_ago_s: tuple[float, ...] = ()

    def status(self, now_ns: int) -> Status:
        """What everybody reads now."""
        snapshot = Snapshot(
            role=self.role,
            started_at_ns=now_ns - 9 * HOUR_NS,
            version="0.1.0",
            pid=4711,
            ended_at_ns=now_ns - self.beat_age_ns if self.ended_because else None,
            ended_because=self.ended_because,
            sources=self.facts(now_ns - self.beat_age_ns),
        )
        beats = [Beat(now_ns - self.beat_age_ns, snapshot)] if snapshot.sources else []
        return read_out(beats, self.ledgers(now_ns), now_ns=now_ns)

    def past(self, now_ns: int, ago_s: float) -> Status:
        """What was read some time ago: the same, at the pace of that time."""
        then_ns = now_ns - int(ago_s * SECOND_NS)
        pace = self.pace_at(ago_s)
        since = [at for at in self.back_offs_ago_s if at >= ago_s]
        last = min(since) if since else None
        sources = {
            name: msgspec.structs.replace(
                facts,
                rate=msgspec.structs.replace(
                    facts.rate,
                    interval_ns=max(int(SECOND_NS / pace), facts.rate.ceiling_interval_ns),
                    at_ns=then_ns,
                    recent=recent(pace * (0.97 + 0.03 * math.sin(ago_s / 37))),
                    last_back_off=None
                    if last is None
                    else BackOff(BEGAN_NS - int(last * SECOND_NS), "rate_limited", pace * 1.03, pace),
                ),
            )
            for name, facts in self.facts(then_ns).items()
            if facts.rate is not None
        }
        beat = Beat(then_ns, Snapshot(role=self.role, started_at_ns=now_ns - 9 * HOUR_NS, sources=sources))
        return read_out([beat], self.ledgers(now_ns), now_ns=then_ns)


def recent(per_s: float, *, refused: int = 0) -> Recent:
    count = round(10 * per_s)
    return Recent(departures=count, answers=count, refused=refused, failed=0, window_ns=10 * SECOND_NS)


def rate_facts(now_ns: int, *, per_s: float = 150.0, **changes: object) -> RateFacts:
    facts = RateFacts(
        at_ns=now_ns,
        interval_ns=int(SECOND_NS / per_s),
        ceiling_interval_ns=SECOND_NS // CEILING_PER_S,
        limited_by=LimitedBy.NO_WORK,
        held={LimitedBy.NO_WORK: 0.86, LimitedBy.ANSWERS: 0.14},
        circuit=CircuitState.CLOSED,
        edge_per_s=154.0,
        in_flight=1,
        in_flight_bound=125,
        departures=81_000,
        wire_sends=81_000,
        recent=recent(2.3),
        last_back_off=BackOff(BEGAN_NS - 47 * MINUTE_NS, "rate_limited", 154.0, 150.0),
    )
    return msgspec.structs.replace(facts, **changes)


def watching(now_ns: int, **changes: object) -> SourceFacts:
    """A numbered source with everything in order."""
    ages = [
        int(900 * math.exp(-(((step - 18) / 7) ** 2)) + 40 * math.exp(-(((step - 38) / 6) ** 2))) for step in range(65)
    ]
    facts = SourceFacts(
        rate=rate_facts(now_ns),
        stream=StreamFacts(
            connected=True,
            last_byte_at_ns=now_ns - 4 * SECOND_NS,
            last_event_at_ns=now_ns - 11 * SECOND_NS,
            reconnects=2,
        ),
        inbox=InboxFacts(3, 4096),
        rescan=RescanFacts(
            last_success_at_ns=now_ns - 2 * HOUR_NS,
            processed=35_210,
            changed=212,
            window_ns=3 * DAY_NS,
            suggested_window_ns=2 * DAY_NS,
            every_ns=6 * HOUR_NS,
        ),
        newest_id=NEWEST_ID,
        newest_id_at_ns=now_ns - 2 * SECOND_NS,
        backfill=True,
        loops={name: LoopFacts(alive=True) for name in LOOPS},
        workers_alive=8,
        update_ages=tuple(ages),
        doing="watching",
    )
    return msgspec.structs.replace(facts, **changes)


def ledger(now_ns: int, *gaps: GapTally, covered: Coverage | None = None) -> LedgerFacts:
    return LedgerFacts(
        is_public=True,
        kind="numbered",
        coverage=covered or Coverage((IdRange(1, NEWEST_ID),)),
        newest_id=NEWEST_ID,
        gaps=(GapTally(Kind.ITEM, GapState.ABSENT, GapReason.NOT_FOUND, 18_422, now_ns - 9 * DAY_NS, now_ns), *gaps),
        inbox_depth=3,
        ceiling_interval_ns=SECOND_NS // CEILING_PER_S,
    )


def gap(now_ns: int, state: GapState, reason: GapReason, count: int, *, next_in_s: int = 90) -> GapTally:
    return GapTally(Kind.ITEM, state, reason, count, now_ns - 3 * HOUR_NS, now_ns + next_in_s * SECOND_NS)


def _hackernews(make: Callable[[int], SourceFacts]) -> Callable[[int], dict[str, SourceFacts]]:
    return lambda now_ns: {"hackernews": make(now_ns)}


def _only(make: Callable[[int], LedgerFacts]) -> Callable[[int], dict[str, LedgerFacts]]:
    return lambda now_ns: {"hackernews": make(now_ns)}


def _steady(ago_s: float) -> float:
    return 150.0 + 2.5 * math.sin(ago_s / 400)


HEALTHY = Scene(
    "healthy",
    _hackernews(watching),
    _only(lambda now_ns: ledger(now_ns, gap(now_ns, GapState.OWED, GapReason.NOT_YET, 3, next_in_s=12))),
    pace_at=_steady,
    back_offs_ago_s=(47 * 60, 130 * 60, 290 * 60),
)

CATCHING_UP = Scene(
    "catching-up",
    _hackernews(
        lambda now_ns: watching(
            now_ns,
            rate=rate_facts(
                now_ns,
                per_s=250,
                limited_by=LimitedBy.CEILING,
                held={LimitedBy.CEILING: 0.97, LimitedBy.ANSWERS: 0.03},
                edge_per_s=None,
                last_back_off=None,
                recent=recent(248.6),
                in_flight=14,
                waiting=210,
            ),
            doing="watching",
        )
    ),
    _only(
        lambda now_ns: ledger(
            now_ns,
            gap(now_ns, GapState.OWED, GapReason.TIMEOUT, 41, next_in_s=-5),
            gap(now_ns, GapState.OWED, GapReason.NOT_YET, 2),
            covered=Coverage((IdRange(1, 1_204_000), IdRange(21_480_000, NEWEST_ID))),
        )
    ),
    pace_at=lambda ago_s: 250.0 if ago_s < 1_500 else max(1.0, 250 - (ago_s - 1_500) * 2),
)

THROTTLED = Scene(
    "throttled",
    _hackernews(
        lambda now_ns: watching(
            now_ns,
            rate=rate_facts(
                now_ns,
                per_s=18.75,
                limited_by=LimitedBy.RETRY_AFTER,
                held={LimitedBy.RETRY_AFTER: 0.8, LimitedBy.PACE: 0.2},
                next_in_ns=42 * SECOND_NS,
                next_held_by=LimitedBy.RETRY_AFTER,
                edge_per_s=37.5,
                not_before_in_ns=42 * SECOND_NS,
                recent=recent(3.1, refused=15),
                waiting=318,
                in_flight=0,
                last_back_off=BackOff(BEGAN_NS - 8 * SECOND_NS, "rate_limited", 37.5, 18.75),
            ),
            inbox=InboxFacts(2_412, 4096),
        )
    ),
    _only(
        lambda now_ns: ledger(
            now_ns,
            gap(now_ns, GapState.OWED, GapReason.RATE_LIMITED, 1_377, next_in_s=42),
            covered=Coverage((IdRange(1, NEWEST_ID - 220),)),
        )
    ),
    pace_at=lambda ago_s: 150.0 if ago_s > 600 else max(18.75, 150 * 2 ** (-(600 - ago_s) / 190)),
    back_offs_ago_s=(8, 95, 180, 260, 390, 505, 590, 4_000),
)

STREAM_DOWN = Scene(
    "stream-down",
    _hackernews(
        lambda now_ns: watching(
            now_ns,
            stream=StreamFacts(
                connected=False,
                last_byte_at_ns=now_ns - 6 * MINUTE_NS,
                last_event_at_ns=now_ns - 7 * MINUTE_NS,
                reconnects=14,
            ),
            loops={name: LoopFacts(alive=True, restarts=3 if name == "updates" else 0) for name in LOOPS},
        )
    ),
    _only(
        lambda now_ns: ledger(
            now_ns,
            gap(now_ns, GapState.DEAD, GapReason.UNAUTHORIZED, 3, next_in_s=9_000),
            gap(now_ns, GapState.DEAD, GapReason.MALFORMED, 1, next_in_s=9_000),
            gap(now_ns, GapState.OWED, GapReason.CONNECTION, 17),
        )
    ),
    pace_at=_steady,
    back_offs_ago_s=(47 * 60,),
)

PROVIDER_DOWN = Scene(
    "provider-down",
    _hackernews(
        lambda now_ns: watching(
            now_ns,
            rate=rate_facts(
                now_ns,
                limited_by=LimitedBy.CIRCUIT,
                held={LimitedBy.CIRCUIT: 0.98, LimitedBy.ANSWERS: 0.02},
                circuit=CircuitState.OPEN,
                circuit_wait_ns=84 * SECOND_NS,
                next_in_ns=84 * SECOND_NS,
                next_held_by=LimitedBy.CIRCUIT,
                provider_down=ProviderDown(BEGAN_NS - 5 * MINUTE_NS, "it answers HTTP 503 (server error)"),
                recent=recent(0.1),
                waiting=318,
                in_flight=0,
                last_back_off=BackOff(BEGAN_NS - 5 * MINUTE_NS, "server_error", 150.0, 75.0),
            ),
            newest_id_at_ns=now_ns - 5 * MINUTE_NS,
        )
    ),
    _only(lambda now_ns: ledger(now_ns, gap(now_ns, GapState.OWED, GapReason.SERVER_ERROR, 12))),
    pace_at=_steady,
    back_offs_ago_s=(300,),
)

NO_CATCHUP = Scene(
    "no-catchup",
    _hackernews(lambda now_ns: watching(now_ns, backfill=False)),
    _only(lambda now_ns: ledger(now_ns, covered=Coverage((IdRange(4_549, NEWEST_ID),)))),
    pace_at=_steady,
)


def _slow(now_ns: int) -> SourceFacts:
    held = {LimitedBy.ANSWERS: 0.91, LimitedBy.CEILING: 0.07, LimitedBy.STORE: 0.02}
    rate = rate_facts(
        now_ns,
        per_s=250,
        edge_per_s=None,
        last_back_off=None,
        limited_by=LimitedBy.ANSWERS,
        held=held,
        recent=recent(7.0),
    )
    return watching(now_ns, rate=rate)


def _unanswered(now_ns: int) -> SourceFacts:
    rate = rate_facts(
        now_ns, per_s=1, edge_per_s=None, last_back_off=None, limited_by=LimitedBy.ANSWERS,
        held={LimitedBy.ANSWERS: 1.0}, recent=Recent(1, 0, 0, 0, 10 * SECOND_NS),
    )  # fmt: skip
    return watching(now_ns, rate=rate, stream=StreamFacts(connected=False), newest_id=None, newest_id_at_ns=None)


SLOW_ANSWERS = Scene("slow-answers", _hackernews(_slow), CATCHING_UP.ledgers, pace_at=lambda ago_s: 7.0)

NO_ANSWER = Scene(
    "no-answer",
    _hackernews(_unanswered),
    _only(lambda now_ns: LedgerFacts(kind="hackernews", ceiling_interval_ns=SECOND_NS // CEILING_PER_S)),
    pace_at=lambda ago_s: 1.0,
)

SILENT = Scene(
    "unknown",
    HEALTHY.facts,
    HEALTHY.ledgers,
    beat_age_ns=4 * MINUTE_NS,
    pace_at=_steady,
)

NEVER_STARTED = Scene("never-started", lambda now_ns: {}, lambda now_ns: {"hackernews": LedgerFacts(kind="numbered")})


def _listed(now_ns: int) -> SourceFacts:
    rate = rate_facts(
        now_ns, per_s=3.2, edge_per_s=3.4, limited_by=LimitedBy.PACE, held={LimitedBy.PACE: 1.0}, in_flight_bound=1, waiting=1,
        ceiling_interval_ns=SECOND_NS // 4, recent=recent(3.1, refused=1),
        last_back_off=BackOff(BEGAN_NS - 12 * MINUTE_NS, "rate_limited", 3.4, 3.1),
    )  # fmt: skip
    return SourceFacts(rate=rate, doing="asking for details", next_run_at_ns=now_ns + 9 * MINUTE_NS)


def _run(now_ns: int, number: int, stopped_by: str | None, counts: dict[str, int]) -> RunFacts:
    began_ns = now_ns - (20 - number) * 15 * MINUTE_NS
    ended_ns = None if stopped_by is None else began_ns + 11 * MINUTE_NS
    return RunFacts(run_id=number, started_at_ns=began_ns, ended_at_ns=ended_ns, stopped_by=stopped_by, counts=counts)


def _list_ledger(now_ns: int) -> LedgerFacts:
    return LedgerFacts(
        kind="listed",
        owed_details=412,
        gaps=(
            GapTally(Kind.DOCUMENT, GapState.OWED, GapReason.MAX_WALL_CLOCK, 38, now_ns - HOUR_NS, now_ns + SECOND_NS),
            GapTally(Kind.DOCUMENT, GapState.DEAD, GapReason.GONE, 2, now_ns - DAY_NS, now_ns + DAY_NS),
        ),
        runs=(
            _run(now_ns, 20, None, {"requests": 214, "pages": 3, "new": 190}),
            _run(now_ns, 19, "max_wall_clock", {"requests": 2_140, "pages": 8, "new": 2_010, "waits": 4}),
            _run(now_ns, 18, "upstream_pressure", {"requests": 310, "pages": 1, "new": 201, "waits": 8}),
            _run(now_ns, 17, "complete", {"requests": 96, "pages": 4, "new": 92}),
        ),
        every_ns=15 * MINUTE_NS,
        ceiling_interval_ns=SECOND_NS // 4,
        max_wall_ns=15 * MINUTE_NS,
        max_fetches=4_000,
    )


LISTED = Scene(
    "listed",
    lambda now_ns: {"chats": _listed(now_ns)},
    lambda now_ns: {"chats": _list_ledger(now_ns)},
    pace_at=lambda ago_s: 3.2 + 0.15 * math.sin(ago_s / 300),
    back_offs_ago_s=(12 * 60, 80 * 60),
)

SCENES: Final = (
    HEALTHY, CATCHING_UP, THROTTLED, STREAM_DOWN, PROVIDER_DOWN, NO_CATCHUP, SLOW_ANSWERS, NO_ANSWER, SILENT,
    NEVER_STARTED, LISTED,
)  # fmt: skip
