"""Does anything get lost when real processes are killed again and again? `python -m tools.prove_kills --kills 1000`.

Every command runs against a simulated provider on loopback and is killed with SIGKILL: during its start, or after some
requests. Then one process runs to its end. The mirror must equal the provider, and the ceiling must hold over all lives.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from remora.sim.checks import compare
from tests.integration.listed_server import ListedProcess, loopback_archive
from tests.postgres_server import PostgresServer
from tests.processes import Remora, SimulatedProvider, kill, simulated_provider, too_early_ns
from tools import services

RECORD: Final = Path("docs/reliability-kills.json")
CEILING_PER_S: Final = 200
ITEMS: Final = 400
ENTRIES: Final = 60
KILLS_PER_MIRROR: Final = 20  # then the mirror is compared, and the next one begins empty
START_S: Final = 1.5  # about as long as a process takes to start
REQUESTS_MAX: Final = 40
POLL_S: Final = 0.01
# A killed process keeps its leases in PostgreSQL until they end: the next one may send nothing for minutes.
KILL_WITHIN_S: Final = 20.0
LAST_S: Final = 900.0


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
    parser.add_argument("--record", action="store_true", help=f"add the result to {RECORD}")
    parser.add_argument("--store", choices=["SQLite", "PostgreSQL"], help="only this store")
    options = parser.parse_args()
    killed = kill_many(options.kills, only=options.store)
    if options.record:
        keep(killed)
    return 1 if any(one.violations for one in killed) else 0


def kill_many(kills: int, *, only: str | None = None) -> list[Killed]:
    """Share the kills among all commands and stores that this machine has."""
    cases = [case for case in _cases() if only in {None, case[1]}]
    assert cases, f"there is no {only} here"
    each = -(-kills // len(cases))
    done = []
    for command, store, one_mirror in cases:
        violations: list[str] = []
        seeds = count(1)
        left = each
        while left > 0:
            batch = min(left, KILLS_PER_MIRROR)
            violations += _tried(one_mirror, command, batch, next(seeds))
            left -= batch
        date = f"{datetime.now(UTC):%Y-%m-%d}"
        done.append(Killed(date=date, commit=commit(), command=command, store=store, kills=each, violations=violations))
        print(f"kills: {command} on {store}: {each} kills, {len(violations)} violations {violations[:1]}", flush=True)
    return done


Mirror = Callable[[str, int, int], list[str]]


def _tried(one_mirror: Mirror, command: str, kills: int, seed: int) -> list[str]:
    """What was violated. A command that never ends, or that cannot even start, is a violation and stops nothing."""
    try:
        return one_mirror(command, kills, seed)
    except subprocess.TimeoutExpired as late:
        return [f"{' '.join(str(word) for word in late.cmd[2:])} did not end within {late.timeout:g} s"]
    except (AssertionError, OSError) as error:
        return [f"{type(error).__name__}: {error}"[:300]]


def _cases() -> Iterator[tuple[str, str, Mirror]]:
    yield "catchup", "SQLite", _numbered_on_sqlite
    yield "up", "SQLite", _numbered_on_sqlite
    yield "run", "SQLite", _listed_on_sqlite
    if services.find_postgres() is not None:
        yield "catchup", "PostgreSQL", _numbered_on_postgres
        yield "worker", "PostgreSQL", _numbered_on_postgres


def _numbered_on_sqlite(command: str, kills: int, seed: int) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="remora-kills-") as name,
        simulated_provider(items=ITEMS, seed=seed) as there,
    ):
        remora = Remora(Path(name), there, ceiling=f"{CEILING_PER_S}/s")
        remora.warm_up(CEILING_PER_S)
        return _kill_numbered(remora, there, command, kills, seed)


def _numbered_on_postgres(command: str, kills: int, seed: int) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="remora-kills-") as name,
        simulated_provider(items=ITEMS, seed=seed) as there,
        _postgres() as url,
    ):
        remora = Remora(Path(name), there, ceiling=f"{CEILING_PER_S}/s")
        config = Path(name) / "remora.toml"
        config.write_text(f'[store]\nurl = "{url}"\n\n{config.read_text()}')
        migrated = remora("store", "migrate")
        assert migrated.returncode == 0, migrated.stderr[-200:]
        return _kill_numbered(remora, there, command, kills, seed)


def _kill_numbered(remora: Remora, there: SimulatedProvider, command: str, kills: int, seed: int) -> list[str]:
    words = [command, "--listen", "127.0.0.1:0"] if command == "up" else [command]
    chance = random.Random(seed)  # noqa: S311  chance, no secret
    for _ in range(kills):
        process = remora.start(*words)
        _wait_a_little(chance, there.arrived, process)
        kill(process)
    last = remora("catchup", timeout_s=LAST_S)
    violations = (
        [] if last.returncode == 0 else [f"the last process ended with {last.returncode}: {last.stderr[-200:]}"]
    )
    different = compare(remora.bodies(), there.dump())
    violations += [f"{len(different)} differences after {kills} kills of {command}"] if different else []
    early_ns = too_early_ns(there.arrivals()[0], 1_000_000_000 // CEILING_PER_S)
    return violations + ([f"the ceiling was exceeded by {early_ns} ns"] if early_ns > 0 else [])


def _listed_on_sqlite(command: str, kills: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311  chance, no secret
    with tempfile.TemporaryDirectory(prefix="remora-kills-") as name, loopback_archive(ENTRIES) as archive:
        remora = ListedProcess(Path(name), archive, ceiling="50/s")
        for _ in range(kills):
            process = remora.start(command, "chats", into=Path(name) / "out.txt")
            _wait_a_little(chance, lambda: len(archive.asked), process)
            kill(process)
        last = remora(command, "chats", timeout_s=LAST_S)
        violations = (
            [] if last.returncode == 0 else [f"the last run ended with {last.returncode}: {last.stdout[-200:]}"]
        )
        same = remora.documents() == {key: archive.body(key) for key in archive.keys}
        return violations + ([] if same else [f"the archive differs after {kills} kills"])


def _wait_a_little(chance: random.Random, arrived: Callable[[], int], process: "subprocess.Popen[bytes]") -> None:
    """Until some moment of its start, or until some of its requests arrived; never for long."""
    if chance.random() < 0.3:
        time.sleep(chance.uniform(0, START_S))
        return
    goal, until_s = arrived() + chance.randint(1, REQUESTS_MAX), time.monotonic() + KILL_WITHIN_S
    while arrived() < goal and process.poll() is None and time.monotonic() < until_s:
        time.sleep(POLL_S)


@contextmanager
def _postgres() -> Iterator[str]:
    programs = services.find_postgres()
    assert programs is not None, "there is a PostgreSQL where this is called"
    with PostgresServer(programs) as server:
        server.create_database("kills")
        yield server.url("kills")


def read() -> list[Killed]:
    """All recorded kills."""
    return msgspec.json.decode(RECORD.read_bytes(), type=list[Killed]) if RECORD.exists() else []


def keep(killed: list[Killed]) -> None:
    """Add kills to the record."""
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode([*read(), *killed]), indent=1) + b"\n")


def commit() -> str:
    """The commit of the working directory; `unknown` where there is none."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
