"""What did the provider answer, and when? Short ways to say it in the contract's tests.

Times are whole milliseconds: no store promises to keep more.
"""

from collections.abc import Iterable

from remora.contracts import Observation, Outcome, Store
from remora.core.item import Document, Item, User
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind, Origin
from remora.core.ledger.gap import Gap
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Missing, Pressure, Refused, Trouble, Verdict

SOURCE = "hackernews"
ARCHIVE = "chats"
NOW_S = 1_790_000_000
TIMEOUT = Trouble(GapReason.TIMEOUT)
PRESSURE = Pressure(GapReason.RATE_LIMITED)
REFUSED = Refused(GapReason.UNAUTHORIZED)
MISSING = Missing(GapReason.NOT_FOUND)


def at(seconds: float) -> int:
    """A moment: so many seconds after the tests' beginning."""
    return NOW_S * SECOND_NS + int(seconds * 1_000) * (SECOND_NS // 1_000)


def story(item_id: int, *, text: str = "first", score: int = 1, time: int | None = NOW_S) -> Item:
    """An item whose content is its text; the score changes the body but is no content."""
    body = f'{{"by":"ada","id":{item_id},"score":{score},"text":"{text}","time":{time},"type":"story"}}'
    return Item(
        item_id=item_id,
        body=body.encode(),
        type="story",
        by="ada",
        time=time,
        score=score,
        content=text.encode(),
    )


def observed(
    item_id: int,
    verdict: Verdict,
    *,
    started_s: float,
    done_s: float | None = None,
    origin: Origin = None,
    via: Lane = Lane.LIVE,
) -> Observation:
    """An answer about an item to a request that left at `started_s`."""
    discovery = Discovery.item(item_id, via=via, origin=origin)
    return Observation(discovery, verdict, at(started_s), at(started_s if done_s is None else done_s))


async def record(store: Store, item_id: int, verdict: Verdict | Item, *, at_s: float, origin: Origin = None) -> Outcome:
    """Record one answer about an item."""
    answer = Found(verdict) if isinstance(verdict, Item) else verdict
    return await store.record(SOURCE, observed(item_id, answer, started_s=at_s, origin=origin))


async def record_document(
    store: Store, key: str, verdict: Verdict | Document, *, at_s: float, origin: Origin = None
) -> Outcome:
    """Record one answer about a document."""
    answer = Found(verdict) if isinstance(verdict, Document) else verdict
    discovery = Discovery(Kind.DOCUMENT, key, Lane.DETAIL, origin)
    return await store.record(ARCHIVE, Observation(discovery, answer, at(at_s), at(at_s)))


async def record_user(store: Store, name: str, verdict: Verdict | User, *, at_s: float) -> Outcome:
    """Record one answer about a profile."""
    answer = Found(verdict) if isinstance(verdict, User) else verdict
    discovery = Discovery(Kind.USER, name, Lane.UPDATE)
    return await store.record(SOURCE, Observation(discovery, answer, at(at_s), at(at_s)))


async def lease(
    store: Store, *, at_s: float, owner: str = "one", limit: int = 100, without: tuple[GapReason, ...] = ()
) -> list[str]:
    """The keys of the gaps that are leased for a minute."""
    leased = await store.lease_gaps(
        SOURCE, owner=owner, limit=limit, lease_ns=60 * SECOND_NS, now_ns=at(at_s), without=without
    )
    return keys(leased)


def keys(gaps: Iterable[Gap]) -> list[str]:
    """The keys of some gaps, in their order."""
    return [gap.key for gap in gaps]
