"""Is the mirror true? A random sample is read again through the gate, compared with the copy, and healed by recording."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice

from remora.collect import Collector
from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.run import REFUSED_IN_A_ROW_MAX
from remora.core.verdict import Found, Missing, NotYet, Refused
from remora.loops.listed.parents import take_parents


class Finding(StrEnum):
    """How the copy of one thing compares with the source."""

    SAME = "same"
    COUNTS = "counts"  # only what changes by the minute differs: score, replies
    STALE = "stale"  # the content differs; the new one is stored now, the old one is kept
    MISSING = "missing"  # the source has it and the mirror had not; it is stored now
    GONE = "gone"  # the source has it no more; the mirror keeps its last content
    UNANSWERED = "unanswered"  # no answer: it says nothing about the mirror


# What makes a mirror worse than its source.
BAD = (Finding.STALE, Finding.MISSING)

OnFinding = Callable[[Finding], None]


class Verify:
    """Reads things again, up to `width` at once."""

    def __init__(self, source: str, collector: Collector, store: Store, *, width: int) -> None:
        self._source = source
        self._collector = collector
        self._store = store
        self._width = width
        self._refused_in_a_row = 0
        self.is_refused = False  # one after the other: it is the account, so the rest of the sample is not asked for

    async def run(self, wanted: Iterable[Discovery], *, on_finding: OnFinding = lambda _: None) -> Counter[Finding]:
        """Compare each of them once, until the provider refuses one after the other.

        Documents that only their list holds are refused here: they have no address.
        """
        if self._collector.capabilities.inline_details:
            raise ConfigurationError(
                f"the list of {self._source} holds the whole documents: none can be read again without the others",
                hint="the next full walk compares all of them; `remora run` makes it when it is due",
            )
        await take_parents(self._source, self._collector, self._store)
        findings: Counter[Finding] = Counter()
        left = iter(wanted)

        async def some(discoveries: Iterator[Discovery]) -> None:
            for discovery in discoveries:
                finding = await self._compare(discovery)
                findings[finding] += 1
                on_finding(finding)
                if self.is_refused:
                    return

        await some(islice(left, REFUSED_IN_A_ROW_MAX))  # alone: a token that is no longer good costs these, and no more
        if not self.is_refused:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._width):
                    group.create_task(some(left))
        return findings

    async def _compare(self, discovery: Discovery) -> Finding:
        before = await self._held(discovery)
        asked = await self._collector.ask(discovery)
        self._refused_in_a_row = self._refused_in_a_row + 1 if isinstance(asked.verdict, Refused) else 0
        self.is_refused = self.is_refused or self._refused_in_a_row >= REFUSED_IN_A_ROW_MAX
        await self._collector.record(discovery, asked)
        match asked.verdict:
            case Found():
                pass
            case Missing() | NotYet():
                return Finding.SAME if before is None else Finding.GONE
            case _:
                return Finding.UNANSWERED
        after = await self._held(discovery)
        assert after is not None, "what was found is held"
        if before is None:
            return Finding.MISSING
        if before.revision != after.revision:
            return Finding.STALE
        return Finding.SAME if before.body == after.body else Finding.COUNTS

    async def _held(self, discovery: Discovery) -> "_Held | None":
        if discovery.kind is Kind.DOCUMENT:
            document = await self._store.document(self._source, discovery.key)
            return None if document is None or document.body is None else _Held(document.revision, document.body)
        item = await self._store.item(self._source, discovery.item_id)
        return None if item is None else _Held(item.revision, item.body)


class _Held:
    """What the mirror holds of one thing."""

    def __init__(self, revision: int, body: bytes) -> None:
        self.revision = revision
        self.body = body


def item_again(item_id: int) -> Discovery:
    """An item to read again."""
    return Discovery.item(item_id, via=Lane.RESCAN)


def document_again(key: str) -> Discovery:
    """A document to read again."""
    return Discovery(Kind.DOCUMENT, key, Lane.DETAIL)
