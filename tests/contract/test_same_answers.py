"""Do all stores on this machine give the same answers to the same questions? Random stories, told to each of them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.contracts import Store, WalkState
from remora.core.item import Document, Entry
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import FromGap, FromInbox, Kind
from remora.core.ledger.segment import Segment, SegmentKind
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import Verdict
from remora.stores.memory import MemoryStore
from remora.stores.sqlite import InPlace, SqliteStore
from tests.contract.answers import (
    ARCHIVE,
    MISSING,
    PRESSURE,
    REFUSED,
    SOURCE,
    TIMEOUT,
    at,
    record,
    record_document,
    story,
)

LEASE_NS = 60 * SECOND_NS
FAILURES: tuple[Verdict, ...] = (TIMEOUT, MISSING, REFUSED, PRESSURE)

Step = tuple[str, int, int]  # what is done, to which of the few things, in which variant
DEEDS = (
    *("found", "failed", "announce", "serve_inbox", "lease", "serve_gap", "release", "replay"),
    *("plan", "claim", "advance", "give_back", "cover", "page", "document", "no_document"),
)
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 5), st.integers(0, 3)), max_size=40)


class Teller:
    """Tells one story to one store and writes down every answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now_s = 0.0
        self._claimed: list[Segment] = []
        self._leased: list[str] = []
        self.answers: list[object] = []

    async def tell(self, steps: list[Step]) -> None:
        for name, which, variant in steps:
            self._now_s += 10 ** (variant % 3)
            act: Callable[[int, int], Awaitable[object]] = getattr(self, f"_{name}")
            self.answers.append((name, await act(which, variant)))
        self.answers.append(await self._everything())

    async def _everything(self) -> list[object]:
        store = self._store
        return [
            [await store.item(SOURCE, item_id) for item_id in range(6)],
            [await store.revisions(SOURCE, item_id) for item_id in range(6)],
            [(item_id, body) async for item_id, body in store.bodies(SOURCE)],
            await store.gaps(SOURCE),
            await store.gap_counts(SOURCE),
            await store.gaps(ARCHIVE),
            await store.waiting(SOURCE, limit=100),
            await store.coverage(SOURCE),
            await store.open_segments(SOURCE),
            await store.walk_state(ARCHIVE),
            await store.owed_details(ARCHIVE, limit=100),
            [document async for document in store.documents(ARCHIVE)],
        ]

    async def _found(self, which: int, variant: int) -> object:
        item = story(which, text="ab"[variant % 2], score=variant)
        return await record(self._store, which, item, at_s=self._now_s - 5 * (variant == 3))

    async def _failed(self, which: int, variant: int) -> object:
        return await record(self._store, which, FAILURES[variant], at_s=self._now_s)

    async def _announce(self, which: int, variant: int) -> object:
        keys = [(Kind.ITEM, str(key)) for key in range(which, which + variant)]
        return await self._store.announce(SOURCE, keys, now_ns=at(self._now_s))

    async def _serve_inbox(self, which: int, variant: int) -> object:
        entries = await self._store.waiting(SOURCE, limit=1)
        return [
            await record(self._store, int(entry.key), story(which), at_s=self._now_s, origin=FromInbox(entry.ticket))
            for entry in entries
            if int(entry.key) == which
        ]

    async def _lease(self, which: int, variant: int) -> object:
        leased = await self._store.lease_gaps(
            SOURCE,
            owner="one",
            limit=which,
            lease_ns=LEASE_NS,
            now_ns=at(self._now_s),
            without=[GapReason.RATE_LIMITED] if variant == 2 else [],
        )
        self._leased += [gap.key for gap in leased]
        return leased

    async def _serve_gap(self, which: int, variant: int) -> object:
        if not self._leased:
            return None
        item_id = int(self._leased.pop())
        verdict = story(item_id) if variant else TIMEOUT
        return await record(self._store, item_id, verdict, at_s=self._now_s, origin=FromGap("one"))

    async def _release(self, which: int, variant: int) -> object:
        return await self._store.release_gaps(SOURCE, owner="one")

    async def _replay(self, which: int, variant: int) -> object:
        return await self._store.replay_gaps(SOURCE, key=str(which) if variant else None, now_ns=at(self._now_s))

    async def _plan(self, which: int, variant: int) -> object:
        piece = IdRange(10 * which, 10 * which + 7 * (variant + 1))
        return await self._store.plan(SOURCE, list(SegmentKind)[variant], [piece], now_ns=at(self._now_s))

    async def _claim(self, which: int, variant: int) -> object:
        kinds = list(SegmentKind)[variant:]
        segment = await self._store.claim(SOURCE, kinds, owner="one", lease_ns=LEASE_NS, now_ns=at(self._now_s))
        self._claimed += [segment] if segment else []
        return segment

    async def _advance(self, which: int, variant: int) -> object:
        if not self._claimed:
            return None
        segment = self._claimed[which % len(self._claimed)]
        cursor = min(segment.ids.end, segment.cursor + 1 + 3 * variant)
        return await self._store.advance(SOURCE, segment, cursor, lease_ns=LEASE_NS, now_ns=at(self._now_s))

    async def _give_back(self, which: int, variant: int) -> object:
        if not self._claimed:
            return None
        return await self._store.release(SOURCE, self._claimed[which % len(self._claimed)])

    async def _cover(self, which: int, variant: int) -> object:
        await self._store.cover(SOURCE, IdRange(5 * which, 5 * which + 2 * variant))
        return None

    async def _page(self, which: int, variant: int) -> object:
        entries = [Entry(f"key {key}", str(variant + key) if key else None) for key in range(which)]
        state = WalkState(watermark="0", walking_from=str(which), position=str(variant))
        return await self._store.record_page(ARCHIVE, entries, state, now_ns=at(self._now_s))

    async def _document(self, which: int, variant: int) -> object:
        document = Document(f"key {which}", f'{{"v":{variant % 2}}}'.encode(), str(variant) if variant else None)
        return await record_document(self._store, document.key, document, at_s=self._now_s - 20 * (variant == 3))

    async def _no_document(self, which: int, variant: int) -> object:
        return await record_document(self._store, f"key {which}", FAILURES[variant], at_s=self._now_s)


async def told(store: Store, steps: list[Step]) -> list[object]:
    await store.open()
    try:
        teller = Teller(store)
        await teller.tell(steps)
        return teller.answers
    finally:
        await store.close()


@settings(max_examples=60)
@given(STEPS)
@pytest.mark.slow
def test_memory_and_sqlite_answer_every_story_alike(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        sqlite = asyncio.run(told(SqliteStore(Path(folder) / "remora.db", offload=InPlace), steps))
    assert asyncio.run(told(MemoryStore(), steps)) == sqlite
