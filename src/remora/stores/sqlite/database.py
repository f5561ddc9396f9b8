"""Is this file a Remora store, and is its schema current? Opening, refusing and migrating a SQLite store."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from errno import EACCES
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from remora.core.errors import ConfigurationError, StoreEmpty, StoreError, StoreForeign, StoreUnavailable
from remora.files import NotAFile, file_to_write
from remora.stores.sqlite.statements import migrations, queries

APPLICATION_ID: Final = int.from_bytes(b"REMR", "big")
BUSY_TIMEOUT_MS: Final = 5_000
# Enough for the inner pages of a whole mirror's indexes.
WRITER_CACHE_KIB: Final = 65_536
# Of a new file; SQLite's own value is 4 KiB, of which six items leave an eighth unused. A file keeps the size it has.
PAGE_BYTES: Final = 16 << 10
# A longer log is copied back: pages that change often are copied once, not many times. While another program keeps a read
# transaction open, the log only grows.
LOG_BYTES_MAX: Final = 16 << 20
# When it was copied back, the log is cut to this size: smaller than the other, so that its size tells when it is full again.
LOG_BYTES_KEPT: Final = 12 << 20

# How often a read checks the time, in steps of SQLite's virtual machine, and how often `find_damage` does.
READ_STEPS: Final = 10_000
CHECK_STEPS: Final = 100_000

Connection = sqlite3.Connection


def check_place(path: Path, *, read_only: bool) -> None:
    """Refuse a path that cannot hold a store, or holds something else, before anything is written."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder", hint="name a file in it, as in sqlite:///remora.db")
        if not path.parent.is_dir():
            raise ConfigurationError(f"there is no folder {path.parent}", hint="create it, or name another file")
        if path.exists():
            file_to_write(path)  # SQLite would wait for a pipe for ever
            _check_header(path, read_only=read_only)
        elif read_only:
            raise ConfigurationError(
                f"there is no store at {path}",
                hint="`remora up` or `remora catchup` makes one; or name it with --store",
            )
    except NotAFile as error:
        raise ConfigurationError(
            f"{path} is {error.strerror}, not a file", hint="name a file, as in sqlite:///remora.db"
        ) from None
    except OSError as error:
        raise unusable(path, error) from error


def _check_header(path: Path, *, read_only: bool) -> None:
    if path.stat().st_size == 0:
        if read_only:
            raise StoreEmpty(
                f"{path} is empty, so there is no store yet",
                hint="`remora up` or `remora catchup` makes one there; if it held a mirror, restore a backup",
            )
        return  # it belongs to nobody yet
    if not os.access(path, os.R_OK, effective_ids=True):
        raise PermissionError(EACCES, os.strerror(EACCES))
    marks = _marks(path)
    if marks is None:
        raise _foreign(path, "is not a database")
    if marks.application_id != APPLICATION_ID:
        raise _foreign(path, "is a database of another program")


def steps_behind(path: Path) -> int:
    """How many migrations this file lacks; 0 if it is new, or not a store at all."""
    marks = _marks(path) if path.is_file() else None
    return max(len(migrations()) - marks.version, 0) if marks is not None and marks.version else 0


class _Marks(NamedTuple):
    application_id: int
    version: int


def _marks(path: Path) -> _Marks | None:
    """What the file's header says; None if it is no database.

    `immutable`: opening another program's database, even to read, may change its files; this touches nothing but the file.
    And it is SQLite that opens it: closing any descriptor of a file frees the locks that this process holds on it, and only
    SQLite knows to wait. Without its lock, the writer's log is deleted by the next process that closes the file.

    `writable_schema`: without it SQLite reads nothing of a file that is shorter than its header says, not even the header.
    """
    try:
        with closing(_connect(path, "ro&immutable=1")) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError:
        return None
    return _Marks(application_id & 0xFFFFFFFF, version)


def connect_writer(path: Path) -> Connection:
    """The one connection that writes and checkpoints; the schema is up to date afterwards.

    The file exists: `WriterLock` created it, and SQLite gives its -wal and -shm files the same mode.
    """
    connection = _connect(path, "rwc")
    try:
        if not path.stat().st_size:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        version = _version(connection, path)
        scripts = [step.script for step in migrations()[version:]]
        if version:
            # A backup comes without a log. What a killed process left in its place would keep every reader out.
            connection.execute("PRAGMA journal_mode = WAL")
        # A new file gets all tables at once: another process that looks at it never sees an older version.
        for script in scripts if version else ["\n".join(scripts)]:
            _apply(connection, script)
        # Of a new file only now: the first schema must be in the main file, where the header check of the next process sees it.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer does it, in its thread
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        # After the migrations: they drop tables that others refer to.
        connection.execute("PRAGMA foreign_keys = ON")
        # The lock proves that no other writer is alive, so no lease is valid.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(queries()["release_all_gaps"])
        connection.execute(queries()["release_all_segments"])
        build_indexes(connection)
        connection.execute("COMMIT")
        # A statement for many rows keeps the pages from before it, to undo it. As a file they are two thirds of all writes.
        # Only now: an index of a large mirror is sorted in files.
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        connection.close()
        raise explained(error, path) from error
    except StoreError:
        connection.close()
        raise
    return connection


def build_indexes(connection: Connection) -> None:
    """Build the indexes for readers that an interrupted import left out. Costs nothing if they are there."""
    connection.execute(queries()["build_author_index"])
    connection.execute(queries()["build_domain_index"])
    connection.execute(queries()["estimate_indexes"])


def at_rest(path: Path) -> tuple[int, int] | None:
    """The time and size of a file without a writer; None while a writer has it open or left a log behind."""
    if log_of(path).exists():
        return None
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def may_write_beside(path: Path) -> bool:
    """Whether SQLite may write its log and its locks, which lie beside the real file."""
    return os.access(path.resolve().parent, os.W_OK, effective_ids=True)


def frozen(path: Path) -> tuple[int, int] | None:
    """The time and size of a file at rest in a folder where this process may not write, so that SQLite cannot lock it."""
    return None if may_write_beside(path) else at_rest(path)


def check_unwritten(path: Path, seen: tuple[int, int] | None) -> None:
    """Refuse what was read of a file that is no longer as it was seen at rest; None: it was not at rest."""
    if seen is not None and at_rest(path) != seen:
        raise StoreUnavailable(f"{path} was written while it was read", hint="ask again")


def search_file(mirror: Path) -> Path:
    """Where the search index of this mirror lies: beside the real file, so that a link leads to the same index."""
    mirror = mirror.resolve()
    return mirror.with_name(f"{mirror.name}-search")


def log_of(path: Path) -> Path:
    """Where SQLite writes what is not in the file yet: beside the real file, if the name is a link."""
    path = path.resolve()
    return path.with_name(f"{path.name}-wal")


def size_with_log(path: Path) -> int:
    """The bytes of a file with its log; 0 if there is none. A copy beside it with a longer name is not a part of it."""
    path = path.resolve()  # SQLite keeps its log beside the real file
    return sum(size_of(path.with_name(path.name + each)) for each in ("", "-wal", "-shm"))


def size_of(path: Path) -> int:
    """The bytes of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:  # the last to close a store deletes its log
        return 0


def connect_reader(path: Path, *, is_at_rest: bool = False, of_any_version: bool = False) -> Connection:
    """A connection that only reads, also while another process writes.

    Even then SQLite wants to write beside the file. Where it may not, a file without a writer can still be read, if
    the caller makes sure that nobody begins to write it. `of_any_version`: an older schema is not refused.
    """
    connection = _connect(path, "ro&immutable=1" if is_at_rest else "ro")
    try:
        version = _version(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise explained(error, path) from error
    except StoreError:
        connection.close()
        raise
    if version < len(migrations()) and not of_any_version:
        connection.close()
        raise StoreUnavailable(
            f"{path} has schema {version}, this version reads {len(migrations())}",
            hint="`remora store migrate` brings it up to date",
        )
    return connection


def connect_beside(path: Path) -> Connection:
    """A connection for short writes beside the writer. It leaves checkpoints to the writer.

    Where nothing may be written, it only reads, and a write says so.
    """
    is_frozen = frozen(path) is not None
    connection = connect_reader(path, is_at_rest=is_frozen)  # refuses a foreign file and an old schema
    if is_frozen:
        return connection
    connection.close()
    connection = _connect(path, "rw")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


@contextmanager
def bounded(
    connection: Connection, seconds_max: float, *, is_left: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Interrupt a read that takes longer, or for which nobody waits any more (`while_awaited`)."""
    ends_s = time.monotonic() + seconds_max
    connection.set_progress_handler(lambda: is_left() or time.monotonic() > ends_s, READ_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


@contextmanager
def while_awaited() -> Iterator[Callable[[], bool]]:
    """Tell a read in another thread whether its caller has left: what is read next, or closes, would wait for it."""
    left = Event()
    try:
        yield left.is_set
    finally:
        left.set()


def find_damage(path: Path, *, seconds_max: float) -> tuple[str | None, bool]:
    """What SQLite's `quick_check` reports as broken, or None; and whether it checked the whole file in time.

    It finds broken pages, indexes and rows of the wrong shape. It cannot see a changed letter inside a body.
    """
    connection = _connect(path, "ro" if frozen(path) is None else "ro&immutable=1")
    ends_s = time.monotonic() + seconds_max
    connection.set_progress_handler(lambda: time.monotonic() > ends_s, CHECK_STEPS)
    try:
        (first,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            return None, False
        raise explained(error, path) from error
    except sqlite3.DatabaseError as error:
        return str(error), True
    finally:
        connection.close()
    return (None if first == "ok" else " ".join(str(first).split())), True


def _connect(path: Path, mode: str) -> Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return connection


def _version(connection: Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(migrations()):
        raise StoreForeign(
            f"{path} was written by a newer version (schema {version}, this one knows {len(migrations())})",
            hint="upgrade remora, or name another file",
        )
    return version


def _apply(connection: Connection, script: str) -> None:
    """Apply one script completely or not at all. It sets the version itself.

    `writable_schema`: without it SQLite renames nothing while a view of the owner's own names one of ours that is made anew.
    """
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nCOMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA writable_schema = OFF")


def roll_back(connection: Connection) -> None:
    """End a failed transaction. Some errors have ended it already; a second disk error changes nothing."""
    if connection.in_transaction:
        with suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")


def explained(error: sqlite3.Error, path: Path) -> StoreError:
    """What went wrong, in words an operator can act on."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(
            f"the store {path} cannot be used now: {error}",
            hint="make room on its disk, or where SQLite has its temporary files: in SQLITE_TMPDIR, else in /var/tmp",
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(
            f"the store {path} cannot be written: {error}",
            hint="work as the user who owns it; if its file system is mounted read-only, mount it for writing",
        )
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreUnavailable(
            f"the store {path} cannot be used now: another program holds its lock",
            hint="end what holds it, for example a shell with an open transaction, then try again",
        )
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailable(
            f"the store {path} cannot be used now: {error}", hint="look at the disk's space, health and permissions"
        )
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return _foreign(path, "is not a database")
    if isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error):
        return StoreError(
            f"the store {path} is damaged: {error}",
            hint="move it away, but keep it, because parts can be read; then put a backup in its place (docs/operating.md)",
        )
    return StoreError(f"the store {path} refused: {error}", hint="please report this with the log's last lines")


def _code(error: sqlite3.Error) -> int:
    """SQLite's number of the error, without the higher bits, which say why in detail; 0: of the Python module itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def unusable(path: Path, error: Exception) -> ConfigurationError:
    """The error for a file that cannot be opened because of its name or its permissions."""
    why = error.strerror if isinstance(error, OSError) else error
    return ConfigurationError(
        f"{path} cannot be opened ({why})", hint="name a file in a folder you may write to, or one you may read"
    )


def _foreign(path: Path, what: str) -> StoreForeign:
    return StoreForeign(f"{path} {what}, not a Remora store", hint="name another file; this one was left as it is")
