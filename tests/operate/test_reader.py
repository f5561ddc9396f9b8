"""Does the reader show what the mirror holds, and nothing that could act? Its pages over a real socket, without a browser."""

import asyncio
import html
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from remora.operate.console.access import Access
from remora.operate.console.reader import links
from remora.operate.console.reader.rendering import STATIC as READER_STATIC
from remora.operate.console.server import STATIC
from remora.sources.secret import Secret
from tests.library import (
    BROKEN_STORY,
    CHATS,
    DELETED_COMMENT,
    LONG_COMMENTS,
    LONG_STORY,
    NEWS,
    ORPHAN,
    OWED,
    POLL,
    make_library,
    opened_library,
)

# One mirror for all: the pages only read it.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def visitor(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClientSession]:
    url = f"sqlite:///{tmp_path_factory.mktemp('library')}/library.db"
    await make_library(url)
    async with opened_library(url) as console, ClientSession(console.url) as session:
        yield session


async def read(visitor: ClientSession, path: str, *, status: int = 200) -> str:
    async with visitor.get(path) as reply:
        text = await reply.text()
        assert reply.status == status, text
        assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
        return text


@pytest.mark.slow
async def test_the_first_page_lists_the_sources_and_each_leads_on(visitor: ClientSession) -> None:
    text = await read(visitor, "/read")
    assert links.view(NEWS).removeprefix("/") in text
    assert links.view(CHATS).removeprefix("/") in text
    assert "How to read a tide table" in await read(visitor, links.view(CHATS))


async def test_top_of_a_day_is_sorted_by_score_and_new_by_time(visitor: ClientSession) -> None:
    top = await read(visitor, links.view(NEWS, "top"))
    assert top.index("A very long discussion") < top.index("A story with breaks")
    assert "earlier: " in top
    new = await read(visitor, links.view(NEWS, "new"))
    assert 'rel="next"' in new
    more = await read(visitor, links.view(NEWS, "new", skip=30))
    assert 'start="31"' in more


@pytest.mark.parametrize("view, words, other", [("ask", "Ask HN: ", "Show HN: "), ("show", "Show HN: ", "Ask HN: ")])
@pytest.mark.slow
async def test_ask_and_show_are_found_by_their_title(visitor: ClientSession, view: str, words: str, other: str) -> None:
    text = await read(visitor, links.view(NEWS, view))
    assert words in text
    assert other not in text


@pytest.mark.slow
async def test_a_thread_of_two_thousand_comments_is_whole_and_linked(visitor: ClientSession) -> None:
    text = await read(visitor, links.item(NEWS, LONG_STORY))
    assert text.count("<details open class=") == LONG_COMMENTS
    assert text.count("<details") == text.count("</details>")
    assert f'id="c{LONG_STORY + LONG_COMMENTS}"' in text


@pytest.mark.slow
async def test_breaks_are_shown_where_they_are(visitor: ClientSession) -> None:
    story = await read(visitor, links.item(NEWS, BROKEN_STORY))
    assert "19 is named as a reply here, but is not in the mirror" in story
    assert f'{links.item(NEWS, ORPHAN)}">{ORPHAN}</a> is named as a reply here, but names another parent' in story
    assert "Its parent 14 is not in the mirror: this comment is outside its story" in await read(
        visitor, links.item(NEWS, ORPHAN)
    )
    assert "the thread has a cycle" in await read(visitor, links.item(NEWS, 16))


async def test_a_poll_has_its_options_and_names_those_that_are_missing(visitor: ClientSession) -> None:
    text = await read(visitor, links.item(NEWS, POLL))
    assert "<li>1 point · Bowline</li><li>Reef knot</li>" in text  # no score was sent: none is shown
    assert f"{POLL + 3} is an option of this poll, but is not in the mirror" in text


async def test_a_comment_names_its_story_and_its_place_in_it(visitor: ClientSession) -> None:
    text = await read(visitor, links.item(NEWS, 11))
    assert f'{links.item(NEWS, BROKEN_STORY)}#c11">A story with breaks' in text


async def test_what_was_deleted_upstream_is_in_the_history(visitor: ClientSession) -> None:
    assert "what it said" in await read(visitor, links.item(NEWS, BROKEN_STORY))
    text = await read(visitor, links.item_history(NEWS, DELETED_COMMENT))
    assert "<del>The words that were deleted later.</del>" in text
    edited = await read(visitor, links.item_history(NEWS, 18))
    assert "<del>red</del><ins>blue</ins>" in edited


async def test_an_author_has_a_profile_submissions_and_comments(visitor: ClientSession) -> None:
    text = await read(visitor, links.user(NEWS, "ada"))
    assert "karma: 1234" in text
    assert "created: 2006-10-09" in text
    assert "A very long discussion" in text
    comments = await read(visitor, links.user(NEWS, "bob", list="comments"))
    assert "A comment outside its story." in comments
    only_comments = await read(visitor, links.user(NEWS, "user7"))
    assert only_comments.count('class="row"') > 10
    assert re.search(r'comment on <a href="[^"]*/item/1000#c\d+">A very long discussion of tides</a>', only_comments)
    assert "No submissions here" in await read(visitor, links.user(NEWS, "user7", list="submissions"))
    assert "holds nothing by nobody" in await read(visitor, links.user(NEWS, "nobody"), status=404)


async def test_a_search_has_filters_facets_and_marks(visitor: ClientSession) -> None:
    text = await read(visitor, links.search(q="tides", type="story"))
    assert "A very long discussion of tides" in text
    assert "How to read a tide table" not in text
    facets = await read(visitor, links.search(q="harbour"))
    assert "<mark>harbour</mark>" in facets
    assert "type=comment" in facets
    assert "these are the best of the newest 50,000." in facets
    assert re.search(r'on <a href="[^"]*/item/1000#c\d+">A very long discussion of tides</a>', facets)
    assert "since=2026&amp;until=2027" in facets  # the count is of this year only
    wrong = await read(visitor, links.search(q="x", since="soon"), status=400)
    assert "Since:soon has no date" in wrong


async def test_an_author_with_a_space_in_the_name_is_searched_for_and_narrows_a_search(visitor: ClientSession) -> None:
    assert "One half of a <mark>circle</mark>" in await read(visitor, links.search(q="circle", by="Ada Lovelace"))
    assert "by=Ada+Lovelace" in await read(visitor, links.search(q="circle"))
    wrong = await read(visitor, links.search(q="x", by='a "b" c'), status=400)
    assert "By has a quotation mark beside a space" in wrong


async def test_a_document_is_readable_first_and_raw_on_demand(visitor: ClientSession) -> None:
    text = await read(visitor, links.document(CHATS, "chat/1"))
    assert "<h1>How to read a tide table</h1>" in text
    assert text.index("I have one for my harbour.") < text.index("Raw JSON")
    assert "has no readable fields" in await read(visitor, links.document(CHATS, "chat/3"))
    assert "Deleted upstream" in await read(visitor, links.document(CHATS, "chat/3"))
    assert "Its detail is owed" in await read(visitor, links.document(CHATS, "chat/4"))
    history = await read(visitor, links.document_history(CHATS, "chat/2"))
    assert "<del>Without</del><ins>With</ins>" in history


@pytest.mark.parametrize("number", sorted(links.COUNTED))
@pytest.mark.parametrize("source", [NEWS, CHATS])
async def test_every_number_of_the_status_page_has_its_list(visitor: ClientSession, number: str, source: str) -> None:
    assert "<h1>" in await read(visitor, links.counted(source, number))


async def test_the_status_page_and_the_reader_agree_on_where_things_are() -> None:
    script = (STATIC / "reader_links.js").read_text()
    told = dict(re.findall(r"^  (\w+): \"(\w+)\",$", script, re.MULTILINE))
    assert told == links.COUNTED


async def test_what_is_owed_is_listed_with_its_reason(visitor: ClientSession) -> None:
    text = await read(visitor, links.counted(NEWS, "owed"))
    assert f"<td>{OWED}</td><td>timeout</td>" in text
    assert "chat/4" in await read(visitor, links.counted(CHATS, "owed"))


@pytest.mark.parametrize(
    "path, status",
    [
        ("/read/hackernews/item/99999", 404),
        ("/read/hackernews/item/x", 400),
        ("/read/hackernews/item/9999999999999999999", 400),
        ("/read/absent", 404),
        ("/read/chats/item/1", 404),
        ("/read/hackernews/document?key=a", 404),
        ("/read/hackernews/top?day=yesterday", 400),
        ("/read/hackernews/top?skip=9999999", 400),
        ("/read/hackernews/user?name=%00", 404),
        ("/read/search?q=" + "a" * 600, 400),
        ("/read/search?q=tide&source=absent", 404),
        ("/read/hackernews/itme/20", 404),
        ("/read/hackernews/item/20/", 404),
    ],
)
async def test_a_wrong_address_gets_a_page_that_says_what_is_wrong(
    visitor: ClientSession, path: str, status: int
) -> None:
    assert "<h1>" in await read(visitor, path, status=status)


async def test_a_slash_at_the_end_of_a_source_leads_to_its_front_page(visitor: ClientSession) -> None:
    assert "How to read a tide table" in await read(visitor, f"{links.view(CHATS)}/")


async def test_an_attack_in_an_item_stays_text(visitor: ClientSession) -> None:
    for path in (
        links.item(NEWS, 20),
        links.view(NEWS, "new"),
        links.user(NEWS, "ada"),
        links.document(CHATS, "chat/1"),
    ):
        text = (await read(visitor, path)).lower()
        for word in ("<script>", "<img", "<svg onload", "<iframe", 'href="javascript'):
            assert word not in text


@pytest.mark.slow
async def test_every_link_is_relative_and_leads_somewhere(visitor: ClientSession) -> None:
    waiting, seen, shapes = ["/read"], {"/read"}, Counter[str]()
    while waiting:
        path = waiting.pop(0)
        for link in re.findall(r'(?:href|src|action)="([^"]*)"', await read(visitor, path)):
            assert not link.startswith("/"), f"{path}: {link}"
            target = urljoin(path, html.unescape(link)).partition("#")[0]
            shape = re.sub(r"\d+|=[^&]*", "", target)  # three pages of each kind are enough
            if link.startswith("https://") or target in seen or not target.startswith("/read") or shapes[shape] == 3:
                continue
            shapes[shape] += 1
            seen.add(target)
            waiting.append(target)
    assert len(shapes) > 25


@pytest.mark.slow
async def test_many_readers_at_once_get_their_pages(visitor: ClientSession) -> None:
    texts = await asyncio.gather(*(read(visitor, links.view(NEWS, "top")) for _ in range(20)))
    assert len(set(texts)) == 1


async def test_a_visitor_without_the_token_is_sent_to_the_login_from_every_page(tmp_path: Path) -> None:
    access = Access(token=Secret("correct-horse"))
    url = f"sqlite:///{tmp_path}/absent.db"
    async with opened_library(url, access=access) as console, ClientSession(console.url) as session:
        for path, login in (("/read", "login"), (links.item(NEWS, 1), "../../../login")):
            async with session.get(path, allow_redirects=False) as reply:
                assert (reply.status, reply.headers["Location"]) == (303, login)
        async with session.get("/reader.css") as reply:
            assert reply.status == 401
        async with session.get("/read", headers={"Host": "evil.example"}) as reply:
            assert reply.status == 403


async def test_the_two_style_sheets_of_a_page_do_not_mean_the_same_class() -> None:
    def classes(path: Path) -> set[str]:
        return set(
            re.findall(r"\.([a-z][\w-]*)", re.sub(r"\{[^}]*\}|/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL))
        )

    shared = classes(STATIC / "console.css") & classes(READER_STATIC / "reader.css")
    # A text of the console is always inside an item of its list; a mark is ours on every page.
    assert shared <= {"text", "mark", "css"}


async def test_the_reader_has_no_inline_script_or_style() -> None:
    folder = Path(links.__file__).parent / "templates"
    for template in folder.glob("*.html"):
        if template.name != "bare.html":
            assert "<style" not in template.read_text(), template
            assert " style=" not in template.read_text(), template
            assert "onclick" not in template.read_text(), template
