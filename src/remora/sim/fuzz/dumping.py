"""What if a dump is imported in the middle of a mirror's life? It is old, has holes and damaged lines, and is tried again."""

from pathlib import Path
from random import Random
from typing import Final

from remora.contracts.importing import Importing
from remora.core.units import SECOND_NS
from remora.sim.crash import Crashed, Generation
from remora.sim.fuzz.judge import NAME
from remora.sim.fuzz.lives import SPARSE, Home
from remora.sim.fuzz.scenario import SourceShape
from remora.sim.fuzz.uses import Dump
from remora.sources.dumps import fingerprint, items_of, pages
from remora.sources.hackernews import HackerNewsReading
from remora.sources.numbered import DeclaredReading, Reading
from remora.stores.sqlite import InPlace
from remora.stores.sqlite.importing import ImportingSqliteStore

FILES: Final = 3
CALLS_OF_A_LIFE_MAX: Final = 8
_OLD: Final = 0.1  # of the lines come twice: the second time with an older content


async def import_dump(home: Home, dump: Dump) -> None:
    """Import the files of a dump while no process holds the store, and compare the mirror with what it was before."""
    chance = Random(f"dump/{home.scenario.seed}")
    files = _write_files(home, dump, chance)
    before = await _bodies(home)
    while not await _import(
        home, files, Generation(die_at_call=chance.choice([None, chance.randint(1, CALLS_OF_A_LIFE_MAX)]))
    ):
        pass
    await _compare(home, before, files)


def _write_files(home: Home, dump: Dump, chance: Random) -> list[Path]:
    """Lines of JSON as the provider had them some time ago, in files by id."""
    world, then_ns = home.stage.provider.world, home.clock.true_ns() - round(dump.age_s * SECOND_NS)
    lines: list[bytes] = []
    for item_id, body in world.dump(then_ns):
        if chance.random() < dump.share:
            lines.append(_damaged(body, chance) if chance.random() < dump.damaged else body)
            if chance.random() < _OLD and (older := world.body(item_id, then_ns - round(dump.age_s * SECOND_NS))):
                lines.append(older)
    if dump.is_shuffled:
        chance.shuffle(lines)
    size = len(lines) // FILES + 1
    files = [home.path.with_name(f"dump-{number}.jsonl") for number in range(FILES)]
    for number, path in enumerate(files):
        path.write_bytes(b"\n".join([*lines[number * size : (number + 1) * size], b""]))
    return files


def _damaged(body: bytes, chance: Random) -> bytes:
    return chance.choice([body[: len(body) // 2], b"", b"[]", b"null", b'{"id":null}', b"\xff\xfe", body[:-1] + b",}"])


async def _import(home: Home, files: list[Path], life: Generation) -> bool:
    """As `remora import` does. False: it was killed, and is called again with the same files."""
    store = ImportingSqliteStore(home.path, offload=InPlace)
    await store.open()
    try:
        await life.live(_import_files(home, life.guard(store), files))
    except Crashed:
        return False
    finally:
        await store.close()
    return True


async def _import_files(home: Home, store: Importing, files: list[Path]) -> None:
    now_ns, reading = home.clock.restarted().wall_ns(), _reading(home)
    for path in files:
        state = await store.begin_import(NAME, file=path.name, fingerprint=fingerprint(path), now_ns=now_ns)
        if state.is_finished:
            continue
        for rows, count in pages(path, after_rows=state.rows_read):
            rows_read, items = state.rows_read + count, items_of(rows, reading)
            state = await store.import_items(NAME, state, items, rows_read=rows_read, now_ns=now_ns)
        await store.end_import(NAME, state, now_ns=now_ns)
    await store.plan_anew(NAME, now_ns=now_ns)


def _reading(home: Home) -> Reading:
    return HackerNewsReading() if home.scenario.shape is SourceShape.HACKERNEWS else DeclaredReading(SPARSE)


async def _bodies(home: Home) -> dict[int, bytes]:
    reader = await home.reader()
    return {} if reader is None else {item_id: body async for item_id, body in reader.bodies(NAME)}


async def _compare(home: Home, before: dict[int, bytes], files: list[Path]) -> None:
    """What was held is as it was, and every line that can be read is held and covered."""
    reader, after, reading = await home.reader(), await _bodies(home), _reading(home)
    assert reader is not None, "the import has made it"
    covered = await reader.coverage(NAME)
    told: dict[int, set[bytes]] = {}
    for path in files:
        for rows, _ in pages(path):
            for item in items_of(rows, reading):
                told.setdefault(item.item_id, set()).add(item.body)
    for item_id, body in before.items():
        if after.get(item_id) != body:
            home.judge.fail(f"an import changed item {item_id}, which was held")
    for item_id, bodies in told.items():
        if item_id not in before and after.get(item_id) not in bodies:
            home.judge.fail(f"item {item_id} of a dump is not held as the dump has it")
        if item_id not in covered:
            home.judge.fail(f"item {item_id} of a dump is held and not covered")
    if extra := after.keys() - before.keys() - told.keys():
        home.judge.fail(f"an import made {len(extra)} items that are not in its dump")
