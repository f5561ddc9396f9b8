"""What may an operator do in the browser? Pause, resume, run now, lower the ceiling, replay, test notifications.

Every action is a POST with a header that no foreign page can send; `access` has already checked the visitor, the page
and the name before. What is read here: the gaps behind a count, and the timeline.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web

from remora.contracts import Clock
from remora.core.choices import Choice, choice_of
from remora.core.errors import ConfigurationError
from remora.core.ledger.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.status.timeline import Event
from remora.core.status.why_not_now import why_not_now

BODY_WITHIN_S: Final = 10.0
OWN_HEADER: Final = "X-Remora"
GAPS_SHOWN: Final = 100
FINGERPRINT: Final = 12

Body = TypeVar("Body", bound=msgspec.Struct)


class Operator(Protocol):
    """What the service does for the person at the console."""

    async def pause(self, source: str) -> str: ...

    async def resume(self, source: str) -> str: ...

    async def run_now(self, source: str) -> str: ...

    async def lower(self, source: str, ceiling: str, span: str) -> str: ...

    async def restore(self, source: str) -> str: ...

    async def send_test_notice(self) -> str: ...

    async def gaps(
        self, source: str, *, state: GapState | None, reason: GapReason | None, limit: int
    ) -> Sequence[Gap]: ...

    def is_public(self, source: str) -> bool: ...

    def timeline(self) -> Mapping[str, tuple[Event, ...]]: ...


class LowerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the ceiling goes down, and for how long."""

    ceiling: str
    span: str = msgspec.field(name="for")


class ShownGap(msgspec.Struct, frozen=True, kw_only=True):
    """One owed thing, for a person. A key of a source that is not public is only shown as a fingerprint."""

    key: str
    is_fingerprint: bool
    state: GapState
    reason: GapReason
    attempts: int
    first_seen_ns: int
    last_seen_ns: int
    next_at_ns: int | None
    why: str


class Actions:
    """The routes of an operator."""

    def __init__(self, operator: Operator, *, clock: Clock, changed: Callable[[], None]) -> None:
        self._operator = operator
        self._clock = clock
        self._changed = changed

    def routes(self) -> Sequence[web.RouteDef]:
        """Everything under /api that an operator uses."""
        return (
            web.post("/api/sources/{name}/{action}", self._act),
            web.post("/api/notify/test", self._test),
            web.get("/api/gaps", self._gaps),
            web.get("/api/timeline", self._timeline),
        )

    async def _act(self, request: web.Request) -> web.StreamResponse:
        require_own_header(request)
        name, action = request.match_info["name"], request.match_info["action"]
        plain: Mapping[str, Callable[[str], Awaitable[str]]] = {
            "pause": self._operator.pause,
            "resume": self._operator.resume,
            "run": self._operator.run_now,
            "restore": self._operator.restore,
        }
        if action == "lower":
            wanted = await read_body(request, LowerRequest, hint='send {"ceiling": "30/min", "for": "2h"}')
            told = await self._operator.lower(name, wanted.ceiling, wanted.span)
        elif action in plain:
            told = await plain[action](name)
        else:
            raise ConfigurationError(
                f"there is no action {action}", hint=f"known: {', '.join(sorted([*plain, 'lower']))}"
            )
        self._changed()
        return _json({"done": told})

    async def _test(self, request: web.Request) -> web.StreamResponse:
        require_own_header(request)
        return _json({"done": await self._operator.send_test_notice()})

    async def _timeline(self, request: web.Request) -> web.StreamResponse:
        return _json({"schema": 1, "sources": self._operator.timeline()})

    async def _gaps(self, request: web.Request) -> web.StreamResponse:
        if not (source := request.query.get("source", "")):
            raise ConfigurationError("no source is named", hint="write /api/gaps?source=NAME")
        state = _chosen(request, "state", GapState)
        reason = _chosen(request, "reason", GapReason)
        found = await self._operator.gaps(source, state=state, reason=reason, limit=GAPS_SHOWN)
        is_public = self._operator.is_public(source)
        now_ns = self._clock.wall_ns()
        return _json({"gaps": [_shown(gap, is_public=is_public, now_ns=now_ns) for gap in found], "most": GAPS_SHOWN})


def require_own_header(request: web.Request) -> None:
    """Refuse a request that another page could have sent."""
    if request.headers.get(OWN_HEADER) != "1":
        raise web.HTTPForbidden(reason=f"this request lacks the header {OWN_HEADER}: 1")


def _chosen(request: web.Request, name: str, words: type[Choice]) -> Choice | None:
    """The word that a request chooses; None if it chooses none."""
    text = request.query.get(name)
    return None if text is None else choice_of(text, words, name)


async def read_body(request: web.Request, kind: type[Body], *, hint: str) -> Body:
    """The body as this kind of request."""
    async with asyncio.timeout(BODY_WITHIN_S):
        body = await request.read()
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(str(error), hint=hint) from None


def _shown(gap: Gap, *, is_public: bool, now_ns: int) -> ShownGap:
    is_over = gap.state in {GapState.ABSENT, GapState.GONE}
    return ShownGap(
        key=gap.key if is_public else hashlib.sha256(gap.key.encode()).hexdigest()[:FINGERPRINT],
        is_fingerprint=not is_public,
        state=gap.state,
        reason=gap.reason,
        attempts=gap.attempts,
        first_seen_ns=gap.first_seen_ns,
        last_seen_ns=gap.last_seen_ns,
        next_at_ns=None if is_over else gap.not_before_ns,
        why=why_not_now(gap, now_ns=now_ns),
    )


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
