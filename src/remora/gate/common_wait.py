"""Who wants the wait that all processes keep: the provider, or our own law?

The store keeps one wait for all processes, also the wait of a process whose record it refused as outdated. Only a record
says what the provider asked for.
"""

from typing import Final

from remora.contracts import SharedPace
from remora.core.rate.pace_record import wait_ns_of
from remora.core.rate.shared_pace import Common, from_common
from remora.core.units import SECOND_NS

# A record and its wait reach the store at different moments: ends that are so close are the same end.
SAME_END_NS: Final = SECOND_NS


class CommonWait:
    """The wait of all processes, as far as the provider did not ask for it."""

    def __init__(self) -> None:
        self.until_ns = 0

    def adopt(self, shared: SharedPace, *, asked_until_ns: int, now_ns: int) -> int:
        """Keep the shared wait, and return until when the provider asked for one, as far as is known by now.

        `asked_until_ns` is what this process knew of that before.
        """
        if not shared.not_before_in_ns:
            return asked_until_ns
        until_ns = now_ns + shared.not_before_in_ns
        fields = shared.record if isinstance(shared.record, dict) else {}
        told_until_ns = now_ns + wait_ns_of(fields, "not_before_in_ns") - shared.age_ns
        asked_until_ns = max(asked_until_ns, min(told_until_ns, until_ns))
        if until_ns > asked_until_ns + SAME_END_NS:
            self.until_ns = max(self.until_ns, until_ns)
            return asked_until_ns
        self.until_ns = 0
        return max(asked_until_ns, until_ns)


def common_pace(shared: SharedPace, *, ceiling_interval_ns: int, now_ns: int) -> Common | None:
    """The pace of all processes; None: it cannot be read."""
    return from_common(
        shared.record,
        age_ns=shared.age_ns,
        quiet_in_ns=shared.not_before_in_ns,
        ceiling_interval_ns=ceiling_interval_ns,
        now_ns=now_ns,
    )
