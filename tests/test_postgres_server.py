"""Is the launcher's PostgreSQL fit for the tests that lean on it?"""

import psycopg
import pytest

from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


def test_every_test_gets_an_empty_database_of_its_own(empty_postgres_url: str, postgres_server: PostgresServer) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)
    assert empty_postgres_url.startswith(f"postgresql://remora@127.0.0.1:{postgres_server.port}/test_")


@pytest.mark.slow
def test_what_was_committed_survives_a_kill_and_a_restart(
    postgres_server: PostgresServer, empty_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
        connection.execute("INSERT INTO kept VALUES (42)")
    postgres_server.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(empty_postgres_url)
    postgres_server.start()
    postgres_server.restart()
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)
