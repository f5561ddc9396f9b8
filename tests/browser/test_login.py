"""Does a person get in with the token, and nobody else? A real browser at a console that asks for one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
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
PASSED_ON: Final = frozenset({"host", "cookie", "origin", "content-type", "accept", "sec-fetch-site"})


@asynccontextmanager
async def guarded() -> AsyncIterator[str]:
    """A console that asks for its token."""
    async with staged_behind_token() as stage:
        yield stage.url


@asynccontextmanager
async def staged_behind_token() -> AsyncIterator[Stage]:
    stage = Stage(HEALTHY)
    stage.access = Access(token=Secret(TOKEN))
    await stage.arrive()
    await stage.open()
    yield stage
    await stage.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[str]:
    """A reverse proxy that serves the console below a path, as nginx does with `location /remora/`."""

    async def forward(request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        headers = {name: text for name, text in request.headers.items() if name.lower() in PASSED_ON}
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, f"{url}/{path}", headers=headers, data=await request.read(), allow_redirects=False
            ) as reply,
        ):
            sent = web.StreamResponse(status=reply.status, headers=reply.headers)
            await sent.prepare(request)
            async for piece in reply.content.iter_any():
                await sent.write(piece)
            return sent

    app = web.Application()
    app.router.add_route("*", "/remora/{path:.*}", forward)
    server = TestServer(app)
    await server.start_server()
    yield f"http://127.0.0.1:{server.port}/remora/"
    await server.close()


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


async def test_an_ended_session_shows_no_old_number_and_asks_to_log_in_again(browser: Browser) -> None:
    async with staged_behind_token() as stage, person(browser) as page:
        await page.goto(stage.url, wait_until="domcontentloaded")
        await log_in(page, TOKEN)
        await expect(page.locator(".headline")).to_have_text("✓Complete and fresh")
        assert stage._server is not None
        stage._server._access = Access(token=Secret("another-token-altogether"))
        await expect(page.locator("#signed-out")).to_contain_text("Signed out: log in again", timeout=8_000)
        await expect(page.locator(".source")).to_have_count(0)
        await page.get_by_role("link", name="log in again").click()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_behind_a_proxy_with_a_path_one_logs_in_and_the_page_is_live(browser: Browser) -> None:
    async with guarded() as url, proxied(url) as outside, person(browser) as page:
        await page.goto(outside, wait_until="domcontentloaded")
        await expect(page).to_have_url(f"{outside}login")
        await log_in(page, TOKEN)
        await expect(page).to_have_url(outside)
        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.locator(".headline")).to_have_text("✓Complete and fresh")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("phone", [False, True])
async def test_the_login_passes_the_audit_in_every_light_and_width(browser: Browser, dark: bool, phone: bool) -> None:
    async with guarded() as url, person(browser, dark=dark, phone=phone) as page:
        await page.goto(url, wait_until="domcontentloaded")
        await log_in(page, "wrong")
        await expect(page.get_by_role("status")).to_be_visible()
        assert await page.evaluate(AUDIT) == []
        assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
