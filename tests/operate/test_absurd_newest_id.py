"""Can an operator stop, understand and repair a mirror whose source told an absurd newest id?"""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remora.core.ledger.coverage import IdRange
from remora.core.ledger.segment import SegmentKind
from remora.sim.server import ServerHandle, serve
from remora.sim.world import WorldSettings
from remora.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

NAME = "hackernews"
WAIT_S = 120  # only guards against a process that hangs
MEMORY_MAX_BYTES = 300 * 1024 * 1024


def configured(folder: Path, server: ServerHandle) -> None:
    text = f'[sources.{NAME}]\nurl = "{server.url}"\nceiling = "50/s"\n'
    (folder / "remora.toml").write_text(text)


async def started(folder: Path, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remora", *words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


async def ended(folder: Path, *words: str) -> tuple[int, str]:
    process = await started(folder, *words)
    out, err = await asyncio.wait_for(process.communicate(), WAIT_S)
    return process.returncode or 0, out.decode() + err.decode()


async def note(folder: Path, name: str) -> object:
    store = SqliteStore(folder / "remora.db", read_only=True)
    await store.open()
    try:
        return await store.note(NAME, name)
    finally:
        await store.close()


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever held."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def test_a_service_that_was_told_an_absurd_number_hears_sigterm_and_stays_small(tmp_path: Path) -> None:
    async with await serve(WorldSettings(items=2_000)) as server:
        server.provider.claims_newest_id = 2**53
        configured(tmp_path, server)
        process = await started(tmp_path, "up", "--listen", "127.0.0.1:0")
        while not any(  # noqa: ASYNC110
            path.startswith("/v0/item/9007199") for path in server.provider.arrivals.paths
        ):
            await asyncio.sleep(0.05)
        assert peak_bytes(process.pid) < MEMORY_MAX_BYTES
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), WAIT_S)
        assert process.returncode == 0
        assert await note(tmp_path, "newest_id") is None


async def test_a_catchup_that_is_told_an_absurd_number_says_so_and_ends(tmp_path: Path) -> None:
    async with await serve(WorldSettings(items=2_000)) as server:
        server.provider.claims_newest_id = 10**10
        configured(tmp_path, server)
        code, said = await ended(tmp_path, "catchup")
        assert code == 1
        assert "10,000,000,000" in said
        assert "Traceback" not in said
        assert await note(tmp_path, "newest_id") is None


async def test_repair_brings_a_store_back_that_believed_an_absurd_number(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    await store.keep_note(NAME, "newest_id", 2**53)
    await store.keep_note(NAME, "live_from", 2**53)
    await store.plan(NAME, SegmentKind.BACKFILL, [IdRange(1, 2**53)], now_ns=0)
    await store.close()
    async with await serve(WorldSettings(items=2_000)) as server:
        configured(tmp_path, server)
        code, said = await ended(tmp_path, "store", "repair")
    assert code == 0, said
    assert "the store believed 9,007,199,254,740,992" in said
    kept = await note(tmp_path, "newest_id")
    assert isinstance(kept, int)
    assert 2_000 <= kept < 3_000
    assert await note(tmp_path, "live_from") is None
    assert await open_ids(tmp_path) <= kept


async def test_repair_without_an_answer_says_that_nothing_was_repaired_and_repairs_the_others(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "remora.db")
    await store.open()
    await store.keep_note("silent", "proven_id", 300)
    await store.keep_note("silent", "newest_id", 300)
    await store.keep_note(NAME, "newest_id", 2**53)
    await store.close()
    async with await serve(WorldSettings(items=2_000)) as server:
        configured(tmp_path, server)
        declared = (tmp_path / "remora.toml").read_text()
        silent = '[sources.silent]\npreset = "hackernews"\nurl = "http://127.0.0.1:9"\n'
        (tmp_path / "remora.toml").write_text(silent + declared)
        code, said = await ended(tmp_path, "store", "repair")
    assert code == 1
    assert "silent: the newest id is" not in said
    assert "silent gives no usable answer, and nothing was repaired" in said
    assert "the store believed 9,007,199,254,740,992" in said


async def open_ids(folder: Path) -> int:
    store = SqliteStore(folder / "remora.db", read_only=True)
    await store.open()
    try:
        return sum((await store.open_segments(NAME)).values())
    finally:
        await store.close()
