"""Did the last run over a list fail, and does that need a person? A list that answered before is waited for."""

from typing import Final

from remora.core.ledger.run import FAILURES, StoppedBy
from remora.core.status.model import Answer, Attention, YesNo
from remora.core.status.snapshot import LedgerFacts, RunFacts
from remora.core.status.words import STOPPED

# Runs that ended like this did not ask for the list.
WITHOUT_LIST: Final = frozenset({StoppedBy.RECOVER_ONLY, StoppedBy.COOL_DOWN})


def last_run(ledger: LedgerFacts) -> StoppedBy | None:
    """How the last run that asked for the list ended; None: there was none."""
    ended = [run for run in ledger.runs if run.stopped_by and run.stopped_by not in WITHOUT_LIST]
    last = max(ended, key=lambda run: run.ended_at_ns or 0, default=None)
    return None if last is None or last.stopped_by is None else StoppedBy(last.stopped_by)


def failed_run(name: str, ledger: LedgerFacts, *, now: RunFacts | None) -> Answer | None:
    """What a failed run says about working; None if the last one did not fail, or the one in progress reads the list."""
    stopped_by = last_run(ledger)
    if stopped_by not in FAILURES or (now is not None and now.counts.get("pages")):
        return None
    told = f"the last run failed: {ledger.told or STOPPED[stopped_by]}"
    if stopped_by is StoppedBy.LIST_TROUBLE and ledger.documents:
        return Answer(YesNo.NO, told, Attention.WAIT)
    # What a run says of a page far behind the first one, `remora try` cannot see.
    more = "" if ledger.told else f"; find out more with: remora try {name}"
    return Answer(YesNo.NO, f"{told}{more}", Attention.ACT)
