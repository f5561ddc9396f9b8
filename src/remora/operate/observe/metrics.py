"""What do we count for Prometheus? All our metrics, in their own registry. An unknown gauge is NaN."""

import math
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from remora.contracts import Observation, Outcome
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.gap import GapState
from remora.core.rate.circuit_breaker import CircuitState
from remora.core.rate.gate_types import RateFacts
from remora.core.status.health import answers_of
from remora.core.status.model import Covered, CoveredList, Fresh, NoStream, SourceStatus, Unknown, YesNo
from remora.core.status.snapshot import GapTally, InboxFacts, RescanFacts, StreamFacts
from remora.core.status.words import QUESTIONS
from remora.core.units import SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

SOURCE: Final = ("source",)
# From seconds to two months: the age of an item when its change is noticed decides how far a rescan must reach.
AGE_BUCKETS_S: Final = (
    60, 600, 3_600, 6 * 3_600, 86_400, 2 * 86_400, 3 * 86_400, 5 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400,
    60 * 86_400,
)  # fmt: skip
BATCH_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


def verdict_name(verdict: Verdict) -> str:
    """The verdict as a label: the closed set of the glossary."""
    match verdict:
        case Found():
            return "found"
        case NotYet():
            return "not_yet"
        case Missing():
            return "missing"
        case Pressure():
            return "pressure"
        case Trouble():
            return "trouble"
        case Refused():
            return "refused"
        case Malformed():
            return "malformed"
        case Deferred():
            return "deferred"


class TalliedCounter(Collector):
    """A counter that every request raises: a plain number by labels, read when metrics are collected.

    The library's own counter takes a lock and eight calls each time.
    """

    def __init__(self, name: str, help_text: str, *labels: str, registry: CollectorRegistry) -> None:
        self._name, self._help, self._labels = name, help_text, labels
        self.counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
        registry.register(self)

    def collect(self) -> Iterable[CounterMetricFamily]:
        """All counts so far."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in self.counts.items():
            family.add_metric(labels, count)
        yield family


class Metrics:
    """Implements `contracts.Meter`, and takes over the status with every reading."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._make_gauges()
        self._make_counters()
        self._sources: set[str] = set()
        self._listed: set[str] = set()
        self._counted: dict[tuple[Counter, tuple[str, ...]], int] = {}
        self._gap_labels: set[tuple[str, str, str]] = set()

    def _make_gauges(self) -> None:
        self.stream_connected = self._gauge("remora_stream_connected", "Whether the stream of changes is connected")
        self.stream_last_event = self._gauge(
            "remora_stream_last_event_timestamp_seconds", "When the stream last named a changed item"
        )
        self.stream_last_byte = self._gauge(
            "remora_stream_last_byte_timestamp_seconds", "When the stream last sent anything"
        )
        self.update_workers_alive = self._gauge("remora_update_workers_alive", "Update workers that are running")
        self.inbox_depth = self._gauge("remora_inbox_depth", "Discovered items that wait")
        self.dead_letters = self._gauge("remora_dead_letters", "Gaps we gave up on for now")
        self.gaps = self._gauge("remora_gaps", "Items owed, by state and reason", "state", "reason")
        self.source_max_id = self._gauge("remora_source_max_id", "The newest id the source told us")
        self.newest_refused = self._gauge(
            "remora_newest_id_refused", "1 while the source tells a newest id that no item proves"
        )
        self.frontier_id = self._gauge("remora_frontier_id", "Every id up to here is settled or owed")
        self.backfill_progress = self._gauge("remora_backfill_progress_ratio", "Share of all ids that is not pending")
        self.backfill_pending = self._gauge(
            "remora_backfill_pending_ids", "Ids that the backfill has not asked for yet; NaN where it is switched off"
        )
        self.provider_down = self._gauge(
            "remora_provider_down", "1 while the provider is down and everything of ours works"
        )
        self.rescan_last_success = self._gauge(
            "remora_rescan_last_success_timestamp_seconds", "When a rescan last finished"
        )
        self.pace_interval = self._gauge("remora_pace_interval_seconds", "The learned interval between departures")
        self.ceiling_interval = self._gauge("remora_ceiling_interval_seconds", "The interval of the owner's ceiling")
        self.circuit_state = self._gauge("remora_circuit_state", "1 for the state the circuit is in", "state")
        self.answer = self._gauge("remora_answer", "1 for yes, 0 for no, to one of the four questions", "question")

    def _make_counters(self) -> None:
        self.stream_reconnects = self._counter("remora_stream_reconnects", "Times the stream was opened again")
        self.stream_unread = self._counter("remora_stream_events_unread", "Stream events that could not be read")
        self.stream_dropped = self._counter("remora_stream_keys_dropped", "Announced values that cannot be a key")
        self.anomalies = self._counter("remora_item_anomalies", "Oddities met while items were decoded", "anomaly")
        self.items_updated = self._counter("remora_items_updated", "Changed items stored from the stream of changes")
        self.rescan_processed = self._counter("remora_rescan_items_processed", "Items read again by a rescan")
        self.rescan_changed = self._counter("remora_rescan_items_changed", "Of those, items that had changed")
        self.requests = self._tallied("remora_requests", "Answered requests by verdict", "lane", "verdict")
        self.departures = self._tallied("remora_departures", "Requests that the gate let leave", "lane")
        self.wire_sends = self._tallied("remora_wire_sends", "Requests written to a connection")
        self.backoffs = self._counter("remora_backoffs", "Times the pace went down", "reason")
        self.loop_restarts = self._counter("remora_loop_restarts", "Times a loop was started again", "loop")
        self.update_age = Histogram(
            "remora_update_age_seconds",
            "Age of items when the stream of changes named them",
            SOURCE,
            buckets=AGE_BUCKETS_S,
            registry=self.registry,
        )
        self.store_batch = Histogram(
            "remora_store_batch_seconds",
            "Time to make one batch durable",
            buckets=BATCH_BUCKETS_S,
            registry=self.registry,
        )

    @property
    def _of_numbered(self) -> tuple[Gauge, ...]:
        """Gauges that only numbered sources have. A listed source has no such series, not even NaN."""
        return (
            self.stream_connected, self.stream_last_event, self.stream_last_byte, self.update_workers_alive,
            self.inbox_depth, self.source_max_id, self.newest_refused, self.frontier_id, self.backfill_progress,
            self.backfill_pending, self.rescan_last_success,
        )  # fmt: skip

    def watch(self, source: str, *, ceiling_interval_ns: int) -> None:
        """Begin to report a source. Unknown gauges are NaN until they are set, counters start at 0."""
        if source in self._sources:
            return
        self._sources.add(source)
        self._forget(source)
        for counter in (
            self.stream_reconnects, self.stream_unread, self.stream_dropped, self.items_updated, self.rescan_processed, self.rescan_changed,
        ):  # fmt: skip
            counter.labels(source)
        self.wire_sends.counts[source,] += 0
        self.update_age.labels(source)
        self.ceiling_interval.labels(source).set(ceiling_interval_ns / SECOND_NS)

    def forget(self) -> None:
        """The status cannot be read: its gauges become unknown."""
        for source in self._sources:
            self._forget(source)

    def _forget(self, source: str) -> None:
        numbered = () if source in self._listed else self._of_numbered
        for gauge in (*numbered, self.dead_letters, self.pace_interval, self.provider_down):
            gauge.labels(source).set(math.nan)
        for question in QUESTIONS:
            self.answer.labels(source, question).set(math.nan)
        for labels in self._gap_labels:
            if labels[0] == source:
                self.gaps.labels(*labels).set(math.nan)
        self.set_circuit(source, None)

    # -- contracts.Meter -----------------------------------------------------------------------------------------------

    def departed(self, source: str, lane: Lane, count: int = 1) -> None:
        """So many permits were used."""
        self.departures.counts[source, lane] += count

    def wire_sent(self, source: str) -> None:
        """A request is written to a connection."""
        self.wire_sends.counts[source,] += 1

    def judged(self, source: str, lane: Lane, *verdicts: Verdict) -> None:
        """These answers were classified."""
        for verdict in verdicts:
            self.requests.counts[source, lane, verdict_name(verdict)] += 1
            if isinstance(verdict, Found) and isinstance(verdict.thing, Item):
                for anomaly in verdict.thing.anomalies:
                    self.anomalies.labels(source, anomaly).inc()

    def recorded(self, source: str, seen: Sequence[Observation], outcomes: Sequence[Outcome]) -> None:
        """These outcomes are durable."""
        for one, outcome in zip(seen, outcomes, strict=True):
            written = outcome is Outcome.NEW or outcome is Outcome.CHANGED
            if one.discovery.via is Lane.UPDATE:
                self.items_updated.labels(source).inc(int(written))
                age_s = one.update_age_s
                if age_s is not None and age_s >= 0:
                    self.update_age.labels(source).observe(age_s)
            elif one.discovery.via is Lane.RESCAN:
                self.rescan_processed.labels(source).inc()
                self.rescan_changed.labels(source).inc(int(written))

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        """The learned pace changed."""
        self.pace_interval.labels(source).set(interval_ns / SECOND_NS)
        if backed_off_because is not None:
            self.backoffs.labels(source, backed_off_because).inc()

    def circuit_changed(self, source: str, state: str) -> None:
        """The circuit breaker changed its state."""
        self.set_circuit(source, state)

    # -- what others know ----------------------------------------------------------------------------------------------

    def batch_stored(self, seconds: float) -> None:
        """One batch became durable."""
        self.store_batch.observe(seconds)

    def set_circuit(self, source: str, state: str | None) -> None:
        """1 for the current state, 0 for the others; NaN for all while it is unknown."""
        for each in CircuitState:
            self.circuit_state.labels(source, each).set(math.nan if state is None else float(each == state))

    def take(self, source: str, status: SourceStatus) -> None:
        """Set every gauge from a status; an unknown section becomes NaN."""
        self._take_rate(source, status.rate)
        is_known = isinstance(status.rate, RateFacts)
        self.provider_down.labels(source).set(float(status.only_provider_is_down) if is_known else math.nan)
        self._take_gaps(source, status.gaps)
        for question, answer in answers_of(status).items():
            self.answer.labels(source, question).set(_yes_or_no(answer.answer))
        for loop, life in status.loops.items():
            self._backfill_with(self.loop_restarts, (source, loop), life.restarts)
        if isinstance(status.coverage, CoveredList):
            self._leave_out_numbered(source)
        else:
            self._take_numbered(source, status, status.coverage)

    def scrape(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format the scraper asked for, and its content type."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def _take_rate(self, source: str, rate: RateFacts | Unknown) -> None:
        known = rate if isinstance(rate, RateFacts) else None
        self.pace_interval.labels(source).set(_seconds(known.interval_ns if known else None))
        self.set_circuit(source, known.circuit if known else None)

    def _leave_out_numbered(self, source: str) -> None:
        if source not in self._listed:
            self._listed.add(source)
            for gauge in self._of_numbered:
                gauge.labels(source)  # removing a label that does not exist would be an error
                gauge.remove(source)

    def _take_numbered(self, source: str, status: SourceStatus, coverage: Covered | Unknown) -> None:
        self._take_coverage(source, coverage)
        pending = coverage.pending if isinstance(coverage, Covered) and status.backfill is not False else None
        self.backfill_pending.labels(source).set(_number(pending))
        known = isinstance(status.fresh, Fresh) or status.newest_refused is not None
        self.newest_refused.labels(source).set(float(status.newest_refused is not None) if known else math.nan)
        self._take_stream(source, status.stream)
        self.update_workers_alive.labels(source).set(_number(status.workers_alive))
        depth = status.inbox.depth if isinstance(status.inbox, InboxFacts) else None
        self.inbox_depth.labels(source).set(_number(depth))
        finished_ns = status.rescan.last_success_at_ns if isinstance(status.rescan, RescanFacts) else None
        self.rescan_last_success.labels(source).set(_seconds(finished_ns))

    def _take_coverage(self, source: str, coverage: Covered | Unknown) -> None:
        covered = coverage if isinstance(coverage, Covered) else None
        self.source_max_id.labels(source).set(_number(covered.max_id if covered else None))
        self.frontier_id.labels(source).set(_number(covered.frontier if covered else None))
        ids = covered.max_id - covered.first_id + 1 if covered else 0
        self.backfill_progress.labels(source).set(1 - covered.pending / ids if covered and ids else math.nan)

    def _take_stream(self, source: str, stream: StreamFacts | NoStream | Unknown) -> None:
        known = stream if isinstance(stream, StreamFacts) else None
        self.stream_connected.labels(source).set(_number(known.connected if known else None))
        self.stream_last_event.labels(source).set(_seconds(known.last_event_at_ns if known else None))
        self.stream_last_byte.labels(source).set(_seconds(known.last_byte_at_ns if known else None))
        if known is not None:
            self._backfill_with(self.stream_reconnects, (source,), known.reconnects)
            self._backfill_with(self.stream_unread, (source,), known.unread_events)
            self._backfill_with(self.stream_dropped, (source,), known.dropped_keys)

    def _take_gaps(self, source: str, gaps: Iterable[GapTally]) -> None:
        counts: Tally[tuple[str, str, str]] = Tally()
        for each in gaps:
            counts[source, each.state, each.reason] += each.count
        self._gap_labels.update(counts)
        for labels in self._gap_labels:
            if labels[0] == source:
                self.gaps.labels(*labels).set(counts[labels])  # what no longer exists goes to 0
        dead = sum(count for (_, state, _), count in counts.items() if state == GapState.DEAD)
        self.dead_letters.labels(source).set(dead)

    def _backfill_with(self, counter: Counter, labels: tuple[str, ...], count: int) -> None:
        """Raise a counter to what a process counted itself. A restarted process counts from 0."""
        key = (counter, labels)
        before = self._counted.get(key, 0)
        counter.labels(*labels).inc(count - before if count >= before else count)
        self._counted[key] = count

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, (*SOURCE, *labels), registry=self.registry)

    def _tallied(self, name: str, help_text: str, *labels: str) -> TalliedCounter:
        return TalliedCounter(name, help_text, *SOURCE, *labels, registry=self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, (*SOURCE, *labels), registry=self.registry)


def _yes_or_no(answer: YesNo) -> float:
    match answer:
        case YesNo.YES:
            return 1.0
        case YesNo.NO:
            return 0.0
        case YesNo.UNKNOWN:
            return math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _seconds(value_ns: int | None) -> float:
    return math.nan if value_ns is None else value_ns / SECOND_NS
