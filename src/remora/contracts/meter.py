"""What must a meter count? Departures, verdicts, outcomes and changes of the pace."""

from collections.abc import Sequence
from typing import Protocol

from remora.contracts.store import Observation, Outcome
from remora.core.lanes import Lane
from remora.core.verdict import Verdict


class Meter(Protocol):
    """What is counted. Never an id, a title or a URL."""

    def departed(self, source: str, lane: Lane, count: int = 1) -> None:
        """So many permits were used."""

    def wire_sent(self, source: str) -> None:
        """A request was written to a connection, dead or alive. The count always equals the departures."""

    def judged(self, source: str, lane: Lane, *verdicts: Verdict) -> None:
        """These answers were classified."""

    def recorded(self, source: str, seen: Sequence[Observation], outcomes: Sequence[Outcome]) -> None:
        """These outcomes are durable, each of the observation in the same place."""

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        """The learned pace changed."""

    def circuit_changed(self, source: str, state: str) -> None:
        """The state of the circuit breaker changed."""
