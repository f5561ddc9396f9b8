"""Which store imports a dump? The one at its address, in the form that imports."""

from pathlib import Path

from remora.contracts.importing import Importing
from remora.core.errors import ConfigurationError


def open_importing(url: str) -> Importing:
    """The store at an address in the form that imports, not yet opened."""
    scheme, _, rest = url.partition("://")
    match scheme:
        case "sqlite":
            from remora.stores.sqlite.importing import ImportingSqliteStore  # noqa: PLC0415

            return ImportingSqliteStore(Path(rest.removeprefix("/")))
        case "postgresql" | "postgres":
            from remora.stores.postgres.importing import ImportingPostgresStore  # noqa: PLC0415

            return ImportingPostgresStore(url)
        case _:
            raise ConfigurationError(
                f"nothing can be imported into a store at {scheme}://",
                hint="write sqlite:///remora.db or postgresql://host/database",
            )
