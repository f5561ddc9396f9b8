"""Does the page tell the truth while the world changes? A real browser, a real server, scenes that change while it looks."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from remora.core.reasons import GapReason
from remora.core.status.snapshot import SourceFacts
from remora.core.units import MINUTE_NS
from tests.browser.conftest import Visit
from tests.browser.scenes import (
    CATCHING_UP,
    HEALTHY,
    LISTED,
    NEVER_STARTED,
    NEWEST_ID,
    NO_ANSWER,
    NO_CATCHUP,
    PROVIDER_DOWN,
    SCENES,
    SILENT,
    SLOW_ANSWERS,
    STREAM_DOWN,
    THROTTLED,
    Scene,
)
from tests.browser.stage import SEVERAL, staged
from tests.browser.take_screenshots import FOLDER

# One loop for all: the browser is started once and belongs to it.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AUDIT = (Path(__file__).parent / "audit.js").read_text().partition("\n")[2]
SOON_MS = 60_000  # only guards against a page that never says it
# A runtime that lives and says nothing of its rate.
SPEECHLESS = Scene("speechless", lambda _now_ns: {"hackernews": SourceFacts(doing="watching")}, NEVER_STARTED.ledgers)
LIGHTS: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


async def text(page: Page, selector: str) -> str:
    return (await page.locator(selector).first.text_content()) or ""


async def test_the_page_answers_four_questions_without_errors_or_foreign_requests(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        for question in ("complete", "fresh", "polite", "working"):
            await expect(visitor.page.locator(visitor.answer(question))).to_have_text("Yes")
        await expect(visitor.page.locator("#verdict")).to_have_text("Complete and fresh.")
        await expect(visitor.page).to_have_title("✓ Remora")
        assert visitor.errors == []
        foreign = {url for url in visitor.requests if urlsplit(url).scheme != "data" and not url.startswith(stage.url)}
        assert foreign == set()


async def test_a_change_is_seen_live_and_said_aloud_once(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(visitor.answer("fresh"))).to_have_text("Yes")
        stage.play(STREAM_DOWN)
        await expect(visitor.page.locator(visitor.answer("fresh"))).to_have_text("No", timeout=SOON_MS)
        said = visitor.page.locator("#announcement")
        await expect(said).to_contain_text("fresh: no. the stream of changes is not connected", timeout=SOON_MS)
        assert visitor.errors == []


async def test_numbers_carry_their_window(visit: Visit) -> None:
    async with staged(CATCHING_UP) as stage, visit(stage.url) as visitor:
        facts = visitor.page.locator(".rate-facts")
        await expect(visitor.page.locator(".big")).to_have_text("249/s sent over the last 10 s")
        await expect(facts).to_contain_text("0 of 2,486 answers over the last 10 s")
        await expect(visitor.page.locator(".limit")).to_contain_text("At the ceiling")


@pytest.mark.parametrize(
    "scene, sentence",
    [
        (HEALTHY, "Idle: nothing to fetch right now."),
        (SLOW_ANSWERS, "Waiting for answers: all requests that were made are in flight."),
        (NO_CATCHUP, "Idle by choice: the backfill is switched off, and 4,548 ids stay pending."),
        (NO_ANSWER, "The provider has not answered since the start."),
    ],
    ids=lambda value: value.name if isinstance(value, Scene) else "",
)
async def test_what_limits_the_rate_is_true_in_its_world(visit: Visit, scene: Scene, sentence: str) -> None:
    async with staged(scene) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".limit")).to_have_text(sentence)
        is_known = "Unknown" if scene is NO_ANSWER else "Yes"
        await expect(visitor.page.locator(visitor.answer("working"))).to_have_text(is_known)
        assert visitor.errors == []


async def test_a_provider_that_is_down_is_told_as_such_and_not_as_our_manners(visit: Visit) -> None:
    async with staged(PROVIDER_DOWN) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await expect(page.locator(visitor.answer("polite"))).to_have_text("Yes")
        await expect(page.locator(visitor.answer("working"))).to_have_text("Not yet")
        await expect(page.locator(".headline")).to_contain_text("Waiting for the provider")
        told = re.compile(r"The provider has been down since .+it answers HTTP 503 \(server error\); next probe in 8\d")
        for question in ("fresh", "working"):
            await expect(page.locator(f'.answers li[data-key="{question}"] .reason', has_text=told)).to_have_count(1)
        await expect(page.locator(".limit")).to_contain_text("The next request is sent at")


async def test_coverage_adds_up_to_the_range_of_ids(visit: Visit) -> None:
    async with staged(CATCHING_UP) as stage, visit(stage.url) as visitor:
        legend = await visitor.page.locator(".legend dd").all_text_contents()
        counts = [int(re.split(r", (?=\D|\d+(\.\d+)? %)", row)[0].replace(",", "")) for row in legend]
        assert sum(counts) == NEWEST_ID
        assert (await text(visitor.page, ".coverage .sum")).startswith(f"{NEWEST_ID:,} ids")


async def test_a_silent_controller_is_unknown_and_its_last_rate_is_called_past(visit: Visit) -> None:
    async with staged(SILENT) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".pace")).to_have_text("Unknown")
        await expect(visitor.page.locator(".pace-note")).to_have_text("the pace was 150/s 4 min ago")
        await expect(visitor.page.locator(".limit")).to_contain_text("no heartbeat from the service since")
        for question in ("fresh", "polite", "working"):
            await expect(visitor.page.locator(visitor.answer(question))).to_have_text("Unknown")
        assert "NaN" not in await text(visitor.page, "body")


@pytest.mark.parametrize("scene", [NEVER_STARTED, SILENT, SPEECHLESS], ids=lambda scene: scene.name)
async def test_the_console_readout_degrades_honestly_when_state_is_absent(visit: Visit, scene: Scene) -> None:
    """The console readout degrades honestly when state is absent."""
    async with staged(scene, with_past=False) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".rate .pace")).to_have_text("Unknown")
        await expect(visitor.page.locator(visitor.answer("polite"))).to_have_text("Unknown")
        assert not re.search(r"\b0(\.0+)?/(s|min|h|d)\b", await text(visitor.page, ".rate"))
        assert await visitor.page.get_attribute("body", "data-verdict") == "unknown"


async def test_what_never_ran_shows_no_number_at_all(visit: Visit) -> None:
    async with staged(NEVER_STARTED, with_past=False) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".pace")).to_have_text("Unknown")
        await expect(visitor.page.locator(".chart .empty")).to_have_text("no data for this time")
        await expect(visitor.page.locator(".coverage .sum")).to_contain_text("Unknown")
        assert visitor.errors == []


async def test_a_finished_run_has_no_current_rate(visit: Visit) -> None:
    ended = Scene("ended", LISTED.facts, LISTED.ledgers, beat_age_ns=90_000_000_000, ended_because="done")
    async with staged(ended, with_past=False) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".pace")).to_have_text("Unknown")
        await expect(visitor.page.locator(".pace-note")).to_have_text("the pace was 3.2/s 90 s ago")


async def test_what_a_listed_source_owes_is_due_with_a_run(visit: Visit) -> None:
    async with staged(LISTED) as stage, visit(stage.url) as visitor:
        owed = visitor.page.locator(".gaps tbody tr.owed td").nth(4)
        await expect(owed).to_have_text(re.compile("in [89] min"))
        due = replace(LISTED, ledgers=lambda now_ns: LISTED.ledgers(now_ns - 2 * MINUTE_NS))
        stage.play(replace(due, beat_age_ns=2 * MINUTE_NS, ended_because="done"))
        await expect(owed).to_have_text("with the next run", timeout=SOON_MS)


async def test_a_dead_letter_is_asked_for_again_only_after_a_yes(visit: Visit) -> None:
    async with staged(STREAM_DOWN) as stage, visit(stage.url) as visitor:
        page = visitor.page
        button = page.get_by_role("button", name="Ask again for dead letters: unauthorized")
        await button.click()
        await expect(page.locator("#confirm-text")).to_contain_text("3 dead letters (unauthorized)")
        await page.get_by_role("button", name="Leave it").click()
        await expect(page.locator("#confirm")).not_to_be_visible()
        assert stage.replayed == []
        await button.click()
        await page.locator("#confirm button.strong").click()
        await expect(page.locator(".gaps .result")).to_have_text("3 are due now (unauthorized).")
        await expect(page.locator("#announcement")).to_have_text("3 are due now (unauthorized).")
        assert stage.replayed == [("hackernews", GapReason.UNAUTHORIZED, None)]
        assert visitor.errors == []


async def test_the_keyboard_alone_is_enough(visit: Visit) -> None:
    async with staged(STREAM_DOWN) as stage, visit(stage.url) as visitor:
        page = visitor.page
        seen: list[str] = []
        for _ in range(40):
            await page.keyboard.press("Tab")
            name = await page.evaluate(
                "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
            )
            seen.append(name)
            if name == "Ask again for dead letters: unauthorized":
                break
        assert seen[0] == "Skip to the sources"
        assert seen[-1] == "Ask again for dead letters: unauthorized"
        await page.keyboard.press("Enter")
        await expect(page.locator("#confirm")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#confirm")).not_to_be_visible()
        await page.wait_for_timeout(1_500)  # an event came and the table was drawn again
        focused = await page.evaluate("() => document.activeElement.getAttribute('aria-label')")
        assert focused == "Ask again for dead letters: unauthorized"
        assert stage.replayed == []


async def test_a_service_that_goes_and_comes_back_is_noticed_both_times(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await expect(page.locator("#connection")).to_have_text("live")
        await stage.close()
        await expect(page.locator("#lost")).to_contain_text("The service has not answered for", timeout=SOON_MS)
        await expect(page.locator(visitor.answer("complete"))).to_have_text("Unknown")
        await expect(page.locator(".pace")).to_have_text("Unknown")
        await expect(page.locator(".pace-note")).to_contain_text("the pace was 150/s")
        await expect(page).to_have_title("? Remora")
        await page.screenshot(path=FOLDER / "lost-light-wide.png", full_page=True)
        assert await page.evaluate(AUDIT) == []
        await stage.open()
        await expect(page.locator("#connection")).to_have_text("live", timeout=2 * SOON_MS)
        await expect(page.locator("#lost")).not_to_be_visible()
        await expect(page.locator(visitor.answer("complete"))).to_have_text("Yes")


async def test_a_store_that_does_not_answer_is_told(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        stage.break_store()
        await expect(visitor.page.locator("#lost")).to_contain_text("The store does not answer", timeout=SOON_MS)
        await expect(visitor.page.locator(visitor.answer("working"))).to_have_text("Unknown")


async def test_the_chart_marks_back_offs_and_the_ceiling_and_leaves_holes_open(visit: Visit) -> None:
    async with staged(THROTTLED) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await page.get_by_role("button", name="6 h").click()
        await expect(page.locator(".chart .backoff")).to_have_count(8)
        await expect(page.locator(".chart text.ceiling")).to_have_text("ceiling 250/s")
        await page.get_by_role("button", name="15 min").click()
        await expect(page.locator(".chart .backoff")).to_have_count(7)
        await page.locator(".marks summary").click()
        await expect(page.locator(".marks li").first).to_contain_text("rate limited")
        await expect(page.locator(".chart")).to_have_attribute("aria-label", re.compile("7 back-offs"))


async def test_the_charts_reach_back_thirty_days_and_their_small_ones_have_words(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await page.get_by_role("button", name="30 d").first.click()
        await expect(page.locator(".chart")).to_have_attribute("aria-label", re.compile("Over the last"))
        await expect(page.locator('.small[data-field="items"]')).to_have_attribute(
            "aria-label", re.compile("Items held: ")
        )
        await page.screenshot(path=FOLDER / "thirty-days-light-wide.png", full_page=True)
        assert await page.evaluate(AUDIT) == []
        assert visitor.errors == []


async def test_time_of_which_nothing_is_known_is_a_hole_in_the_chart(visit: Visit) -> None:
    async with staged(SILENT) as stage:
        stage.play(HEALTHY)  # it was silent for four minutes and is back
        async with visit(stage.url) as visitor:
            await visitor.page.get_by_role("button", name="15 min").click()
            await expect(visitor.page.locator(".chart .allowed")).to_have_count(2, timeout=SOON_MS)


async def test_new_items_appear_and_their_text_is_only_text(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        hostile = b'{"by":"<b>eve</b>","id":%d,"time":1,"title":"<img src=/x onerror=alert(1)> & <script>1</script>","type":"story"}'
        await stage.arrives(NEWEST_ID + 1, body=hostile)
        first = visitor.page.locator(".items .item").first
        await expect(first.locator(".text")).to_have_text(
            "<img src=/x onerror=alert(1)> & <script>1</script>", timeout=SOON_MS
        )
        await expect(first.locator(".by")).to_have_text("<b>eve</b>")
        await expect(visitor.page.locator(".items img, .items script")).to_have_count(0)
        assert visitor.errors == []


async def test_a_listed_source_shows_its_runs_and_nothing_of_its_content(visit: Visit) -> None:
    async with staged(LISTED) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator(".runs tbody tr")).to_have_count(4)
        await expect(visitor.page.locator(".runs .note")).to_contain_text("A run may spend 15 min and 4,000 requests")
        await expect(visitor.page.locator(".runs tbody")).to_contain_text("the provider kept asking for less")
        await expect(visitor.page.locator(".items")).not_to_be_visible()
        await expect(visitor.page.locator(".stream")).not_to_be_visible()


async def test_of_several_sources_the_worst_comes_first_and_each_has_its_page(visit: Visit) -> None:
    async with staged(SEVERAL) as stage, visit(stage.url, wait_for="#overview tbody tr") as visitor:
        page = visitor.page
        rows = page.locator("#overview tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("Needs attention")
        await expect(page.locator("#verdict")).to_contain_text("chats: Needs attention")
        await page.screenshot(path=FOLDER / "several-light-wide.png", full_page=True)
        assert await page.evaluate(AUDIT) == []
        await page.get_by_role("link", name="hackernews").click()
        await expect(page.locator(".source:visible .headline")).to_contain_text("Collecting: 57 %")
        await expect(page.locator("#overview")).not_to_be_visible()
        await page.get_by_role("link", name="All sources").click()
        await expect(rows).to_have_count(2)
        assert visitor.errors == []


async def test_an_operator_acts_after_a_yes_and_reads_what_is_behind_a_count(visit: Visit) -> None:
    async with staged(CATCHING_UP) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await expect(page.locator(".timeline ol")).to_contain_text("it ran")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("#confirm-text")).to_contain_text("Nothing is sent to hackernews until you resume it")
        await page.get_by_role("button", name="Leave it").click()
        await page.get_by_role("button", name="Half speed for an hour").click()
        await page.locator("#confirm-yes").click()
        await expect(page.locator(".acted")).to_have_text("Slower.")
        assert stage.operator.asked == [("lower", "hackernews", "125/s", "1h")]
        await page.get_by_role("button", name="41: show them and why not now").click()
        await expect(page.locator("#behind tbody tr")).to_contain_text("waits until the provider answers again")
        await page.screenshot(path=FOLDER / "behind-light-wide.png")
        assert await page.evaluate(AUDIT) == []
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Send a test notification").click()
        await expect(page.locator("#tested")).to_have_text("mail: delivered")
        assert visitor.errors == []


async def test_an_alarm_links_to_its_section_of_the_runbook(visit: Visit) -> None:
    async with staged(STREAM_DOWN) as stage, visit(stage.url) as visitor:
        page = visitor.page
        await page.get_by_role("link", name="What to do about RemoraDeadLetters").click()
        await expect(page.locator("#remoradeadletters")).to_be_in_viewport()
        await page.screenshot(path=FOLDER / "runbook-light-wide.png")
        assert await page.evaluate(AUDIT) == []
        assert visitor.errors == []


async def test_the_readers_choice_of_light_or_dark_is_remembered(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        page = visitor.page
        ground = "() => getComputedStyle(document.documentElement).backgroundColor"
        light = await page.evaluate(ground)
        for _ in range(2):
            await page.locator("#theme").click()
        await expect(page.locator("#theme")).to_have_text("Theme: dark")
        assert await page.evaluate(ground) != light
        await page.reload(wait_until="domcontentloaded")
        await expect(page.locator("#theme")).to_have_text("Theme: dark")


async def test_nothing_moves_for_a_reader_who_wants_it_still(visit: Visit) -> None:
    async with staged(HEALTHY) as stage, visit(stage.url) as visitor:
        await expect(visitor.page.locator("#connection")).to_have_text("live")
        assert await visitor.page.evaluate("() => document.getAnimations().length") == 0


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
async def test_every_state_passes_the_audit_in_every_light_and_width(visit: Visit, scene: Scene) -> None:
    FOLDER.mkdir(exist_ok=True)
    async with staged(scene) as stage:
        for phone in (False, True):
            async with visit(stage.url, phone=phone) as visitor:
                page = visitor.page
                # The history arrives beside the first event: without it, less than a second is known.
                known = "No data" if scene is NEVER_STARTED else r"Over the last \d+ (s|min)"
                await expect(page.locator(".chart")).to_have_attribute("aria-label", re.compile(known))
                for light in LIGHTS:
                    await page.emulate_media(color_scheme=light)
                    name = f"{scene.name}-{light}-{'phone' if phone else 'wide'}"
                    await page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
                    assert (name, await page.evaluate(AUDIT), visitor.errors) == (name, [], [])


@pytest.mark.parametrize(
    "mistake, finding",
    [
        ("() => { document.querySelector('#theme').textContent = ''; }", "no name: button#theme"),
        ("() => { document.querySelector('#verdict').style.color = '#ccc'; }", "contrast"),
        ("() => { document.querySelector('.source h2').outerHTML = '<p>x</p>'; }", "heading skips a level"),
        ("() => { document.querySelector('.chart').removeAttribute('aria-label'); }", "picture without words"),
        ("() => { document.body.append('stray words'); }", "outside every landmark"),
        ("() => { document.querySelector('main').style.width = '3000px'; }", "too wide"),
    ],
)
async def test_the_audit_is_awake(visit: Visit, mistake: str, finding: str) -> None:
    async with staged(NEVER_STARTED, with_past=False) as stage, visit(stage.url) as visitor:
        await visitor.page.evaluate(mistake)
        assert [found for found in await visitor.page.evaluate(AUDIT) if finding in found]
