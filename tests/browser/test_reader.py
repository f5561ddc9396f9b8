"""Can a person read the mirror? A real browser over every kind of page: attacks, a long thread, keyboard, phone, dark."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from remora.operate.console.reader import links
from tests.browser.take_screenshots import PHONE, WIDE
from tests.library import (
    ATTACK_STORY,
    BROKEN_STORY,
    CHATS,
    DELETED_COMMENT,
    LONG_COMMENTS,
    LONG_STORY,
    NEWS,
    make_library,
    opened_library,
)

# One loop and one mirror for all: the browser is started once and belongs to it.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AUDIT: Final = (Path(__file__).parent / "audit.js").read_text().partition("\n")[2]
PAGES: Final = (
    links.view(NEWS, "top"),
    links.item(NEWS, BROKEN_STORY),
    links.item(NEWS, ATTACK_STORY),
    links.item_history(NEWS, DELETED_COMMENT),
    links.user(NEWS, "ada"),
    links.search(q="harbour"),
    links.document(CHATS, "chat/1"),
    links.view(CHATS, "owed"),
    links.view(NEWS, "changes"),
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def library(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a console whose reader shows the library."""
    url = f"sqlite:///{tmp_path_factory.mktemp('library')}/library.db"
    await make_library(url)
    async with opened_library(url) as console:
        yield console.url


@asynccontextmanager
async def reading(browser: Browser, *, dark: bool = False, phone: bool = False) -> AsyncIterator[Page]:
    """A page; at its end nothing has gone wrong on it, and nothing foreign was asked for."""
    width, height = PHONE if phone else WIDE
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page = await context.new_page()
    errors: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    ours = page.url.split("/read")[0]
    assert errors == []
    assert [url for url in asked if not url.startswith((ours, "data:"))] == []
    await context.close()


@pytest.mark.parametrize("dark, phone", [(False, False), (True, False), (False, True), (True, True)])
async def test_every_page_passes_the_audit_and_nothing_acts(
    browser: Browser, library: str, dark: bool, phone: bool
) -> None:
    async with reading(browser, dark=dark, phone=phone) as page:
        for path in PAGES:
            await page.goto(library + path, wait_until="load")
            assert await page.evaluate(AUDIT) == [], path
            assert await page.evaluate("() => window.hacked === undefined"), path
            assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), path


async def test_a_click_on_an_attack_does_nothing(browser: Browser, library: str) -> None:
    async with reading(browser) as page:
        await page.goto(library + links.item(NEWS, ATTACK_STORY), wait_until="load")
        for link in await page.locator("main .text a").all():
            await link.click()
        assert await page.evaluate("() => window.hacked === undefined")
        assert page.url.startswith(library + links.item(NEWS, ATTACK_STORY))


async def test_a_link_into_a_long_thread_arrives_and_a_subtree_folds(browser: Browser, library: str) -> None:
    wanted = LONG_STORY + LONG_COMMENTS - 5
    async with reading(browser) as page:
        await page.goto(f"{library}{links.item(NEWS, LONG_STORY)}#c{wanted}", wait_until="load")
        await expect(page.locator(f"#c{wanted} > summary")).to_be_in_viewport()
        assert await page.locator(".c").count() == LONG_COMMENTS
        first = page.locator(".thread > .c").first
        await first.locator("> summary").click(position={"x": 3, "y": 8})
        await expect(first.locator("> .inside")).to_be_hidden()


async def test_a_name_from_right_to_left_stays_before_its_date(browser: Browser, library: str) -> None:
    async with reading(browser) as page:
        for path, name, date in (
            (links.view(NEWS, "top"), ".meta a", ".meta time"),
            (links.item(NEWS, BROKEN_STORY), "#c11 > summary > .by", "#c11 > summary > a:nth-of-type(2)"),
        ):
            await page.goto(library + path, wait_until="load")
            await page.locator(name).first.evaluate("link => { link.textContent = 'מחבר' }")
            boxes = [await page.locator(each).first.bounding_box() for each in (name, date)]
            assert boxes[0] is not None
            assert boxes[1] is not None
            assert boxes[0]["x"] < boxes[1]["x"], path


async def test_the_keyboard_walks_folds_and_searches(browser: Browser, library: str) -> None:
    async with reading(browser) as page:
        await page.goto(library + links.item(NEWS, BROKEN_STORY), wait_until="load")
        await page.keyboard.press("j")
        await expect(page.locator("#c11 > summary")).to_be_focused()
        await page.keyboard.press("j")
        await expect(page.locator(f"#c{DELETED_COMMENT} > summary")).to_be_focused()
        await page.keyboard.press("k")
        await page.keyboard.press("x")
        await expect(page.locator(f"#c{DELETED_COMMENT}")).to_be_hidden()
        await page.keyboard.press("/")
        await page.keyboard.type("tides")
        await page.keyboard.press("Enter")
        await expect(page.locator("main .row").first).to_contain_text("tides")


@pytest.mark.parametrize("path", ["/", "/login", "/runbook", links.view(NEWS, "top")])
async def test_a_button_that_needs_a_script_is_shown_only_with_scripts(
    browser: Browser, library: str, path: str
) -> None:
    for has_scripts in (False, True):
        context = await browser.new_context(java_script_enabled=has_scripts)
        page = await context.new_page()
        await page.goto(f"{library}{path}")
        await expect(page.locator("#theme")).to_be_visible(visible=has_scripts)
        if path == "/":
            await expect(page.locator("#test-notice")).to_be_visible(visible=has_scripts)
        await context.close()


async def test_a_facet_narrows_a_search_by_one_click(browser: Browser, library: str) -> None:
    async with reading(browser) as page:
        await page.goto(library + links.search(q="harbour"), wait_until="load")
        await page.locator(".facet a", has_text="story").click()
        await expect(page.get_by_label("Type")).to_have_value("story")
        assert await page.locator("main .row .meta", has_text="comment").count() == 0
