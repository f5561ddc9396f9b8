"""What did the provider last say about its quota? Kept for display; the law keeps what it needs in the pace itself."""

from collections.abc import Mapping
from typing import Final

import msgspec

from remora.contracts import Clock, Json
from remora.core.quota import Quota
from remora.core.quota_headers import has_quota, read_quota, tightest
from remora.core.rate.gate_types import QuotaFacts
from remora.core.rate.pace import Pace
from remora.core.verdict import NoReply, Reply

# A quota whose spread changed by less than this since it was stored is not worth storing again.
STORE_CHANGE: Final = 0.05


class ToldQuota:
    """The quota of one gate, as the last answer gave it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: QuotaFacts | None = None
        self._stored = (0, 0)  # interval and end

    def hear(self, reply: Reply | NoReply, in_body: Quota | None) -> Quota | None:
        """The quota that an answer gives in its headers or its body; it is remembered until its reset."""
        if isinstance(reply, NoReply) or (in_body is None and not (reply.headers and has_quota(reply.headers))):
            return None
        wall_ns = self._clock.wall_ns()
        in_headers = read_quota(reply.headers, now_wall_ns=wall_ns)
        if in_headers is None and in_body is None:
            return None
        told = tightest(quota for quota in (in_headers, in_body) if quota is not None)
        assert told is not None, "one of the two was told"
        since_ns = max(0, self._clock.monotonic_ns() - reply.answered_at_ns)
        self._last = QuotaFacts(told.remaining, told.limit, wall_ns - since_ns + told.reset_in_ns)
        return told

    def is_worth_storing(self, pace: Pace) -> bool:
        """Whether the next process would be too fast, or wait too long, with what was stored last."""
        interval_ns, until_ns = self._stored
        moved_ns = abs(pace.quota_interval_ns - interval_ns)
        if moved_ns <= STORE_CHANGE * interval_ns and pace.quota_until_ns - until_ns <= pace.interval_ns:
            return False
        self._stored = (pace.quota_interval_ns, pace.quota_until_ns)
        return True

    def facts(self) -> QuotaFacts | None:
        """The quota as known now; None if there is none or it was reset."""
        known = self._last
        return known if known is not None and known.until_ns > self._clock.wall_ns() else None

    def record(self) -> Json:
        """What the next process can show."""
        known = self.facts()
        return None if known is None else msgspec.to_builtins(known)

    def take_up(self, fields: Mapping[str, Json]) -> None:
        """Restore what the last process stored, if it can be read."""
        try:
            self._last = msgspec.convert(fields.get("quota"), QuotaFacts | None)
        except msgspec.ValidationError:
            self._last = None


def is_empty_until_ns(pace: Pace) -> int:
    """Until when the quota is used up; 0: it is not."""
    return pace.quota_until_ns if pace.quota_until_ns and not pace.quota_interval_ns else 0
