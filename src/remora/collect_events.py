"""What is an operator told while items are collected? When a gap opens or ends, and when this machine is exhausted."""

from collections.abc import Sequence
from typing import Final

import structlog

from remora.contracts import Observation, Outcome
from remora.core.ledger.discovery import Discovery, FromGap
from remora.core.ledger.gap import owed_reason
from remora.core.units import MINUTE_NS
from remora.core.verdict import Found, Verdict

log = structlog.get_logger()

EXHAUSTED_TOLD_EVERY_NS: Final = MINUTE_NS


class CollectEvents:
    """The events of one source's items: how many, why and how they were found, never which item."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._exhausted_told_ns: int | None = None

    def exhausted(self, *, now_ns: int) -> None:
        """This machine cannot send a request. Logged once a minute."""
        if self._exhausted_told_ns is None or now_ns - self._exhausted_told_ns >= EXHAUSTED_TOLD_EVERY_NS:
            self._exhausted_told_ns = now_ns
            why = "this machine has no free file descriptors or memory; raise the limit of open files (ulimit -n)"
            log.warning("machine_exhausted", source=self._source, why=why)

    def recorded(self, seen: Sequence[Observation], outcomes: Sequence[Outcome]) -> None:
        """Log when a gap opens and when it ends: how many, why and how it was found, never which item."""
        for one, outcome in zip(seen, outcomes, strict=True):
            if one.discovery.origin is not None or not isinstance(one.verdict, Found):
                self._recorded(one.discovery, one.verdict, outcome)
            # else fast path: nothing was owed, and nothing is

    def _recorded(self, discovery: Discovery, verdict: Verdict, outcome: Outcome) -> None:
        was_owed, reason = isinstance(discovery.origin, FromGap), owed_reason(verdict)
        match outcome:
            case Outcome.OWED if not was_owed:
                log.debug("gap_opened", source=self._source, via=str(discovery.via), reason=reason)
            case Outcome.DEAD:
                log.warning("gap_dead", source=self._source, via=str(discovery.via), reason=reason)
            case Outcome.ABSENT:
                log.debug("gap_absent", source=self._source, via=str(discovery.via), reason=reason)
            case Outcome.GONE:
                log.debug("gap_gone", source=self._source, via=str(discovery.via), reason=reason)
            case Outcome.NEW | Outcome.CHANGED | Outcome.UNCHANGED if was_owed and reason is None:
                log.debug("gap_settled", source=self._source, via=str(discovery.via))
            case _:  # stored as usual, still owed, or overtaken by a newer answer: nothing new for an operator
                pass
