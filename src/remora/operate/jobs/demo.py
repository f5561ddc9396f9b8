"""What does `remora up --demo` mirror? A simulated Hacker News, run by a separate process on loopback, into ./demo."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from remora.core.errors import ConfigurationError, RemoraError
from remora.files import PRIVATE_FOLDER
from remora.operate.config.reader import read_source
from remora.operate.config.settings import (
    DEFAULT_SOURCE,
    Settings,
    StoreSettings,
)
from remora.operate.jobs.opened_store import opened_store
from remora.operate.jobs.progress import ProgressView
from remora.operate.jobs.startup_checks import tell_upgrade

FOLDER: Final = Path("demo")
FILE: Final = FOLDER / "remora.db"
STORE: Final = f"sqlite:///{FILE}"
# Complete in about two minutes on a quiet machine, and within five on one that is busy with other things.
ITEMS: Final = 8_000
# A day of new items passes in 24 minutes, so that something happens while one watches.
SPEED: Final = 60
# The provider refuses more than this; the ceiling is above it, so that one can watch the pace being learned.
HIDDEN_LIMIT_PER_S: Final = 150
# The burst it accepts: half a second's worth, so that a laptop that stalls briefly is not refused.
BURST: Final = 75
CEILING: Final = "250/s"
START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 3.0
FAULTS: Final = f"""
[limit]
kind = "token_bucket"
per_second = {HIDDEN_LIMIT_PER_S}
burst = {BURST}
"""


@asynccontextmanager
async def demo_provider(settings: Settings, view: ProgressView) -> AsyncIterator[Settings]:
    """Start the simulated provider; yields settings that mirror it. It ends when we end, however that happens."""
    faults = FOLDER / "faults.toml"
    try:
        FOLDER.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        faults.write_text(FAULTS, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the folder {FOLDER} cannot be written ({error.strerror})", hint="run the demo in a folder of your own"
        ) from None
    view.say("demo: starting a simulated Hacker News on loopback; nothing leaves this machine")
    newest_id = max(ITEMS, await newest_mirrored())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "remora.sim.server", "--until-eof", "--items", str(ITEMS)),
        *("--speed", str(SPEED), "--faults", str(faults), "--newest-id", str(newest_id)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches us alone; the provider ends when its input does
    )
    try:
        url = await _url(process)
        view.say(
            f"demo: it has {newest_id:,} items and refuses more than {HIDDEN_LIMIT_PER_S}/s, which it does not tell"
        )
        yield _demo_settings(settings, url)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def newest_mirrored() -> int:
    """The newest id of an earlier demo, perhaps by an older version: its world continues from there."""
    if not FILE.exists():
        return 0
    tell_upgrade(STORE)
    async with opened_store(Settings(store=StoreSettings(url=STORE)), read_only=False) as store:
        ranges = (await store.coverage(DEFAULT_SOURCE)).ranges
        return ranges[-1].end if ranges else 0


async def _url(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await process.stdout.readline()
        return str(json.loads(line)["url"])
    except (TimeoutError, ValueError, KeyError) as error:
        raise RemoraError(
            "the simulated provider did not start", hint="run `remora simulate` to see what it says"
        ) from error


def _demo_settings(settings: Settings, url: str) -> Settings:
    source = read_source(DEFAULT_SOURCE, {"preset": "hackernews", "url": url, "ceiling": CEILING})
    store = StoreSettings(url=STORE)
    return msgspec.structs.replace(settings, store=store, sources={DEFAULT_SOURCE: source})
