"""Where do the numbers of the status page lead? Into the reader, to what each of them counts."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.scenes import CATCHING_UP, HEALTHY, NEWEST_ID, STREAM_DOWN
from tests.browser.stage import SEVERAL, staged

# One loop for all: the browser is started once and belongs to it.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SOON_MS = 60_000  # only guards against a page that never says it


async def links(page: Page) -> dict[str, str]:
    """Where each labelled number of the one source leads in the reader."""
    told: dict[str, str] = await page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".source dl a")].map((link) =>
          [link.closest("div").querySelector("dt").textContent, link.getAttribute("href").split("/").pop()]))"""
    )
    return told


async def test_the_numbers_of_several_sources_lead_into_the_reader(visit: Visit) -> None:
    async with staged(SEVERAL) as stage, visit(stage.url, wait_for="#overview tbody tr") as visitor:
        row = visitor.page.locator("#overview tbody tr[data-key=hackernews]")
        await expect(row.locator("td").nth(2).locator("a")).to_have_attribute("href", "read/hackernews/newest")
        await expect(row.locator("td").nth(5).locator("a")).to_have_attribute("href", "read/hackernews/owed")
        stage.play(STREAM_DOWN)
        dead = visitor.page.locator(".gaps .note a")
        await expect(dead).to_have_attribute("href", "read/hackernews/dead", timeout=SOON_MS)
        stage.play(HEALTHY)
        await expect(visitor.page.locator(".gaps .note")).to_have_text("No dead letters.", timeout=SOON_MS)
        await expect(dead).to_have_count(0)


async def test_numbers_and_items_lead_into_the_reader(visit: Visit) -> None:
    async with staged(CATCHING_UP) as stage, visit(stage.url) as visitor:
        settled = visitor.page.locator(".legend .settled a")
        await expect(settled).to_have_attribute("href", "read/hackernews/newest")
        assert await links(visitor.page) == {
            "Items held": "newest",
            "here": "newest",
            "absent": "absent",
            "gone upstream": "gone",
            "waiting for a retry": "owed",
            "dead letters": "dead",
            "not fetched yet": "waiting",
            "newest item": "newest",
            "changes": "waiting",
            "it found": "changes",
        }
        first = visitor.page.locator(".items .item .text a").first
        await expect(first).to_have_attribute("href", f"read/hackernews/item/{NEWEST_ID}")
