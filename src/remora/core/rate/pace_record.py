"""What is stored of a pace between runs, and when can the next run trust it?

A record holds plain numbers and a wall time. It is restored only while fresh, never faster than it says
and never faster than the ceiling. A record that cannot be trusted leads to a cold start, with the reason.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from math import isfinite
from typing import Final, TypeGuard

import msgspec

from remora.core.rate.constants import (
    ACCOUNT_LEAST,
    ACCOUNT_MOST,
    BURST_MOST,
    DIP,
    EDGES_KEPT,
    STRAY_LEAST,
    STRAY_MOST,
    TROUBLE_LEAST,
    TROUBLE_MOST,
    TROUBLE_RATIO,
    WAIT_MOST_NS,
)
from remora.core.rate.pace import RATE_LEAST_PER_S, Pace, cold_start, possible, remember
from remora.core.units import HOUR_NS, SECOND_NS
from remora.core.verdict import RETRY_AFTER_MAX_NS

DEFAULT_STALE_AFTER_NS: Final = 6 * HOUR_NS
LEAST_STALE_AFTER_NS: Final = HOUR_NS

# Two clocks of one machine, or one clock before and after a correction, may differ this much.
CLOCK_SLACK_NS: Final = 2 * SECOND_NS

# No real rate is faster or slower than this; a number outside is damage.
FASTEST_PER_S: Final = 1e9
SLOWEST_PER_S: Final = 1e-6
NO_NUMBERS: Final = ("edges_per_s", "bursts")
LARGEST: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class PaceRecord:
    """A pace as it is stored: fit for JSON, with the wall time at which it was learned."""

    rate_per_s: float
    edges_per_s: tuple[float, ...]
    account: float
    stray_share: float
    trouble_share: float
    streak: int
    wait_ns: int
    quiet_until_wall_ns: int  # 0 = not waiting
    learned_at_wall_ns: int
    outage_ns: int = 0  # how long the provider shut us out the last time
    held: int = 0  # good answers since the edge was last found somewhere else
    lasted: int = 0  # how long the edge before had held
    left_per_s: float = 0.0  # that edge; 0 = none
    best_per_s: float = 0.0  # the highest rate that was accepted for long
    bursts: bool = False  # a burst is known to carry probes above the edge
    quota_interval_ns: int = 0  # spreads what is left of a known quota; 0 = no quota is known
    quota_until_wall_ns: int = 0  # when that quota resets; 0 = no quota is known


class Damaged(msgspec.Struct, frozen=True):
    """A record that cannot be read, and what is wrong with it."""

    reason: str


class Restore(StrEnum):
    """Where a run got its first pace from."""

    WARM = "warm"
    COLD_NONE = "cold_none"
    COLD_STALE = "cold_stale"
    COLD_DAMAGED = "cold_damaged"
    COLD_FUTURE = "cold_future"


class Restored(msgspec.Struct, frozen=True):
    pace: Pace
    how: Restore


def to_record(pace: Pace, *, now_ns: int, now_wall_ns: int) -> PaceRecord:
    """The pace as it is stored. An edge that is still being tested is not stored, but the one below it."""
    rate, edges = pace.rate_per_s, pace.edges_per_s
    if pace.below_per_s and edges[0] >= RATE_LEAST_PER_S:
        edges = remember(edges, min(pace.below_per_s, edges[0]))
        rate = min(rate, possible(pace, edges[0] * (1 - DIP)))
    return PaceRecord(
        rate_per_s=rate,
        edges_per_s=edges,
        account=pace.account,
        stray_share=pace.stray_share,
        trouble_share=pace.trouble_share,
        streak=pace.streak,
        wait_ns=pace.wait_ns,
        quiet_until_wall_ns=now_wall_ns + pace.quiet_until_ns - now_ns if pace.quiet_until_ns > now_ns else 0,
        learned_at_wall_ns=now_wall_ns - max(0, now_ns - pace.learned_at_ns),
        outage_ns=pace.outage_ns,
        held=pace.held,
        lasted=pace.lasted,
        left_per_s=pace.left_per_s,
        best_per_s=pace.best_per_s,
        bursts=pace.bursts,
        quota_interval_ns=pace.quota_interval_ns if pace.quota_until_ns > now_ns else 0,
        quota_until_wall_ns=now_wall_ns + pace.quota_until_ns - now_ns if pace.quota_until_ns > now_ns else 0,
    )


def record_to_json(record: PaceRecord) -> dict[str, object]:
    """The record as a JSON object."""
    return {**msgspec.to_builtins(record), "edges_per_s": list(record.edges_per_s)}


def record_from_json(data: object) -> PaceRecord | Damaged | None:
    """A record read back from JSON. None stays None; an unreadable record is `Damaged`, never an exception."""
    if data is None:
        return None
    if not isinstance(data, dict):
        return Damaged(f"a {type(data).__name__}, not an object")
    edges = data.get("edges_per_s")
    if not isinstance(edges, list | tuple):
        return Damaged("edges_per_s is not a list")
    bursts = data.get("bursts", False)
    if not isinstance(bursts, bool):
        return Damaged("bursts is neither true nor false")
    # A record of an older version lacks the fields that have a default here.
    names = {field.name: field.default for field in fields(PaceRecord) if field.name not in NO_NUMBERS}
    numbers = {
        name: _number(data.get(name, None if default is MISSING else default)) for name, default in names.items()
    }
    known = {name: value for name, value in numbers.items() if value is not None}
    kept = [edge for edge in map(_number, edges) if edge is not None]
    if len(known) < len(numbers) or len(kept) < len(edges):
        return Damaged("a field is not a finite number")
    record = PaceRecord(
        rate_per_s=float(known["rate_per_s"]),
        edges_per_s=tuple(float(edge) for edge in kept),
        account=float(known["account"]),
        stray_share=float(known["stray_share"]),
        trouble_share=float(known["trouble_share"]),
        streak=int(known["streak"]),
        wait_ns=int(known["wait_ns"]),
        quiet_until_wall_ns=int(known["quiet_until_wall_ns"]),
        learned_at_wall_ns=int(known["learned_at_wall_ns"]),
        outage_ns=int(known["outage_ns"]),
        held=int(known["held"]),
        lasted=int(known["lasted"]),
        left_per_s=float(known["left_per_s"]),
        best_per_s=float(known["best_per_s"]),
        bursts=bursts,
        quota_interval_ns=int(known["quota_interval_ns"]),
        quota_until_wall_ns=int(known["quota_until_wall_ns"]),
    )
    reason = damage(record)
    return record if reason is None else Damaged(reason)


def damage(record: PaceRecord) -> str | None:
    """What is wrong with a record; None if nothing is."""
    rates = (record.rate_per_s, *record.edges_per_s)
    if not all(isfinite(rate) and SLOWEST_PER_S <= rate <= FASTEST_PER_S for rate in rates):
        return "a rate is not a possible rate"
    if len(record.edges_per_s) > EDGES_KEPT or list(record.edges_per_s) != sorted(set(record.edges_per_s)):
        return "the edges do not ascend"
    if not isfinite(record.account):
        return "the account is not finite"
    if not all(isfinite(share) and 0 <= share <= 1 for share in (record.stray_share, record.trouble_share)):
        return "a share is not between 0 and 1"
    if record.streak < 0 or record.outage_ns < 0 or not 0 <= record.wait_ns <= WAIT_MOST_NS:
        return "a wait is not a possible wait"
    known = (record.left_per_s, record.best_per_s)
    if record.held < 0 or record.lasted < 0 or not all(0 <= rate <= FASTEST_PER_S for rate in known):
        return "what was learned of the edge is not possible"
    if record.quota_interval_ns < 0:
        return "a quota is not a possible quota"
    if min(record.learned_at_wall_ns, record.quiet_until_wall_ns, record.quota_until_wall_ns) < 0:
        return "a time before 1970"
    return None


def restore(
    record: PaceRecord | Damaged | None,
    *,
    ceiling_interval_ns: int,
    now_ns: int,
    now_wall_ns: int,
    stale_after_ns: int = DEFAULT_STALE_AFTER_NS,
) -> Restored:
    """The pace a run starts with, and where it came from."""
    cold = cold_start(ceiling_interval_ns=ceiling_interval_ns, now_ns=now_ns)
    if record is None:
        return Restored(cold, Restore.COLD_NONE)
    if isinstance(record, Damaged) or damage(record) is not None:
        return Restored(cold, Restore.COLD_DAMAGED)
    age_ns = now_wall_ns - record.learned_at_wall_ns
    if age_ns < -CLOCK_SLACK_NS:
        # The clock cannot be trusted, but the learned rate can: never start faster than that.
        slower = min(cold.rate_per_s, record.rate_per_s)
        return Restored(replace(cold, rate_per_s=slower, octave_per_s=slower), Restore.COLD_FUTURE)
    if age_ns > max(stale_after_ns, LEAST_STALE_AFTER_NS):
        return Restored(_under_quota(record, cold, now_ns=now_ns, now_wall_ns=now_wall_ns), Restore.COLD_STALE)
    return Restored(_warm(record, cold, now_ns=now_ns, now_wall_ns=now_wall_ns), Restore.WARM)


def _under_quota(record: PaceRecord, pace: Pace, *, now_ns: int, now_wall_ns: int) -> Pace:
    """The pace with the stored quota, which is valid until its reset, however old the rest is."""
    left_ns = min(RETRY_AFTER_MAX_NS, record.quota_until_wall_ns - now_wall_ns)
    if left_ns <= 0:
        return pace
    is_empty = not record.quota_interval_ns
    return replace(
        pace,
        quota_interval_ns=min(record.quota_interval_ns, RETRY_AFTER_MAX_NS),
        quota_until_ns=now_ns + left_ns,
        quiet_until_ns=max(pace.quiet_until_ns, now_ns + left_ns) if is_empty else pace.quiet_until_ns,
    )


def _warm(record: PaceRecord, cold: Pace, *, now_ns: int, now_wall_ns: int) -> Pace:
    quiet_left_ns = min(WAIT_MOST_NS, record.quiet_until_wall_ns - now_wall_ns)
    pace = replace(
        cold,
        rate_per_s=record.rate_per_s,
        octave_per_s=record.rate_per_s,
        edges_per_s=record.edges_per_s,
        account=record.account,
        stray_share=record.stray_share,
        trouble_share=record.trouble_share,
        streak=record.streak if record.edges_per_s else 0,
        streak_began_at_ns=now_ns,
        last_refused_at_ns=now_ns,
        last_cut_at_ns=now_ns,
        outage_ns=record.outage_ns,
        overshot=record.streak > 1,  # what led to the wait is not stored: come back further below it
        held=record.held,
        lasted=record.lasted,
        left_per_s=record.left_per_s,
        best_per_s=record.best_per_s,
        bursts=record.bursts,
        filled=BURST_MOST if record.edges_per_s else 0.0,  # nobody knows what was sent in the meantime
        left_at_ns=now_ns,
        wait_ns=record.wait_ns,
        quiet_until_ns=now_ns + quiet_left_ns if quiet_left_ns > 0 else 0,
    )
    return in_bounds(_under_quota(record, pace, now_ns=now_ns, now_wall_ns=now_wall_ns))


def in_bounds(pace: Pace) -> Pace:
    """The pace with stored values limited to what the law itself could produce."""
    rate = min(pace.rate_per_s, pace.ceiling_per_s)
    return replace(
        pace,
        rate_per_s=rate,
        octave_per_s=min(pace.octave_per_s, rate),
        account=min(ACCOUNT_MOST, max(ACCOUNT_LEAST, pace.account)),
        stray_share=min(STRAY_MOST, max(STRAY_LEAST, pace.stray_share)),
        trouble_share=min(TROUBLE_MOST / TROUBLE_RATIO, max(TROUBLE_LEAST, pace.trouble_share)),
    )


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -LARGEST <= value <= LARGEST else None


def wait_ns_of(fields: Mapping[str, object], name: str) -> int:
    """A wait that was stored beside a pace; 0 if it cannot be read."""
    value = fields.get(name)
    return min(max(0, value), RETRY_AFTER_MAX_NS) if _is_whole(value) else 0


def since_saved_ns(fields: Mapping[str, object], now_wall_ns: int) -> int:
    """How long ago the record was stored; 0 if the clock stepped back, so that waits are kept in full."""
    saved_at_ns = fields.get("saved_at_wall_ns")
    return max(0, now_wall_ns - saved_at_ns) if _is_whole(saved_at_ns) else 0


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
