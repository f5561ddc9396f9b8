"""How is a source of numbered items read? Front pages, an item with its thread, its history, an author."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from aiohttp import web

from remora.contracts.browsing import BrowsingReader, ReadTooSlow, StoryList
from remora.contracts.reader import MirroredItem, Revision
from remora.operate.console.reader import links
from remora.operate.console.reader.front_views import PAGE_ROWS, VIEWS, Window, parse_day, parse_skip
from remora.operate.console.reader.pages import NotHeld, Pages, go, parse_id, query_id, shown
from remora.operate.console.reader.rendering import page
from remora.operate.console.reader.thread_rows import thread_rows
from remora.read.ancestors import read_ancestors
from remora.read.differences import changes_of
from remora.read.thread import read_thread

# An author may write faster than the mirror's clock; a time beyond tomorrow is absurd.
_DAY: Final = timedelta(days=1)


class ItemPages(Pages):
    """The pages of numbered sources."""

    def routes(self) -> list[web.RouteDef]:
        """The addresses of these pages. A view that is not a front page is listed elsewhere."""
        place = f"{links.READER}/{{source}}"
        fronts = "|".join(VIEWS)
        return [
            web.get(place, self.front),
            web.get(f"{place}/{{view:{fronts}}}", self.front),
            web.get(f"{place}/newest", self.newest),
            web.get(f"{place}/item/{{id}}", self.item),
            web.get(f"{place}/item/{{id}}/history", self.item_history),
            web.get(f"{place}/user", self.user),
        ]

    @shown
    async def front(self, request: web.Request) -> web.StreamResponse:
        """Stories: of a day, of a week, the newest, or those that ask or show."""
        named = request.match_info.get("view")
        async with self._browsing.reader() as reader:
            source = await self.named_source(reader, request)
            if source.is_listed:
                return go(request, links.view(source.name, "documents"))
            newest = await _newest_story_day(reader, source.name)
            if newest is None and named is None:
                return go(request, links.view(source.name, "newest"))
            view = VIEWS[named or "top"]
            day = parse_day(request.query.get("day", ""), newest=newest or datetime.now(UTC).date())
            window = Window(view, day, parse_skip(request.query.get("skip", "")))
            stories = await reader.stories(source.name, window.wanted())
        return await page(
            request,
            "front.html",
            source=source,
            view=view,
            window=window,
            newest=newest,
            stories=stories[:PAGE_ROWS],
            more=window.skip + PAGE_ROWS if len(stories) > PAGE_ROWS else None,
        )

    @shown
    async def newest(self, request: web.Request) -> web.StreamResponse:
        """All items by id, the highest first; all documents of a listed source."""
        before_id = query_id(request, "before")
        async with self._browsing.reader() as reader:
            source = await self.named_source(reader, request)
            if source.is_listed:
                return go(request, links.view(source.name, "documents"))
            items = await reader.newest_items(source.name, before_id=before_id, limit=PAGE_ROWS + 1)
            stories = await _stories(reader, source.name, items)
        more = items[PAGE_ROWS - 1].id if len(items) > PAGE_ROWS else None
        return await page(request, "newest.html", source=source, items=items[:PAGE_ROWS], stories=stories, more=more)

    @shown
    async def item(self, request: web.Request) -> web.StreamResponse:
        """An item, what is above it, and all replies below it."""
        async with self._browsing.reader() as reader:
            source = await self.numbered(reader, request)
            item = await _held_item(reader, source.name, request.match_info["id"])
            above = await read_ancestors(reader, item)
            thread = await read_thread(reader, item)
            parts = _parts(item)
            options = await reader.items(source.name, parts)
        rows, still_open = await asyncio.to_thread(thread_rows, thread)
        return await page(
            request,
            "item.html",
            source=source,
            item=item,
            above=above,
            thread=thread,
            rows=rows,
            still_open=still_open,
            options=options,
            missing_options=[part for part in parts if part not in {option.id for option in options}],
        )

    @shown
    async def item_history(self, request: web.Request) -> web.StreamResponse:
        """What changed in each revision of an item."""
        async with self._browsing.reader() as reader:
            source = await self.numbered(reader, request)
            item = await _held_item(reader, source.name, request.match_info["id"])
            earlier = await reader.revisions(source.name, item.id)
        current = Revision(item.revision, item.body, item.changed_ns, item.last_fetched_ns)
        changes = await asyncio.to_thread(changes_of, (*earlier, current))
        return await page(
            request,
            "history.html",
            source=source,
            name=f"item {item.id}",
            back=links.item(source.name, item.id),
            changes=tuple(reversed(changes)),
        )

    @shown
    async def user(self, request: web.Request) -> web.StreamResponse:
        """An author's profile, submissions and comments."""
        name, chosen = request.query.get("name", ""), request.query.get("list", "")
        comments = chosen == "comments"
        skip = parse_skip(request.query.get("skip", ""))
        async with self._browsing.reader() as reader:
            source = await self.numbered(reader, request)
            profile = await reader.user(source.name, name)
            items: Sequence[MirroredItem] = ()
            stories: Mapping[int, MirroredItem] = {}
            slow: ReadTooSlow | None = None
            try:
                items = await reader.items_by(source.name, name, comments=comments, skip=skip, limit=PAGE_ROWS + 1)
                others = () if items or skip else await _written(reader, source.name, name, comments=not comments)
                if others and not chosen:
                    # Many authors only comment: their page begins with that.
                    comments, items = True, others
                stories = await _stories(reader, source.name, items)
            except ReadTooSlow as error:
                slow, others = error, ()
        if profile is None and not items and not others and not skip and slow is None:
            raise NotHeld(f"the mirror holds nothing by {name}", hint="names are case-sensitive")
        return await page(
            request,
            "user.html",
            source=source,
            name=name,
            profile=profile,
            comments=comments,
            items=items[:PAGE_ROWS],
            stories=stories,
            more=skip + PAGE_ROWS if len(items) > PAGE_ROWS else None,
            slow=slow,
        )


async def _written(reader: BrowsingReader, source: str, name: str, *, comments: bool) -> Sequence[MirroredItem]:
    """The first page of what an author wrote, and one more."""
    return await reader.items_by(source, name, comments=comments, skip=0, limit=PAGE_ROWS + 1)


async def _stories(reader: BrowsingReader, source: str, items: Sequence[MirroredItem]) -> Mapping[int, MirroredItem]:
    """The stories of those that are comments."""
    comments = [item.id for item in items if item.parent is not None]
    return await reader.stories_of(source, comments) if comments else {}


async def _held_item(reader: BrowsingReader, source: str, text: str) -> MirroredItem:
    item_id = parse_id(text)
    found = await reader.items(source, [item_id])
    if not found:
        raise NotHeld(
            f"item {item_id} is not in the mirror", hint="it may be owed, absent, or newer than what was fetched"
        )
    return found[0]


async def _newest_story_day(reader: BrowsingReader, source: str) -> date | None:
    """The day of the newest story, not after tomorrow."""
    tomorrow = datetime.now(UTC) + _DAY
    latest = await reader.stories(source, StoryList("story", 0, int(tomorrow.timestamp()), by_score=False, limit=1))
    created = latest[0].created_at if latest else None
    return None if created is None else created.date()


def _parts(item: MirroredItem) -> list[int]:
    """The options of a poll."""
    parts = item.fields.get("parts")
    return [part for part in parts if type(part) is int][:100] if isinstance(parts, list) else []
