"""Which store is kept small? The one at this address; each is imported only when used."""

from pathlib import Path

from remora.contracts.keeping import Housekeeping
from remora.stores import is_shared, open_reader


def open_housekeeping(url: str) -> Housekeeping:
    """Housekeeping for the store at this address, not yet opened."""
    open_reader(url)  # refuses a store that ends with its process
    if is_shared(url):
        from remora.stores.postgres.keeping import PostgresHousekeeping  # noqa: PLC0415

        return PostgresHousekeeping(url)
    from remora.stores.sqlite.keeping import SqliteHousekeeping  # noqa: PLC0415

    return SqliteHousekeeping(Path(url.removeprefix("sqlite:///")))
