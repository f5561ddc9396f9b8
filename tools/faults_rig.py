"""What does a process need to suffer a fault? A provider, a folder, perhaps a database, and eyes that see all of it."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from remora.stores.postgres import PostgresStore
from tests.postgres_server import PostgresServer
from tests.processes import Remora, SimulatedProvider, simulated_provider
from tests.warm_start import learned_pace
from tools import services

DATABASE: Final = "mirror"
DISK_BYTES: Final = 400 << 20  # Remora keeps 268 MB of a disk free
POLL_S: Final = 0.2
STEPPED_CLOCK: Final = Path(__file__).with_name("stepped_clock.c")
STOP_S: Final = 120.0


class Rig:
    """One mirror of one provider, and the processes that work on it."""

    def __init__(
        self,
        folder: Path,
        provider: SimulatedProvider,
        servers: list[PostgresServer],
        *,
        ceiling_per_s: int,
        seconds: float,
    ) -> None:
        self.folder = folder
        self.provider = provider
        self.seconds = seconds
        self.ceiling_per_s = ceiling_per_s
        self.seen: list[str] = []
        self.violations: list[str] = []
        self._servers = servers
        self._logs: dict[int, Path] = {}
        self._clock = folder.parent / "clock"
        self._environment = dict(os.environ)
        self.remora = Remora(folder, provider, ceiling=f"{ceiling_per_s}/s")
        if servers:
            config = folder / "remora.toml"
            config.write_text(f'[store]\nurl = "{self._address()}"\n\n{config.read_text()}')

    @property
    def file(self) -> Path:
        """The file of SQLite; perhaps a link to it."""
        return self.folder / "remora.db"

    @property
    def server(self) -> PostgresServer:
        """The primary."""
        return self._servers[0]

    @property
    def url(self) -> str:
        """The database on the primary."""
        return self.server.url(DATABASE)

    @property
    def database(self) -> str:
        """Its name."""
        return DATABASE

    def _address(self) -> str:
        """As documented: all hosts, and the one that accepts writes is meant."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self._servers)
        return f"postgresql://remora@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def saw(self, what: str) -> None:
        """Something worth recording."""
        if what not in self.seen:
            self.seen.append(what)

    def violate(self, what: str) -> None:
        """A promise is broken."""
        self.violations.append(what)

    def warm_up(self) -> None:
        """As if an earlier process had learned the pace: a cold start takes its time."""
        if not self._servers:
            self.remora.warm_up(self.ceiling_per_s)
            return
        migrated = self.remora("store", "migrate")
        assert migrated.returncode == 0, migrated.stderr[-200:]
        asyncio.run(_save_pace(self.url, self.ceiling_per_s))

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a command; what it says goes into a file of its own, outside the mirror's disk."""
        log = self.folder.parent / f"{len(self._logs)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "remora", *words],
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=output,
            )
        self._logs[process.pid] = log
        return process

    def end(self, process: "subprocess.Popen[bytes]") -> tuple[int, str]:
        """Ask it to stop: its exit code and its last words."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=STOP_S)
        return code, last_words(self._logs[process.pid])

    def tracebacks(self) -> list[str]:
        """Logs with a traceback in them."""
        texts = [log.read_text(errors="replace") for log in self._logs.values()]
        return [text[text.index("Traceback") :].strip().splitlines()[-1] for text in texts if "Traceback" in text]

    # -- what is there -----------------------------------------------------------------------------------------------

    def held(self) -> int:
        """How many items are stored; 0 while nobody can tell."""
        try:
            return self._count("items")
        except (sqlite3.Error, psycopg.Error):
            return 0

    def _count(self, table: str) -> int:
        statement = f"SELECT count(*) FROM {table}"  # noqa: S608  a name from this file
        if self._servers:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                row = connection.execute(statement.encode()).fetchone()
        else:
            with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as file:
                row = file.execute(statement).fetchone()
        return int(row[0]) if row else 0

    def until(self, is_so: Callable[[], bool], process: "subprocess.Popen[bytes]", *, within_s: float) -> bool:
        """Wait, but not for ever, and not for a process that has ended."""
        give_up_s = time.monotonic() + within_s
        while not is_so():
            if process.poll() is not None or time.monotonic() > give_up_s:
                return False
            time.sleep(POLL_S)
        return True

    def headline(self) -> str:
        """What `remora status` says first, or why it cannot."""
        told = subprocess.run(
            [sys.executable, "-m", "remora", "status"],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=STOP_S,
            check=False,
        )
        lines = (told.stdout if told.returncode == 0 else told.stderr).strip().splitlines()
        return f"{lines[0] if lines else 'nothing'}" + (f" (exit code {told.returncode})" if told.returncode else "")

    def integrity(self) -> list[str]:
        """Whether the store is whole, and nothing in it was written twice."""
        wrong = []
        if not self._servers:
            with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as file:
                told = file.execute("PRAGMA integrity_check").fetchone()[0]
            wrong += [] if told == "ok" else [f"the file is damaged: {told}"]
        if (revisions := self._count("revisions")) > 0:
            wrong.append(f"{revisions} revisions of items that never changed")
        if (
            twice := self._count("(SELECT key FROM changes GROUP BY source, kind, key HAVING count(*) > 1) AS twice")
        ) > 0:
            wrong.append(f"{twice} items are twice in the change feed")
        return wrong

    # -- what only some faults need ----------------------------------------------------------------------------------

    def promote_standby(self) -> None:
        """From now on the standby is the primary."""
        self._servers.reverse()
        self.server.command("ALTER SYSTEM RESET synchronous_standby_names")
        self.server.promote()
        self.server.command("SELECT pg_reload_conf()")

    def cut_replication(self) -> None:
        """The standby gets nothing more, and nobody waits for it."""
        self.server.command("ALTER SYSTEM RESET synchronous_standby_names")
        self.server.command("SELECT pg_reload_conf()")
        self._servers[1].command("ALTER SYSTEM SET primary_conninfo = ''")
        self._servers[1].command("SELECT pg_reload_conf()")

    def link_file(self) -> None:
        """The file is elsewhere, and its name is a link to it."""
        elsewhere = self.folder.parent / "elsewhere"
        elsewhere.mkdir()
        real = self.file.rename(elsewhere / "real.db")
        self.file.symlink_to(real)

    def fake_clock(self) -> None:
        """Processes that start from now on have a wall clock that can be stepped."""
        compiler = shutil.which("cc")
        assert compiler is not None, "NOT SHOWN: there is no C compiler here"
        library = self.folder.parent / "stepped_clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(STEPPED_CLOCK)], check=True)
        self._clock.write_bytes(bytes(8))
        self._environment |= {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._clock)}

    def step_clock(self, seconds: int) -> None:
        """Set it this much ahead of the truth."""
        with self._clock.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


@contextmanager
def new_rig(
    *, items: int, ceiling_per_s: int, seconds: float, postgres: bool, standby: bool, small_disk: bool
) -> Iterator[Rig]:
    """A rig with everything in it, gone afterwards."""
    with ExitStack() as stack:
        outer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="remora-faults-")))
        folder = outer / "mirror"
        folder.mkdir()
        if small_disk:
            stack.enter_context(_small_disk(folder))
        servers = stack.enter_context(_servers(with_standby=standby)) if postgres else []
        provider = stack.enter_context(simulated_provider(items=items, seed=int(seconds)))
        rig = Rig(folder, provider, servers, ceiling_per_s=ceiling_per_s, seconds=seconds)
        rig.warm_up()
        yield rig


@contextmanager
def _servers(*, with_standby: bool) -> Iterator[list[PostgresServer]]:
    programs = services.find_postgres()
    assert programs is not None, "there is no PostgreSQL here"
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(programs))
        primary.create_database(DATABASE)
        servers = [primary]
        if with_standby:
            standby = PostgresServer(programs)
            stack.callback(standby.__exit__)
            standby.copy_of(primary)
            standby.start()
            primary.command("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.command("SELECT pg_reload_conf()")
            servers.append(standby)
        yield servers


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    assert mount is not None, "there is no mount here"
    assert umount is not None, "there is no umount here"
    assert os.geteuid() == 0, "only root can make a small disk"
    subprocess.run([mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "remora", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run([umount, "--lazy", str(folder)], check=True)


def free_disk(folder: Path) -> int:
    """How many bytes still fit."""
    return shutil.disk_usage(folder).free


def hang_up(url: str) -> None:
    """Cut every other connection to this database."""
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def last_words(log: Path) -> str:
    """The message of the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    if not lines:
        return ""
    try:
        told = msgspec.json.decode(lines[-1])
    except msgspec.DecodeError:
        return lines[-1]
    return str(told.get("message") or told.get("event"))


async def _save_pace(url: str, rate_per_s: float) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.save_pace("hackernews", learned_pace(rate_per_s))
    await store.close()
