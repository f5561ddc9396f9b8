"""Is the line of facts below the headline short and true? Growth as it was measured, and what holds the rate back."""

import re
from dataclasses import replace
from typing import Final

import msgspec
import pytest
from playwright.async_api import expect

from remora.core.status.model import Disk
from remora.core.status.snapshot import LedgerFacts
from remora.core.units import MINUTE_NS
from tests.browser.conftest import Visit
from tests.browser.scenes import CATCHING_UP, THROTTLED
from tests.browser.stage import staged
from tests.browser.test_listed_console import RUNNING

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SOON_MS: Final = 60_000  # only guards against a page that never says it
YOUNG: Final = Disk(size_bytes=31_000_000, grown_bytes=18_000_000, grown_over_ns=2 * MINUTE_NS, free_bytes=10**10)


async def test_the_line_is_short_and_growth_is_told_by_the_day_only_after_an_hour(visit: Visit) -> None:
    async with staged(THROTTLED) as stage:
        stage.disk = YOUNG
        async with visit(stage.url) as visitor:
            page = visitor.page
            stats = page.locator(".stats").first
            await expect(stats).to_contain_text("Held back byThe provider asked for a pauseSize on disk31 MB")
            await expect(stats).to_contain_text("Growth18 MB in 2 min")
            await expect(page.locator(".headline")).to_contain_text("the provider asked for a pause until")
            stage.disk = msgspec.structs.replace(YOUNG, growth_bytes_per_day=1_200_000_000)
            stage.play(CATCHING_UP)
            await expect(stats).to_contain_text("Growth1.2 GB a day", timeout=SOON_MS)
            await expect(stats).to_contain_text("Held back byAt the ceilingSize")
            fresh = page.locator('.answers li[data-key="fresh"] .reason')
            await expect(fresh).to_contain_text("20,275,999 older ids are not fetched yet")


async def test_a_source_that_does_not_run_is_not_called_always_on(visit: Visit) -> None:
    several = replace(RUNNING, ledgers=lambda now_ns: {**RUNNING.ledgers(now_ns), "new": LedgerFacts(kind="numbered")})
    async with staged(several) as stage, visit(stage.url, wait_for="#overview tbody tr") as visitor:
        for name, told in {"new": "not running", "issues": "running"}.items():
            await expect(visitor.page.locator(f'#overview tr[data-key="{name}"] td').last).to_have_text(told)


async def test_on_a_phone_the_table_of_runs_is_not_cut_off(visit: Visit) -> None:
    async with staged(RUNNING) as stage, visit(f"{stage.url}/#issues", phone=True) as visitor:
        table = visitor.page.locator(".runs .scroll")
        await expect(table).to_contain_text("complete: everything listed was asked for")
        assert await table.evaluate("(node) => node.scrollWidth <= node.clientWidth + 1")


async def test_a_long_chart_counts_no_back_offs_because_it_does_not_know_all_of_them(visit: Visit) -> None:
    async with staged(THROTTLED) as stage, visit(stage.url) as visitor:
        await visitor.page.get_by_role("button", name="30 d").first.click()
        told = re.compile(r"requests sent\. “What happened” lists the back-offs")
        await expect(visitor.page.locator(".chart")).to_have_attribute("aria-label", told)
        await expect(visitor.page.locator(".chart .backoff")).to_have_count(0)


async def test_a_list_that_no_run_has_read_has_no_numbers(visit: Visit) -> None:
    unread = replace(RUNNING, ledgers=lambda now_ns: {**RUNNING.ledgers(now_ns), "new": LedgerFacts(kind="listed")})
    async with staged(unread) as stage, visit(stage.url, wait_for="#overview tbody tr") as visitor:
        await expect(visitor.page.locator('#overview tr[data-key="new"] td').nth(2)).to_have_text("unknown")
