"""Does a running process outlive its database? It waits, says so, and goes on by itself with nothing lost."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from remora.core.errors import Exit
from remora.sim.checks import compare
from remora.stores.postgres import PostgresStore
from tests.postgres_server import PostgresServer
from tests.processes import Remora, SimulatedProvider, kill, simulated_provider
from tests.warm_start import learned_pace

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
    pytest.mark.xdist_group("processes"),
]

ITEMS = 600
HELD = (50, 200, 400)
GONE_S = 4.0
WITHIN_S = 120.0


@contextmanager
def stopped(server: PostgresServer, _url: str) -> Iterator[None]:
    """Nothing listens any more."""
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def moved_away(server: PostgresServer, url: str) -> Iterator[None]:
    """The server answers, and there is no such database, as while it is restored from a backup."""
    name = url.rpartition("/")[2]
    rename(server, name, f"{name}_away")
    try:
        yield
    finally:
        rename(server, f"{name}_away", name)


def rename(server: PostgresServer, old: str, new: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as operator:
        operator.execute(f"ALTER DATABASE {old} ALLOW_CONNECTIONS false".encode())
        operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (old,))
        operator.execute(f"ALTER DATABASE {old} RENAME TO {new}".encode())
        operator.execute(f"ALTER DATABASE {new} ALLOW_CONNECTIONS true".encode())


@contextmanager
def without_its_tables(_server: PostgresServer, url: str) -> Iterator[None]:
    """The database is there, and nothing is in it yet."""
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("ALTER SCHEMA public RENAME TO elsewhere; CREATE SCHEMA public")
        try:
            yield
        finally:
            operator.execute("DROP SCHEMA public; ALTER SCHEMA elsewhere RENAME TO public")


def remora_on(url: str, folder: Path, provider: SimulatedProvider) -> Remora:
    remora = Remora(folder, provider, ceiling="200/s")
    config = folder / "remora.toml"
    listen = '[console]\nlisten = "127.0.0.1:0"\n'
    config.write_text(f'[store]\nurl = "{url}"\n\n{listen}\n{config.read_text()}', encoding="utf-8")
    assert remora("store", "migrate").returncode == 0
    asyncio.run(warm_up(url))
    return remora


async def warm_up(url: str) -> None:
    """As if an earlier process had learned the pace: a cold start takes its time."""
    store = PostgresStore(url)
    await store.open()
    await store.save_pace("hackernews", learned_pace(100.0))
    await store.close()


def let_the_leases_end(url: str) -> None:
    """As if the minute had passed for which segments stay claimed that could not be given back."""
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("UPDATE segments SET lease_until = 0")


def until_it_holds(url: str, count: int, process: "subprocess.Popen[bytes]") -> None:
    give_up_s = time.monotonic() + WITHIN_S
    held = 0
    while held < count:
        assert process.poll() is None, f"ended with {process.returncode}"
        assert time.monotonic() < give_up_s, f"only {held} items after {WITHIN_S:g} s"
        time.sleep(0.2)
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM items").fetchone()
        held = row[0] if row else 0


def test_a_service_waits_for_its_database_and_goes_on_with_nothing_lost(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    with simulated_provider(items=ITEMS) as provider:
        remora = remora_on(postgres_url, tmp_path, provider)
        process = remora.start("up")
        try:
            for held, gone in zip(HELD, (stopped, moved_away, without_its_tables), strict=True):
                until_it_holds(postgres_url, held, process)
                with gone(postgres_server, postgres_url):
                    time.sleep(GONE_S)
                    assert process.poll() is None
                    # Started now, it would be bad input: nobody can tell a wrong name from one that comes back.
                    asked = remora("status").returncode
                    assert asked == (Exit.FAILED if gone is stopped else Exit.USAGE)
                let_the_leases_end(postgres_url)
            truth = provider.dump()
            until_it_holds(postgres_url, len(truth), process)
            assert compare(remora.bodies(), truth) == []
        finally:
            kill(process)
