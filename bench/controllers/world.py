"""What happens when one controller meets one provider? A saturated client in virtual time, no event loop.

There is always work. At most `in_flight` requests are unanswered. The world asks the controller when the next request
may leave, lets it leave, and tells the controller each answer when it comes. On a busy machine a request that has waited
for its moment leaves a little later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from bench.controllers.providers import Provider, Reply
from remora.core.rate.law import Answer
from remora.core.units import MILLISECOND_NS

BURST_NS = 10 * MILLISECOND_NS


class Controller(Protocol):
    def earliest_ns(self, now_ns: int) -> int: ...

    def departed(self, at_ns: int, ready_since_ns: int) -> bool: ...

    def answered(self, reply: Reply, departed_at_ns: int, now_ns: int, *, pace_bound: bool) -> None: ...


@dataclass(slots=True)
class Trace:
    """What one run did: a time for each departure and each good answer, and counts."""

    until_ns: int
    sent_at_ns: list[int] = field(default_factory=list)
    good_at_ns: list[int] = field(default_factory=list)
    refused_at_ns: list[int] = field(default_factory=list)
    troubled: int = 0
    crossings: int = 0


def run(
    controller: Controller,
    provider: Provider,
    *,
    in_flight: int,
    ceiling_interval_ns: int,
    until_ns: int,
    late_ns: Callable[[int], int] = lambda _: 0,
) -> Trace:
    """Run until the time is up. Answers count at the moment their request left, so that a cut-off tail is fair.

    `late_ns` says by how much a request that has to wait at this moment leaves too late.
    """
    trace = Trace(until_ns)
    tolerance_ns = (max(1, BURST_NS // ceiling_interval_ns) - 1) * ceiling_interval_ns
    ceiling_next_ns = 0
    answers: list[tuple[int, int, int, Reply, bool]] = []
    sent, good, refused = trace.sent_at_ns, trace.good_at_ns, trace.refused_at_ns
    now_ns = ready_since_ns = serial = 0
    awaited_ns = woken_ns = -1
    while True:
        leaves_ns = until_ns
        if len(answers) < in_flight:
            earliest_ns = controller.earliest_ns(now_ns)
            if earliest_ns > now_ns and earliest_ns != awaited_ns:
                awaited_ns, woken_ns = earliest_ns, earliest_ns + late_ns(now_ns)
            leaves_ns = max(now_ns, woken_ns if earliest_ns == awaited_ns else earliest_ns)
        if answers and answers[0][0] <= leaves_ns:
            now_ns, _, left_ns, reply, bound = heappop(answers)
            if now_ns >= until_ns:
                break
            if len(answers) == in_flight - 1:
                ready_since_ns = now_ns
            controller.answered(reply, left_ns, now_ns, pace_bound=bound)
            continue
        now_ns = leaves_ns
        if now_ns >= until_ns:
            break
        if now_ns < ceiling_next_ns - tolerance_ns:
            trace.crossings += 1
        ceiling_next_ns = max(ceiling_next_ns, now_ns) + ceiling_interval_ns
        bound = controller.departed(now_ns, ready_since_ns)
        reply = provider.reply(now_ns)
        sent.append(now_ns)
        if reply.answer is Answer.GOOD:
            good.append(now_ns)
        elif reply.answer is Answer.REFUSED:
            refused.append(now_ns)
        else:
            trace.troubled += 1
        serial += 1
        heappush(answers, (now_ns + reply.latency_ns, serial, now_ns, reply, bound))
    return trace
