"""What does an answer say about the rate? One word for the law, or nothing where only one item was refused."""

from remora.core.rate_law import Answer
from remora.core.verdict import Deferred, Found, Malformed, Missing, NotYet, Pressure, Refused, Trouble, Verdict


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
