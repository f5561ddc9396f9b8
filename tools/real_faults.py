"""What can happen to a running process, its file and its database? Each fault is applied to the real thing and taken away.

A fault is a context manager: it holds inside, and it is over afterwards. What it learned is added to `rig.seen`.
"""

import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from remora.stores.sqlite.database import LOG_BYTES_MAX
from tools.faults_rig import Rig, free_disk, hang_up, new_rig

Fault = Callable[[Rig, "subprocess.Popen[bytes]"], AbstractContextManager[None]]
MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
LONGER_THAN_A_LOCK_WAIT_S: Final = 25.0
DAY_S: Final = 86_400
AFTERWARDS_S: Final = 5.0  # a few heartbeats: each is written


class Case(msgspec.Struct, frozen=True):
    """One fault of one machine."""

    name: str
    expected: str
    store: str  # SQLite or PostgreSQL
    fault: Fault
    seconds: float
    with_worker: bool = False  # a second process, which is the one that is harmed
    with_standby: bool = False
    with_linked_file: bool = False
    with_fake_clock: bool = False
    on_small_disk: bool = False
    works_on: bool = False  # also while the fault lasts, so that there must be work for all that time
    per_s: int = 20  # the ceiling


@contextmanager
def rigged(case: Case, *, items: int, seconds: float) -> Iterator[Rig]:
    """Everything that this case needs."""
    with new_rig(
        items=items,
        ceiling_per_s=case.per_s,
        seconds=seconds,
        postgres=case.store == POSTGRES,
        standby=case.with_standby,
        small_disk=case.on_small_disk,
    ) as rig:
        if case.with_linked_file:
            rig.link_file()
        if case.with_fake_clock:
            rig.fake_clock()
        yield rig


# -- of the process --------------------------------------------------------------------------------------------------


@contextmanager
def frozen(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """As a suspended machine; it does not know of it."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@contextmanager
def no_descriptors(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Nothing more can be opened, and the provider cuts connections, so that new ones are needed."""
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
    rig.provider.set_faults({"rates": {"reset": 0.2}})
    try:
        yield
    finally:
        rig.provider.heal()
        if process.poll() is None:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_memory(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Not a byte more than it has."""
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_AS)
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    resource.prlimit(process.pid, resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE"), hard))
    try:
        yield
    finally:
        if process.poll() is None:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (soft, hard))


@contextmanager
def clock_steps(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Its wall clock jumps a day ahead, then a day back, then to the truth. The monotonic clock runs on."""
    rig.step_clock(DAY_S)
    time.sleep(rig.seconds / 2)
    rig.step_clock(-DAY_S)
    yield
    rig.step_clock(0)


# -- of the file -----------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The disk holds nothing more, until somebody makes room."""
    ballast = rig.folder / "ballast"
    with ballast.open("wb") as file:
        while (left := free_disk(rig.folder)) > 0:
            file.write(b"\0" * min(left, 1 << 20))
            file.flush()
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def foreign_reader(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Another program keeps a read transaction open: the log beside the file cannot be shortened."""
    log = Path(f"{rig.file}-wal")
    with closing(sqlite3.connect(f"file:{rig.file}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM items").fetchone()
        began = log.stat().st_size
        yield
        grown = log.stat().st_size
        if reader.execute("SELECT count(*) FROM items").fetchone() != before:
            rig.violate("the reader saw what was written after its transaction had begun")
    time.sleep(AFTERWARDS_S)
    left = log.stat().st_size
    rig.saw(
        f"-wal file: {began / 1e6:.1f} MB at the begin, {grown / 1e6:.1f} MB in the end, {left / 1e6:.1f} MB afterwards"
    )
    if left > 2 * LOG_BYTES_MAX:  # with the batch that made it full
        rig.violate(f"the log stayed at {left} bytes when the reader had ended")


@contextmanager
def symlinked(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The file's name is a link: a second writer is refused by either name."""
    for name in (rig.file, rig.file.resolve()):
        second = rig.remora("catchup", "--store", f"sqlite:///{name}")
        if second.returncode == 0:
            rig.violate(f"a second writer was let in by the name {name.name}")
        rig.saw(f"second writer: exit code {second.returncode}")
    yield


# -- of the database -------------------------------------------------------------------------------------------------


@contextmanager
def read_only(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """As a primary that became a standby: new sessions may not write."""
    rig.server.command(f"ALTER DATABASE {rig.database} SET default_transaction_read_only = on")
    hang_up(rig.url)
    try:
        yield
    finally:
        rig.server.command(f"ALTER DATABASE {rig.database} RESET default_transaction_read_only")


@contextmanager
def no_connections(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Others use all connections that the server allows. One is left for an operator."""
    with ExitStack() as stack:
        operator = stack.enter_context(psycopg.connect(rig.server.url(), autocommit=True))
        taken = 0
        for _ in range(1_000):
            # Ours are cut first, so that every one of them has to be asked for again.
            _cut_ours(operator, rig.database)
            try:
                while True:
                    stack.enter_context(psycopg.connect(rig.server.url(), connect_timeout=5))
                    taken += 1
            except psycopg.OperationalError:
                pass
            if not _ours(operator, rig.database):
                break
        rig.saw(f"{taken} connections were taken")
        yield


@contextmanager
def locked(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Somebody holds the table of items for longer than we wait for a lock."""
    with psycopg.connect(rig.url) as somebody:
        somebody.execute("LOCK TABLE stored_items IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def restarted(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """It ends without a checkpoint, and starts again later."""
    rig.server.kill()
    try:
        yield
    finally:
        rig.server.start()


@contextmanager
def failed_over(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The primary is gone for good, and its synchronous standby is promoted."""
    rig.server.kill()
    yield
    rig.promote_standby()


@contextmanager
def failed_over_with_loss(rig: Rig, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """The primary is gone for good, and its standby lacks the last seconds of what was acknowledged."""
    rig.cut_replication()
    lost_from = rig.held()
    rig.until(lambda: rig.held() >= lost_from + 60, process, within_s=MINUTE_S)
    rig.saw(f"{rig.held() - lost_from} acknowledged items were not on the standby")
    rig.server.kill()
    yield
    rig.promote_standby()


def _ours(operator: "psycopg.Connection[tuple[object, ...]]", database: str) -> int:
    row = operator.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (database,)).fetchone()
    return int(str(row[0])) if row else 0


def _cut_ours(operator: "psycopg.Connection[tuple[object, ...]]", database: str) -> None:
    operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,))


GOES_ON = "it goes on by itself; the ceiling holds"
CASES: Final[tuple[Case, ...]] = (
    Case("stopped by SIGSTOP", GOES_ON, SQLITE, frozen, MINUTE_S),
    Case("stopped by SIGSTOP", GOES_ON, POSTGRES, frozen, MINUTE_S),
    Case(
        "one of two processes stopped by SIGSTOP",
        "the other takes over its leases; what it still writes is refused; the ceiling holds over both",
        POSTGRES,
        frozen,
        MINUTE_S,
        with_worker=True,
        works_on=True,
    ),
    Case("PostgreSQL killed and started again", "it waits and goes on by itself", POSTGRES, restarted, 20.0),
    Case(
        "PostgreSQL failed over, synchronous standby",
        "it finds the promoted server by its URL and goes on; nothing is lost",
        POSTGRES,
        failed_over,
        10.0,
        with_standby=True,
    ),
    Case(
        "PostgreSQL failed over, standby behind",
        "what the standby lacks is fetched again",
        POSTGRES,
        failed_over_with_loss,
        10.0,
        with_standby=True,
    ),
    Case("PostgreSQL read-only", "it waits and goes on by itself", POSTGRES, read_only, 30.0),
    Case("PostgreSQL out of connections", "it waits and goes on by itself", POSTGRES, no_connections, 30.0),
    Case(
        "a table locked for longer than the time limit",
        "it waits and goes on by itself",
        POSTGRES,
        locked,
        LONGER_THAN_A_LOCK_WAIT_S,
    ),
    Case("no descriptors", GOES_ON, SQLITE, no_descriptors, 30.0, works_on=True),
    Case("no memory", "it goes on, or the next process does", SQLITE, no_memory, 30.0, works_on=True),
    Case("full disk", "it waits, says so and goes on when there is room", SQLITE, full_disk, 30.0, on_small_disk=True),
    Case(
        "the file is a symbolic link", "no second writer by either name", SQLITE, symlinked, 5.0, with_linked_file=True
    ),
    Case(
        "a foreign reader for an hour",
        "writing goes on; the log grows, and is cut afterwards",
        SQLITE,
        foreign_reader,
        HOUR_S,
        works_on=True,
        per_s=1,
    ),
    Case(
        "the wall clock steps by a day, both ways",
        GOES_ON,
        SQLITE,
        clock_steps,
        30.0,
        with_fake_clock=True,
        works_on=True,
    ),
)
