"""What does `remora` say when PostgreSQL does not take it in? The cause and what to write, with 2 for what the owner must correct."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.operate.command_line import CommandLine
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

PASSWORD = "correct-horse"


@pytest.fixture(scope="session")
def ada(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a server for a role that needs a password, without a database."""
    postgres_server.create_role("ada", password=PASSWORD)
    yield postgres_server.url("").replace("remora@", f"ada:{PASSWORD}@")
    postgres_server.drop_role("ada")


@pytest.fixture
def mirror(ada: str, empty_postgres_url: str) -> str:
    """The address of an empty database in which ada may create tables."""
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("GRANT CREATE ON SCHEMA public TO ada")
    return ada + empty_postgres_url.rpartition("/")[2]


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as reader:
        found = reader.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetchall()
    return sorted(name for (name,) in found)


COMMANDS = (
    ("status",),
    ("catchup", "--url", "http://127.0.0.1:9/v0"),
    ("up", "--listen", "127.0.0.1:0"),
    ("store", "migrate"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_does_not_exist_is_named_for_the_owner_to_create(
    remora: CommandLine, ada: str, command: tuple[str, ...]
) -> None:
    told = remora.refused(*command, "--store", f"{ada}nowhere")
    assert told.startswith("remora: the database does not exist (postgresql://***@127.0.0.1:")
    assert "createdb" in told
    assert PASSWORD not in told


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_password_is_told_and_not_repeated(remora: CommandLine, mirror: str, command: tuple[str, ...]) -> None:
    told = remora.refused(*command, "--store", mirror.replace(PASSWORD, "battery-staple"))
    assert "PostgreSQL refused the password (postgresql://***@" in told
    assert "battery" not in told


@pytest.mark.parametrize(
    "option, said, write",
    [
        ("sslmode=require", "the server offers no encryption", "sslmode=prefer"),
        ("sslmode=often", "an sslmode that does not exist", "verify-full"),
        ("slmode=require", "the store's URL cannot be read", "?sslmode=require"),
        ("port=99999", "a port that does not exist", "host:5432"),
        ("port=first", "a word where a number belongs", "host:5432"),
    ],
)
def test_an_option_of_the_address_that_cannot_work_is_named(
    remora: CommandLine, mirror: str, option: str, said: str, write: str
) -> None:
    told = remora.refused("store", "migrate", "--store", f"{mirror}?{option}")
    assert said in told
    assert write in told
    assert PASSWORD not in told


def test_a_copy_into_a_database_that_does_not_exist_is_refused(remora: CommandLine, ada: str) -> None:
    assert remora("store", "migrate").exit_code == 0
    result = remora("store", "copy", "sqlite:///remora.db", f"{ada}nowhere")
    assert result.exit_code == 2
    assert "the database does not exist (postgresql://***@" in result.stderr


def test_rights_for_a_role_that_does_not_exist_are_refused_and_no_table_is_made(
    remora: CommandLine, mirror: str
) -> None:
    told = remora.refused("store", "migrate", "--grant-to", "NOBODY", "--store", mirror)
    assert "there is no role NOBODY" in told
    assert "createuser" in told
    assert tables(mirror) == []


def test_check_says_that_the_tables_of_an_empty_database_will_be_made(remora: CommandLine, mirror: str) -> None:
    result = remora("check", "--offline", "--store", mirror)
    assert result.exit_code == 0, result.output
    assert "is empty; its tables will be created by the first start" in result.stdout
    assert tables(mirror) == []


def test_check_says_who_makes_the_tables_that_this_role_may_not_make(
    remora: CommandLine, mirror: str, empty_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("REVOKE CREATE ON SCHEMA public FROM ada, PUBLIC")
    result = remora("check", "--offline", "--store", mirror)
    assert result.exit_code == 1
    assert "this role may not create tables" in result.stdout
    assert "remora store migrate --grant-to" in result.stdout


def test_a_mirror_that_is_not_there_yet_is_not_read(remora: CommandLine, mirror: str) -> None:
    told = remora.refused("status", "--store", mirror)
    assert "the database holds no mirror yet" in told
    assert "remora up" in told


@pytest.mark.parametrize("theirs", ["CREATE TABLE recipes (name text)", "CREATE VIEW recipes AS SELECT 1 AS one"])
def test_a_database_with_somebody_elses_tables_is_left_as_it_is(
    remora: CommandLine, mirror: str, empty_postgres_url: str, theirs: str
) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute(theirs.encode())
    for command in (("store", "migrate"), ("status",)):
        told = remora.refused(*command, "--store", mirror)
        assert "holds tables that Remora did not make" in told
        assert "createdb" in told
    assert tables(mirror) == ["recipes"]


def test_a_schema_of_its_own_makes_room_beside_somebody_elses_tables(
    remora: CommandLine, mirror: str, empty_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE recipes (name text)")
        owner.execute("CREATE SCHEMA mirror AUTHORIZATION ada")
    store = f"{mirror}?options=-csearch_path%3Dmirror"
    result = remora("store", "migrate", "--store", store)
    assert result.exit_code == 0, result.output
    assert tables(mirror) == ["recipes"]
    assert remora("status", "--store", store).exit_code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_that_is_not_there_is_named(remora: CommandLine, mirror: str, command: tuple[str, ...]) -> None:
    told = remora.refused(*command, "--store", f"{mirror}?options=-csearch_path%3Dmiror")
    assert "the schema for the mirror does not exist, or this database role may not use it" in told
    assert "search_path" in told


def test_a_reader_may_read_and_whoever_would_write_is_told_at_the_start(
    remora: CommandLine, ada: str, empty_postgres_url: str
) -> None:
    assert remora("store", "migrate", "--store", empty_postgres_url).exit_code == 0
    reader = ada + empty_postgres_url.rpartition("/")[2]
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO ada")
    for reading in (("status",), ("gaps",), ("changes",), ("query", "SELECT count(*) FROM items")):
        assert remora(*reading, "--store", reader).exit_code == 0
    for writing in (*COMMANDS[1:3], ("worker",), ("verify", "--url", "http://127.0.0.1:9/v0")):
        told = remora.refused(*writing, "--store", reader)
        assert "may not write all tables of the mirror" in told
        assert "remora store migrate --grant-to" in told
    result = remora("check", "--offline", "--store", reader)
    assert result.exit_code == 1
    assert "may not write all tables of the mirror" in result.stdout


def test_every_table_of_the_mirror_is_looked_at_for_the_right_to_write(
    remora: CommandLine, ada: str, empty_postgres_url: str
) -> None:
    assert remora("store", "migrate", "--grant-to", "ada", "--store", empty_postgres_url).exit_code == 0
    service = ada + empty_postgres_url.rpartition("/")[2]
    assert remora("check", "--offline", "--store", service).exit_code == 0
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        found = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for name in sorted({name for (name,) in found} - {"migrations"}):
            owner.execute(sql.SQL("REVOKE INSERT ON {} FROM ada").format(sql.Identifier(name)))
            assert remora("check", "--offline", "--store", service).exit_code == 1, f"nobody looked at {name}"
            owner.execute(sql.SQL("GRANT INSERT ON {} TO ada").format(sql.Identifier(name)))


def test_what_an_extension_brings_along_is_nobody_elses(
    remora: CommandLine, mirror: str, empty_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        available = owner.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements'").fetchone()
        if available is None:
            pytest.skip("this PostgreSQL was built without the extension pg_stat_statements")
        owner.execute("CREATE EXTENSION pg_stat_statements")
    result = remora("store", "migrate", "--store", mirror)
    assert result.exit_code == 0, result.output


def test_a_copy_to_a_server_that_does_not_answer_fails_and_says_why(remora: CommandLine) -> None:
    assert remora("store", "migrate").exit_code == 0
    result = remora("store", "copy", "sqlite:///remora.db", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/mirror")
    assert result.exit_code == 1
    assert "nothing listens at its address (postgresql://***@127.0.0.1:1/mirror)" in result.stderr
    assert PASSWORD not in result.output
