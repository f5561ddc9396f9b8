"""Does anything get lost when real processes are killed again and again? `python -m tools.prove_kills --kills 1000`.

Every command runs against a simulated provider on loopback and is killed with SIGKILL: during its start, or after some
requests. Then one process runs to its end. It must end well, the store must be whole, the mirror must equal the provider,
and the ceiling must hold over all lives. Several mirrors are worked on at a time, because most of a kill is waiting: for
a process to start, and for the leases of a dead one to end.
"""

import argparse
import asyncio
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import count, zip_longest
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from remora.sim.checks import compare
from remora.stores.postgres import PostgresStore
from tests.integration.listed_server import ListedProcess, loopback_archive
from tests.postgres_server import PostgresServer
from tests.processes import Remora, SimulatedProvider, kill, simulated_provider, too_early_ns
from tests.warm_start import learned_pace
from tools import services

RECORD: Final = Path("docs/reliability-kills.json")
CEILING_PER_S: Final = 200
LISTED_PER_S: Final = 50
ITEMS: Final = 600
ENTRIES: Final = 150
KILLS_PER_MIRROR: Final = 20  # then the mirror is compared, and the next one begins empty
TOGETHER: Final = 4  # mirrors at a time
START_S: Final = 1.5  # about as long as a process takes to start
AT_START_SHARE: Final = 0.3
REQUESTS_MAX: Final = 40
POLL_S: Final = 0.02
# A killed process keeps its leases in PostgreSQL until they end: the next one may send nothing for some seconds.
KILL_WITHIN_S: Final = 20.0
LAST_S: Final = 900.0
_LEASES: Final = (
    "UPDATE segments SET lease_until = 0",
    "UPDATE singletons SET lease_until_ns = 0",
)


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one command on one store."""

    date: str
    commit: str
    command: str
    store: str
    kills: int
    violations: list[str]


def main() -> int:
    """Exit code 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tools.prove_kills")
    parser.add_argument("--kills", type=int, default=1_000, help="over all commands and stores")
    parser.add_argument("--record", action="store_true", help=f"add each result to {RECORD}")
    parser.add_argument("--store", choices=["SQLite", "PostgreSQL"], help="only this store")
    parser.add_argument("--together", type=int, default=TOGETHER, help=f"mirrors at a time (default {TOGETHER})")
    options = parser.parse_args()
    killed = kill_many(options.kills, only=options.store, together=options.together, record=options.record)
    return 1 if any(one.violations for one in killed) else 0


Mirror = Callable[["Case", int, int], list[str]]


class Case(msgspec.Struct, frozen=True):
    """One command on one store."""

    command: str
    store: str
    kill: Mirror
    server: PostgresServer | None = None


def kill_many(kills: int, *, only: str | None = None, together: int = TOGETHER, record: bool = False) -> list[Killed]:
    """Share the kills among all commands and stores that this machine has. Each mirror is recorded when it is done."""
    programs = services.find_postgres() if only in {None, "PostgreSQL"} else None
    with PostgresServer(programs) if programs is not None else nullcontext() as server:
        cases = [case for case in _cases(server) if only in {None, case.store}]
        assert cases, f"there is no {only} here"
        jobs, done, at = _jobs(cases, kills), [], commit()  # once: the first record changes the working directory
        with ThreadPoolExecutor(together) as pool:
            running = [pool.submit(_tried, *job, at) for job in jobs]
            for ended in as_completed(running):
                one = ended.result()
                done.append(one)
                so_far = sum(each.kills for each in done)
                print(
                    f"kills: {one.command} on {one.store}: {one.kills} kills, {one.violations or 'well'}; {so_far} of {kills}",
                    flush=True,
                )
                if record:
                    keep([one])
    return done


def _jobs(cases: Sequence[Case], kills: int) -> list[tuple[Case, int, int]]:
    """The mirrors, so that every case has as many kills as the others, and so that the cases take turns."""
    each = -(-kills // len(cases))
    sizes = [min(KILLS_PER_MIRROR, each - begun) for begun in range(0, each, KILLS_PER_MIRROR)]
    seeds = count(1 + sum(one.kills for one in read()))
    rounds = zip_longest(*([(case, size) for size in sizes] for case in cases))
    return [(case, size, next(seeds)) for each_round in rounds for case, size in each_round]


def _tried(case: Case, kills: int, seed: int, at: str) -> Killed:
    """What was violated. A command that never ends, or that cannot even start, is a violation and stops nothing."""
    try:
        violations = case.kill(case, kills, seed)
    except subprocess.TimeoutExpired as late:
        violations = [f"{' '.join(str(word) for word in late.cmd[2:])} did not end within {late.timeout:g} s"]
    except (AssertionError, OSError) as error:
        violations = [f"{type(error).__name__}: {error}"[:300]]
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return Killed(date=date, commit=at, command=case.command, store=case.store, kills=kills, violations=violations)


def _cases(server: PostgresServer | None) -> Iterator[Case]:
    yield Case("catchup", "SQLite", _kill_numbered)
    yield Case("up", "SQLite", _kill_numbered)
    yield Case("run", "SQLite", _kill_listed)
    if server is not None:
        yield Case("catchup", "PostgreSQL", _kill_numbered, server)
        yield Case("up", "PostgreSQL", _kill_numbered, server)
        yield Case("worker", "PostgreSQL", _kill_numbered, server)
        yield Case("run", "PostgreSQL", _kill_listed, server)


def _kill_numbered(case: Case, kills: int, seed: int) -> list[str]:
    with _folder() as folder, simulated_provider(items=ITEMS, seed=seed) as there, _store(case, folder, seed) as url:
        remora = Remora(folder, there, ceiling=f"{CEILING_PER_S}/s")
        _choose_store(folder, url)
        if url is None:
            remora.warm_up(CEILING_PER_S)
        else:
            migrated = remora("store", "migrate")
            assert migrated.returncode == 0, migrated.stderr[-200:]
            asyncio.run(_warm_up(url, "hackernews", CEILING_PER_S))
        words = [case.command, "--listen", "127.0.0.1:0"] if case.command == "up" else [case.command]
        chance = random.Random(seed)  # noqa: S311  chance, no secret
        if case.command == "worker":  # it only helps: somebody else must have planned what there is to do
            _plan(remora, there)
        for _ in range(kills):
            process = remora.start(*words)
            _wait_a_little(chance, there.arrived, process)
            kill(process)
            _end_leases(url, chance)
        last = remora("catchup", timeout_s=LAST_S)
        different = compare(remora.bodies(), there.dump())
        return [
            *_ended_well(last),
            *_whole(folder, url),
            *([f"{len(different)} differences after {kills} kills of {case.command}"] if different else []),
            *_too_fast(there.arrivals()[0], CEILING_PER_S),
        ]


def _plan(remora: Remora, there: SimulatedProvider) -> None:
    process, until_s = remora.start("catchup"), time.monotonic() + LAST_S
    while there.arrived() < 5 and time.monotonic() < until_s:
        time.sleep(POLL_S)
    kill(process)


def _kill_listed(case: Case, kills: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311  chance, no secret
    with _folder() as folder, loopback_archive(ENTRIES) as archive, _store(case, folder, seed) as url:
        remora = ListedProcess(folder, archive, ceiling=f"{LISTED_PER_S}/s")
        _choose_store(folder, url)
        if url is None:
            asyncio.run(remora.warm_up(LISTED_PER_S))
        else:
            asyncio.run(_warm_up(url, "chats", LISTED_PER_S))
        for _ in range(kills):
            process = remora.start(case.command, "chats", into=folder / "out.txt")
            _wait_a_little(chance, lambda: len(archive.asked), process)
            kill(process)
            _end_leases(url, chance)
        last = remora(case.command, "chats", timeout_s=LAST_S)
        held = remora.documents() if url is None else asyncio.run(_documents(url))
        return [
            *_ended_well(last),
            *_whole(folder, url),
            *(
                []
                if held == {key: archive.body(key) for key in archive.keys}
                else [f"the archive differs after {kills} kills"]
            ),
            *_too_fast(archive.asked_ns, LISTED_PER_S),
        ]


# -- what is checked after the last kill ---------------------------------------------------------------------------


def _ended_well(last: "subprocess.CompletedProcess[str]") -> list[str]:
    """Exit code 0, and a last line that is a sentence."""
    said = f"{last.stdout}{last.stderr}".splitlines()
    if last.returncode != 0 or not said or any(line.startswith("Traceback") for line in said):
        return [f"the last process ended with {last.returncode}: {said[-1:]}"]
    return []


def _whole(folder: Path, url: str | None) -> list[str]:
    """Whether the file of SQLite is whole. PostgreSQL itself was not killed."""
    if url is not None:
        return []
    with closing(sqlite3.connect(f"file:{folder / 'remora.db'}?mode=ro", uri=True)) as connection:
        told = connection.execute("PRAGMA integrity_check").fetchone()[0]
    return [] if told == "ok" else [f"the file is damaged: {told}"]


def _too_fast(arrivals_ns: list[int], ceiling_per_s: int) -> list[str]:
    early_ns = too_early_ns(arrivals_ns, 1_000_000_000 // ceiling_per_s)
    return [f"the ceiling was exceeded by {early_ns} ns"] if early_ns > 0 else []


# -- where the mirror is -------------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="remora-kills-") as name:
        yield Path(name)


@contextmanager
def _store(case: Case, folder: Path, seed: int) -> Iterator[str | None]:
    """The address of a database of its own; None for a file in the folder."""
    if case.server is None:
        yield None
        return
    name = f"kills_{case.command}_{seed}"
    case.server.create_database(name)
    try:
        yield case.server.url(name)
    finally:
        case.server.drop_database(name)


def _choose_store(folder: Path, url: str | None) -> None:
    if url is not None:
        config = folder / "remora.toml"
        config.write_text(f'[store]\nurl = "{url}"\n\n{config.read_text()}')


async def _warm_up(url: str, source: str, rate_per_s: float) -> None:
    """As if an earlier process had learned this pace a moment ago: a cold start takes its time."""
    store = PostgresStore(url)
    await store.open()
    await store.save_pace(source, learned_pace(rate_per_s))
    await store.close()


async def _documents(url: str) -> dict[str, bytes]:
    store = PostgresStore(url, read_only=True)
    await store.open()
    try:
        return {document.key: document.body or b"" async for document in store.documents("chats")}
    finally:
        await store.close()


def _end_leases(url: str | None, chance: random.Random) -> None:
    """Half of the time, as if the seconds had passed for which a dead process keeps what it claimed."""
    if url is not None and chance.random() < 0.5:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in _LEASES:
                connection.execute(statement.encode())


def _wait_a_little(chance: random.Random, arrived: Callable[[], int], process: "subprocess.Popen[bytes]") -> None:
    """Until some moment of its start, or until some of its requests arrived; never for long."""
    if chance.random() < AT_START_SHARE:
        time.sleep(chance.uniform(0, START_S))
        return
    goal, until_s = arrived() + chance.randint(1, REQUESTS_MAX), time.monotonic() + KILL_WITHIN_S
    while arrived() < goal and process.poll() is None and time.monotonic() < until_s:
        time.sleep(POLL_S)


def read() -> list[Killed]:
    """All recorded kills."""
    return msgspec.json.decode(RECORD.read_bytes(), type=list[Killed]) if RECORD.exists() else []


def keep(killed: Sequence[Killed]) -> None:
    """Add kills to the record: to the row of the same day, commit, command and store, if there is one."""
    rows = read()
    for one in killed:
        at = next((at for at, row in enumerate(rows) if _same(row, one)), None)
        if at is None:
            rows.append(one)
            continue
        row = rows[at]
        rows[at] = msgspec.structs.replace(
            row, kills=row.kills + one.kills, violations=[*row.violations, *one.violations]
        )
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")


def _same(row: Killed, one: Killed) -> bool:
    return (row.date, row.commit, row.command, row.store) == (one.date, one.commit, one.command, one.store)


def commit() -> str:
    """The commit of the working directory; `unknown` where there is none."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
