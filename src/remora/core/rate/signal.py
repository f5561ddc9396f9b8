"""What does an answer say about the source? One word for the law and the circuit; nothing if it concerns one item."""

from collections import deque

from remora.core.rate.circuit_breaker import RECENT_ANSWERS
from remora.core.rate.keeping import SLOW_ANSWERS
from remora.core.rate.law import Answer, Answered, Pace
from remora.core.reasons import GapReason
from remora.core.verdict import (
    Deferred,
    Fault,
    Found,
    Malformed,
    Missing,
    NoReply,
    NotYet,
    Pressure,
    Refused,
    Reply,
    Trouble,
    Verdict,
)


def answer_of(verdict: Verdict) -> Answer | None:
    """What a verdict says about the rate; a refusal of one item says nothing."""
    match verdict:
        case Found() | NotYet() | Missing() | Malformed():
            return Answer.GOOD
        case Pressure():
            return Answer.REFUSED
        case Trouble():
            return Answer.TROUBLED
        case Refused() | Deferred():
            return None


def is_of_provider(reply: Reply | NoReply, verdict: Verdict) -> bool:
    """Whether it says anything about the provider: not if this machine could not send, or the source's own code failed."""
    is_failed = isinstance(reply, NoReply) and reply.fault is Fault.FAILED
    return not is_failed and not isinstance(verdict, Deferred)


def is_nonsense(verdict: Verdict) -> bool:
    """Whether an answer came complete and in time, but is not what was asked for."""
    return isinstance(verdict, Malformed)


def is_unanswered(verdict: Verdict) -> bool:
    """Whether no answer came in time."""
    return isinstance(verdict, Trouble) and verdict.reason is GapReason.TIMEOUT


def in_words(reply: Reply | NoReply, verdict: Verdict) -> str:
    """What the provider answered, for an operator: its status, or why there is none."""
    match reply, verdict:
        case Reply(status=200), Trouble(reason=GapReason.SERVER_ERROR):
            return "it answers HTTP 200, but not with what was asked for"
        case Reply(status=status), Pressure(reason=reason) | Trouble(reason=reason):
            return f"it answers HTTP {status} ({reason.replace('_', ' ')})"
        case Reply(status=200), Malformed():
            return "its answers are not what was asked for"
        case Reply(status=status), Malformed():
            return f"it answers HTTP {status}, which is not what was asked for"
        case NoReply(fault=Fault.TIMEOUT), _:
            return "it does not answer in time"
        case NoReply(fault=Fault.CONNECTION), _:
            return "no connection can be opened, or it breaks"
        case _:
            return "its answers cannot be used"


def came_at_ns(reply: Reply | NoReply) -> int:
    """When a good answer came, at the earliest: time in which our own event loop was busy is not the provider's.

    A refusal counts from when it was read: no wait that the provider asks for gets shorter.
    """
    if isinstance(reply, NoReply) or not reply.late_ns:
        return reply.answered_at_ns
    return max(reply.departed_at_ns, reply.answered_at_ns - reply.late_ns)


def good_answer(reply: Reply, pace_bound: bool) -> Answered:  # noqa: FBT001  runs for every answer
    """An ordinary good answer, for the law."""
    return Answered(Answer.GOOD, reply.departed_at_ns, came_at_ns(reply), pace_bound)


def slowed_because(before: Pace, learned: Pace, verdict: Verdict | None) -> str | None:
    """What lowered the pace; None: a good answer lowered it a little, after a refusal that was told already."""
    if isinstance(verdict, Pressure | Trouble):
        return str(verdict.reason)
    is_queue = learned.queue_ns > 0 and learned.last_cut_at_ns > before.last_cut_at_ns
    return SLOW_ANSWERS if is_queue else None


class WellAnswered:
    """When the latest well-answered requests were sent.

    A request that hangs is given up last, when later requests have long been answered. If all were counted as they end,
    a few items that always hang would look like an outage: they stay in flight and are given up together.
    """

    def __init__(self) -> None:
        self._left_at_ns: deque[int] = deque(maxlen=RECENT_ANSWERS)

    def add(self, *departed_at_ns: int) -> None:
        """Requests that were sent then were answered well."""
        self._left_at_ns.extend(departed_at_ns)

    def have_overtaken(self, departed_at_ns: int) -> bool:
        """Whether all requests that the circuit judges by were sent later: this one says nothing about the present."""
        return len(self._left_at_ns) == RECENT_ANSWERS and min(self._left_at_ns) > departed_at_ns
