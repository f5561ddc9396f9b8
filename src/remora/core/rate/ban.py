"""Has the provider banned us for being refused too often? Then we keep a limit on refusals, as if the owner had written it.

A ban is a long outage that begins right after more refusals than the provider ever tolerated. Quotas and incidents begin
without them. With many in flight a long quota refuses many at once, too, and looks like a ban: if it comes again although
the limit was kept, a lower one is tried, and then it was none.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from remora.core.rate.constants import MANY, OUTAGE_BUDGET, WAIT_GROWTH
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MINUTE_NS
from remora.core.verdict import RETRY_AFTER_MAX_NS

WITHIN_NS: Final = MINUTE_NS  # the span in which most providers count refusals
LONG_NS: Final = WAIT_GROWTH * WITHIN_NS  # the law's waits have outgrown every window and penalty of such a span
KEPT_MAX_NS: Final = RETRY_AFTER_MAX_NS  # of a provider that refuses everything for weeks
# So many within a span are no chance. One fewer are always allowed: with one alone, each refusal would be a minute's silence.
BAN_REFUSALS: Final = 3
# So many at once, in the first minute of the outage. With few in flight, the law is refused at most six times in a block.
# Half as many are allowed then: fewer in flight would be slow, and it may have been a quota or an incident.
BAN_VOLLEY: Final = 8


class Outage(msgspec.Struct, frozen=True, gc=False):
    """Everything that was sent since then was refused."""

    began_ns: int
    count: int  # its first refusal, and those in the minute before it
    around: int  # the same, and those in its first minute


class LearnedLimit(msgspec.Struct, frozen=True, gc=False):
    """What a ban has taught: the limit, until when it is kept, and what was seen."""

    limit: RefusalLimit
    until_ns: int
    began_ns: int  # when the outage began that has taught it
    refusals: int  # that came before the ban
    lasted_ns: int  # for how long everything was refused, as far as is known
    is_sure: bool = True  # False: they came all at once, as at the end of a quota


class BanWatch(msgspec.Struct, frozen=True, gc=False):
    """What is known about bans. Times are monotonic."""

    refused: tuple[tuple[int, int], ...] = ()  # the refusals of the last minute: sent, answered
    tolerated: int = 0  # the most refusals within a minute after which a request was accepted
    outage: Outage | None = None  # None: nothing was refused since the last accepted request
    learned: LearnedLimit | None = None
    has_quota: bool = False  # an outage came although the limit was kept: refusals that come all at once prove nothing

    def hear_refusal(self, *, sent_ns: int, answered_ns: int) -> "BanWatch":
        """A request was refused."""
        refused = (*_within(self.refused, until_ns=answered_ns), (sent_ns, answered_ns))[-MANY:]
        outage = self.outage
        if outage is None:
            outage = Outage(sent_ns, len(refused), len(refused))
        elif sent_ns <= outage.began_ns + WITHIN_NS:
            outage = msgspec.structs.replace(outage, around=outage.around + 1)
        return _judged(msgspec.structs.replace(self, refused=refused, outage=outage), outage, sent_ns=sent_ns)

    def hear_forbidden(self, *, sent_ns: int, answered_ns: int) -> "BanWatch":
        """A request was forbidden: a matter of its item, or the ban, of which it may be the first sign."""
        outage = self.outage
        if outage is None:
            count = len(_within(self.refused, until_ns=answered_ns)) + 1
            if count < BAN_REFUSALS:
                return self
            outage = Outage(sent_ns, count, count)
        return _judged(msgspec.structs.replace(self, outage=outage), outage, sent_ns=sent_ns)

    def hear_good(self, *, sent_ns: int) -> "BanWatch":
        """A request was accepted. Needed only after a refusal."""
        outage = self.outage
        if outage is None or sent_ns <= outage.began_ns:
            return self
        before = [one for one in self.refused if one[1] < sent_ns]
        tolerated = len(_within(before, until_ns=before[-1][1])) if before else 0
        # With several in flight, what was sent after this request may have been refused already.
        since = sorted(one for one in self.refused if one[0] > sent_ns)
        outage = self._begun(since) if since else None
        return msgspec.structs.replace(self, tolerated=max(self.tolerated, tolerated), outage=outage)

    def at(self, now_ns: int) -> "BanWatch":
        """The same, without a limit that is kept no longer."""
        is_over = self.learned is not None and self.learned.until_ns <= now_ns
        return msgspec.structs.replace(self, learned=None) if is_over else self

    def _begun(self, since: list[tuple[int, int]]) -> Outage:
        """The outage that these refusals began."""
        began_ns, answered_ns = since[0]
        count = sum(one[0] <= began_ns for one in _within(self.refused, until_ns=answered_ns))
        return Outage(began_ns, count, count + len(since) - 1)


def _within(refused: Sequence[tuple[int, int]], *, until_ns: int) -> list[tuple[int, int]]:
    """The refusals that the provider surely counted within one span that ends then."""
    return [one for one in refused if one[0] >= until_ns - WITHIN_NS]


def _judged(watch: BanWatch, outage: Outage, *, sent_ns: int) -> BanWatch:
    """What an outage teaches, once it is long."""
    lasted_ns, before = sent_ns - outage.began_ns, watch.learned
    if lasted_ns < LONG_NS:
        return watch
    # If the ban comes again after that time, it costs no more than being shut out may cost.
    until_ns = sent_ns + min(KEPT_MAX_NS, int(lasted_ns / OUTAGE_BUDGET))
    if before is not None and before.began_ns == outage.began_ns:
        learned = msgspec.structs.replace(before, until_ns=until_ns, lasted_ns=lasted_ns)
        return msgspec.structs.replace(watch, learned=learned)
    is_sure = outage.count > max(watch.tolerated, BAN_REFUSALS - 1)
    is_volley = outage.around >= BAN_VOLLEY > watch.tolerated and not watch.has_quota
    if not is_sure and (not is_volley if before is None else before.is_sure):
        return watch
    if is_sure:
        most = outage.count - 1
    elif is_volley:
        most = max(BAN_VOLLEY // 2, watch.tolerated)
    else:  # it comes again although the limit was kept
        most = BAN_REFUSALS - 1
    if before is not None:
        if not is_sure and most >= before.limit.most:
            return msgspec.structs.replace(watch, learned=None, has_quota=True)
        most, is_sure = min(most, before.limit.most), is_sure or before.is_sure
    limit = RefusalLimit(most, WITHIN_NS)
    learned = LearnedLimit(limit, until_ns, outage.began_ns, outage.around, lasted_ns, is_sure)
    return msgspec.structs.replace(watch, learned=learned)
