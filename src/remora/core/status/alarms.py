"""Should somebody be woken now? The alerts that page, computed from a status, for owners without Prometheus.

The names and thresholds are those of the rules that page in `deploy/prometheus/alerts.yml`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import msgspec

from remora.core.ledger.gap import GapState
from remora.core.rate.gate_types import RateFacts
from remora.core.status.answers import span
from remora.core.status.covering import unconfirmed
from remora.core.status.model import SourceStatus, Status, Unknown, YesNo
from remora.core.status.snapshot import StreamFacts
from remora.core.status.thresholds import CEILING_TOLERANCE, STREAM_SILENT_PAGE_NS
from remora.core.units import MINUTE_NS


class Alarm(StrEnum):
    """What wakes somebody. A service that is gone cannot raise an alarm: that needs monitoring from outside."""

    NOT_WORKING = "RemoraNotWorking"
    STREAM_DOWN = "RemoraStreamDown"
    STREAM_SILENT = "RemoraStreamSilent"
    NO_UPDATE_WORKERS = "RemoraNoUpdateWorkers"
    DEAD_LETTERS = "RemoraDeadLetters"
    TOO_FAST = "RemoraTooFast"
    NEWEST_ID_REFUSED = "RemoraNewestIdRefused"

    @property
    def hold_ns(self) -> int:
        """How long it must last before it is reported."""
        match self:
            case Alarm.NOT_WORKING | Alarm.STREAM_DOWN | Alarm.TOO_FAST | Alarm.NEWEST_ID_REFUSED:
                return MINUTE_NS
            case Alarm.STREAM_SILENT:
                # A clock that was set and a machine that slept look like silence until the stream is opened again.
                return 2 * MINUTE_NS
            case Alarm.NO_UPDATE_WORKERS | Alarm.DEAD_LETTERS:
                return 0


# A flickering alarm is reported once: it has cleared only after this long without it.
CLEAR_NS: Final = MINUTE_NS

Key = tuple[str, Alarm]


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm to report: it began, or it is over."""

    source: str
    alarm: Alarm
    firing: bool
    reason: str


@dataclass(frozen=True, slots=True)
class _Watched:
    since_ns: int
    seen_ns: int
    reason: str
    told: bool = False
    heard: bool = False  # an earlier process may have told it, so its end is told, too


@dataclass(frozen=True, slots=True)
class Alarms:
    """Which alarms are on, since when, and whether they were reported."""

    watched: Mapping[Key, _Watched] = field(default_factory=dict)

    @classmethod
    def recalled(cls, told: Mapping[Key, str], *, now_ns: int) -> "Alarms":
        """What an earlier process told or began to tell, with its reasons: if it lasts it is reported again, else its end is."""
        return cls({key: _Watched(now_ns, now_ns, reason, heard=True) for key, reason in told.items()})

    def after(self, status: Status, *, now_ns: int) -> tuple["Alarms", tuple[Change, ...]]:
        """What follows from one status: the new state, and what to report. Unknown values change nothing."""
        seen = {
            (name, alarm): reason
            for name, source in status.sources.items()
            for alarm, reason in ringing(source, now_ns=status.as_of_ns)
        }
        watched: dict[Key, _Watched] = {}
        changes: list[Change] = []
        for key in sorted({*self.watched, *seen}):
            before, reason = self.watched.get(key), seen.get(key)
            if reason is not None:
                now = replace(before, seen_ns=now_ns, reason=reason) if before else _Watched(now_ns, now_ns, reason)
                if not now.told and now_ns - now.since_ns >= key[1].hold_ns:
                    now = replace(now, told=True)
                    changes.append(Change(*key, firing=True, reason=reason))
                watched[key] = now
            elif before is not None and (before.told or before.heard):
                if _is_unknown(key[1], status.sources.get(key[0])):
                    watched[key] = replace(before, seen_ns=now_ns)
                elif now_ns - before.seen_ns < CLEAR_NS:
                    watched[key] = before
                else:
                    changes.append(Change(*key, firing=False, reason=before.reason))
        return Alarms(watched), tuple(changes)


def ringing(source: SourceStatus, *, now_ns: int) -> Iterator[tuple[Alarm, str]]:
    """What wakes somebody right now, with the reason. A provider that is down is a ticket, not a page: we wait."""
    rate = source.rate if isinstance(source.rate, RateFacts) else None
    if source.answers.working.answer is YesNo.NO and not source.only_provider_is_down:
        yield Alarm.NOT_WORKING, source.answers.working.reason
    if isinstance(source.stream, StreamFacts) and not source.only_provider_is_down:
        yield from _of_stream(source.stream, now_ns=now_ns)
    if source.workers_alive == 0:
        yield Alarm.NO_UPDATE_WORKERS, "no update worker is alive"
    dead = sum(gaps.count for gaps in source.gaps if gaps.state is GapState.DEAD)
    if dead:
        yield Alarm.DEAD_LETTERS, f"{dead:,} given up on for now"
    if rate is not None and rate.per_s > rate.ceiling_per_s * CEILING_TOLERANCE:
        yield Alarm.TOO_FAST, "the pace is faster than the ceiling"
    if source.newest_refused is not None:
        yield Alarm.NEWEST_ID_REFUSED, unconfirmed(source.newest_refused)


def _is_unknown(alarm: Alarm, source: SourceStatus | None) -> bool:
    """Whether nobody knows if this rings, for example because no heartbeat could be stored."""
    if source is None:
        return True
    match alarm:
        case Alarm.NOT_WORKING:
            return source.answers.working.answer is YesNo.UNKNOWN
        case Alarm.STREAM_DOWN | Alarm.STREAM_SILENT:
            return isinstance(source.stream, Unknown)
        case Alarm.NO_UPDATE_WORKERS:
            return source.workers_alive is None
        case Alarm.TOO_FAST | Alarm.NEWEST_ID_REFUSED:
            return isinstance(source.rate, Unknown)
        case Alarm.DEAD_LETTERS:
            return False


def with_alarms(status: Status) -> Status:
    """The same status, in which every source names its alarms."""
    sources = {
        name: msgspec.structs.replace(
            source, alarms=tuple(alarm for alarm, _ in ringing(source, now_ns=status.as_of_ns))
        )
        for name, source in status.sources.items()
    }
    return msgspec.structs.replace(status, sources=sources)


def _of_stream(stream: StreamFacts, *, now_ns: int) -> Iterator[tuple[Alarm, str]]:
    if not stream.connected:
        yield Alarm.STREAM_DOWN, "the stream of changes is not connected"
    elif stream.last_byte_at_ns is not None and now_ns - stream.last_byte_at_ns > STREAM_SILENT_PAGE_NS:
        yield Alarm.STREAM_SILENT, f"the stream has sent nothing for {span(now_ns - stream.last_byte_at_ns)}"
