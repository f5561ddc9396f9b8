"""What was counted? A meter whose counts are public attributes, for tests and simulated runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from remora.contracts import Observation, Outcome
from remora.core.lanes import Lane
from remora.core.verdict import Verdict


@dataclass(slots=True)
class CountingMeter:
    """Counts everything that is reported to a `contracts.Meter`."""

    departures: Counter[tuple[str, Lane]] = field(default_factory=Counter)
    wire_sends: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, Lane, str]] = field(default_factory=Counter)  # by the verdict's class name
    outcomes: Counter[tuple[str, Lane, Outcome]] = field(default_factory=Counter)
    ages_s: list[float] = field(default_factory=list)
    paces_ns: list[tuple[str, int, str | None]] = field(default_factory=list)
    circuits: list[tuple[str, str]] = field(default_factory=list)

    def departed(self, source: str, lane: Lane, count: int = 1) -> None:
        self.departures[source, lane] += count

    def wire_sent(self, source: str) -> None:
        self.wire_sends[source] += 1

    def judged(self, source: str, lane: Lane, *verdicts: Verdict) -> None:
        self.verdicts.update((source, lane, type(verdict).__name__) for verdict in verdicts)

    def recorded(self, source: str, seen: Sequence[Observation], outcomes: Sequence[Outcome]) -> None:
        for one, outcome in zip(seen, outcomes, strict=True):
            self.outcomes[source, one.discovery.via, outcome] += 1
            if one.update_age_s is not None:
                self.ages_s.append(one.update_age_s)

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        self.paces_ns.append((source, interval_ns, backed_off_because))

    def circuit_changed(self, source: str, state: str) -> None:
        self.circuits.append((source, state))

    def total_departures(self, source: str) -> int:
        """Departures of all lanes."""
        return sum(count for (name, _lane), count in self.departures.items() if name == source)

    def total_outcomes(self, outcome: Outcome) -> int:
        """Outcomes of all sources and lanes."""
        return sum(count for (_source, _lane, kind), count in self.outcomes.items() if kind is outcome)
