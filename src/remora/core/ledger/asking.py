"""How often is one thing requested, and does its failure tell us anything new? An `AskPolicy` answers for each case."""

from collections import deque
from typing import Final

import msgspec

from remora.core.ledger.discovery import Discovery, FromGap, Kind
from remora.core.reasons import GapFamily, GapReason
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict

# A request that failed is sent again after these delays, each time through the gate; then the item is owed.
RETRY_DELAYS_NS: Final = (200 * MILLISECOND_NS, 500 * MILLISECOND_NS, 1_000 * MILLISECOND_NS)
# An item whose own requests took this long is not retried at once: it becomes owed, and recovery asks for it later. A
# request that hangs takes its whole timeout, and a walk cannot store a cursor beyond it. Waiting in the gate is not
# counted: it says nothing about the item.
REQUEST_TIME_MAX_NS: Final = 5 * SECOND_NS
# If no other key was refused within this many answers, a refusal is this key's own.
ANSWERS_REMEMBERED: Final = 16
# How many refused keys are remembered here. The gaps in the store remember all of them, but documents by fingerprint.
KEYS_REMEMBERED: Final = 1_000

Key = tuple[Kind, str]


class Asked(msgspec.Struct, frozen=True, gc=False):
    """The result of asking for one thing. Deferred: the allowance was used up before the first request."""

    verdict: Verdict
    started_at_ns: int  # wall clock at the departure of the request that was answered
    requests: int
    took_ns: int = 0  # that request


class AskPolicy(msgspec.Struct, frozen=True):
    """How much may be spent on one thing before other things get their turn."""

    retry_delays_ns: tuple[int, ...] = RETRY_DELAYS_NS
    repeats_pressure: bool = True  # False: a refused key is set aside, and another key is requested first
    repeats_are_news: bool = False  # True: requests go one at a time, so each fault counts against the provider
    request_time_max_ns: int | None = REQUEST_TIME_MAX_NS
    retries_least: int | None = None  # retries that a run of any length may send; None: no limit
    retries_one_in: int = 10  # plus one retry for this many requests

    def delay_ns(self, verdict: Verdict, *, requests: int, taken_ns: int) -> int | None:
        """How long to wait before the next retry, after `requests` that took `taken_ns` together; None: no retry."""
        took_too_long = self.request_time_max_ns is not None and taken_ns >= self.request_time_max_ns
        if took_too_long or requests > len(self.retry_delays_ns) or not self._is_worth_a_retry(verdict):
            return None
        return self.retry_delays_ns[requests - 1]

    def covers_retry(self, *, retries: int, requests: int) -> bool:
        """Whether a run that has sent this many retries and requests may send one more retry."""
        return self.retries_least is None or retries < self.retries_least + requests // self.retries_one_in

    def _is_worth_a_retry(self, verdict: Verdict) -> bool:
        """Whether the same request may be answered differently in a moment."""
        match verdict:
            case Trouble():
                return True
            case Pressure():
                return self.repeats_pressure
            case Found() | NotYet() | Missing() | Refused() | Malformed() | Deferred():
                return False


ITEM: Final = AskPolicy()
# A run has its own budget for time and retries, and it always has another entry to ask for.
LISTED: Final = AskPolicy(repeats_pressure=False, repeats_are_news=True, request_time_max_ns=None, retries_least=100)
ONCE: Final = AskPolicy(retry_delays_ns=())


class Refusals:
    """Which keys were refused? Distinguishes a key that is always refused from a provider that refuses everything.

    A repeated refusal is the key's own if the last answer was good and no other key was refused recently. Such a
    refusal slowed the pace the first time, and says nothing new about the provider.
    """

    def __init__(self) -> None:
        self._keys: dict[Key, None] = {}
        self._recent: deque[Key | None] = deque(maxlen=ANSWERS_REMEMBERED)  # the refused key; None: a good answer

    def hear(self, discovery: Discovery, verdict: Verdict) -> bool:
        """Remember an answer. True: it is a repeated refusal that is the key's own."""
        match verdict:
            case Found() | NotYet() | Missing() | Malformed():
                self.answered(discovery)
                return False
            case Pressure():
                return self._refused(discovery)
            case Trouble() | Refused() | Deferred():
                return False

    def answered(self, *discoveries: Discovery) -> None:
        """Remember answers that are no failures."""
        self._recent.extend([None] * min(ANSWERS_REMEMBERED, len(discoveries)))
        if self._keys:
            for discovery in discoveries:
                self._keys.pop((discovery.kind, discovery.key), None)

    def _refused(self, discovery: Discovery) -> bool:
        key = (discovery.kind, discovery.key)
        is_own = self._was_refused(key, discovery) and self._others_are_answered(key)
        self._keys[key] = None
        self._recent.append(key)
        if len(self._keys) > KEYS_REMEMBERED:
            del self._keys[next(iter(self._keys))]
        return is_own

    def _was_refused(self, key: Key, discovery: Discovery) -> bool:
        reason = owed_because(discovery)
        return key in self._keys or (reason is not None and reason.family is GapFamily.PRESSURE)

    def _others_are_answered(self, key: Key) -> bool:
        is_good_now = not self._recent or self._recent[-1] is None
        return is_good_now and all(refused in {None, key} for refused in self._recent)


def owed_because(discovery: Discovery) -> GapReason | None:
    """Why the item is already owed; None when it is not a gap."""
    return discovery.origin.reason if isinstance(discovery.origin, FromGap) else None
