"""Does the console show how a listed source is going? What it holds, its run in progress, and the account it shares."""

from pathlib import Path
from typing import Final

import msgspec
import pytest
from playwright.async_api import expect

from remora.core.rate.gate_types import LimitedBy, QuotaFacts
from remora.core.status.snapshot import LedgerFacts, RunFacts, SourceFacts
from remora.core.units import MINUTE_NS, SECOND_NS
from tests.browser.conftest import Visit
from tests.browser.scenes import Scene, rate_facts, recent
from tests.browser.stage import staged
from tests.browser.take_screenshots import FOLDER

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AUDIT: Final = (Path(__file__).parent / "audit.js").read_text().partition("\n")[2]
COUNTS: Final = {"requests": 1_310, "pages": 58, "entries": 5_800, "new": 1_240, "unchanged": 12, "waits": 3}
# Labels of the chart that lie over each other.
COLLIDING: Final = """() => {
  const labels = [...document.querySelectorAll(".chart .label")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return labels.flatMap(([one, a], index) => labels.slice(index + 1).filter(([, b]) => over(a, b)).map(([other]) => [one, other]));
}"""


def _facts(now_ns: int) -> dict[str, SourceFacts]:
    rate = rate_facts(
        now_ns,
        per_s=1.4,
        limited_by=LimitedBy.QUOTA,
        held={LimitedBy.QUOTA: 1.0},
        ceiling_interval_ns=SECOND_NS // 4,
        recent=recent(1.4),
        quota=QuotaFacts(3_690, 5_000, now_ns + 42 * MINUTE_NS),
    )
    run = RunFacts(run_id=7, started_at_ns=now_ns - 15 * MINUTE_NS, phase="details", counts=COUNTS)
    return {
        "issues": SourceFacts(rate=rate, doing="fetching details", run=run),
        "pulls": SourceFacts(rate=rate, doing="waiting", next_run_at_ns=now_ns + 9 * MINUTE_NS),
    }


def _ledgers(now_ns: int) -> dict[str, LedgerFacts]:
    whole = RunFacts(
        run_id=6, started_at_ns=now_ns - 90 * MINUTE_NS, ended_at_ns=now_ns - 80 * MINUTE_NS, stopped_by="complete"
    )
    issues = LedgerFacts(
        kind="listed",
        documents=5_800,
        owed_details=4_548,
        account="forge",
        runs=(RunFacts(run_id=7, started_at_ns=now_ns - 15 * MINUTE_NS), whole),
        every_ns=60 * MINUTE_NS,
        ceiling_interval_ns=SECOND_NS // 4,
    )
    pulls = msgspec.structs.replace(issues, documents=212, owed_details=0, runs=(whole,))
    return {"issues": issues, "pulls": pulls}


RUNNING: Final = Scene("listed-run", _facts, _ledgers, pace_at=lambda ago_s: 1.4)


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
async def test_the_overview_shows_a_bar_what_is_held_and_the_quota_of_the_shared_account(
    visit: Visit, phone: bool
) -> None:
    FOLDER.mkdir(exist_ok=True)
    async with staged(RUNNING) as stage, visit(stage.url, phone=phone, wait_for="#overview tbody tr") as visitor:
        page = visitor.page
        row = page.locator("#overview tbody tr").first
        await expect(row).to_contain_text("issues")
        await expect(row.locator("td").nth(2)).to_contain_text("1,252 of 5,800, 21.59 %")
        await expect(row.locator(".small-bar")).to_have_attribute("aria-label", "1,252 of 5,800")
        await expect(row.locator(".account")).to_contain_text("account forge, quota 3,690 of 5,000 left")
        await page.screenshot(path=FOLDER / f"listed-overview-{'phone' if phone else 'wide'}.png", full_page=True)
        assert (await page.evaluate(AUDIT), visitor.errors) == ([], [])


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
async def test_the_page_of_a_listed_source_shows_its_run_in_progress_as_it_counts(visit: Visit, phone: bool) -> None:
    FOLDER.mkdir(exist_ok=True)
    async with staged(RUNNING) as stage, visit(f"{stage.url}/#issues", phone=phone) as visitor:
        page = visitor.page
        await expect(page.locator(".headline")).to_contain_text("Collecting: 1,252 of 5,800 documents")
        await expect(page.locator(".progress-bar")).to_have_attribute("aria-label", "1,252 of 5,800")
        now = page.locator(".runs .now")
        await expect(now).to_contain_text("A run is in progress: fetching details, for 15 min.")
        for label, count in {
            "pages walked": "58", "entries seen": "5,800", "details fetched": "1,252", "still to fetch": "4,548",
        }.items():  # fmt: skip
            await expect(now.locator("dl > div", has_text=label).locator("dd")).to_have_text(count)
        facts = page.locator(".rate-facts")
        await expect(facts).to_contain_text("forge, shared with pulls: one ceiling, pace and quota for all its sources")
        await expect(facts).to_contain_text("3,690 of 5,000 left until")
        assert await page.evaluate(COLLIDING) == []
        for light in ("light", "dark"):
            await page.emulate_media(color_scheme=light)
            name = f"listed-run-{light}-{'phone' if phone else 'wide'}"
            await page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
            assert (name, await page.evaluate(AUDIT), visitor.errors) == (name, [], [])


async def test_no_run_is_in_progress_when_the_service_does_not_answer(visit: Visit) -> None:
    async with staged(RUNNING) as stage, visit(f"{stage.url}/#issues") as visitor:
        await expect(visitor.page.locator(".runs .now")).to_be_visible()
        await stage.close()
        await expect(visitor.page.locator("#lost")).to_be_visible(timeout=60_000)
        await expect(visitor.page.locator(".runs .now")).not_to_be_visible()
