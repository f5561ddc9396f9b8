"""How is a source of documents read, and what do the numbers of the status page count? Lists of what is held and owed."""

import asyncio
from typing import Final

from aiohttp import web

from remora.contracts.browsing import BrowsingReader, MirroredGap
from remora.contracts.reader import MirroredDocument, MirroredSource, is_cut_by_size
from remora.operate.console.reader import links
from remora.operate.console.reader.pages import NotHeld, Pages, shown
from remora.operate.console.reader.rendering import page
from remora.read.differences import changes_of
from remora.read.document_history import read_document_history
from remora.read.readable import readable_fields, title_or_key

DOCUMENTS_ROWS: Final = 50
LIST_ROWS: Final = 200
STATES: Final = {
    "owed": "These are owed: they could not be fetched yet and will be asked for again.",
    "dead": "These are dead letters: several attempts failed, and a person should look at the reason.",
    "absent": "The provider says that these do not exist.",
    "gone": "These were deleted upstream. Their last content is kept.",
}


class ListedPages(Pages):
    """The pages of listed sources, and the lists behind the numbers of every source."""

    def routes(self) -> list[web.RouteDef]:
        """The addresses of these pages."""
        place = f"{links.READER}/{{source}}"
        return [
            web.get(f"{place}/documents", self.documents),
            web.get(f"{place}/document", self.document),
            web.get(f"{place}/document/history", self.document_history),
            web.get(f"{place}/changes", self.changes),
            web.get(f"{place}/waiting", self.waiting),
            web.get(f"{place}/{{state:{'|'.join(STATES)}}}", self.gaps),
        ]

    @shown
    async def documents(self, request: web.Request) -> web.StreamResponse:
        """Documents by key."""
        after = request.query.get("after", "")
        async with self._browsing.reader() as reader:
            source = await self.listed(reader, request)
            found = await reader.document_page(source.name, after=after, fetched_since_ns=0, limit=DOCUMENTS_ROWS + 1)
        rows = [(document, title_or_key(document.fields, document.key)) for document in found[:DOCUMENTS_ROWS]]
        has_more = len(found) > DOCUMENTS_ROWS or is_cut_by_size(found)
        more = found[:DOCUMENTS_ROWS][-1].key if has_more else None
        return await page(request, "documents.html", source=source, rows=rows, more=more, after=after)

    @shown
    async def document(self, request: web.Request) -> web.StreamResponse:
        """One document: its readable fields, then its raw JSON."""
        async with self._browsing.reader() as reader:
            source, document = await self._held_document(reader, request)
            facts = await reader.document_facts(source.name, document.key)
        assert facts is not None, "a document that is held has facts"
        fields, is_cut = await asyncio.to_thread(readable_fields, document.body)
        return await page(
            request,
            "document.html",
            source=source,
            document=document,
            title=title_or_key(document.fields, document.key),
            facts=facts,
            fields=fields,
            is_cut=is_cut,
        )

    @shown
    async def document_history(self, request: web.Request) -> web.StreamResponse:
        """What changed in each revision of a document."""
        async with self._browsing.reader() as reader:
            source, document = await self._held_document(reader, request)
            facts = await reader.document_facts(source.name, document.key)
            history = await read_document_history(reader, document)
        assert facts is not None, "a document that is held has facts"
        changes = await asyncio.to_thread(changes_of, history)
        return await page(
            request,
            "history.html",
            source=source,
            name=title_or_key(document.fields, document.key),
            back=links.document(source.name, document.key),
            changes=tuple(reversed(changes)),
            gone=facts.is_gone,
        )

    @shown
    async def changes(self, request: web.Request) -> web.StreamResponse:
        """What was new or changed last."""
        async with self._browsing.reader() as reader:
            source = await self.named_source(reader, request)
            found = await reader.latest_changes(source.name, limit=LIST_ROWS)
        return await page(request, "changes.html", source=source, changes=found)

    @shown
    async def waiting(self, request: web.Request) -> web.StreamResponse:
        """What was not asked for yet: ids and announced changes, or documents whose detail is owed."""
        async with self._browsing.reader() as reader:
            source = await self.named_source(reader, request)
            ids = await reader.waiting_ids(source.name, limit=LIST_ROWS + 1)
            announced = await reader.announced(source.name, limit=LIST_ROWS + 1)
            details = await reader.owed_documents(source.name, limit=LIST_ROWS + 1)
        return await page(
            request,
            "waiting.html",
            source=source,
            ids=ids[:LIST_ROWS],
            announced=announced[:LIST_ROWS],
            details=details[:LIST_ROWS],
            is_cut=max(len(ids), len(announced), len(details)) > LIST_ROWS,
        )

    @shown
    async def gaps(self, request: web.Request) -> web.StreamResponse:
        """What is owed, dead, absent or gone, with its reason."""
        state = request.match_info["state"]
        async with self._browsing.reader() as reader:
            source = await self.named_source(reader, request)
            found: list[MirroredGap] = []
            for kind in ("document",) if source.is_listed else ("item", "user"):
                found.extend(await reader.gaps(source.name, kind=kind, state=state, limit=LIST_ROWS + 1 - len(found)))
            details = await reader.owed_documents(source.name, limit=LIST_ROWS) if state == "owed" else ()
        named = {gap.document_key for gap in found}
        return await page(
            request,
            "gaps.html",
            source=source,
            state=state,
            sentence=STATES[state],
            gaps=found[:LIST_ROWS],
            is_cut=len(found) > LIST_ROWS,
            details=[(key, mark) for key, mark in details if key not in named],
        )

    async def _held_document(
        self, reader: BrowsingReader, request: web.Request
    ) -> tuple[MirroredSource, MirroredDocument]:
        source = await self.listed(reader, request)
        key = request.query.get("key", "")
        document = await reader.document(source.name, key)
        if document is None:
            raise NotHeld(f"the document {key} is not in the mirror", hint="see the list of documents")
        return source, document
