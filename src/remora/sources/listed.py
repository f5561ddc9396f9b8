"""How is a source with a list and one detail per entry read? As its owner declared it, without code."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

import msgspec
import structlog

from remora.contracts import Permit, Transport
from remora.core.item import (
    Batch,
    Decoded,
    Document,
    Entry,
    Nothing,
    Order,
    Page,
    Piece,
    Readable,
    Unreadable,
    WrongShape,
)
from remora.core.ledger.discovery import Discovery, Kind, fingerprint
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.sources.address import quoted
from remora.sources.detail_settings import KEY, KEYS, DetailSettings, capabilities_of, entry_fields
from remora.sources.early_end import goes_on
from remora.sources.entry_keys import unusable_keys
from remora.sources.fan_out import Parents, compound, split_key
from remora.sources.json_path import (
    NOT_THERE,
    as_key,
    as_mark,
    find,
    holds_more_than,
    is_plainly_empty,
    load,
    raw_lines,
    why_unreadable,
    without_guard,
)
from remora.sources.json_shape import entries_elsewhere
from remora.sources.list_scope import WHOLE, Part, first_part, next_part, part_in_words, position_of, split_position
from remora.sources.page_steps import behind_page, page_before, page_in_words
from remora.sources.paging import (
    FIRST,
    ListSettings,
    NoNextPage,
    PageRead,
    Paging,
    Request,
    begins_again,
    missing_is_end,
    next_position,
    page_request,
    proves_an_end,
    resume_position,
    shared_with_last,
)
from remora.sources.parts import as_text as step_as_text
from remora.sources.parts import first_step, from_text, lines_of, request_of
from remora.sources.request_body import filled
from remora.sources.secret import Secret

__all__ = ["DetailSettings", "ListSettings", "Listed", "ListedSettings", "Order", "Paging", "Secret"]

# What one page may hold. Providers give up to about a thousand entries of a few dozen values each. Decoding this much takes
# 0.4 s of one core, so a stop signal is still handled in time.
PAGE_ENTRIES_MAX: Final = 10_000
PAGE_VALUES_MAX: Final = 500_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ListedSettings:
    """One listed source. Its repr shows no secrets."""

    url: str
    list: ListSettings = field(default_factory=ListSettings)
    detail: DetailSettings = field(default_factory=DetailSettings)
    each: str | None = None  # the source whose entries the list is walked for
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: Secret | None = field(default=None, repr=False)
    secret_param: str = ""  # the query parameter that carries the secret; a link may repeat it
    ends: tuple[str, ...] = ()  # the rules that tell the end of the list


class Listed:
    """`contracts.Source` for a list of entries and one detail request per entry."""

    def __init__(self, transport: Transport, settings: ListedSettings, *, name: str) -> None:
        self._transport = transport
        self._name = name
        self._url = settings.url.rstrip("/")
        self._list = settings.list
        self._detail = settings.detail
        self._each = settings.each
        self.capabilities = capabilities_of(self._list, self._detail, self._each, url=self._url, ends=settings.ends)
        self._parents = Parents(entry_fields(settings.list, settings.detail))
        self._secret_param = settings.secret_param
        self._now_s = 0  # when the last walk began
        self._headers = dict(settings.headers)
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token.reveal()}"
        has_type = any(name.lower() == "content-type" for name in self._headers)
        self._headers_of_posts = self._headers if has_type else {"Content-Type": "application/json", **self._headers}

    @property
    def name(self) -> str:
        """The source's name in the ledger."""
        return self._name

    def first_position(self, watermark: str | None, *, now_wall_ns: int) -> str:
        """Where a walk begins that knows everything up to this mark."""
        self._now_s = now_wall_ns // SECOND_NS
        if self._each is not None and (each := self._parents.first()) is not None:
            return position_of(self._first_part_of(each, is_rest=watermark is not None), FIRST)
        return position_of(first_part(self._list.since, self._list.window, watermark, now_s=self._now_s), FIRST)

    def _first_part_of(self, each: str, *, is_rest: bool) -> Part:
        """Where a walk begins the list of one entry. One that was never read whole is asked for from its beginning."""
        watermark = self._parents.watermark(each) if is_rest else None
        part = first_part(self._list.since, self._list.window, watermark, now_s=self._now_s)
        return replace(part, is_rest=is_rest, each=each)

    def ended_at(self, position: str) -> Page:
        """The empty page for an end at this position."""
        part, inside = self._split(position)
        further = self._next_part(part)
        following = None if further is None else position_of(further, FIRST)
        begins, end_s = inside == FIRST and part != WHOLE, part.end_s
        return Page((), following, resume_at=following, begins_part=begins, is_rest=part.is_rest, covers_before_s=end_s)

    def take_parents(self, documents: Iterable[tuple[str, bytes, bool]]) -> int:
        """The entries of the other source. How many of them lack a field that an address needs."""
        return self._parents.take(documents)

    def has_parents(self) -> bool:
        """Whether there is an entry to walk the list for."""
        return self._parents.first() is not None

    def take_watermark(self, parent: str, watermark: str) -> None:
        """The list of this entry was read whole, up to this mark."""
        self._parents.take_watermark(parent, watermark)

    def parent_at(self, position: str) -> str | None:
        """The entry of the other source whose list this position is in."""
        return self._split(position)[0].each

    def known_at(self, position: str) -> str | None:
        """The watermark of the list of one entry; None if the walk must read everything."""
        part = self._split(position)[0]
        return self._parents.watermark(part.each) if part.is_rest and part.each is not None else None

    def asked_with(self, key: str) -> str:
        """The entry that a document belongs to: a request asks for documents of one entry."""
        return self._own_key(key)[0] or ""

    def _next_part(self, part: Part) -> Part | None:
        further = next_part(self._list.window, part)
        if part.each is None or further is not None:
            return further
        each = self._parents.after(part.each)
        return None if each is None else self._first_part_of(each, is_rest=part.is_rest)

    def _list_of(self, part: Part) -> ListSettings:
        """The list of a part: the declared one, with an address of its own for each entry of another source."""
        if part.each is None:
            return self._list
        return msgspec.structs.replace(self._list, path=self._parents.path(self._list.path, part.each))

    def _page_request(self, part: Part, inside: str) -> Request:
        of_entry = None if part.each is None else self._parents.values(part.each)
        return page_request(self._list_of(part), self._url, inside, part, of_entry=of_entry)

    def position_behind(self, position: str) -> str | None:
        """Where the list goes on behind a page that cannot be read."""
        part, inside = self._split(position)
        behind = None if part.each is not None and inside == FIRST else behind_page(self._list, inside)
        return self.ended_at(position).next_position if behind is None else position_of(part, behind)

    def position_before(self, position: str) -> str | None:
        """About one page before this position."""
        part, inside = self._split(position)
        before = page_before(self._list, inside)
        return None if before is None else position_of(part, before)

    def first_of_part(self, position: str) -> str:
        """The first position of the same part of the list, whichever walk asks for it."""
        part = self._split(position)[0]
        since = part.since if part.each is None else None  # the whole list of one entry, whenever it was read last
        return position_of(replace(part, is_rest=False, since=since), FIRST)

    def position_in_words(self, position: str) -> str:
        """Which page this is, for an operator."""
        part, inside = self._split(position)
        if part.each is not None:
            name = fingerprint(self._each or "", part.each)
            return f"{page_in_words(self._list, inside)} of the entry {name} of {self._each}{part_in_words(part)}"
        return page_in_words(self._list, inside) + part_in_words(part)

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        """One request for one page or one detail."""
        request = self._request(discovery)
        if request.body is None:
            return await self._transport.get(request.url, permit, headers=self._headers)
        return await self._transport.post(request.url, permit, request.body, headers=self._headers_of_posts)

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        """What the reply holds."""
        if (body := without_guard(reply.body)) is not reply.body:
            reply = msgspec.structs.replace(reply, body=body)
        if discovery.kind is Kind.PAGE and holds_more_than(reply.body, PAGE_VALUES_MAX):
            return self._too_much(f"more than {PAGE_VALUES_MAX:,} values on one page")
        try:
            value = load(reply.body)
            match discovery.kind:
                case _ if value is None:
                    return Nothing()
                case Kind.PAGE:
                    bodies = raw_lines(reply.body, self._list.entries) if self._detail.inline else None
                    return self._page(discovery.key, value, reply.headers, bodies)
                case Kind.DOCUMENT if discovery.piece:
                    return self._part(discovery, value, reply)
                case Kind.DOCUMENT if self._detail.batch > 1:
                    return self._batch(discovery, value, reply.body)
                case Kind.DOCUMENT:
                    return self._document(discovery, value, reply)
                case Kind.ITEM | Kind.USER | Kind.NEWEST | Kind.UNREAD_PAGE:
                    raise AssertionError(f"a listed source has no {discovery.kind}")
        except RecursionError:
            return WrongShape("nested too deep")
        except ValueError as error:
            return Unreadable(why_unreadable(reply.body, error))

    def _request(self, discovery: Discovery) -> Request:
        match discovery.kind:
            case Kind.PAGE:
                return self._page_request(*self._split(discovery.key))
            case Kind.DOCUMENT if discovery.piece:
                return self._piece_request(discovery)
            case Kind.DOCUMENT:
                parent, own = self._own_key(discovery.key)
                further = (self._own_key(key)[1] for key in discovery.further_keys)
                keys = quote(self._detail.separator).join(quoted(key) for key in (own, *further))
                path = self._of_entry(self._detail.path, parent).replace(KEYS, keys).replace(KEY, quoted(own))
                values = {"key": own, **(self._parents.values(parent) if parent is not None else {})}
                body = self._detail.body
                return Request(f"{self._url}{path}", None if body is None else filled(body, values))
            case Kind.ITEM | Kind.USER | Kind.NEWEST | Kind.UNREAD_PAGE:
                raise AssertionError(f"a listed source has no {discovery.kind}")

    def _piece_request(self, discovery: Discovery) -> Request:
        parent, own = self._own_key(discovery.key)
        parts = tuple(
            msgspec.structs.replace(part, path=self._of_entry(part.path, parent)) for part in self._detail.parts
        )
        path = self._of_entry(self._detail.path, parent)
        return request_of(parts, from_text(discovery.piece), self._url, own, path)

    def _own_key(self, key: str) -> tuple[str | None, str]:
        """The entry that a document belongs to, and the document's own key."""
        return (None, key) if self._each is None else split_key(key)

    def _of_entry(self, path: str, parent: str | None) -> str:
        return path if parent is None else self._parents.path(path, parent)

    def _split(self, position: str) -> tuple[Part, str]:
        """The part of the list, and the page inside it."""
        has_parts = self._list.since is not None or self._list.window is not None or self._each is not None
        return split_position(position) if has_parts else (WHOLE, position)

    def _page(
        self, position: str, value: object, headers: Mapping[str, str], bodies: Sequence[bytes] | None
    ) -> Decoded:
        lines = find(value, self._list.entries)
        if lines is NOT_THERE and is_plainly_empty(value):
            lines = []
        if not isinstance(lines, list):
            # Not an empty page: an error sent as a success must not look like the end of the list.
            elsewhere = entries_elsewhere(value, self._list.entries) if self._split(position)[1] == FIRST else None
            return WrongShape("no entries") if elsewhere is None else Readable(Page((), None, contradicts=elsewhere))
        if len(lines) > PAGE_ENTRIES_MAX:
            return self._too_much(f"{len(lines):,} entries on one page, of which at most {PAGE_ENTRIES_MAX:,} are read")
        if bodies is not None and lines and len(bodies) != len(lines):
            return WrongShape("entries that cannot be taken apart")
        part, inside = self._split(position)
        read = [self._entry(line, bodies[at] if bodies else None, part) for at, line in enumerate(lines)]
        entries = tuple(entry for entry in read if entry is not None)
        page = PageRead(value, lines, headers, self._page_request(part, inside).url, self._secret_param)
        begins_part, shared = inside == FIRST and part != WHOLE, shared_with_last(self._list, inside)
        if entries and proves_an_end(self._list, inside):
            shared = 1  # the list moved: only a known entry could prove that none was skipped
        following, contradicts, since = None, None, self._list.since
        try:
            following = next_position(self._list, inside, page)
        except NoNextPage as odd:
            contradicts = str(odd)
        unusable = unusable_keys(lines, self._list.key) if len(entries) < len(lines) else ""
        if len(lines) > 1 and not entries and inside == FIRST:
            contradicts = f"{unusable}; check list.key"
        resume_at, missing = resume_position(self._list, inside, following), missing_is_end(self._list, following)
        resume_at = FIRST if begins_again(self._list, part) else resume_at
        further = self._next_part(part) if following is None and contradicts is None else None
        if further is not None:
            part, following, resume_at = further, FIRST, FIRST
        return Readable(
            Page(
                entries,
                None if following is None else position_of(part, following),
                unreadable=len(lines) - len(entries),
                why_unreadable=unusable,
                shared=shared,
                resume_at=None if resume_at is None else position_of(part, resume_at),
                order=self._list.order if self._list.mark_at else None,
                mark_at=self._list.mark_at,
                contradicts=contradicts,
                missing_is_end=missing,
                begins_part=begins_part,
                is_rest=part.is_rest,
                lacks_newest=begins_part and not lines and since is not None and since.shows_newest(part),
                covers_before_s=part.end_s,
                goes_on=not lines and goes_on(self._list, value),
            )
        )

    def _too_much(self, why: str) -> WrongShape:
        """A page too large to decode within bounds. The owner decides what to do."""
        log.warning("page_too_large", source=self._name, why=why, hint="write a smaller list.page_size")
        return WrongShape(why)

    def _entry(self, line: object, body: bytes | None, part: Part) -> Entry | None:
        if (key := as_key(find(line, self._list.key))) is None:
            return None
        key = key if part.each is None else compound(part.each, key)
        updated_at = as_mark(find(line, self._list.updated)) if self._list.updated else None
        created_at = as_mark(find(line, self._list.created)) if self._list.created else None
        return Entry(key, updated_at, created_at, body)

    def _batch(self, discovery: Discovery, value: object, body: bytes) -> Decoded:
        found = find(value, self._detail.entries)
        if found is NOT_THERE and is_plainly_empty(value):
            found = []
        bodies = raw_lines(body, self._detail.entries)
        if not isinstance(found, list) or len(bodies) != len(found):
            return WrongShape("no documents")
        asked = {self._own_key(key)[1]: key for key in (discovery.key, *discovery.further_keys)}
        documents: dict[str, Document] = {}
        for line, raw in zip(found, bodies, strict=True):
            own = as_key(find(line, self._detail.key or ""))
            if own is not None and (key := asked.get(own)) is not None:
                documents[key] = Document(key, raw, self._mark(line))
        if discovery.further_keys:
            return Readable(Batch(tuple(documents.values())))
        return Readable(documents[discovery.key]) if documents else Nothing()

    def _mark(self, value: object) -> str | None:
        return as_mark(find(value, self._detail.updated)) if self._detail.updated is not None else None

    def _document(self, discovery: Discovery, value: object, reply: Reply) -> Decoded:
        key, body = discovery.key, reply.body
        if not isinstance(value, dict | list):
            return WrongShape("not a document")
        if self._detail.key is not None and as_key(find(value, self._detail.key)) != self._own_key(key)[1]:
            return WrongShape("another key")
        updated_at = self._mark(value)
        if not self._detail.parts:
            return Readable(Document(key, body, updated_at))
        parts, head = self._detail.parts, Piece(key, body, updated_at)
        try:
            step = first_step(parts, value)
        except ValueError as odd:
            return self._odd_part(parts[0].name, str(odd))
        if parts[0].path:
            return Readable(msgspec.structs.replace(head, following=step_as_text(step)))
        shown = self._part(msgspec.structs.replace(discovery, piece=step_as_text(step) or ""), value, reply)
        if not isinstance(shown, Readable) or not isinstance(shown.thing, Piece):
            return shown
        return Readable(msgspec.structs.replace(shown.thing, body=body, updated_at=updated_at))

    def _part(self, discovery: Discovery, value: object, reply: Reply) -> Decoded:
        parts, step = self._detail.parts, from_text(discovery.piece)
        page = PageRead(value, (), reply.headers, self._piece_request(discovery).url, self._secret_param)
        name = parts[step.part].name
        try:
            found = lines_of(parts, step, reply.body, page)
        except NoNextPage as odd:
            return self._odd_part(name, str(odd))
        if found is None:
            return self._odd_part(name, f'there are no lines at "{parts[step.part].entries}"')
        following = step_as_text(found.following)
        return Readable(Piece(discovery.key, b"", None, name, found.lines, found.keys, found.shared, following))

    def _odd_part(self, part: str, why: str) -> WrongShape:
        log.warning("part_contradicts", source=self._name, part=part, why=why)
        return WrongShape(why)
