"""Which store does an address mean? `sqlite:///file`, `memory://` or `postgresql://…`; each is imported only when used."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from remora.contracts import Clock, Sharing, Store
from remora.contracts.extras import install_hint
from remora.core.errors import ConfigurationError
from remora.stores.decisions import OnBatch

if TYPE_CHECKING:  # what a command that only writes does not need
    from remora.contracts.browsing import BrowsingReader
    from remora.contracts.reader import Reader
    from remora.contracts.search import SearchIndex

__all__ = [
    "check_is_there",
    "is_shared",
    "open_browsing",
    "open_reader",
    "open_search_index",
    "open_sharing",
    "open_store",
    "sqlite_file",
    "steps_behind",
]

FIND_SECONDS_MAX: Final = 30.0
_SQLITE: Final = "sqlite:///"
_SHARED: Final = ("postgresql://", "postgres://")
_HINT: Final = "write sqlite:///remora.db for a file, or postgresql://user@host/database"


def open_store(url: str, *, read_only: bool = False, on_batch: OnBatch | None = None) -> Store:
    """The store at this address, not yet opened. A read-only store can be opened while another process writes.

    `on_batch` is called with the seconds that each batch of writes took to become durable. Memory never calls it.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError(f"the store address {url!r} has no scheme", hint=_HINT)
    match scheme:
        case "sqlite":
            return _sqlite(url, read_only=read_only, on_batch=on_batch)
        case "memory" if not rest:
            return _memory()
        case "postgresql" | "postgres":
            return _postgres(url, read_only=read_only, on_batch=on_batch)
        case _:
            raise ConfigurationError(f"there is no store for addresses like {scheme}://{rest and '…'}", hint=_HINT)


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store; None for every other store."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def check_is_there(url: str) -> None:
    """Refuse a SQLite file that does not exist, for work on a mirror that does not make one."""
    if (path := sqlite_file(url)) is not None:
        from remora.stores.sqlite.database import check_place  # noqa: PLC0415

        check_place(path, read_only=True)


def steps_behind(url: str) -> int:
    """How many steps of the schema a SQLite file lacks. 0 for a new file and for every other store."""
    if (path := sqlite_file(url)) is None:
        return 0
    from remora.stores.sqlite.database import steps_behind as behind  # noqa: PLC0415

    return behind(path)


def open_reader(url: str) -> "Reader":
    """The mirror at this address for reading only, not yet opened. Works while another process writes."""
    store = open_store(url, read_only=True)  # refuses an invalid address
    match url.partition("://")[0]:
        case "sqlite":
            from remora.stores.sqlite.reading import SqliteReader  # noqa: PLC0415

            return SqliteReader(Path(url.removeprefix(_SQLITE)))
        case "postgresql" | "postgres":
            from remora.stores.postgres.reading import PostgresReader  # noqa: PLC0415

            return PostgresReader(url)
        case _:
            raise ConfigurationError(f"a {type(store).__name__} ends with its process and cannot be opened", hint=_HINT)


def open_browsing(url: str, *, seconds_max: float) -> "BrowsingReader":
    """The same for people who browse: with lists, and every read ends after `seconds_max` at the latest."""
    open_reader(url)  # refuses a store that cannot be read
    if is_shared(url):
        from remora.stores.postgres.browsing import PostgresBrowsing  # noqa: PLC0415

        return PostgresBrowsing(url, seconds_max=seconds_max)
    from remora.stores.sqlite.browsing import SqliteBrowsing  # noqa: PLC0415

    return SqliteBrowsing(Path(url.removeprefix(_SQLITE)), seconds_max=seconds_max)


def open_search_index(url: str, *, seconds_max: float = FIND_SECONDS_MAX) -> "SearchIndex":
    """The search index beside the mirror at this address, not yet opened. A search may take `seconds_max`."""
    open_reader(url)  # refuses a store that has no index
    if is_shared(url):
        from remora.stores.postgres.search import PostgresSearchIndex  # noqa: PLC0415

        return PostgresSearchIndex(url, seconds_max=seconds_max)
    from remora.stores.sqlite.search import SqliteSearchIndex  # noqa: PLC0415

    return SqliteSearchIndex(Path(url.removeprefix(_SQLITE)), seconds_max=seconds_max)


def is_shared(url: str) -> bool:
    """Whether several processes may work on the store at this address."""
    return url.startswith(_SHARED)


def open_sharing(url: str, *, owner: str, clock: Clock) -> Sharing | None:
    """What the processes on this store share. None if the store belongs to one process at a time."""
    if not is_shared(url):
        return None
    from remora.stores.postgres.sharing import PostgresSharing  # noqa: PLC0415

    return PostgresSharing(url, owner=owner, clock=clock)


def _sqlite(url: str, *, read_only: bool, on_batch: OnBatch | None) -> Store:
    from remora.stores.sqlite import SqliteStore  # noqa: PLC0415

    path = url.removeprefix(_SQLITE)
    if path == url or not path or path.endswith("/"):
        raise ConfigurationError(
            f"the store address {url!r} names no file", hint="three slashes and a path: sqlite:///remora.db"
        )
    return SqliteStore(Path(path), read_only=read_only, on_batch=on_batch)


def _memory() -> Store:
    from remora.stores.memory import MemoryStore  # noqa: PLC0415

    return MemoryStore()


def _postgres(url: str, *, read_only: bool, on_batch: OnBatch | None) -> Store:
    from remora.stores.server_address import check_server  # noqa: PLC0415

    check_server(url)
    try:
        from remora.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "the PostgreSQL driver is not installed",
            hint=install_hint("psycopg[binary]"),
        ) from error
    return PostgresStore(url, read_only=read_only, on_batch=on_batch)
