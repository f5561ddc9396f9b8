"""Is the end of a list told from a page that only looks like one?"""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from remora.core.errors import ConfigurationError
from remora.sources.address import within_origin
from remora.sources.json_path import CURSOR_MAX_CHARACTERS
from remora.sources.listed import ListSettings, Paging
from tests.sources.replies import replied
from tests.sources.test_listed import BASE, ENTRIES, KEYS, Answer, Archive, page_at, page_of, query, source, walk


@pytest.mark.parametrize(
    "body, told",
    [
        ({"items": ENTRIES, "next_cursor": "abc"}, "leads to this page again"),
        ({"items": [], "next_cursor": {}}, "is no text and no number"),
        (
            {"items": ENTRIES, "next_cursor": None, "has_more": True},
            '"has_more" is true, but the page names no next page',
        ),
        ({"items": ENTRIES, "has_more": True}, '"has_more" is true, but the page names no next page'),
    ],
)
def test_a_page_that_does_not_say_where_the_list_goes_on_is_told_as_a_contradiction(body: object, told: str) -> None:
    listed = source(ListSettings(paging=Paging.CURSOR, more="has_more"))
    page = page_of(listed.decode(page_at("abc"), replied(json.dumps(body).encode())))
    assert page.next_position is None
    assert told in (page.contradicts or "")


@pytest.mark.parametrize(
    "body, told",
    [
        ({"items": ENTRIES, "nextPageToken": "t"}, 'write next_cursor = "nextPageToken" if that is it'),
        ({"items": ENTRIES, "meta": {"next_cursor": "t"}}, 'write next_cursor = "meta.next_cursor" if that is it'),
        ({"items": ENTRIES, "@odata.nextLink": "t"}, """write next_cursor = '"@odata.nextLink"' if that is it"""),
        ({"items": ENTRIES, "m.x": {"next-token": "t"}}, """write next_cursor = '"m.x"."next-token"' if that is it"""),
        (
            {"items": ENTRIES, "paging": {"next": {"after": "t"}}},
            'write next_cursor = "paging.next.after" if that is it',
        ),
        (
            {"items": ENTRIES, "data": {"issues": {"pageInfo": {"startCursor": "s", "endCursor": "t"}}}},
            'write next_cursor = "data.issues.pageInfo.endCursor" if that is it',
        ),
        ({"items": ENTRIES, "next": f"{BASE}/list?p=2"}, 'write paging = "next" and next = "next" if that is it'),
    ],
)
def test_a_cursor_path_that_matches_nothing_is_noticed_on_the_first_page(body: object, told: str) -> None:
    page = page_of(source(ListSettings(paging=Paging.CURSOR)).decode(page_at(""), replied(json.dumps(body).encode())))
    assert told in (page.contradicts or "")


@pytest.mark.parametrize(
    "paging, value, told",
    [
        (Paging.LINK, "/v1/list.json?Page=1&PageToken=PA", 'write paging = "next" and next = "next_uri" if that is it'),
        (Paging.LINK, "/v1/query/01g-2000", 'write paging = "next" and next = "next_uri" if that is it'),
        (Paging.LINK, "cGFnZQ==", 'write paging = "cursor" and next_cursor = "next_uri" if that is it'),
        (Paging.NEXT, "?page=2", 'write next = "next_uri" if that is it'),
        (Paging.NEXT, 2, 'write paging = "cursor" and next_cursor = "next_uri" if that is it'),
    ],
)
def test_what_is_said_to_write_fits_what_the_field_holds(paging: Paging, value: object, told: str) -> None:
    body = json.dumps({"items": ENTRIES, "next_uri": value}).encode()
    page = page_of(source(ListSettings(paging=paging)).decode(page_at(""), replied(body)))
    assert told in (page.contradicts or "")


@pytest.mark.parametrize(
    "fields",
    [{"prev_cursor": "t"}, {"paging": {"cursors": {"before": "t"}}}, {"a": {"next_review": {"by": {"name": "t"}}}}],
)
def test_a_field_that_leads_back_or_elsewhere_does_not_make_a_short_list_doubtful(fields: dict[str, object]) -> None:
    body = json.dumps({"items": ENTRIES, **fields}).encode()
    page = page_of(source(ListSettings(paging=Paging.CURSOR)).decode(page_at(""), replied(body)))
    assert (page.contradicts, page.next_position) == (None, None)


def test_what_is_said_to_write_for_a_name_with_a_dot_can_be_written() -> None:
    body = replied(json.dumps({"data.rows": ENTRIES, "@odata.nextLink": "t"}).encode())
    page = page_of(source(ListSettings(paging=Paging.CURSOR)).decode(page_at(""), body))
    assert """write entries = '"data.rows"' if that is it""" in (page.contradicts or "")
    written = ListSettings(paging=Paging.CURSOR, entries='"data.rows"', next_cursor='"@odata.nextLink"')
    page = page_of(source(written).decode(page_at(""), body))
    assert (len(page.entries), page.next_position, page.contradicts) == (len(ENTRIES), "t", None)


def test_a_full_first_page_that_names_no_next_one_is_asked_for_again_one_entry_shorter() -> None:
    listed, whole = source(ListSettings(paging=Paging.CURSOR, page_size=25)), json.dumps({"items": ENTRIES}).encode()
    full = page_of(listed.decode(page_at(""), replied(whole)))
    assert (full.contradicts, len(full.entries)) == (None, 25)
    assert full.next_position is not None
    again = page_at(full.next_position)

    shorter = json.dumps({"items": ENTRIES[:24], "next_cursor": "abc"}).encode()
    assert page_of(listed.decode(again, replied(shorter))).next_position == "abc", "25 was the whole list by chance"

    hidden = json.dumps({"items": ENTRIES[:24]}).encode()
    told = page_of(listed.decode(again, replied(hidden))).contradicts
    assert (
        told == 'a page of 24 entries names no next page at "next_cursor", but there are more; check list.next_cursor'
    )

    told = page_of(listed.decode(again, replied(whole))).contradicts or ""
    assert "the first page is full (25 entries)" in told, "the provider does not give shorter pages"


def test_an_only_page_that_is_as_long_as_it_was_asked_to_be_may_be_cut() -> None:
    listed = source(ListSettings(paging=Paging.NONE, page_size=25))
    full = page_of(listed.decode(page_at(""), replied(json.dumps({"items": ENTRIES}).encode())))
    assert full.next_position is not None
    again = page_at(full.next_position)

    cut = page_of(listed.decode(again, replied(json.dumps({"items": ENTRIES[:24]}).encode())))
    assert "the only page holds 25 entries, as many as were asked for" in (cut.contradicts or "")

    whole = page_of(listed.decode(again, replied(json.dumps({"items": ENTRIES}).encode())))
    assert (whole.contradicts, whole.next_position) == (None, None), "the provider does not look at the page size"


@pytest.mark.parametrize("settings", [{"page_size": 24}, {"page_size": 26}, {"page_size": 25, "size_param": ""}])
def test_an_only_page_of_another_length_is_the_whole_list(settings: dict[str, Any]) -> None:
    listed = source(ListSettings(paging=Paging.NONE, **settings))
    page = page_of(listed.decode(page_at(""), replied(json.dumps({"items": ENTRIES}).encode())))
    assert (page.contradicts, page.next_position) == (None, None)


def test_a_full_first_page_is_a_contradiction_where_the_page_size_cannot_be_chosen() -> None:
    fixed = source(ListSettings(paging=Paging.CURSOR, page_size=25, size_param=""))
    page = page_of(fixed.decode(page_at(""), replied(json.dumps({"items": ENTRIES}).encode())))
    assert "the first page is full (25 entries) and names no next page" in (page.contradicts or "")


@pytest.mark.parametrize(
    "settings, told",
    [
        (ListSettings(page_size=10, total="told"), 10),
        (ListSettings(page_size=10, total="told"), 13),
        (ListSettings(page_size=100, total="told"), 10),
        (ListSettings(page_size=10, more="told"), False),
        (ListSettings(page_size=100, more="told"), False),
        (ListSettings(page_size=10, end="told"), True),
        (ListSettings(page_size=10, more="told", paging=Paging.PAGE, page_param="offset"), False),
        (ListSettings(page_size=10, more="told", paging=Paging.LAST), False),
    ],
    ids=["count of a page", "stale total", "capped", "more", "capped more", "end", "numbered", "last"],
)
async def test_an_end_that_is_told_on_a_page_that_may_be_cut_is_confirmed_by_the_next_page(
    settings: ListSettings, told: object
) -> None:
    def archive(url: str) -> Answer:
        asked = query(url)
        size = min(10, int(asked["limit"]))
        start = int(asked.get("offset", 0))
        if settings.paging is Paging.PAGE:
            start = (start - 1) * size
        if "starting_after" in asked:
            start = KEYS.index(asked["starting_after"]) + 1
        return {"items": ENTRIES[start : start + size], "told": told}, {}

    assert await walk(Archive(archive), settings) == KEYS


@pytest.mark.parametrize("paging", [Paging.OFFSET, Paging.PAGE, Paging.LAST])
def test_a_filter_is_refused_where_pages_are_counted(paging: Paging) -> None:
    with pytest.raises(ConfigurationError, match="leaves entries out") as refused:
        ListSettings(paging=paging, entries="items[?is_member]")
    assert refused.value.hint is not None
    ListSettings(paging=Paging.CURSOR, entries="items[?is_member]")


@pytest.mark.parametrize(
    "position, body",
    [
        ("", {"items": ENTRIES}),
        ("", {"items": ENTRIES * 4, "next_cursor": None}),
        ("abc", {"items": ENTRIES * 4}),
        ("abc", {"items": [], "next_cursor": "abc"}),
    ],
    ids=["short", "null", "later", "never null"],
)
def test_a_list_may_end_without_a_cursor_or_with_one_that_is_never_null(position: str, body: object) -> None:
    listed = source(ListSettings(paging=Paging.CURSOR))
    page = page_of(listed.decode(page_at(position), replied(json.dumps(body).encode())))
    assert (page.next_position, page.contradicts) == (None, None)


@pytest.mark.parametrize("body", [b"{}", b'{"resultSizeEstimate":0}', b'{"kind":"list","total":0,"next":null}'])
def test_an_empty_list_without_its_key_is_the_end(body: bytes) -> None:
    page = page_of(source().decode(page_at(""), replied(body)))
    assert (page.entries, page.next_position, page.contradicts) == ((), None, None)


async def test_the_number_of_a_page_may_be_a_part_of_the_path() -> None:
    def numbered(url: str) -> Answer:
        page = int(urlsplit(url).path.rpartition("/")[2])
        return {"items": ENTRIES[page * 10 - 10 : page * 10]}, {}

    archive = Archive(numbered)
    settings = ListSettings(path="/list/{page}", paging=Paging.PAGE, page_size=10, size_param="")
    assert await walk(archive, settings) == KEYS
    assert archive.urls[1] == f"{BASE}/list/2"
    with pytest.raises(ConfigurationError, match=r"list\.path holds"):
        ListSettings(path="/list/{page}")


@pytest.mark.parametrize(
    "target, position",
    [
        ("https://Archive.Example/api/list?page=2", "/api/list?page=2"),
        ("https://archive.example:443/api/list?page=2", "/api/list?page=2"),
        ("/api/list?q=ü x&page=2#top", "/api/list?q=%C3%BC%20x&page=2"),
        ("?q=%C3%BC", "/api/list?q=%C3%BC"),
    ],
)
def test_an_address_of_the_same_host_is_followed_however_it_is_written(target: str, position: str) -> None:
    body = json.dumps({"items": ENTRIES, "next": target}).encode()
    page = page_of(source(ListSettings(paging=Paging.NEXT)).decode(page_at(""), replied(body)))
    assert (page.contradicts, page.next_position) == (None, position)


def test_a_host_with_letters_that_are_not_ascii_is_the_same_host() -> None:
    url = "https://bücher.example/api/list"
    assert within_origin(url, f"{url}?page=2") == "/api/list?page=2"
    assert within_origin(url, "?page=2") == "/api/list?page=2"
    assert within_origin(url, "https://bucher.example/api/list?page=2") is None


@pytest.mark.parametrize(
    "target", ["https://archive.example:8443/x", "http://archive.example:443/x", "https://[archive/x"]
)
def test_an_address_of_another_port_or_scheme_is_not_followed(target: str) -> None:
    body = json.dumps({"items": ENTRIES, "next": target}).encode()
    page = page_of(source(ListSettings(paging=Paging.NEXT)).decode(page_at(""), replied(body)))
    assert "another host, port or scheme" in (page.contradicts or "")


@pytest.mark.parametrize(
    "cursor, told",
    [
        ("x" * CURSOR_MAX_CHARACTERS, None),
        ("x" * (CURSOR_MAX_CHARACTERS + 1), "more than 4,096 characters"),
        ("a\nb", "cannot be printed"),
        (1.5, "is no text and no number"),
    ],
)
def test_a_cursor_may_be_longer_than_a_key_and_one_that_cannot_be_sent_is_told(
    cursor: object, told: str | None
) -> None:
    body = json.dumps({"items": ENTRIES, "next_cursor": cursor}).encode()
    page = page_of(source(ListSettings(paging=Paging.CURSOR)).decode(page_at(""), replied(body)))
    assert page.next_position == (cursor if told is None else None)
    assert (told or "") in (page.contradicts or "")


@pytest.mark.parametrize("paging", [Paging.NEXT, Paging.LINK])
@pytest.mark.parametrize("entries", [[], ENTRIES])
def test_an_address_that_leads_to_the_same_page_is_the_end_only_if_the_page_is_empty(
    paging: Paging, entries: list[object]
) -> None:
    here = "/list?after=57"
    reply = replied(json.dumps({"items": entries, "next": here}).encode(), link=f'<{here}>; rel="next"')
    page = page_of(source(ListSettings(paging=paging)).decode(page_at(here), reply))
    assert page.next_position is None
    assert ("leads to this page again" in (page.contradicts or "")) is bool(entries)
