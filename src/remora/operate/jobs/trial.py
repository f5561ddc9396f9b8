"""What does a declaration understand of its source? One page and one detail, or the newest id, one item and the list of changes.

All requests pass the gate. Nothing is written: one answer teaches too little. What is printed holds counts, marks, names
of fields and rate headers, never a key or a content.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Literal, cast

import msgspec

from remora.collect import Collector
from remora.contracts import Json, Meter, Store
from remora.contracts.source import WalkedSource
from remora.core.errors import RemoraError
from remora.core.item import Document, Entry, Item, Newest, Page, Piece, Updated
from remora.core.lanes import Lane
from remora.core.ledger.asking import ONCE
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_promises import clash, contradiction, marks_in_words
from remora.core.pieces import joined
from remora.core.quantities import format_duration
from remora.core.reasons import GapReason
from remora.core.units import SECOND_NS
from remora.core.verdict import (
    Deferred,
    Found,
    Misfit,
    NoReply,
    NotYet,
    Reply,
    Trouble,
    Verdict,
    is_of_request,
    shown_location,
)
from remora.gate.governor import Governor
from remora.operate.config.credentials import Credentials
from remora.operate.config.secrets import secret_setting, without_credentials
from remora.operate.config.settings import SourceSettings, account_of
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.gates import Gates
from remora.operate.jobs.overhearing import Overhearing
from remora.operate.jobs.resources import SourceResources
from remora.operate.jobs.runtime import ListedRuntime, Numbered, no_newest_hint, open_listed, open_numbered
from remora.operate.jobs.trial_hints import (
    FULL_PAGE,
    HINTS,
    MISFIT_HINTS,
    NO_FILES_HINT,
    NO_KEY,
    PLUGIN_HINT,
    PROXY_HINT,
    REQUEST_HINT,
    WANTS_TLS,
    without_key_hint,
)
from remora.operate.observe.metrics import Metrics
from remora.sources.dialects import Dialects
from remora.sources.early_end import next_setting
from remora.sources.json_path import WHOLE_BODY, first_of
from remora.sources.json_shape import fields_in_words, keys_in_words
from remora.sources.paging import SHORTER
from remora.sources.transport.settings import PERMISSION_HEADERS
from remora.stores import open_store

# A source that must wait longer than this is not asked.
WAIT_TO_ASK_NS: Final = 15 * SECOND_NS
RATE_HEADERS: Final = ("ratelimit", "rate-limit", "retry-after", "call-limit")
HEADER_SHOWN_MAX: Final = 80

# One entry of a source, with its document.
KnownParents = Mapping[str, tuple[str, bytes]]
Judged = Literal["ok", "warning", "bad"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    verdict: Judged
    what: str
    told: str
    hint: str | None = None


class Trials:
    """Requests to the sources of one configuration. Sources of one account share a gate, as they do when they run."""

    def __init__(
        self, resources: SourceResources, clock: SystemClock, stack: AsyncExitStack, known: KnownParents
    ) -> None:
        self._resources = resources
        self._clock = clock
        self._stack = stack
        self._known = known

    async def try_source(self, name: str) -> list[Finding]:
        """Send requests through the gate of a source, and report what was understood. Without its secret, send nothing."""
        try:
            return await self._try_source(name)
        except RemoraError as error:
            return [Finding("bad", f"{name}: reachable", f"not asked: {error.message}", error.hint)]

    async def _try_source(self, name: str) -> list[Finding]:
        await self._stack.enter_async_context(self._resources.gates.pass_through(name))
        if self._resources.sources[name].capabilities.newest_id:
            async with open_numbered(name, self._resources) as numbered:
                return [finding async for finding in self._trial(numbered).numbered()]
        async with open_listed(name, self._resources) as listed:
            if (each := listed.source.capabilities.each) is None:
                return [finding async for finding in self._trial(listed).listed()]
            parent = await self._parent_for(listed, each)
            if parent.verdict != "ok":
                return [parent]
            return [parent, *[finding async for finding in self._trial(listed).listed()]]

    async def _parent_for(self, child: ListedRuntime, each: str) -> Finding:
        """Give the source one entry of the other one to walk its list for."""
        what = f"{child.name}: entry"
        parent = self._known.get(each) or await self._ask_for_parent(each)
        if parent is None:
            hint = f"try it first: remora try {each}"
            return Finding("bad", what, f"not asked: {each}, for whose entries the list is walked, gave none", hint)
        walked = cast("WalkedSource", child.source)
        if walked.take_parents([(*parent, True)]):
            told = f"an entry of {each} lacks a field that list.path needs; {fields_in_words(parent[1], WHOLE_BODY)}"
            return Finding("bad", what, told, "check the name after {entry.}")
        told = "from the mirror" if each in self._known else "asked for"
        return Finding("ok", what, f"the list is walked for each entry of {each}; here for one of them, {told}")

    async def _ask_for_parent(self, name: str) -> tuple[str, bytes] | None:
        """The first entry of a source, with its document."""
        async with open_listed(name, self._resources) as listed:
            await self._stack.enter_async_context(self._resources.gates.pass_through(name))
            each = listed.source.capabilities.each
            if each is not None and (await self._parent_for(listed, each)).verdict != "ok":
                return None
            return await self._trial(listed).first_document()

    def _trial(self, runtime: Numbered | ListedRuntime) -> "_Trial":
        return _Trial(runtime, self._resources.store, self._clock, self._resources.meter)


@asynccontextmanager
async def open_trials(
    sources: Mapping[str, SourceSettings], credentials: Credentials, learned: Mapping[str, Json], known: KnownParents
) -> AsyncIterator[Trials]:
    """Gates that start with the learned paces. Nothing is written. `known`: one entry of a source, from the mirror."""
    clock, meter = SystemClock(), Metrics()
    store: Store = open_store("memory://")
    await store.open()
    try:
        for name, pace in learned.items():
            if isinstance(pace, dict):
                await store.save_pace(account_of(name, sources[name]), pace)
        gates = Gates(sources, store=store, clock=clock, meter=meter)
        resources = SourceResources(
            sources=sources, store=store, clock=clock, meter=meter, gates=gates, credentials=credentials
        )
        async with AsyncExitStack() as stack:
            yield Trials(resources, clock, stack, known)
    finally:
        await store.close()


class _Trial:
    """A few requests to one source."""

    def __init__(self, runtime: Numbered | ListedRuntime, store: Store, clock: SystemClock, meter: Meter) -> None:
        self._name, self._settings = runtime.name, runtime.settings
        self._is_plugin = runtime.settings.plugin is not None
        self._clock = clock
        self._governor: Governor = runtime.governor
        self._source = Overhearing(runtime.source)
        dialect = Dialects(runtime.settings.rules)
        self._collector = Collector(
            self._source,
            store,
            runtime.governor,
            clock=clock,
            meter=meter,
            policy=ONCE,
            dialect=dialect,
            credential=runtime.credential,
        )

    async def listed(self) -> AsyncIterator[Finding]:
        path = "" if self._is_plugin else self._settings.list.path
        verdict = await self._ask(Discovery(Kind.PAGE, self._first_position(), Lane.WALK))
        match verdict:
            case None:
                yield self._not_asked()
            case Found(Page() as page):
                for finding in (*self._page(page), *self._headers()):
                    yield finding
                if page.entries and self._settings.capabilities.inline_details:
                    yield self._found("ok", "detail", "inline: the list holds the whole entries")
                elif page.entries:
                    yield await self._detail(page.entries[0])
            case _:
                yield self._failed("reachable", path, "no list", verdict, self._wrong_page())

    async def first_document(self) -> tuple[str, bytes] | None:
        """The first entry of the list, with its document."""
        page = await self._ask(Discovery(Kind.PAGE, self._first_position(), Lane.WALK))
        if not isinstance(page, Found) or not isinstance(page.thing, Page) or not page.thing.entries:
            return None
        entry = page.thing.entries[0]
        if entry.body is not None:
            return entry.key, entry.body
        match await self._ask(Discovery(Kind.DOCUMENT, entry.key, Lane.DETAIL)):
            case Found(Document() as document):
                return entry.key, document.body
            case Found(Piece() as head):
                return entry.key, joined(head, []).body
            case _:
                return None

    async def numbered(self) -> AsyncIterator[Finding]:
        verdict = await self._ask(Discovery.newest())
        match verdict:
            case None:
                yield self._not_asked()
            case Found(Newest(newest)):
                yield self._found("ok", "reachable", f"newest id {newest:,}")
                for finding in self._headers():
                    yield finding
                yield await self._item(newest)
                if self._settings.capabilities.change_list:
                    yield await self._changes()
            case _:
                path = self._settings.newest_path
                yield self._failed("reachable", path, "no newest id", verdict, no_newest_hint(self._settings))

    async def _ask(self, discovery: Discovery) -> Verdict | None:
        """The verdict; None if the request would have to wait too long."""
        if self._governor.state().next_in_ns > WAIT_TO_ASK_NS:
            return None
        return (await self._collector.ask(discovery)).verdict

    def _first_position(self) -> str:
        source = self._collector.walked
        return "" if source is None else source.first_position(None, now_wall_ns=self._clock.wall_ns())

    async def _detail(self, entry: Entry) -> Finding:
        path = "" if self._is_plugin else self._settings.detail.path
        verdict = await self._ask(Discovery(Kind.DOCUMENT, entry.key, Lane.DETAIL))
        match verdict:
            case None:
                return self._not_asked("detail")
            case Found(Document() as document):
                declared = self._settings.detail.key
                named = NO_KEY if declared is None else f'names its key at "{declared}"'
                marked = "" if document.updated_at is None else f", mark {document.updated_at}"
                told = f"{len(document.body):,} bytes, {named}{marked}; {self._fields()}"
                is_unnamed = declared is None and not self._is_plugin
                hint = without_key_hint(document.body, entry.key) if is_unnamed else None
                return self._found("ok" if hint is None else "warning", "detail", told, hint)
            case Found(Piece() as piece):
                names = ", ".join(part.name for part in self._settings.detail.parts)
                return self._found("ok", "detail", f"{len(piece.body):,} bytes, then its parts: {names}")
            case _:
                hint = f"check detail.path and detail.key; {self._fields()}"
                return self._failed("detail", path, "no document", verdict, hint)

    async def _item(self, item_id: int) -> Finding:
        verdict = await self._ask(Discovery.item(item_id, via=Lane.LIVE))
        match verdict:
            case None:
                return self._not_asked("item")
            case Found(Item() as item):
                told = f"item {item_id:,} has {len(item.body):,} bytes; {self._fields()}"
                if item.time is None and self._settings.item is not None and self._settings.item.time is not None:
                    hint = f'no time can be read at "{self._settings.item.time}": check item.time, or the rescan finds nothing'
                    return self._found("warning", "item", told, hint)
                return self._found("ok", "item", told)
            case NotYet():
                return self._found("ok", "item", f"item {item_id:,} is not there yet, as the newest ones may be")
            case _:
                path = "" if self._settings.item is None else self._settings.item.path
                failed = self._failed("item", path, f"no item {item_id:,}", verdict, f"check item; {self._fields()}")
                return msgspec.structs.replace(failed, verdict="warning")

    async def _changes(self) -> Finding:
        updates = self._settings.updates
        path, entries = ("", "") if updates is None else (updates.path, updates.entries)
        verdict = await self._ask(Discovery.updates())
        match verdict:
            case None:
                return self._not_asked("changes")
            case Found(Updated(changed)):
                items = len({item_id for item_id, _ in changed})
                return self._found("ok", "changes", f"the list of changes names {items:,} items")
            case _:
                hint = f'no ids and marks at "{entries}": check updates; {self._fields()}'
                return self._failed("changes", path, "no list of changes", verdict, hint)

    def _page(self, page: Page) -> Iterator[Finding]:
        entries, wrong = len(page.entries), contradiction(page, ()) or clash(page)
        keys = {entry.key for entry in page.entries}
        if page.unreadable:
            told = page.why_unreadable or f"{page.unreadable} of {entries + page.unreadable} entries have no usable key"
            yield self._found("bad", "list", told, f"check list.key; {self._entry_fields()}")
        elif wrong is not None:
            what, _, hint = wrong.partition("; ")
            yield self._found("bad", "list", what, f"{hint}; {self._entry_fields()}" if hint else self._entry_fields())
        else:
            told = f"{entries:,} entries, {len(keys):,} keys {keys_in_words(keys)}, {marks_in_words(page.entries)}"
            yield self._found("ok", "list", f"{told}; {self._entry_fields()}")
        if page.contradicts is not None:
            return
        if SHORTER in (page.next_position or ""):
            yield self._found("warning", "next page", FULL_PAGE, f"check {next_setting(self._settings.list)}")
            return
        following = "none: the list ends here" if page.next_position is None else "there is one"
        paging = "the plug-in" if self._is_plugin else self._settings.list.paging
        yield self._found("ok", "next page", f"{following} (paging by {paging})")

    def _headers(self) -> Iterator[Finding]:
        """What the reply tells about limits and permissions."""
        for what, words in (("rate headers", RATE_HEADERS), ("permissions", PERMISSION_HEADERS)):
            if told := self._told(words):
                yield self._found("ok", what, told)

    def _told(self, words: tuple[str, ...]) -> str:
        headers = self._source.reply.headers if isinstance(self._source.reply, Reply) else {}
        named = {name: value for name, value in sorted(headers.items()) if any(word in name for word in words)}
        return ", ".join(f"{name}: {value[:HEADER_SHOWN_MAX] or 'none'}" for name, value in named.items())

    def _wrong_page(self) -> str:
        if self._is_plugin:
            return f"check the url, and the options of the plug-in; {self._fields()}"
        return f'there are no entries at "{self._settings.list.entries}": check list.entries; {self._fields()}'

    def _fields(self, path: str = WHOLE_BODY) -> str:
        """The names of the fields that came back, for whoever writes the declaration."""
        reply = self._source.reply
        return fields_in_words(reply.body if isinstance(reply, Reply) else b"", path)

    def _entry_fields(self) -> str:
        return f"an entry: {self._fields(first_of(self._settings.list.entries))}"

    def _failed(self, what: str, path: str, without: str, verdict: Verdict, hint: str) -> Finding:
        reason = GapReason.MALFORMED if isinstance(verdict, Found | NotYet) else verdict.reason
        address = without_credentials(f"{self._settings.url}{path}")
        odd = f" but answers {verdict.odd}" if isinstance(verdict, Trouble) and verdict.odd else ""
        told = f"{address} gave {without}{odd} ({reason})"
        if reason is GapReason.MOVED:
            return self._found("bad", what, f"{address} {self._moved()}", "write this address")
        if self._source.failure is not None:
            return self._found("bad", what, f"the plug-in failed with {self._source.failure}", PLUGIN_HINT)
        if isinstance(verdict, Deferred):
            return self._found("bad", what, told, NO_FILES_HINT)
        if reason is GapReason.CONNECTION and odd:
            return self._found("bad", what, told, PROXY_HINT)
        if reason is GapReason.UNAUTHORIZED and (setting := secret_setting(self._name, self._settings)) is not None:
            hint = f"it refuses the secret that {setting} gives: is it the right one, and still valid?"
            return self._found("bad", what, told, hint)
        if reason is GapReason.FORBIDDEN and (needed := self._told(PERMISSION_HEADERS)):
            return self._found("bad", what, f"{told}; {needed}", "give the token the permission that is missing")
        if (misfit := self._misfit()) is not None:
            return self._found("bad", what, told, MISFIT_HINTS[misfit])
        reply = self._source.reply
        if reason is GapReason.FORBIDDEN and isinstance(reply, Reply) and is_of_request(reply.status):
            return self._found("bad", what, told, f"it answers {reply.status}: {REQUEST_HINT}")
        return self._found("bad", what, told, HINTS.get(reason) or hint)

    def _misfit(self) -> Misfit | None:
        """Whether the address begins with http where it should begin with https, or the other way round."""
        match self._source.reply:
            case NoReply(misfit=misfit):
                return misfit
            case Reply(status=400, body=body) if any(words in body for words in WANTS_TLS):
                return Misfit.ONLY_TLS
            case _:
                return None

    def _moved(self) -> str:
        """Where the redirect leads, without what may be secret in it."""
        location = self._source.reply.headers.get("location", "") if isinstance(self._source.reply, Reply) else ""
        shown = shown_location(location)
        return f"moved to {shown}" if shown else "moved, and does not say where to"

    def _not_asked(self, what: str = "reachable") -> Finding:
        wait_ns = self._governor.state().next_in_ns
        told = f"not asked: the next request may leave in {format_duration(wait_ns)}"
        return self._found("warning", what, told, "ask again then; see remora status")

    def _found(self, verdict: Judged, what: str, told: str, hint: str | None = None) -> Finding:
        return Finding(verdict, f"{self._name}: {what}", told, hint)
