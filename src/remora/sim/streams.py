"""What does an event stream send, and when? The provider's side of streaming, without a connection.

The owner of the connection sends `take()`, sleeps until `wake_ns` (monotonic), and closes it once `ended`. The events
use the whole grammar that clients must understand: complete lists, single slots, arrays as objects, empty slots.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from remora.core.units import HOUR_NS, SECOND_NS
from remora.sim.faults import StreamFaults

KEEP_ALIVE_NS: Final = 30 * SECOND_NS
_FEW: Final = 5
_NEVER_NS: Final = 1 << 62


def event(name: str, path: str, data: object) -> bytes:
    """One event in the provider's grammar."""
    payload = json.dumps({"path": path, "data": data}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {payload}\n\n".encode()


KEEP_ALIVE: Final = b"event: keep-alive\ndata: null\n\n"
CANCEL: Final = b"event: cancel\ndata: null\n\n"
AUTH_REVOKED: Final = b'event: auth_revoked\ndata: "credential is no longer valid"\n\n'


@dataclass(frozen=True, slots=True)
class News:
    """What the stream of changes announces at one moment."""

    items: list[int]
    profiles: list[str]


def update_events(news: News, before: News, chance: Random) -> bytes:
    """The same news in one of the forms the grammar allows."""
    items, profiles = news.items, news.profiles
    match chance.randrange(10):
        case 0:
            return event("put", "/items", items) + event("put", "/profiles", profiles)
        case 1:
            return event("patch", "/items", _merge(before.items, items)) + event("put", "/profiles", profiles)
        case 2:
            return event("put", "/", {"items": _as_object(items), "profiles": profiles})
        case 3 if len(items) <= _FEW:
            slots = [event("put", f"/items/{at}", item_id) for at, item_id in enumerate(items)]
            gone = [event("put", f"/items/{at}", None) for at in reversed(range(len(items), len(before.items)))]
            return b"".join([*slots, *gone, event("put", "/profiles", profiles)])
        case 4 | 5:
            return event("patch", "/", {"items": items, "profiles": profiles})
        case _:
            return event("put", "/", {"items": items, "profiles": profiles})


def _merge(before: Sequence[int], items: Sequence[int]) -> dict[str, int | None]:
    merged: dict[str, int | None] = {str(at): item_id for at, item_id in enumerate(items)}
    return merged | {str(at): None for at in range(len(items), len(before))}


def _as_object(items: Sequence[int]) -> dict[str, int]:
    return {str(at): item_id for at, item_id in enumerate(items)}


class EventStream:
    """One open stream: first the full state, then changes, with keep-alives in between and one of several endings."""

    def __init__(
        self,
        first: bytes,
        news: Callable[[], bytes],
        *,
        ticks: Callable[[], int],
        wait_ns: Callable[[], int],
        faults: StreamFaults,
        chance: Random,
        is_out: Callable[[], bool],
    ) -> None:
        self._news = news
        self._ticks = ticks
        self._wait_ns = wait_ns
        self._is_out = is_out
        self._waiting = first
        now_ns = ticks()
        self._news_ns = now_ns + wait_ns()
        self._alive_ns = now_ns + KEEP_ALIVE_NS
        self._ends = sorted(
            (now_ns + _after_ns(per_hour, chance), last_words)
            for per_hour, last_words in (
                (faults.drops_per_hour, b""),
                (faults.cancels_per_hour, CANCEL),
                (faults.revokes_per_hour, AUTH_REVOKED),
            )
        )
        self._silent_ns = now_ns + _after_ns(faults.zombies_per_hour, chance)
        self.ended = False

    @property
    def wake_ns(self) -> int:
        """When there is something to send or do next."""
        # A zombie stays open after its end: waiting for that past moment would loop for ever.
        ends_ns = self._ends[0][0] if self._ends[0][0] < self._silent_ns else _NEVER_NS
        return min(self._news_ns, self._alive_ns, ends_ns)

    def take(self) -> bytes:
        """Everything that is due by now. A zombie sends nothing and does not end."""
        now_ns = self._ticks()
        if self._is_out():
            self.ended = True
            return b""
        silent = now_ns >= self._silent_ns
        waiting, self._waiting = self._waiting, b""
        if now_ns >= self._news_ns:
            waiting += self._news()
            self._news_ns = now_ns + self._wait_ns()
        if now_ns >= self._alive_ns:
            self._alive_ns = now_ns + KEEP_ALIVE_NS
            waiting += KEEP_ALIVE
        if silent:
            return b""
        if now_ns >= self._ends[0][0]:
            self.ended = True
            waiting += self._ends[0][1]
        return waiting


def _after_ns(per_hour: float, chance: Random) -> int:
    return int(chance.expovariate(per_hour) * HOUR_NS) if per_hour > 0 else _NEVER_NS
