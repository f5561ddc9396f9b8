"""How does the simulated provider answer? With the world's bodies, subject to its hidden limit and its faults.

One provider serves both the simulated transport and the loopback server. It keeps its own log of arrivals, which is
used to check the ceiling.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import Final

import msgspec

from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.sim import replies
from remora.sim.faults import NO_FAULTS, FaultKind, Faults
from remora.sim.feed import Feed
from remora.sim.limits import limiter
from remora.sim.listed import PREFIX as ARCHIVE_PREFIX
from remora.sim.listed import Archive, is_detail
from remora.sim.replies import Answer, Hang, Reset, Response
from remora.sim.streams import KEEP_ALIVE_NS, EventStream, News, event, update_events
from remora.sim.world import World

UPDATES_EVERY_NS: Final = 5 * SECOND_NS
NEWEST_EVERY_NS: Final = SECOND_NS  # at most
_BODIES_KEPT: Final = 100_000
_ARRIVALS_MAX: Final = 20_000_000
_PROFILES_LISTED: Final = 20
_DRAW_MAX: Final = 1 << 64
_NULL: Final = b"null"
_ITEM: Final = "/v0/item/"
_USER: Final = "/v0/user/"
_SUFFIX: Final = ".json"


class Arrivals:
    """The provider's own log: when each request arrived (monotonic) and its path."""

    def __init__(self) -> None:
        self.times_ns = array("q")
        self.paths: list[str] = []

    def __len__(self) -> int:
        return len(self.paths)

    def add(self, at_ns: int, path: str) -> None:
        assert len(self.paths) < _ARRIVALS_MAX, "the log of arrivals is full"
        self.times_ns.append(at_ns)
        self.paths.append(path)

    def counts(self) -> Counter[str]:
        """How often each path was requested."""
        return Counter(self.paths)


class Provider:
    """Answers GET requests. `now` is the world's time (wall clock), `ticks` the monotonic time of requests."""

    def __init__(
        self,
        world: World,
        faults: Faults = NO_FAULTS,
        *,
        now: Callable[[], int],
        ticks: Callable[[], int],
        archive: Archive | None = None,
    ) -> None:
        self.world = world
        self.archive = archive
        self.now = now
        self.ticks = ticks
        self.arrivals = Arrivals()
        self.connects: Counter[str] = Counter()  # attempts to open a stream, by path; they are also arrivals
        self.streams_opened = 0
        self.claims_newest_id: int | None = None  # reported instead of the true newest id, by requests and streams
        self._born_ns = now()
        self._started_ns = ticks()
        self._bodies: dict[int, tuple[int, bytes]] = {}
        self._bodies_kept = _BODIES_KEPT
        self._looks: Counter[str] = Counter()
        self._feed: Feed | None = None
        self.faults = faults
        self._limiter = limiter(faults.limit)
        self.set_faults(faults)

    def set_faults(self, faults: Faults) -> None:
        """Replace the faults and the limit from now on; an unchanged limit keeps its count."""
        if faults.limit != self.faults.limit:
            self._limiter = limiter(faults.limit)
        self.faults = faults
        self._kinds = list(faults.rates)
        self._edges = [int(edge * _DRAW_MAX) for edge in accumulate(faults.rates.values())]
        self._latency_ns = round(faults.latency_ms * MILLISECOND_NS)

    def heal(self, key: str | None = None) -> None:
        """Remove all faults, or those of one key; the limit stays."""
        if key is None:
            self.set_faults(Faults(seed=self.faults.seed, limit=self.faults.limit))
        else:
            left = {other: kind for other, kind in self.faults.ids.items() if other != key}
            self.set_faults(msgspec.structs.replace(self.faults, ids=left))

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        """What happens to one request that arrives now. `target` is the path, perhaps with a query."""
        at_ns = self.ticks()
        path = target.partition("?")[0]
        self.arrivals.add(at_ns, path)
        if self.faults.outages and self._is_out("requests"):
            return Reset()
        if self.archive is not None and path.startswith(ARCHIVE_PREFIX):
            return self._archived(self.archive, target, headers or {}, body)
        refused_ns = self._limiter.refuse_ns(at_ns)
        if refused_ns is not None:
            return replies.rate_limited(refused_ns if self.faults.limit.retry_after else None)
        response = self._content(path)
        if self._latency_ns and isinstance(response, Answer):
            return replace(response, delay_ns=response.delay_ns + self._latency_ns)
        return response

    def body(self, item_id: int) -> bytes:
        """An item's body now, as it would be sent without faults."""
        now_ns = self.now()
        kept = self._bodies.get(item_id)
        if kept is not None and now_ns < kept[0]:
            return kept[1]
        body, until_ns = self.world.render(item_id, now_ns)
        body = _NULL if body is None or item_id > self.world.max_id(now_ns) else body
        if len(self._bodies) >= self._bodies_kept:
            self._bodies.clear()
        self._bodies[item_id] = (until_ns, body)
        return body

    def warm_up(self) -> None:
        """Make every current body in advance, for measurements that must not include this work."""
        newest = self.world.max_id(self.now())
        self._bodies_kept = max(self._bodies_kept, 2 * newest)
        for item_id in range(1, newest + 1):
            self.body(item_id)

    def open_stream(self, target: str) -> EventStream | Answer | None:
        """Open the stream of a path; None while streams cannot be opened or if the path has none.

        A connect is a request: it is in the log of arrivals and counts against the limit.
        """
        path = target.partition("?")[0]
        at_ns = self.ticks()
        self.arrivals.add(at_ns, path)
        self.connects[path] += 1
        if self._is_out("stream"):
            return None
        refused_ns = self._limiter.refuse_ns(at_ns)
        if refused_ns is not None:
            return replies.rate_limited(refused_ns if self.faults.limit.retry_after else None)
        self.streams_opened += 1
        chance = Random(f"{self.faults.seed}/{path}/{self.streams_opened}")
        match path:
            case "/v0/updates.json":
                first, news = self._updates(chance)
                wait_ns = self._until_updates_ns
            case "/v0/maxitem.json":
                first, news = self._newest()
                wait_ns = self._until_newest_ns
            case _:
                return None
        return EventStream(
            first,
            news,
            ticks=self.ticks,
            wait_ns=wait_ns,
            faults=self.faults.stream,
            chance=chance,
            is_out=lambda: self._is_out("stream"),
        )

    def _content(self, path: str) -> Response:
        if path.startswith(_ITEM) and path.endswith(_SUFFIX):
            key = path[len(_ITEM) : -len(_SUFFIX)]
            if not (key.isascii() and key.isdecimal()):
                return replies.ok(_NULL)
            return self._with_fault(self._fault(path, key), int(key))
        if path.startswith(_USER) and path.endswith(_SUFFIX):
            key = path[len(_USER) : -len(_SUFFIX)]
            return self._user(self._fault(path, key), key)
        if path == "/v0/maxitem.json":
            return replies.ok(b"%d" % self._newest_told())
        if path == "/v0/updates.json":
            return replies.ok(msgspec.json.encode(self._listed()))
        return replies.NOT_FOUND

    def _archived(
        self, archive: Archive, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Answer for the archive. It has its own account and limit; the faults of its details are declared here."""
        answer = archive.respond(target, headers, body, now_ns=self.now(), at_ns=self.ticks())
        path = target.partition("?")[0]
        if answer.status != 200 or not is_detail(path):
            return answer
        fault = self._fault(path, path.rpartition("/")[2])
        return answer if fault is None else self._spoil(fault, answer.body)

    def _fault(self, path: str, key: str) -> FaultKind | None:
        """The fault of this request: that of its id if it has one, else a random one, fixed by path and attempt."""
        if key in self.faults.ids:
            return self.faults.ids[key]
        if not self._edges:
            return None
        self._looks[path] += 1
        seen = f"{self.faults.seed}/{path}/{self._looks[path]}".encode()
        draw = int.from_bytes(blake2b(seen, digest_size=8).digest(), "little")
        return next((kind for kind, edge in zip(self._kinds, self._edges, strict=True) if draw < edge), None)

    def _with_fault(self, fault: FaultKind | None, item_id: int) -> Response:
        match fault:
            case None:
                return replies.ok(self.body(item_id))
            case FaultKind.WRONG_ID:
                return replies.ok(self.body(item_id - 1 if item_id > 1 else item_id + 1))
            case FaultKind.STALE:
                then_ns = self.now() - round(self.faults.stale_by_s * SECOND_NS)
                return replies.ok(self.world.body(item_id, then_ns) or _NULL)
            case _:
                return self._spoil(fault, self.body(item_id))

    def _user(self, fault: FaultKind | None, name: str) -> Response:
        body = self.world.user(name, self.now()) or _NULL
        return replies.ok(body) if fault is None else self._spoil(fault, body)

    def _spoil(self, fault: FaultKind, body: bytes) -> Response:
        """What the fault turns the right body into."""
        hint_ns = None if self.faults.retry_after_s is None else round(self.faults.retry_after_s * SECOND_NS)
        match fault:
            case FaultKind.RATE_LIMITED:
                return replies.rate_limited(hint_ns)
            case FaultKind.SERVER_ERROR:
                return replies.SERVER_ERROR
            case FaultKind.UNAVAILABLE:
                return replies.unavailable(hint_ns)
            case FaultKind.UNAUTHORIZED:
                return replies.UNAUTHORIZED
            case FaultKind.FORBIDDEN:
                return replies.FORBIDDEN
            case FaultKind.NOT_FOUND:
                return replies.NOT_FOUND
            case FaultKind.GONE:
                return replies.GONE
            case FaultKind.HANG:
                return Hang()
            case FaultKind.RESET:
                return Reset()
            case FaultKind.TRUNCATED:
                return Answer(200, body, cut_at=len(body) // 2)
            case FaultKind.CUT_SHORT:
                return replies.ok(body[: len(body) // 2])
            case FaultKind.GARBLED:
                return replies.ok(body[:-1] + b"\xff\xfe" + body[-1:])
            case FaultKind.WRONG_SHAPE | FaultKind.WRONG_ID:
                return replies.ok(b"[" + body + b"]")
            case FaultKind.NULL | FaultKind.STALE:
                return replies.ok(_NULL)
            case FaultKind.SLOW:
                return Answer(200, body, delay_ns=round(self.faults.slow_s * SECOND_NS))

    def _running_s(self) -> float:
        return (self.ticks() - self._started_ns) / SECOND_NS

    def _is_out(self, what: str) -> bool:
        running_s = self._running_s()
        return any(out.what in ("all", what) and out.from_s <= running_s < out.to_s for out in self.faults.outages)

    def _changes(self) -> Feed:
        if self._feed is None:
            missed = self.faults.stream.missed_share
            self._feed = Feed(self.world, since_ns=self._born_ns, missed_share=missed)
        return self._feed

    def _news(self, items: list[int]) -> News:
        authors = (self.world.author(item_id) for item_id in items)
        return News(items, list(dict.fromkeys(authors))[:_PROFILES_LISTED])

    def _listed(self) -> dict[str, list[int] | list[str]]:
        news = self._news(self._changes().listed(self.now()))
        return {"items": news.items, "profiles": news.profiles}

    def _updates(self, chance: Random) -> tuple[bytes, Callable[[], bytes]]:
        feed = self._changes()
        position = feed.advance(self.now())
        said = self._news(feed.listed(self.now()))
        asked_ns = self.ticks()

        def news() -> bytes:
            nonlocal position, said, asked_ns
            end = feed.advance(self.now())
            items = feed.after(position) + self._flood(self.ticks() - asked_ns, chance)
            position, asked_ns = end, self.ticks()
            if not items:
                return b""
            before, said = said, self._news(items)
            return update_events(said, before, chance)

        return event("put", "/", {"items": said.items, "profiles": said.profiles}), news

    def _newest(self) -> tuple[bytes, Callable[[], bytes]]:
        said = self._newest_told()

        def news() -> bytes:
            nonlocal said
            newest = self._newest_told()
            if newest == said:
                return b""
            said = newest
            return event("put", "/", newest)

        return event("put", "/", said), news

    def _newest_told(self) -> int:
        return self.world.max_id(self.now()) if self.claims_newest_id is None else self.claims_newest_id

    def _until_updates_ns(self) -> int:
        """The time until a change may be announced, in steps; nothing changes before the next id or a planned change."""
        running_s = self._running_s()
        soon_s = running_s + KEEP_ALIVE_NS / SECOND_NS
        if any(flood.from_s <= soon_s and running_s < flood.to_s for flood in self.faults.stream.floods):
            return UPDATES_EVERY_NS
        change_ns, assigned_ns = self._changes().next_ns, self._assigns_next_ns()
        quiet_ns = (assigned_ns if change_ns is None else min(change_ns, assigned_ns)) - self.now()
        return min(max(1, -(-quiet_ns // UPDATES_EVERY_NS)) * UPDATES_EVERY_NS, KEEP_ALIVE_NS)

    def _until_newest_ns(self) -> int:
        """The time until the next id is assigned, but short enough to notice an outage soon."""
        return min(KEEP_ALIVE_NS, max(NEWEST_EVERY_NS, self._assigns_next_ns() - self.now()))

    def _assigns_next_ns(self) -> int:
        return self.world.moment_of(self.world.max_id(self.now()) + 1)

    def _flood(self, elapsed_ns: int, chance: Random) -> list[int]:
        """Old ids that did not change, announced by a flood."""
        running_s = self._running_s()
        newest = self.world.max_id(self.now())
        wanted = sum(
            int(flood.ids_per_second * elapsed_ns / SECOND_NS)
            for flood in self.faults.stream.floods
            if flood.from_s <= running_s < flood.to_s
        )
        return [chance.randint(1, max(1, newest)) for _ in range(wanted)]
