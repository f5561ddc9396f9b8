"""Is an archive read as its owner declared it? All four ways of paging, odd pages, details, and no token in sight."""

import json
import logging
import pickle
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.contracts import ConnectGate, Permit, Source
from remora.core.errors import ConfigurationError
from remora.core.item import Decoded, Document, Entry, Nothing, Order, Page, Readable, Unreadable, WrongShape
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_walk import joins
from remora.core.verdict import NoReply, Reply
from remora.sources.listed import DetailSettings, Listed, ListedSettings, ListSettings, Paging, Secret
from remora.sources.paging import PageRead, next_position, page_url, proves_an_end, resume_position, shared_with_last
from tests.sources.permits import Gate, OnlyGets
from tests.sources.replies import replied

BASE = "https://archive.example/api"
Answer = tuple[object, dict[str, str]]


class Archive(OnlyGets):
    """A transport that answers from a function and remembers what it was asked for."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self._answer = answer
        self.urls: list[str] = []
        self.headers: list[Mapping[str, str] | None] = []

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.urls.append(url)
        self.headers.append(headers)
        value, answered = self._answer(url)
        return Reply(200, json.dumps(value).encode(), await permit.depart(), 0, answered)

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        raise AssertionError("a listed source has no stream")


def silent(_url: str) -> Answer:
    return None, {}


def source(settings: ListSettings | None = None, detail: DetailSettings | None = None) -> Source:
    declared = ListedSettings(BASE, settings or ListSettings(), detail or DetailSettings())
    return Listed(Archive(silent), declared, name="chats")


def page_at(position: str) -> Discovery:
    return Discovery(Kind.PAGE, position, Lane.WALK)


def document(key: str) -> Discovery:
    return Discovery(Kind.DOCUMENT, key, Lane.DETAIL)


def page_of(decoded: Decoded) -> Page:
    assert isinstance(decoded, Readable)
    assert isinstance(decoded.thing, Page)
    return decoded.thing


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


async def walk(archive: Archive, settings: ListSettings) -> list[str]:
    """The keys of every page, followed to the end; what two pages share is named once."""
    gate, keys, position = Gate(), list[str](), ""
    listed = Listed(archive, ListedSettings(BASE, settings), name="chats")
    for _ in range(20):
        reply = await listed.fetch(page_at(position), gate.permit())
        assert isinstance(reply, Reply)
        decoded = listed.decode(page_at(position), reply)
        assert isinstance(decoded, Readable)
        assert isinstance(decoded.thing, Page)
        shown = [entry.key for entry in decoded.thing.entries]
        assert keys[len(keys) - decoded.thing.shared :] == shown[: decoded.thing.shared]
        keys += shown[decoded.thing.shared :]
        if decoded.thing.next_position is None:
            return keys
        position = decoded.thing.next_position
    raise AssertionError("the walk does not end")


ENTRIES = [{"id": f"c{number}", "update_time": number} for number in range(25, 0, -1)]
KEYS = [str(entry["id"]) for entry in ENTRIES]


async def test_offsets_are_walked_to_the_empty_page_even_if_the_server_caps_its_pages() -> None:
    def capped(url: str) -> Answer:
        offset = int(query(url)["offset"])
        return {"items": ENTRIES[offset : offset + 7]}, {}

    archive = Archive(capped)
    assert await walk(archive, ListSettings(page_size=100)) == KEYS
    assert [query(url)["offset"] for url in archive.urls] == ["0", "5", "10", "15", "20", "23", "25"]
    assert archive.urls[0] == f"{BASE}/list?offset=0&limit=100"


async def test_pages_by_offset_share_some_entries_so_that_a_gap_between_them_shows() -> None:
    def long(url: str) -> Answer:
        offset = int(query(url)["offset"])
        return {"items": [{"id": number} for number in range(1_000)][offset : offset + 100]}, {}

    archive = Archive(long)
    assert len(await walk(archive, ListSettings())) == 1_000
    assert [query(url)["offset"] for url in archive.urls[:3]] == ["0", "94", "188"]
    assert len(archive.urls) == 13


def test_a_page_that_only_confirms_the_end_proves_nothing_after_an_interruption() -> None:
    settings = ListSettings()
    assert resume_position(settings, "192-2", "200-2") == "200-2"
    assert resume_position(settings, "192-2", "194-0") is None
    assert [proves_an_end(settings, at) for at in ("194-0", "194-2", "194", "")] == [True, False, False, False]


@given(st.text("0123456789-", max_size=30))
def test_any_text_is_a_position_by_offset_and_never_a_negative_one(position: str) -> None:
    url = page_url(ListSettings(), BASE, position)
    assert int(query(url)["offset"]) >= 0


@given(st.integers(1, 60), st.integers(1, 12), st.data())
def test_pages_by_offset_that_join_skip_nothing_whatever_vanishes_between_them(
    entries: int, size: int, data: st.DataObject
) -> None:
    settings, position, seen = ListSettings(page_size=size), "", set[str]()
    listing = [f"c{number}" for number in range(entries)]
    for _ in range(4 * entries + 4):
        offset = int(query(page_url(settings, BASE, position))["offset"])
        shown = listing[offset : offset + size]
        page = Page(tuple(Entry(key, None) for key in shown), "", shared=shared_with_last(settings, position))
        if not joins(page, seen):
            return  # the walk steps back
        seen.update(shown)
        following = next_position(settings, position, PageRead({}, list(shown), {}, ""))
        if following is None:
            break
        position = following
        if size > 1 and listing:  # single entries cannot overlap
            lost = data.draw(st.sets(st.sampled_from(listing), max_size=3))
            listing = [key for key in listing if key not in lost]
    assert set(listing) <= seen


async def test_a_page_of_one_entry_goes_on_to_the_next() -> None:
    def single(url: str) -> Answer:
        offset = int(query(url)["offset"])
        return {"items": ENTRIES[:3][offset : offset + 1]}, {}

    assert await walk(Archive(single), ListSettings(page_size=1)) == KEYS[:3]


async def test_a_total_saves_the_question_after_the_last_entry() -> None:
    def with_total(url: str) -> Answer:
        offset = int(query(url)["skip"])
        return {"data": {"rows": ENTRIES[offset : offset + 10]}, "meta": {"total": 25}}, {}

    archive = Archive(with_total)
    settings = ListSettings(page_size=10, entries="data.rows", total="meta.total", offset_param="skip")
    assert await walk(archive, settings) == KEYS
    assert len(archive.urls) == 3


async def test_numbered_pages_are_walked_to_the_empty_page() -> None:
    def numbered(url: str) -> Answer:
        page = int(query(url)["p"])
        return ENTRIES[page * 10 : page * 10 + 10], {}

    settings = ListSettings(
        path="/list?order=updated",
        paging=Paging.PAGE,
        page_size=10,
        entries=".",
        page_param="p",
        first_page=0,
        size_param="",
    )
    archive = Archive(numbered)
    assert await walk(archive, settings) == KEYS
    assert archive.urls[0] == f"{BASE}/list?order=updated&p=0"
    assert len(archive.urls) == 4


@pytest.mark.parametrize("end", [None, "", False])
async def test_cursors_are_followed_until_there_is_none(end: object) -> None:
    def by_cursor(url: str) -> Answer:
        start = int(query(url).get("after", "x/0&").strip("x/&"))
        following = f"x/{start + 10}&" if start + 10 < len(ENTRIES) else end
        return {"items": ENTRIES[start : start + 10], "page": {"next": following}}, {}

    settings = ListSettings(paging=Paging.CURSOR, page_size=10, cursor_param="after", next_cursor="page.next")
    archive = Archive(by_cursor)
    assert await walk(archive, settings) == KEYS
    assert archive.urls[1] == f"{BASE}/list?after=x%2F10%26&limit=10"


async def test_links_are_followed_within_the_origin() -> None:
    def linked(url: str) -> Answer:
        start = int(query(url).get("start", "0"))
        link = f'<{BASE}/list?start=0>; rel="first", </api/list?start={start + 10}&q=%2F>; title="a, b"; rel="next"'
        return {"items": ENTRIES[start : start + 10]}, {"link": link} if start + 10 < len(ENTRIES) else {}

    archive = Archive(linked)
    assert await walk(archive, ListSettings(paging=Paging.LINK, page_size=10)) == KEYS
    assert archive.urls[:2] == [f"{BASE}/list?limit=10", f"{BASE}/list?start=10&q=%2F"]


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/api/list",
        "http://archive.example/api/list",
        "https://archive.example:444/api/list",
        "https://archive.example.evil.example/x",
        "https://archive.example@evil.example/x",
        "//evil.example/x",
        "https://archive.example//evil.example/x",
        "javascript:1",
        "https://user@archive.example/x",
        "",
    ],
)
def test_a_link_that_leads_elsewhere_or_in_a_circle_is_refused(target: str) -> None:
    reply = replied(b'{"items":[{"id":1,"update_time":1}]}', link=f'<{target}>; rel="next"')
    page = page_of(source(ListSettings(paging=Paging.LINK)).decode(page_at(""), reply))
    assert page.next_position is None
    assert page.contradicts is not None
    assert "the Link header leads to" in page.contradicts


@pytest.mark.parametrize("position", ["//evil.example/x", "https://evil.example/", "@evil.example", "/a b", "x"])
async def test_a_position_that_is_no_path_asks_for_the_first_page(position: str) -> None:
    archive = Archive(silent)
    listed = Listed(archive, ListedSettings(BASE, ListSettings(paging=Paging.LINK)), name="chats")
    await listed.fetch(page_at(position), Gate().permit())
    assert archive.urls == [f"{BASE}/list?limit=100"]


def test_more_says_whether_the_list_ended() -> None:
    settings = ListSettings(more="has_more")
    ended, going_on = (
        source(settings).decode(page_at(""), replied(json.dumps({"items": ENTRIES[:24], "has_more": more}).encode()))
        for more in (False, True)
    )
    assert isinstance(ended, Readable)
    assert isinstance(going_on, Readable)
    assert isinstance(ended.thing, Page)
    assert isinstance(going_on.thing, Page)
    assert (ended.thing.next_position, going_on.thing.next_position) == (None, "24-3")


def test_keys_and_marks_are_read_as_they_came() -> None:
    lines = b"""{"items": [
        {"id": "a", "update_time": 1700000000.120}, {"id": 7, "update_time": "2026-01-02T03:04:05Z"},
        {"id": "b"}, {"id": "c", "update_time": null}, {"id": "d", "update_time": true},
        {"id": "e", "update_time": 1e99999999999999999999}]}"""
    decoded = source().decode(page_at("100"), replied(lines))
    assert decoded == Readable(
        Page(
            entries=(
                Entry("a", "1700000000.120"),
                Entry("7", "2026-01-02T03:04:05Z"),
                *(Entry(key, None) for key in "bcd"),
                Entry("e", "Infinity"),
            ),
            next_position="106-2",
            resume_at="106-2",
            order=Order.UPDATED,
            mark_at="update_time",
        )
    )


def test_entries_without_a_usable_key_are_counted_and_the_others_are_kept() -> None:
    lines = [{"id": "a"}, {}, {"id": None}, {"id": ""}, {"id": True}, {"id": [1]}, "text", None, {"id": "x" * 600}]
    decoded = source().decode(page_at(""), replied(json.dumps({"items": lines}).encode()))
    page = page_of(decoded)
    assert (page.entries, page.next_position, page.unreadable) == ((Entry("a", None),), "9-2", 8)


@pytest.mark.parametrize(
    "body, decoded",
    [
        (b"null", Nothing()),
        (b'{"items":', Unreadable("not JSON")),
        (b'{"items":[NaN]}', Unreadable("not JSON")),
        (b"\xff", Unreadable("not UTF-8")),
        (b"[" * 100_000, WrongShape("nested too deep")),
        (b'{"error":"try later"}', WrongShape("no entries")),
        (b'{"items":null}', WrongShape("no entries")),
        (b'{"items":{"a":1}}', WrongShape("no entries")),
        (b"[]", WrongShape("no entries")),
    ],
)
def test_what_is_no_page_is_never_the_end_of_the_list(body: bytes, decoded: Decoded) -> None:
    assert source().decode(page_at(""), replied(body)) == decoded


@pytest.mark.parametrize(
    "key, step",
    [("a", "a"), ("a/b?c#d", "a%2Fb%3Fc%23d"), ("..", "%2E%2E"), (".", "%2E"), ("é", "%C3%A9"), ("a.b", "a.b")],
)
async def test_a_key_is_one_step_of_the_details_address(key: str, step: str) -> None:
    archive = Archive(silent)
    await Listed(archive, ListedSettings(f"{BASE}/"), name="chats").fetch(document(key), Gate().permit())
    assert archive.urls == [f"{BASE}/detail/{step}"]


def test_a_document_is_kept_as_it_came_with_its_mark() -> None:
    body = b'{"conversation": {"id": 7, "updated": 12.50}}'
    plain = source().decode(document("7"), replied(body))
    named = source(detail=DetailSettings(key="conversation.id", updated="conversation.updated"))
    assert plain == Readable(Document("7", body))
    assert named.decode(document("7"), replied(body)) == Readable(Document("7", body, "12.50"))
    assert named.decode(document("8"), replied(body)) == WrongShape("another key")


@pytest.mark.parametrize(
    "body, decoded",
    [(b"null", Nothing()), (b"7", WrongShape("not a document")), (b'{"a"', Unreadable("not JSON"))],
)
def test_what_is_no_document_is_said_so(body: bytes, decoded: Decoded) -> None:
    assert source().decode(document("7"), replied(body)) == decoded


async def test_headers_and_token_are_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = ListedSettings(BASE, headers={"X-Account": "canary-account"}, token=Secret("canary-token"))
    archive = Archive(silent)
    listed = Listed(archive, settings, name="chats")
    await listed.fetch(page_at(""), Gate().permit())
    assert archive.headers == [{"X-Account": "canary-account", "Authorization": "Bearer canary-token"}]
    shown = f"{settings!r} {settings} {listed!r} {settings.token} {settings.token!r} {settings.token:>20}"
    assert "canary" not in shown + caplog.text


def test_a_secret_cannot_be_written_away() -> None:
    with pytest.raises(TypeError, match="not written"):
        pickle.dumps(Secret("canary"))


@pytest.mark.parametrize("path", ["list", "//evil.example/", "", "/a b", "/a\n", "/a#b", "https://evil.example/"])
def test_a_path_that_leads_out_of_the_source_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"list\.path"):
        ListSettings(path=path)
    with pytest.raises(ConfigurationError, match=r"detail\.path"):
        DetailSettings(path=path)


def test_a_detail_path_needs_a_place_for_the_key() -> None:
    with pytest.raises(ConfigurationError, match=r"write \{key\}"):
        DetailSettings(path="/detail")


def test_the_settings_have_the_shape_of_the_file() -> None:
    written = {"path": "/list", "paging": "offset", "page_size": 100, "entries": "items", "key": "id"}
    assert msgspec.convert({**written, "updated": "update_time"}, ListSettings) == ListSettings()
    assert msgspec.convert({"path": "/detail/{key}"}, DetailSettings) == DetailSettings()
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"paging": "sideways"}, ListSettings)


@given(st.sampled_from(list(Paging)), st.text(max_size=20), st.binary(max_size=80))
def test_no_page_and_no_position_raises(paging: Paging, position: str, body: bytes) -> None:
    decoded = source(ListSettings(paging=paging)).decode(page_at(position), replied(body))
    assert isinstance(decoded, Readable | Nothing | Unreadable | WrongShape)


@given(st.sampled_from(list(Paging)), st.text(max_size=30))
async def test_no_position_leads_out_of_the_origin(paging: Paging, position: str) -> None:
    archive = Archive(silent)
    listed = Listed(archive, ListedSettings(BASE, ListSettings(paging=paging)), name="chats")
    await listed.fetch(page_at(position), Gate().permit())
    assert archive.urls[0].startswith("https://archive.example/")
    assert archive.urls[0].isascii()
    assert archive.urls[0].isprintable()


@given(st.text(st.sampled_from('<>;,="/: .@?#relnxthps\\\t'), max_size=60))
def test_no_link_header_leads_out_of_the_origin(link: str) -> None:
    decoded = source(ListSettings(paging=Paging.LINK)).decode(page_at(""), replied(b'{"items":[]}', link=link))
    if isinstance(decoded, Readable):
        assert isinstance(decoded.thing, Page)
        following = decoded.thing.next_position
        assert following is None or (following.startswith("/") and not following.startswith("//"))
