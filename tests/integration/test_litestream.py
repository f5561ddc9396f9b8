"""Does the recipe for a continuous backup work with the real Litestream, while Remora writes?"""

import asyncio
import subprocess
from pathlib import Path

import pytest

from remora.contracts import Observation, Outcome
from remora.core.item import Item
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.verdict import Found
from remora.stores.sqlite import SqliteStore
from tests.docs_reader import ROOT, Page

pytestmark = [pytest.mark.slow]

SOURCE = "news"


def observed(item_id: int) -> Observation:
    body = b'{"id":%d}' % item_id
    found = Found(Item(item_id=item_id, body=body, content=body))
    return Observation(Discovery.item(item_id, via=Lane.LIVE), found, started_at_ns=1, now_ns=2)


def configured(folder: Path) -> Path:
    """The configuration of the documentation, for files in this folder."""
    page = Page(ROOT / "docs" / "operating.md", (ROOT / "docs" / "operating.md").read_text("utf-8"))
    (shown,) = [block for block in page.blocks("yaml") if "litestream.yml" in block]
    file = folder / "litestream.yml"
    file.write_text(shown.replace("/var/lib/remora", str(folder)).replace("/mnt/backup/remora", str(folder / "backup")))
    return file


async def run(*words: str | Path) -> None:
    await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, timeout=300)


async def test_what_litestream_restores_opens_with_every_item_and_goes_on(
    litestream_path: Path, tmp_path: Path
) -> None:
    config = configured(tmp_path)
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    for item_id in range(1, 101):
        await store.record(SOURCE, observed(item_id))
    await run(litestream_path, "replicate", "-config", config, "-once")
    for item_id in range(101, 201):
        await store.record(SOURCE, observed(item_id))
    await run(litestream_path, "replicate", "-config", config, "-once")
    await store.close()

    await run(litestream_path, "restore", "-config", config, "-o", tmp_path / "restored.db", tmp_path / "remora.db")
    restored = SqliteStore(tmp_path / "restored.db")
    await restored.open()
    assert len([body async for body in restored.bodies(SOURCE)]) == 200
    assert await restored.record(SOURCE, observed(201)) is Outcome.NEW
    await restored.close()
