"""How does the console look? Run as a program, it photographs every scene, light and dark, wide and on a phone."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, async_playwright

from tests.browser.scenes import SCENES
from tests.browser.stage import staged
from tools import services

FOLDER: Final = Path(__file__).parent / "screenshots"
LAUNCH: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb")
WIDE: Final = (1280, 900)
PHONE: Final = (360, 780)


async def photograph(browser: Browser, url: str, name: str, *, dark: bool, size: tuple[int, int]) -> Path:
    """One picture of the whole page, once it is live."""
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    await page.goto(url, wait_until="domcontentloaded")
    await page.wait_for_selector(".source .answers li")
    await page.wait_for_timeout(1_300)  # the history arrives beside the first event
    path = FOLDER / f"{name}.png"
    await page.screenshot(path=path, full_page=True)
    await page.close()
    return path


async def main(wanted: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    program = services.find_browser()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=[*LAUNCH])
        for scene in SCENES:
            if wanted and scene.name not in wanted:
                continue
            async with staged(scene) as stage:
                for dark in (False, True):
                    for size, place in ((WIDE, "wide"), (PHONE, "phone")):
                        name = f"{scene.name}-{'dark' if dark else 'light'}-{place}"
                        print(await photograph(browser, stage.url, name, dark=dark, size=size))
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
