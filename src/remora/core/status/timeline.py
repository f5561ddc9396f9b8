"""What happened? Events found by comparing two readings of the status; close repetitions become one event."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from remora.core.rate.gate_types import ProviderDown, RateFacts
from remora.core.status.model import Covered, CoveredList, SourceStatus, Standing, YesNo
from remora.core.units import DAY_NS, MINUTE_NS

EVENTS_MAX: Final = 1_000
KEPT_NS: Final = 30 * DAY_NS
STARTED: Final = "started"
PROVIDER_DOWN: Final = "provider_down"
IS_DOWN: Final = "the provider is down: "
# Back-offs and the like that follow each other this closely are told as one event with a count.
JOINED_NS: Final = 10 * MINUTE_NS
JOINED: Final = frozenset({"back_off", "stream"})


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, or lasted until `until_ns`."""

    at_ns: int
    kind: str
    text: str
    until_ns: int | None = None  # None: a moment, or it still lasts
    count: int = 1


def events_between(before: SourceStatus | None, now: SourceStatus, *, at_ns: int) -> Iterator[Event]:
    """What changed between two readings of one source."""
    if before is None:
        yield Event(at_ns=at_ns, kind=STARTED, text="the service started to watch this source")
        yield from _of_provider(None, _down(now), at_ns)
        return
    yield from _of_provider(_down(before), _down(now), at_ns)
    yield from _of_rate(before, now)
    yield from _of_runs(before, now)
    yield from _of_orders(before, now, at_ns)
    yield from _of_answers(before, now, at_ns)


def as_last_told(before: SourceStatus | None, now: SourceStatus) -> SourceStatus:
    """A reading without a heartbeat, with what the process told last: what nobody knows has not ended."""
    if before is None or now.state == "running":
        return now
    headline = before.headline if now.headline.standing is Standing.UNKNOWN else now.headline
    return msgspec.structs.replace(now, rate=before.rate, orders=before.orders, headline=headline)


def _down(source: SourceStatus) -> ProviderDown | None:
    return source.rate.provider_down if isinstance(source.rate, RateFacts) else None


def _of_provider(before: ProviderDown | None, now: ProviderDown | None, at_ns: int) -> Iterator[Event]:
    if now is not None and before is None:
        yield Event(at_ns=now.since_ns, kind=PROVIDER_DOWN, text=f"{IS_DOWN}{now.answers}")
    if before is not None and now is None:
        yield Event(
            at_ns=before.since_ns, until_ns=at_ns, kind=PROVIDER_DOWN, text=f"the provider was down: {before.answers}"
        )


def _of_rate(before: SourceStatus, now: SourceStatus) -> Iterator[Event]:
    if not isinstance(now.rate, RateFacts) or (back := now.rate.last_back_off) is None:
        return
    known = before.rate.last_back_off if isinstance(before.rate, RateFacts) else None
    if known is None or known.at_ns < back.at_ns:
        text = f"backed off ({back.reason.replace('_', ' ')}) from {back.from_per_s:.3g}/s to {back.to_per_s:.3g}/s"
        yield Event(at_ns=back.at_ns, kind="back_off", text=text)


def _of_runs(before: SourceStatus, now: SourceStatus) -> Iterator[Event]:
    ended = {run.run_id for run in before.runs if run.ended_at_ns is not None}
    for run in now.runs:
        if run.ended_at_ns is not None and run.run_id not in ended and before.runs:
            why = (run.stopped_by or "unknown").replace("_", " ")
            text = f"run {run.run_id}: {run.counts.get('requests', 0):,} requests, {run.counts.get('new', 0):,} new ({why})"
            yield Event(at_ns=run.started_at_ns, until_ns=run.ended_at_ns, kind="run", text=text)


def _of_orders(before: SourceStatus, now: SourceStatus, at_ns: int) -> Iterator[Event]:
    was, orders = before.orders, now.orders
    if orders.paused_at_ns is not None and was.paused_at_ns is None:
        yield Event(at_ns=orders.paused_at_ns, kind="operator", text="paused by an operator")
    if was.paused_at_ns is not None and orders.paused_at_ns is None:
        yield Event(at_ns=was.paused_at_ns, until_ns=at_ns, kind="operator", text="was paused by an operator")
    if orders.interval_ns is not None and orders.interval_ns != was.interval_ns:
        yield Event(at_ns=at_ns, kind="operator", text="the ceiling was lowered by an operator")
    if was.interval_ns is not None and orders.interval_ns is None:
        yield Event(at_ns=at_ns, kind="operator", text="back to the owner's ceiling")


def _of_answers(before: SourceStatus, now: SourceStatus, at_ns: int) -> Iterator[Event]:
    if now.headline.standing is Standing.COMPLETE and before.answers.complete.answer is YesNo.NO:
        yield Event(at_ns=at_ns, kind="complete", text="complete and fresh")
    if now.headline.standing is Standing.ATTENTION and before.headline.standing is not Standing.ATTENTION:
        yield Event(at_ns=at_ns, kind="attention", text=now.headline.text)
    if before.headline.standing is Standing.ATTENTION and now.headline.standing is not Standing.ATTENTION:
        yield Event(at_ns=at_ns, kind="resolved", text=f"no longer: {before.headline.text}")
    dead = _dead(now) - _dead(before)
    if dead > 0:
        yield Event(at_ns=at_ns, kind="dead_letters", text=f"{dead:,} more dead letters")


def _dead(source: SourceStatus) -> int:
    return source.coverage.dead if isinstance(source.coverage, Covered | CoveredList) else 0


def added(events: tuple[Event, ...], new: Iterable[Event], *, now_ns: int) -> tuple[Event, ...]:
    """The timeline with new events: repetitions joined, an outage that ended replaces its beginning, bounded."""
    kept = list(events)
    for event in new:
        if event.kind == STARTED:
            kept = [_left_open(one) for one in kept]
        if event.until_ns is not None or event.kind == PROVIDER_DOWN:
            kept = [one for one in kept if (one.kind, one.at_ns, one.until_ns) != (event.kind, event.at_ns, None)]
        last = next((one for one in reversed(kept) if one.kind == event.kind), None)
        if event.kind in JOINED and last is not None and event.at_ns - (last.until_ns or last.at_ns) < JOINED_NS:
            joined = msgspec.structs.replace(event, at_ns=last.at_ns, until_ns=event.at_ns, count=last.count + 1)
            kept[kept.index(last)] = joined
        else:
            kept.append(event)
    kept.sort(key=lambda event: event.at_ns)
    return tuple(event for event in kept if now_ns - (event.until_ns or event.at_ns) <= KEPT_NS)[-EVENTS_MAX:]


def _left_open(event: Event) -> Event:
    """An outage whose end no process saw. It must not read as if it still lasted."""
    if event.kind != PROVIDER_DOWN or not event.text.startswith(IS_DOWN):
        return event
    answers = event.text.removeprefix(IS_DOWN)
    return msgspec.structs.replace(event, text=f"the provider was down when the service stopped: {answers}")
