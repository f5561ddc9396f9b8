"""What do the tests of reading commands read? A mirror of ten items: eight held, one owed, one dead."""

from remora.contracts import Observation, Store
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.gap import ATTEMPTS_BEFORE_DEAD
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Found, Refused, Trouble, Verdict

SOURCE = "hackernews"
NEWEST_ID = 10
OWED_ID = 4
DEAD_ID = 7


def body_of(item_id: int) -> bytes:
    return b'{"by":"ann","id":%d,"time":1160418111,"title":"Caf\xc3\xa9","type":"story"}' % item_id


async def fill(store: Store, *, now_ns: int) -> None:
    """Record every outcome and cover the ids, as a finished backfill would have."""
    for item_id in range(1, NEWEST_ID + 1):
        match item_id:
            case 4:
                await owe(store, item_id, now_ns=now_ns)
            case 7:
                for attempt in range(ATTEMPTS_BEFORE_DEAD):
                    await _record(store, item_id, Refused(GapReason.UNAUTHORIZED), now_ns + attempt * SECOND_NS)
            case _:
                await _record(store, item_id, Found(Item(item_id, body_of(item_id), type="story")), now_ns)
    await store.cover(SOURCE, IdRange(1, NEWEST_ID))
    await store.keep_note(SOURCE, "newest_id", NEWEST_ID)


async def owe(store: Store, item_id: int, *, now_ns: int) -> None:
    """Record that this item gave no answer."""
    await _record(store, item_id, Trouble(GapReason.TIMEOUT), now_ns)


async def _record(store: Store, item_id: int, verdict: Verdict, now_ns: int) -> None:
    discovery = Discovery.item(item_id, via=Lane.BACKFILL)
    await store.record(SOURCE, Observation(discovery, verdict, started_at_ns=now_ns, now_ns=now_ns))
