"""Does a person get in with the token, and nobody else? A real browser at a console that asks for one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from remora.operate.console.access import Access
from remora.sources.secret import Secret
from tests.browser.scenes import HEALTHY
from tests.browser.stage import Stage
from tests.browser.take_screenshots import PHONE, WIDE

# One loop for all: the browser is started once and belongs to it.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AUDIT: Final = (Path(__file__).parent / "audit.js").read_text().partition("\n")[2]
TOKEN: Final = "correct-horse-battery-staple"


@asynccontextmanager
async def guarded() -> AsyncIterator[str]:
    """A console that asks for its token."""
    stage = Stage(HEALTHY)
    stage.access = Access(token=Secret(TOKEN))
    await stage.arrive()
    await stage.open()
    yield stage.url
    await stage.close()


@asynccontextmanager
async def person(browser: Browser, *, dark: bool = False, phone: bool = False) -> AsyncIterator[Page]:
    width, height = PHONE if phone else WIDE
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    yield await context.new_page()
    await context.close()


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def test_the_token_opens_the_live_page_and_no_script_can_read_the_session(browser: Browser) -> None:
    async with guarded() as url, person(browser) as page:
        await page.goto(url, wait_until="domcontentloaded")
        await expect(page).to_have_url(f"{url}/login")
        await log_in(page, TOKEN)
        await expect(page).to_have_url(f"{url}/")
        await expect(page.locator('.answers li[data-key="working"] b')).to_have_text("Yes")
        assert await page.evaluate("() => document.cookie") == ""
        (cookie,) = await page.context.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
        assert TOKEN not in str(cookie)


async def test_a_wrong_token_is_said_aloud_and_asked_for_again(browser: Browser) -> None:
    async with guarded() as url, person(browser) as page:
        await page.goto(url, wait_until="domcontentloaded")
        await log_in(page, "wrong")
        await expect(page.get_by_role("status")).to_have_text("That is not the token.")
        await expect(page.get_by_label("Token")).to_be_focused()
        assert await page.context.cookies() == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("phone", [False, True])
async def test_the_login_passes_the_audit_in_every_light_and_width(browser: Browser, dark: bool, phone: bool) -> None:
    async with guarded() as url, person(browser, dark=dark, phone=phone) as page:
        await page.goto(url, wait_until="domcontentloaded")
        await log_in(page, "wrong")
        await expect(page.get_by_role("status")).to_be_visible()
        assert await page.evaluate(AUDIT) == []
        assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
