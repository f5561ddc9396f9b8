"""What may a run spend? The caller reports every request to the allowance; the allowance says when it is used up."""

from typing import Final, Protocol

from remora.core.ledger.run import Stop
from remora.core.verdict import Verdict


class Allowance(Protocol):
    """What all requests of one run may spend together. A loop that runs for ever has no limit: `UNBOUNDED`."""

    @property
    def stop(self) -> Stop | None:
        """Why nothing more is requested; None while requests may be sent."""

    def may_ask(self) -> bool:
        """Whether one more request may be sent; otherwise `stop` says why not."""

    def left_ns(self) -> int | None:
        """How long a request may wait in the gate; None: as long as it takes."""

    def out_of_time(self) -> None:
        """A request waited in the gate until the time was used up. It was not sent."""

    def heard(self, verdict: Verdict, *, departed_wall_ns: int | None = None) -> None:
        """One request, sent at this time, got this verdict."""

    def may_retry(self) -> bool:
        """Whether a failed request may be retried; counts the retry."""


class _Unbounded:
    """Never used up; counts nothing."""

    stop = None

    def may_ask(self) -> bool:
        return True

    def left_ns(self) -> None:
        return None

    def out_of_time(self) -> None:
        raise AssertionError("there is no bound")

    def heard(self, verdict: Verdict, *, departed_wall_ns: int | None = None) -> None:
        pass

    def may_retry(self) -> bool:
        return True


UNBOUNDED: Final[Allowance] = _Unbounded()
