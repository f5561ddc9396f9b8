"""What does an account's archive of conversations look like? A list, newest first, and one detail request per entry.

The same list is paged in seven ways: `/archive/list` (offset and limit), `/archive/cursor`, `/archive/pages`
(page number), `/archive/links` (Link header), `/archive/header` (cursor in a header), `/archive/next` (address in the
body) and `/archive/last` (key of the last entry); `listed_pages` has the forms. A conversation is one detail, or a head
(`/archive/head/`) with its messages (`/archive/messages/`), or comes with others (`/archive/batch?ids=`). While a client
walks the list, conversations are added, updated (which moves them to the front) and removed. A bearer token is
required. The usual limit is of the kind `heat`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from struct import unpack
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.sim.clock import START_WALL_NS
from remora.sim.limits import Limit, limiter
from remora.sim.listed_pages import Listed, Query, batch, number, page
from remora.sim.lives import NEVER_NS
from remora.sim.prose import Prose
from remora.sim.replies import GONE, NOT_FOUND, UNAUTHORIZED, Answer, ok, rate_limited

PREFIX: Final = "/archive/"
DETAIL: Final = "/archive/detail/"
HEAD: Final = "/archive/head/"
MESSAGES: Final = "/archive/messages/"
BATCH: Final = "/archive/batch"
POSTED: Final = "/archive/detail"  # with the key in the JSON of a POST
__all__ = ["DETAIL", "PREFIX", "Archive", "ArchiveSettings", "Listed", "is_detail"]
# Everything but the lists, also below a channel (`fanned`).
_DETAILS: Final = re.compile(r"/archive/(?:channels/|in/[^/]+/)?(?:detail|head/|messages/|batch)")
_BODIES_KEPT: Final = 10_000
_UPDATES_MAX: Final = 6
_TOGETHER: Final = 3  # conversations created in the same second, so that marks are not unique
_OLD_SPACING_NS: Final = HOUR_NS
_OLDEST_CHANGE_NS: Final = 30 * DAY_NS
_DRAW_MAX: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """What the archive is like; the same settings give the same archive."""

    seed: int = 1
    conversations: int = 500  # at the start
    added_per_day: float = 40.0
    removed_share: float = 0.02
    gone_share: float = 0.01  # listed, but the detail is 404 or 410
    malformed_share: float = 0.01  # the detail is not JSON, has the wrong shape, or is of another conversation
    large_share: float = 0.0
    large_bytes: int = 17 * 1024 * 1024  # slightly more than a client accepts
    token: str = "simulated-token"  # noqa: S105  not a real secret
    start_ns: int = START_WALL_NS
    limit: Limit = field(default_factory=lambda: Limit(kind="heat", count=150, cools_in_s=240))


@dataclass(frozen=True, slots=True)
class Conversation:
    """One entry and everything that happens to it."""

    key: str
    number: int
    moments_ns: tuple[int, ...]  # creation, then every update, ascending
    removed_ns: int
    oddity: float  # 0..1, decides what is wrong with the detail

    def is_there(self, now_ns: int) -> bool:
        return self.moments_ns[0] <= now_ns < self.removed_ns

    def updated_ns(self, now_ns: int) -> int:
        return max(moment for moment in self.moments_ns if moment <= now_ns)

    def next_change_ns(self, now_ns: int) -> int:
        return min((moment for moment in (*self.moments_ns, self.removed_ns) if moment > now_ns), default=NEVER_NS)


class Archive:
    """The archive at any moment, and its answers."""

    def __init__(self, settings: ArchiveSettings, prose: Prose | None = None) -> None:
        self.settings = settings
        self._prose = prose or Prose(settings.seed)
        self._limiter = limiter(settings.limit)
        self._spacing_ns = max(1, int(DAY_NS / settings.added_per_day)) if settings.added_per_day > 0 else NEVER_NS
        self._made: list[Conversation] = []
        self._numbers: dict[str, int] = {}
        self._list: list[Listed] = []
        self._list_from_ns, self._list_until_ns = 0, 0
        self._lines: dict[int, Listed] = {}  # by number, as it was last listed
        self._bodies: dict[int, tuple[int, bytes]] = {}  # by number: as of which update, and the detail

    def listing(self, now_ns: int) -> Sequence[Listed]:
        """Everything that is listed now, newest first."""
        self._grow(now_ns)
        if not self._list_from_ns <= now_ns < self._list_until_ns:
            there = [conversation for conversation in self._made if conversation.is_there(now_ns)]
            updated = {one.key: one.updated_ns(now_ns) // SECOND_NS for one in there}
            # By whole seconds, as the marks show them: a cursor between two equal marks goes by the key.
            there.sort(key=lambda one: (-updated[one.key], one.key))
            self._list = [self._line(one, _mark(updated[one.key])) for one in there]
            coming = [one.next_change_ns(now_ns) for one in self._made]
            self._list_from_ns = now_ns
            self._list_until_ns = min([self._made_ns(len(self._made)), *coming])
        return self._list

    def _line(self, conversation: Conversation, mark: str) -> Listed:
        line = self._lines.get(conversation.number)
        if line is None or line.mark != mark:
            created = _mark(conversation.moments_ns[0] // SECOND_NS)
            line = self._lines[conversation.number] = Listed(conversation.key, mark, _title(conversation), created)
        return line

    def keys(self, first: int, last: int, now_ns: int) -> list[str]:
        """The keys of some conversations, counted from the oldest."""
        self._grow(now_ns)
        return [conversation.key for conversation in self._made[first : last + 1]]

    def detail(self, key: str, now_ns: int) -> bytes | None:
        """The whole conversation as it is now, even if its detail page is faulty; None if it does not exist."""
        conversation = self._find(key, now_ns)
        return None if conversation is None else self._body(conversation, now_ns)

    def readable(self, now_ns: int) -> dict[str, bytes]:
        """What a mirror can fetch: every listed conversation whose detail is answered correctly."""
        keys = [line.key for line in self.listing(now_ns)]
        answers = {key: self._detail_answer(key, now_ns) for key in keys}
        return {key: answers[key].body for key in keys if answers[key].body == self.detail(key, now_ns)}

    def respond(
        self, target: str, headers: Mapping[str, str], body: bytes | None = None, *, now_ns: int, at_ns: int
    ) -> Answer:
        """The answer to one request that arrives at `at_ns` (monotonic)."""
        refused_ns = self._limiter.refuse_ns(at_ns)
        if refused_ns is not None:
            return rate_limited(refused_ns if self.settings.limit.retry_after else None)
        given = {name.lower(): value for name, value in headers.items()}
        if given.get("authorization") != f"Bearer {self.settings.token}":
            return UNAUTHORIZED
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        query |= {name: str(value) for name, value in json.loads(body or b"{}").items()}
        return self._answer(parts.path, query, now_ns)

    def _answer(self, path: str, query: Query, now_ns: int) -> Answer:
        if path.startswith(DETAIL):
            return self._detail_answer(unquote(path.removeprefix(DETAIL)), now_ns)
        if path == POSTED:
            return self._detail_answer(query.get("id", ""), now_ns)
        if path.startswith(HEAD):
            return self._head(unquote(path.removeprefix(HEAD)), now_ns)
        if path.startswith(MESSAGES):
            return self._messages_page(unquote(path.removeprefix(MESSAGES)), query, now_ns)
        if path == BATCH:
            answers = [self._detail_answer(key, now_ns) for key in query.get("ids", "").split(",")]
            return batch([answer.body for answer in answers if answer.body.startswith(b'{"id":"c-')])
        listing = self.listing(now_ns)
        return page(
            path.removeprefix(PREFIX),
            query,
            listing,
            lambda key: self.detail(key, now_ns) if "whole" in query else None,
        )

    def _head(self, key: str, now_ns: int) -> Answer:
        """A conversation without its messages."""
        answer, conversation = self._detail_answer(key, now_ns), self._find(key, now_ns)
        if conversation is None or answer.body != self.detail(key, now_ns):
            return answer
        updated = _mark(conversation.updated_ns(now_ns) // SECOND_NS)
        return _json({"id": key, "title": _title(conversation), "update_time": updated})

    def _messages_page(self, key: str, query: Query, now_ns: int) -> Answer:
        """Some messages of a conversation, the oldest first."""
        conversation = self._find(key, now_ns)
        if conversation is None:
            return NOT_FOUND
        messages, start = self._messages(conversation, now_ns), number(query.get("offset"), 0)
        return ok(b'{"items":[' + b",".join(messages[start : start + number(query.get("limit"), 2)]) + b"]}")

    def joined(self, key: str, now_ns: int) -> bytes | None:
        """What a mirror makes of a head and its messages; None if the head cannot be read."""
        head, conversation = self._head(key, now_ns), self._find(key, now_ns)
        if conversation is None or not head.body.startswith(b'{"id":"c-'):
            return None
        messages = self._messages(conversation, now_ns)
        return b'{"detail":' + head.body + b',"messages":[' + b",".join(messages) + b"]}"

    def _detail_answer(self, key: str, now_ns: int) -> Answer:
        """The detail, or the faulty answer instead of it."""
        conversation = self._find(key, now_ns)
        if conversation is None:
            return NOT_FOUND
        settings, left = self.settings, conversation.oddity
        if left < settings.gone_share:
            return (NOT_FOUND, GONE)[conversation.number % 2]
        left -= settings.gone_share
        if left < settings.malformed_share:
            return ok((b'{"id": "oh', b"[1,2,3]", b'{"id":"another"}', b"17")[conversation.number % 4])
        left -= settings.malformed_share
        body = self._body(conversation, now_ns)
        if left < settings.large_share:
            return ok(body[:-1] + b',"padding":"' + b"x" * settings.large_bytes + b'"}')
        return ok(body)

    def _body(self, conversation: Conversation, now_ns: int) -> bytes:
        updated_ns = conversation.updated_ns(now_ns)
        made_for_ns, body = self._bodies.get(conversation.number, (0, b""))
        if made_for_ns != updated_ns:
            body = self._written(conversation, now_ns)
            if len(self._bodies) >= _BODIES_KEPT:
                self._bodies.clear()
            self._bodies[conversation.number] = updated_ns, body
        return body

    def _written(self, conversation: Conversation, now_ns: int) -> bytes:
        return b'{"id":"%b","messages":[%b],"title":%b,"update_time":"%b","create_time":"%b"}' % (
            conversation.key.encode(),
            b",".join(self._messages(conversation, now_ns)),
            json.dumps(_title(conversation)).encode(),
            _mark(conversation.updated_ns(now_ns) // SECOND_NS).encode(),
            _mark(conversation.moments_ns[0] // SECOND_NS).encode(),
        )

    def _messages(self, conversation: Conversation, now_ns: int) -> list[bytes]:
        return [
            b'{"id":%d,"role":%b,"text":%b,"time":"%b"}'
            % (
                at,
                b'"assistant"' if at % 2 else b'"user"',
                self._prose.text(
                    (conversation.number * 7_919 + at * 104_729) * 65_537 % _DRAW_MAX, at + conversation.number
                ),
                _mark(moment // SECOND_NS).encode(),
            )
            for at, moment in enumerate(conversation.moments_ns)
            if moment <= now_ns
        ]

    def _find(self, key: str, now_ns: int) -> Conversation | None:
        self._grow(now_ns)
        number = self._numbers.get(key)
        if number is None or not self._made[number].is_there(now_ns):
            return None
        return self._made[number]

    def _grow(self, now_ns: int) -> None:
        while self._made_ns(len(self._made)) <= now_ns:
            conversation = self._make(len(self._made))
            self._numbers[conversation.key] = conversation.number
            self._made.append(conversation)

    def _made_ns(self, number: int) -> int:
        settings = self.settings
        if number < settings.conversations:
            age = settings.conversations // _TOGETHER - number // _TOGETHER
            return settings.start_ns - age * _TOGETHER * _OLD_SPACING_NS - MINUTE_NS
        return settings.start_ns + (number - settings.conversations + 1) * self._spacing_ns

    def _make(self, number: int) -> Conversation:
        digest = blake2b(f"{self.settings.seed}/{number}".encode(), digest_size=48).digest()
        name, odd, removal, removal_age, count, *ages = unpack("12I", digest)
        made_ns = self._made_ns(number)
        updates = sorted(made_ns + _age_ns(age) for age in ages[: count % (_UPDATES_MAX + 1)])
        removed = removal < self.settings.removed_share * _DRAW_MAX
        return Conversation(
            key=f"c-{number:06d}-{name:08x}",
            number=number,
            moments_ns=(made_ns, *updates),
            removed_ns=made_ns + _age_ns(removal_age) if removed else NEVER_NS,
            oddity=odd / _DRAW_MAX,
        )


def is_detail(target: str) -> bool:
    """Whether a request asks for documents, not for a page of a list."""
    return _DETAILS.match(target) is not None


@lru_cache(maxsize=65_536)
def _mark(moment_s: int) -> str:
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _title(conversation: Conversation) -> str:
    return f"Conversation {conversation.number}"


def _age_ns(draw: int) -> int:
    """Uniform on a logarithmic scale, from a minute to a month."""
    return int(MINUTE_NS * (_OLDEST_CHANGE_NS / MINUTE_NS) ** (draw / _DRAW_MAX))


def _json(value: object) -> Answer:
    return ok(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
