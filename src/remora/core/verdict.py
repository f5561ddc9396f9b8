"""What does a reply mean? The only place that reads a status code."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeGuard
from urllib.parse import urlsplit

import msgspec

from remora.core.item import WEB_PAGE, Decoded, Nothing, Page, Readable, StreamOpened, Thing, Unreadable, WrongShape
from remora.core.quota_headers import RETRY_AFTER_MAX_NS as RETRY_AFTER_MAX_NS
from remora.core.quota_headers import has_quota, read_quota
from remora.core.quota_headers import parse_retry_after as parse_retry_after
from remora.core.reasons import GapReason
from remora.core.translation import NOTHING_SAID, Means, Translation

# A null this close to the newest id may still become an item: ids are assigned before their items can be read.
NEAR_NEWEST_IDS: Final = 50
# An id this far above the newest one is a wrong number, not a new item. Once assigned, it is fetched as a new id.
FAR_ABOVE_NEWEST_IDS: Final = 1_000
# How a provider usually says that it has no such item, besides a body of `null`.
ABSENT_STATUSES: Final = frozenset({404, 410})
# Behind the last page some providers answer that there is no content.
NO_PAGE_STATUSES: Final = ABSENT_STATUSES | {204}


class Fault(StrEnum):
    """Why there is no reply."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    TOO_LARGE = "too_large"
    BAD_ENCODING = "bad_encoding"  # the body arrived complete, but not in the encoding that its header names
    EXHAUSTED = "exhausted"  # this machine has no free descriptors, memory or buffers
    FAILED = "failed"  # the source's own code failed, which says nothing about the provider


class Misfit(StrEnum):
    """Why two sides that are connected do not understand each other. For an operator: it changes no verdict."""

    NO_TLS = "no_tls"  # the address begins with https, and the other side does not speak TLS
    ONLY_TLS = "only_tls"  # the address begins with http, and the other side speaks TLS
    UNTRUSTED = "untrusted"  # its certificate is not one that this machine trusts


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What came back for one request."""

    status: int
    body: bytes
    departed_at_ns: int
    answered_at_ns: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)  # lower-case names, only the few that are read
    late_ns: int = 0  # how much earlier it may have come: our own event loop was busy


class NoReply(msgspec.Struct, frozen=True, gc=False):
    """Why nothing came back. `departed_at_ns` is None if the request was never sent."""

    fault: Fault
    departed_at_ns: int | None
    answered_at_ns: int
    misfit: Misfit | None = None


class Found(msgspec.Struct, frozen=True, gc=False):
    """The reply holds what was asked for."""

    thing: Thing


class NotYet(msgspec.Struct, frozen=True, gc=False):
    """Null near the newest id: ask again soon."""


class Missing(msgspec.Struct, frozen=True, gc=False):
    """The provider says it has no such thing. One answer proves little; see the gap's confirmations."""

    reason: GapReason


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """The provider asks for less."""

    reason: GapReason
    retry_after_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of the network or the provider; the same request may succeed in a moment."""

    reason: GapReason
    moved_to: str = field(default="", compare=False)  # where a redirect leads, for an operator
    odd: str = field(default="", compare=False)  # what is odd about a complete answer, for an operator


class Refused(msgspec.Struct, frozen=True, gc=False):
    """This one item is refused, whatever the rate."""

    reason: GapReason


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A complete answer that is not this item: unreadable, no content, a redirect, wrong shape, wrong id, too large."""

    reason: GapReason


class Deferred(msgspec.Struct, frozen=True, gc=False):
    """Our own cause: a run stopped before it asked, or this machine could not send. Says nothing about the provider."""

    reason: GapReason


Verdict = Found | NotYet | Missing | Pressure | Trouble | Refused | Malformed | Deferred

_NONSENSE: Final = Malformed(GapReason.MALFORMED)
_ABOUT_ONE_THING: Final = frozenset({409, 412, 423, 425})  # in conflict, changed, locked, too early: others are served
_INSTEAD: Final = "with a web page instead of data: check the url and the path, and whether it wants a login"
# `0-24/100`, `25-49/*`, or for a page behind the last entry `*/100`.
_RANGE_OF_ENTRIES: Final = re.compile(
    r"(?!bytes\b)(?:[a-z_-]+ )?(?:[0-9]+-[0-9]+/(?:[0-9]+|\*)|\*/[0-9]+)", re.IGNORECASE
)


def classify(
    reply: Reply | NoReply,
    decoded: Decoded | None,
    *,
    behind_newest: int | None,
    now_wall_ns: int,
    absent_statuses: Collection[int] = ABSENT_STATUSES,
    said: Translation = NOTHING_SAID,
    is_page: bool = False,
    is_one_of_many: bool = True,
) -> Verdict:
    """The verdict on one reply. A rule that matches takes precedence over the status.

    `decoded` is None unless the body was worth decoding (see `has_content`); `behind_newest` is how many ids the item
    is behind the newest known one, None where ids mean nothing; `absent_statuses` say that there is no such item.

    A complete answer that is nonsense is a fault of the item: it is owed, and other items are fetched. `is_one_of_many`
    is False for a list page and for the newest id: nothing can be fetched instead, so nonsense is trouble and retried.
    """
    if said.means is None and has_content(reply, is_page=is_page):  # by far the most
        assert decoded is not None, "a reply with content must be decoded before it is classified"
        return _with_content(decoded, behind_newest, is_one_of_many=is_one_of_many)
    match reply:
        case NoReply(fault=fault):
            return _without_reply(fault, is_one_of_many=is_one_of_many)
        case Reply() if said.means is not None:
            return _by_rule(reply, said, said.means, behind_newest, now_wall_ns, is_page=is_page)
        case Reply(status=301 | 302 | 303 | 307 | 308):  # not followed; a login page may be behind it
            if is_one_of_many:
                return Malformed(GapReason.MOVED)
            return Trouble(GapReason.MOVED, shown_location(reply.headers.get("location", "")))
        case Reply(status=status) if status < 400 and status not in absent_statuses:  # no content, not modified
            return _nonsense(f"with the status {status} instead of 200", is_one_of_many=is_one_of_many)
        case Reply():
            return _by_status(reply, behind_newest, now_wall_ns, absent_statuses)


def shown_location(location: str) -> str:
    """Where a redirect leads, without what may be secret in it; empty if it does not say."""
    try:
        parts = urlsplit(location)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return ""
    if not location.isprintable() or not (parts.hostname or parts.path):
        return ""
    origin = f"{parts.scheme or 'https'}://{parts.hostname}{port}" if parts.hostname else ""
    return f"{origin}{parts.path}"


def classify_connect(reply: Reply | NoReply, *, now_wall_ns: int) -> Verdict:
    """The verdict on the answer to a stream connect."""
    match reply:
        case NoReply(fault=fault):
            return _without_reply(fault, is_one_of_many=False)
        case Reply() if is_stream_here(reply.status) or is_stream_elsewhere(reply.status):
            return Found(StreamOpened())
        case Reply():
            return _by_status(reply, None, now_wall_ns, ABSENT_STATUSES)


def is_stream_here(status: int) -> bool:
    """Whether an event stream follows."""
    return status == 200


def is_stream_elsewhere(status: int) -> bool:
    """Whether the answer gives the address of the stream."""
    return status == 307


def can_mean_absent(status: int) -> bool:
    """Whether this status can mean that there is no such item; some statuses have another meaning."""
    return 400 <= status < 500 and status not in {401, 407, 408, 429}


def is_of_request(status: int) -> bool:
    """Whether this status says that the request itself is wrong, whoever sends it. For an operator: it changes no verdict."""
    return 400 <= status < 500 and status not in {401, 402, 403, 404, 407, 408, 410, 429, 451}


def is_down(status: int) -> bool:
    """Whether this status says that the other side cannot answer now, whatever it was asked."""
    return status >= 500 or status in {408, 429}


def has_content(reply: Reply | NoReply, *, is_page: bool = False) -> TypeGuard[Reply]:
    """Whether the body is what was asked for and not an error page.

    Some providers, as PostgREST, answer a page of a longer list with 206 and say which entries it holds. A range of
    bytes was never asked for: such a body is cut off.
    """
    if not isinstance(reply, Reply):
        return False
    return reply.status == 200 or (
        is_page
        and reply.status == 206
        and _RANGE_OF_ENTRIES.fullmatch(reply.headers.get("content-range", "")) is not None
    )


def is_plain(reply: Reply | NoReply) -> TypeGuard[Reply]:
    """Whether it is what was asked for, and says nothing about a quota."""
    return has_content(reply) and not (reply.headers and has_quota(reply.headers))


def _nonsense(odd: str, *, is_one_of_many: bool) -> Verdict:
    return _NONSENSE if is_one_of_many else Trouble(GapReason.SERVER_ERROR, odd=odd)


def _without_reply(fault: Fault, *, is_one_of_many: bool) -> Verdict:
    match fault:
        case Fault.TIMEOUT:
            return Trouble(GapReason.TIMEOUT)
        case Fault.CONNECTION:
            return Trouble(GapReason.CONNECTION)
        case Fault.BAD_ENCODING:
            return _nonsense("with a body in another encoding than it says", is_one_of_many=is_one_of_many)
        case Fault.FAILED:  # as nonsense, but it is not the server's error
            return _NONSENSE if is_one_of_many else Trouble(GapReason.MALFORMED)
        case Fault.TOO_LARGE:
            return Malformed(GapReason.TOO_LARGE)
        case Fault.EXHAUSTED:
            return Deferred(GapReason.CONNECTION)


def _by_rule(
    reply: Reply, said: Translation, means: Means, behind_newest: int | None, now_wall_ns: int, *, is_page: bool
) -> Verdict:
    match means:
        case Means.PRESSURE:
            asked_ns = asked_wait_ns(reply, now_wall_ns=now_wall_ns) if said.wait_ns is None else said.wait_ns
            return Pressure(GapReason.RATE_LIMITED, asked_ns)
        case Means.REFUSED:
            return Refused(GapReason.UNAUTHORIZED if reply.status == 401 else GapReason.FORBIDDEN)
        case Means.MISSING:
            return _absence(GapReason.NOT_FOUND, behind_newest)
        case Means.GONE:
            return _absence(GapReason.GONE, behind_newest)
        case Means.TROUBLE:
            return Trouble(GapReason.SERVER_ERROR)
        case Means.MALFORMED:
            return Malformed(GapReason.MALFORMED)
        case Means.END:
            return Found(Page((), None)) if is_page else _absence(GapReason.NOT_FOUND, behind_newest)


def _with_content(decoded: Decoded, behind_newest: int | None, *, is_one_of_many: bool) -> Verdict:
    match decoded:
        case Readable(thing):
            return Found(thing)
        case Unreadable(why):
            odd = _INSTEAD if why == WEB_PAGE else "with a body that cannot be read"
            return _nonsense(odd, is_one_of_many=is_one_of_many)
        case Nothing():
            return _absence(GapReason.NOT_FOUND, behind_newest)
        case WrongShape():
            return Malformed(GapReason.MALFORMED)


def _absence(reason: GapReason, behind_newest: int | None) -> Verdict:
    if behind_newest is not None and -FAR_ABOVE_NEWEST_IDS <= behind_newest < NEAR_NEWEST_IDS:
        return NotYet()
    return Missing(reason)


def _by_status(reply: Reply, behind_newest: int | None, now_wall_ns: int, absent: Collection[int]) -> Verdict:
    retry_after_ns = asked_wait_ns(reply, now_wall_ns=now_wall_ns)
    match reply.status:
        case 429:
            return Pressure(GapReason.RATE_LIMITED, retry_after_ns)
        case 403 if retry_after_ns is not None:  # some providers say "too many" this way; the headers show it
            return Pressure(GapReason.RATE_LIMITED, retry_after_ns)
        case status if status >= 500 and retry_after_ns is not None:
            return Pressure(GapReason.UPSTREAM_PRESSURE, retry_after_ns)
        case 410:  # the item existed and was deleted, whatever its id
            return Missing(GapReason.GONE)
        case status if status in absent:
            return _absence(GapReason.NOT_FOUND, behind_newest)
        case 401:
            return Refused(GapReason.UNAUTHORIZED)
        case 407:  # of the owner's proxy: nobody asked the provider
            return Trouble(
                GapReason.CONNECTION, odd="through a proxy that needs a login (407); write one that needs none"
            )
        case 408:
            return Trouble(GapReason.TIMEOUT)
        case 413:
            return Malformed(GapReason.TOO_LARGE)
        case _ if _names_a_wait_for_all(reply, now_wall_ns=now_wall_ns):
            return Pressure(GapReason.RATE_LIMITED, retry_after_ns)
        case status if 400 <= status < 500:
            return Refused(GapReason.FORBIDDEN)
        case _:  # 5xx, and statuses that no standard defines
            return Trouble(GapReason.SERVER_ERROR)


def _names_a_wait_for_all(reply: Reply, *, now_wall_ns: int) -> bool:
    """Whether a refusal of no known meaning, as 420, names a wait: it asks for less, unless it is about one thing."""
    is_for_all = 400 <= reply.status < 500 and reply.status not in _ABOUT_ONE_THING
    return is_for_all and parse_retry_after(reply.headers, now_wall_ns=now_wall_ns) is not None


def asked_wait_ns(reply: Reply, *, now_wall_ns: int) -> int | None:
    """How long a refusal asks to wait: `Retry-After`, or until a used-up quota resets."""
    retry_after_ns = parse_retry_after(reply.headers, now_wall_ns=now_wall_ns)
    if retry_after_ns is not None:
        return retry_after_ns
    quota = read_quota(reply.headers, now_wall_ns=now_wall_ns)
    return quota.reset_in_ns if quota is not None and quota.remaining == 0 else None
