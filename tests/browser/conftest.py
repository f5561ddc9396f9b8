"""Who looks at the console in these tests? A real browser that remembers every error and every address it asked for."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.take_screenshots import LAUNCH, PHONE, WIDE


class Visitor:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.errors.append(text)

    def answer(self, question: str) -> str:
        """A selector of the word that answers one of the four questions."""
        return f'.answers li[data-key="{question}"] b'


class Visit(Protocol):
    def __call__(
        self, url: str, *, dark: bool = ..., phone: bool = ..., wait_for: str = ...
    ) -> AbstractAsyncContextManager[Visitor]: ...


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(browser_path: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=browser_path, args=[*LAUNCH])
        yield launched
        await launched.close()


@pytest.fixture
def visit(browser: Browser) -> Visit:
    """Open the console and wait until it is live."""

    @asynccontextmanager
    async def opened(
        url: str, *, dark: bool = False, phone: bool = False, wait_for: str = ".source .answers li"
    ) -> AsyncIterator[Visitor]:
        width, height = PHONE if phone else WIDE
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        visitor = Visitor(await context.new_page())
        await visitor.page.goto(url, wait_until="domcontentloaded")
        await visitor.page.wait_for_selector(wait_for)
        yield visitor
        await context.close()

    return opened
