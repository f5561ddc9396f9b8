"""Is the database ours and up to date, and how is it migrated? In numbered steps, by one process at a time."""

from typing import Final

from psycopg import sql

from remora.core.errors import ConfigurationError, StoreEmpty, StoreForeign, StoreRefused
from remora.stores.postgres.connections import Connection, check_address, connect, explaining
from remora.stores.postgres.statements import MIGRATIONS, NEWEST_VERSION, SQL

# Any number works, as long as nobody else in the database uses it.
MIGRATION_LOCK: Final = 0x52454D4F
MIGRATION_STATEMENT_TIMEOUT_MS: Final = 0  # an index on a large table takes as long as it takes
MIGRATION_LOCK_TIMEOUT_MS: Final = 120_000


async def migrate(url: str, *, grant_to: str | None = None) -> int:
    """Bring the schema up to date. Returns the number of steps taken. Needs the right to create tables.

    `grant_to` is the role of the service: it gets the rights to read and write, but not to create.
    """
    check_address(url)
    limits = {
        "statement_timeout": str(MIGRATION_STATEMENT_TIMEOUT_MS),
        "lock_timeout": str(MIGRATION_LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(MIGRATION_LOCK_TIMEOUT_MS),
    }
    connection = await connect(url, settings=limits)
    try:
        async with explaining(connection), connection.transaction():
            if grant_to is not None:
                await _check_role(connection, grant_to)
            steps = await _migrate(connection)
            if grant_to is not None:
                await _grant(connection, grant_to)
            return steps
    finally:
        await connection.close()


async def prepare(connection: Connection, url: str, *, may_migrate: bool = True) -> None:
    """Refuse a foreign database. Create the schema in an empty one if this role may create tables.

    A reader may not migrate, and needs no right to write.
    """
    version = await current_version(connection)
    if version > 0:
        check_version(version)
        if may_migrate:
            await _check_rights(connection)
            await connection.execute(SQL["try_to_write"])  # a job that begins on a standby would wait for ever
            if await is_feed_restored(connection):
                await migrate(url)
    elif not await _may_create(connection):
        raise StoreForeign(
            "the database holds no mirror yet, and this role may not create tables",
            hint="run `remora store migrate --grant-to ROLE` with a role that may; ROLE is the one in the store's URL",
        )
    elif may_migrate:
        await migrate(url)
    else:
        raise StoreEmpty(
            "the database holds no mirror yet",
            hint="`remora up` or `remora catchup` makes one; or name it with --store",
        )


def check_version(version: int) -> None:
    """Raise unless this program fits the schema."""
    if version > NEWEST_VERSION:
        raise StoreForeign(
            f"the database's schema has version {version}, this program knows up to {NEWEST_VERSION}",
            hint="use the newer Remora that wrote it",
        )
    if version < NEWEST_VERSION:
        raise StoreForeign(
            f"the database's schema has version {version}, this program needs {NEWEST_VERSION}",
            hint="run `remora store migrate` with a role that may create tables",
        )


async def current_version(connection: Connection) -> int:
    """The number of the last step taken; 0 for an empty database. Refuses foreign tables."""
    row = await (await connection.execute(SQL["current_schema"])).fetchone()
    if row is None or row[0] is None:
        raise StoreRefused(
            "the schema for the mirror does not exist, or this database role may not use it",
            hint="correct search_path in the store's URL, or run CREATE SCHEMA, or GRANT USAGE ON SCHEMA, as the owner",
        )
    row = await (await connection.execute(SQL["find_tables"])).fetchone()
    assert row is not None
    is_ours, is_foreign = row
    if is_foreign and not is_ours:
        raise StoreForeign(
            "the database holds tables that Remora did not make",
            hint="give it one of its own with `createdb`, or a schema of its own: "
            "CREATE SCHEMA mirror, and ?options=-csearch_path%3Dmirror behind the store's URL",
        )
    if not is_ours:
        return 0
    row = await (await connection.execute(SQL["schema_version"])).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


async def _migrate(connection: Connection) -> int:
    await connection.execute(SQL["lock_migration"], {"lock": MIGRATION_LOCK})
    version = await current_version(connection)
    if version > NEWEST_VERSION:
        check_version(version)
    await connection.execute(SQL["build_serially"])
    for step in MIGRATIONS[version:]:
        await connection.execute(step.script)
        await connection.execute(SQL["record_migration"], {"number": step.number, "name": step.name})
    if await is_feed_restored(connection):
        for statement in ("lock_feed", "renumber_readers", "renumber_feed", "read_index_anew"):
            await connection.execute(SQL[statement])
    return NEWEST_VERSION - version


async def is_feed_restored(connection: Connection) -> bool:
    """Whether the change feed came with a dump of another server, whose transactions had higher numbers.

    New changes would come before those that are there, where no reader looks.
    """
    row = await (await connection.execute(SQL["is_feed_restored"])).fetchone()
    return bool(row and row[0])


async def _check_rights(connection: Connection) -> None:
    row = await (await connection.execute(SQL["may_write"])).fetchone()
    if not row or not row[0]:
        raise StoreRefused(
            "this database role may not write all tables of the mirror",
            hint="run `remora store migrate --grant-to ROLE` as the owner; ROLE is the one in the store's URL",
        )


async def _may_create(connection: Connection) -> bool:
    row = await (await connection.execute(SQL["may_create"])).fetchone()
    return bool(row and row[0])


async def _check_role(connection: Connection, role: str) -> None:
    row = await (await connection.execute(SQL["role_exists"], {"role": role})).fetchone()
    if not row or not row[0]:
        raise ConfigurationError(
            f"there is no role {role} to grant anything to",
            hint="create it first with `createuser`, or correct its name; large and small letters differ",
        )


async def _grant(connection: Connection, role: str) -> None:
    row = await (await connection.execute(SQL["current_schema"])).fetchone()
    assert row is not None, "tables were just made somewhere"
    names = {"schema": sql.Identifier(row[0]), "role": sql.Identifier(role)}
    for grant in ("grant_schema", "grant_tables", "grant_sequences"):
        # The text is our own file; only the two names are inserted, quoted.
        await connection.execute(sql.SQL(SQL[grant].decode()).format(**names))
