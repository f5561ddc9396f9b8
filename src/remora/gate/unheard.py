"""Which answers were not heard yet? Those of one gate, in the order in which they came: the law measures by that order.

What comes in one tick of the event loop is heard in one go. While the pace holds requests back, an answer that can wait does
so for a few milliseconds, to be heard with more of them: to hear ten costs little more than to hear one. Whatever is heard
at once takes those along.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.gate.permit import GovernedPermit

# An answer, the permit of its request, and whether it could wait.
Came = tuple[GovernedPermit, Reply | NoReply, bool]
HearAll = Callable[[Sequence[Came]], None]


class Unheard:
    """The answers of one gate that were not heard yet. `may_wait_ns` says for how long they may wait at this moment."""

    def __init__(self, may_wait_ns: Callable[[], int]) -> None:
        self._may_wait_ns = may_wait_ns
        self._answers: list[tuple[HearAll, Came]] = []
        self._hearing: asyncio.Handle | None = None  # a timer, if all of them can wait

    def add(self, hear: HearAll, permit: GovernedPermit, reply: Reply | NoReply, *, can_wait: bool) -> None:
        """Hear this answer in its turn: in this tick, or a little later."""
        self._answers.append((hear, (permit, reply, can_wait)))
        if self._hearing is None:
            loop, wait_ns = asyncio.get_running_loop(), self._may_wait_ns() if can_wait else 0
            self._hearing = loop.call_later(wait_ns / SECOND_NS, self.hear) if wait_ns else loop.call_soon(self.hear)
        elif not can_wait and isinstance(self._hearing, asyncio.TimerHandle):
            self._hearing.cancel()
            self._hearing = asyncio.get_running_loop().call_soon(self.hear)

    def hear(self) -> None:
        """Hear all of them now, each by whoever asked for it, in the order in which they came."""
        if self._hearing is not None:
            self._hearing.cancel()
            self._hearing = None
        answers, self._answers = self._answers, []
        for hear, run in groupby(answers, key=itemgetter(0)):
            try:
                hear([came for _, came in run])
            except Exception as error:  # noqa: BLE001 - our own mistake with these answers: the others are heard
                about = {"message": "answers could not be heard", "exception": error}
                asyncio.get_running_loop().call_exception_handler(about)
