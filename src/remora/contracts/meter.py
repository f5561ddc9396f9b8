"""What must a meter count? Departures, verdicts, outcomes and changes of the pace."""

from typing import Protocol

from remora.contracts.store import Outcome
from remora.core.lanes import Lane
from remora.core.verdict import Verdict


class Meter(Protocol):
    """What is counted. Never an id, a title or a URL."""

    def departed(self, source: str, lane: Lane) -> None:
        """A permit was used."""

    def wire_sent(self, source: str) -> None:
        """A request was written to a connection, dead or alive. The count always equals the departures."""

    def judged(self, source: str, lane: Lane, verdict: Verdict) -> None:
        """An answer was classified."""

    def recorded(self, source: str, lane: Lane, outcome: Outcome, *, age_s: float | None) -> None:
        """An outcome is durable; `age_s` is how old an item of the update lane is, where known."""

    def pace_changed(self, source: str, *, interval_ns: int, backed_off_because: str | None) -> None:
        """The learned pace changed."""

    def circuit_changed(self, source: str, state: str) -> None:
        """The state of the circuit breaker changed."""
