"""What may every test ask for? The outside services, real ones, or a skip that says which one is missing."""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from remora.stores.postgres.migrations import migrate
from tests.postgres_server import PostgresServer
from tools import services

# The machine may be busy: how long an example takes is no property of the code.
settings.register_profile("remora", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# `make check` looks at fewer examples than `make test`.
settings.register_profile("quick", settings.get_profile("remora"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "remora"))

# Real sockets and files, and worlds that run for days: `make check` leaves these folders out.
SLOW_FOLDERS = frozenset({"fuzz", "integration", "world"})
# Their tests wait for processes, sockets, databases and browsers, and leave the processor to others.
WAITING_FOLDERS = frozenset({"browser", "integration", "operate"})

# Files of tests need not survive a power cut: in memory, where there is enough of it, nobody waits for a disk.
MEMORY = Path("/dev/shm")
MEMORY_LEAST_BYTES = 4 << 30

_database_numbers = count(1)


def pytest_configure() -> None:
    # `nohup` ignores it, also for every process that a test starts.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.disable()  # what collecting makes stays until the end: to look through it for garbage is a third of its time
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_LEAST_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.parent.name in SLOW_FOLDERS:
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first: a worker that is done early still finds short ones to fill its time with.

    Those that wait are spread among those that compute, so that the processor is never idle.
    """
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    waiting = [item for item in slow if item.path.parent.name in WAITING_FOLDERS]
    computing = [item for item in slow if item.path.parent.name not in WAITING_FOLDERS]
    places = {item: place / len(group) for group in (waiting, computing) for place, item in enumerate(group)}
    items.sort(key=lambda item: places.get(item, 1.0))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True)
def logs_of_its_own() -> Iterator[None]:
    """A test that runs a command sets up logs; the next one must not inherit which events they leave out."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL, one for the whole session."""
    programs = services.find_postgres()
    if programs is None:
        pytest.skip("no PostgreSQL programs on this machine: `make test` fetches them")
    with PostgresServer(programs) as server:
        yield server


@pytest.fixture(scope="session")
def prepared_database(postgres_server: PostgresServer) -> str:
    """A database with our schema and nothing in it. To copy it takes a quarter of the time of all the migrations."""
    name = "prepared"
    postgres_server.create_database(name)
    with ThreadPoolExecutor(1) as elsewhere:  # a test's own event loop is set in this thread
        elsewhere.submit(asyncio.run, migrate(postgres_server.url(name))).result()
    return name


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, prepared_database: str) -> Iterator[str]:
    """The address of a database of this test's own: our schema, and nothing in it."""
    with _new_database(postgres_server, template=prepared_database) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database of this test's own, without even a schema."""
    with _new_database(postgres_server, template="template1") as url:
        yield url


@contextmanager
def _new_database(server: PostgresServer, *, template: str) -> Iterator[str]:
    name = f"test_{next(_database_numbers)}"
    server.create_database(name, template=template)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(scope="session")
def browser_path() -> Path:
    """A real browser's program, for playwright's `executable_path`."""
    found = services.find_browser()
    if found is None:
        pytest.skip("no Chromium on this machine: `make test` as root installs it")
    return found


@pytest.fixture(scope="session")
def promtool_path() -> Path:
    """Prometheus's checker of rules and metrics."""
    found = services.find_promtool()
    if found is None:
        pytest.skip("no promtool on this machine: `make test` fetches it")
    return found


@pytest.fixture(scope="session")
def nginx_path() -> Path:
    """The proxy of the documentation's recipe."""
    found = services.find_nginx()
    if found is None:
        pytest.skip("no nginx on this machine: `make test` fetches it")
    return found


@pytest.fixture(scope="session")
def litestream_path() -> Path:
    """The continuous backup of the documentation's recipe."""
    found = services.find_litestream()
    if found is None:
        pytest.skip("no Litestream on this machine: `make test` fetches it")
    return found


@pytest.fixture(scope="session")
def hadolint_path() -> Path:
    """The linter of Dockerfiles."""
    found = services.find_hadolint()
    if found is None:
        pytest.skip("no hadolint on this machine: `make test` fetches it")
    return found
