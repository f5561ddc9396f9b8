"""How does a provider answer in a test? A fake has a world, its own manner of answering, a limit and faults.

A subclass says in `answer` what the API answers, and in `too_many` how it refuses. The rest is the same for all: the token
is checked, requests are counted, some of them meet a fault.
"""

import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from remora.contracts import ConnectGate, Permit, StreamBroken
from remora.core.units import SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply
from remora.sim.replies import NOT_FOUND, SERVER_ERROR, UNAUTHORIZED, Answer, Hang, Reset, Response
from remora.testing.world import World

TOKEN: Final = "fake-token"  # noqa: S105  not a real secret
_FAULTS: Final = (SERVER_ERROR, Answer(502, b"<html>Bad gateway</html>"), Reset(), Hang())


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the fake sees it."""

    method: str
    path: str  # without the query, unquoted
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in small letters
    body: bytes = b""
    pairs: tuple[tuple[str, str], ...] = ()  # the query with every value of a repeated name

    def values(self, name: str) -> list[str]:
        """All values of a name that may be repeated."""
        return [value for each, value in self.pairs if each == name]

    def number(self, name: str, default: int) -> int:
        """A whole number in the query."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() else default

    @property
    def json(self) -> Any:
        """The body, read as JSON; an empty object if there is none."""
        return json.loads(self.body) if self.body else {}


@dataclass(slots=True)
class Window:
    """`count` requests in every `window_s` seconds; the counting starts anew at fixed times."""

    count: int
    window_s: int
    used: int = 0
    _window: int = field(default=-1, repr=False)

    def exhaust(self, now_s: int) -> None:
        """Leave nothing of this window."""
        self._window, self.used = now_s // self.window_s, self.count

    def take(self, now_s: int) -> bool:
        """Count one request; False if the window is empty."""
        window = now_s // self.window_s
        if window != self._window:
            self._window, self.used = window, 0
        if self.used >= self.count:
            return False
        self.used += 1
        return True

    @property
    def left(self) -> int:
        """How many may still come in this window."""
        return self.count - self.used

    def resets_in_s(self, now_s: int) -> int:
        """Seconds until the next window."""
        return self.window_s - now_s % self.window_s


class Fake:
    """A provider. Subclasses write `answer` and `truth`, and override what their API does differently."""

    limit: ClassVar[tuple[int, int]] = (60, 60)  # requests, and seconds
    pause_s: int = 10  # what it asks to wait for reasons other than its limit
    base: str = ""  # the path of the owner's url: set by whoever runs the test

    def __init__(self, world: World, *, faults: float = 0.0, others_every: int = 0, seed: int = 1) -> None:
        """`faults` is the share of requests that meet one.

        `others_every`: another client of the same account uses up the limit before each request of that number.
        """
        self.world = world
        self._others_every = others_every
        self.origin = "https://fake.example"  # links of the API lead here
        self.window = Window(*self.limit)
        self.faults = faults
        self.requests: list[Request] = []
        self.refusals = 0
        self.denials = 0  # without a good credential
        self._chance = random.Random(seed)

    # -- what an API is like -----------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """What the API answers. `request.path` is the part behind the owner's url."""
        raise NotImplementedError

    def truth(self) -> Mapping[str, object]:
        """What a mirror must hold now: each key with its document, as JSON values."""
        raise NotImplementedError

    def is_signed(self, request: Request) -> bool:
        """Whether the credential is good."""
        return request.headers.get("authorization") == f"Bearer {TOKEN}"

    def too_many(self, wait_s: int) -> Answer:
        """How it refuses."""
        return Answer(429, b'{"error":"Too many requests"}', {"retry-after": str(wait_s)})

    def quota_headers(self) -> Mapping[str, str]:
        """What it tells about its limit with every answer."""
        return {}

    # -- what is the same for all ------------------------------------------------------------------------------------

    @property
    def now_s(self) -> int:
        """The wall clock in seconds."""
        return self.world.now_ns() // SECOND_NS

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None, /) -> Response:
        """What happens to one request that arrives now. One with a body is a POST."""
        parts = urlsplit(target)
        given = {name.lower(): value for name, value in (headers or {}).items()}
        path = unquote(parts.path).removeprefix(self.base)
        pairs = tuple(parse_qsl(parts.query, keep_blank_values=True))
        request = Request("GET" if body is None else "POST", path, dict(pairs), given, body or b"", pairs)
        self.requests.append(request)
        if self._chance.random() < self.faults:
            return self._chance.choice(_FAULTS)
        if not self.is_signed(request):
            self.denials += 1
            return UNAUTHORIZED
        if self._others_every and len(self.requests) % self._others_every == 0:
            self.window.exhaust(self.now_s)
        if not self.window.take(self.now_s):
            self.refusals += 1
            return self.too_many(self.window.resets_in_s(self.now_s))
        answer = self.answer(request)
        return Answer(answer.status, answer.body, {**self.quota_headers(), **answer.headers})

    def open_stream(self, target: str) -> None:
        """There is no stream."""


class FakeTransport:
    """`remora.Transport` that leads straight to a fake: no network and no waiting."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """One request."""
        return await self._send(url, permit, headers)

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        """One request with a body."""
        return await self._send(url, permit, headers, body)

    async def _send(
        self, url: str, permit: Permit, headers: Mapping[str, str] | None, body: bytes | None = None
    ) -> Reply | NoReply:
        departed_ns = await permit.depart()
        permit.sent()
        parts = urlsplit(url)
        response = self._fake.respond(f"{parts.path}?{parts.query}", headers, body)
        if not isinstance(response, Answer):
            return NoReply(Fault.CONNECTION, departed_ns, departed_ns + 1)
        return Reply(response.status, response.body, departed_ns, departed_ns + 1, response.headers)

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """Fakes have no streams."""
        raise StreamBroken("refused")


def answer_json(value: object, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Answer:
    """An answer with this value as its body."""
    return Answer(status, dump(value), headers or {})


def dump(value: object) -> bytes:
    """A value as the fakes write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def not_found() -> Answer:
    """A 404."""
    return NOT_FOUND


def after(things: Sequence[Any], is_last: Callable[[Any], bool], size: int) -> tuple[Sequence[Any], bool]:
    """The page behind the last thing that was seen, and whether more follow."""
    start = next((at + 1 for at, thing in enumerate(things) if is_last(thing)), 0)
    return things[start : start + size], start + size < len(things)
