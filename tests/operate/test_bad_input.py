"""What does `remora` say to a mistake? One clear sentence, what to write instead, exit code 2, and nothing is written."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from remora.core.reasons import GapReason
from remora.operate.cli.commands import Commands
from remora.operate.cli.common import PLACES_ON_DISK
from remora.stores.sqlite.writer_lock import WriterLock
from tests.operate.command_line import CommandLine, with_mirror

LISTED = '[sources.chats]\nkind = "listed"\nurl = "http://127.0.0.1:9/api"\ntoken_env = "CHATS_TOKEN"\n'


@pytest.mark.parametrize(
    "words, said, write",
    [
        (("--ceiling", "0/s"), 'ceiling is "0/s"', '"240/min"'),
        (("--ceiling", "-5/s"), 'ceiling is "-5/s"', '"240/min"'),
        (("--ceiling", "fast"), 'ceiling is "fast"', '"240/min"'),
        (("--url", "nowhere"), "not a base address", 'url = "https://'),
        (("--store", "nowhere"), "names no store of ours", "sqlite:///remora.db"),
        (("--config", "absent.toml"), "absent.toml cannot be read (No such file or directory)", "remora init"),
        (("--source", "nobody"), "there is no source nobody", "hackernews"),
        (("--start-id", "9", "--end-id", "3"), "--start-id 9 comes after --end-id 3", "--start-id 3 --end-id 9"),
        (("--end-id", "3", "--limit", "3"), "both --end-id and --limit", "write one of them"),
        (("--limit", "0"), "--limit is 0", "start at 1"),
        (("--limit", "-1"), "--limit is -1", "start at 1"),
    ],
)
@pytest.mark.slow
def test_a_bad_catchup_is_refused_before_anything_happens(
    remora: CommandLine, words: tuple[str, ...], said: str, write: str
) -> None:
    told = remora.refused("catchup", *words)
    sentence, hint = told.strip().split("\n")
    assert sentence.startswith("remora: ")
    assert said in sentence
    assert write in hint


def test_an_unknown_key_in_the_file_is_refused_with_the_nearest_one(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text('[sources.hackernews]\nceilling = "5/s"\n')
    assert "did you mean ceiling?" in remora.refused("catchup")


@pytest.mark.parametrize("command", ["status", "gaps", "export", "check", "catchup", "up"])
@pytest.mark.slow
def test_every_command_refuses_a_broken_file_alike(remora: CommandLine, command: str) -> None:
    (remora.folder / "remora.toml").write_text("[sources\n")
    assert "not valid TOML" in remora.refused(command)


@pytest.mark.parametrize("command", ["status", "gaps", "export"])
@pytest.mark.slow
def test_reading_a_store_that_does_not_exist_says_so_and_creates_none(remora: CommandLine, command: str) -> None:
    result = remora(command)
    assert result.exit_code in {1, 2}
    assert result.stderr.startswith("remora: ")
    assert not list(remora.folder.iterdir())


@pytest.mark.parametrize("command", [("status",), ("gaps",), ("catchup", "--url", "http://127.0.0.1:9/v0")])
@pytest.mark.slow
def test_a_store_that_is_not_ours_is_refused_and_left_as_it_is(remora: CommandLine, command: tuple[str, ...]) -> None:
    path = remora.folder / "remora.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    before = path.read_bytes()
    assert "remora: " in remora.refused(*command)
    assert path.read_bytes() == before


def test_a_store_in_a_folder_that_does_not_exist_is_named(remora: CommandLine) -> None:
    result = remora("catchup", "--store", "sqlite:///absent/remora.db", "--url", "http://127.0.0.1:9/v0")
    assert result.exit_code in {1, 2}
    assert "absent" in result.stderr
    assert not (remora.folder / "absent").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (("run", "hackernews"), "hackernews is numbered, not listed"),
        (("run", "chats"), "there is no source chats"),
        (("run", "chats", "--max-seconds", "0"), "'--max-seconds': 0.0 is not in the range x>0"),
        (("run", "chats", "--max-seconds", "nan"), "'nan' is not a finite number"),
        (("query", "SELECT 1", "--timeout", "nan"), "'nan' is not a finite number"),
        (("query", "SELECT 1", "--timeout", "inf"), "--timeout"),
        (("query", "SELECT 1", "--limit", "99999999999999999999"), "--limit"),
        (("simulate", "--speed", "nan"), "'nan' is not a finite number"),
        (("run", "chats", "--max-fetches", "-1"), "'--max-fetches': -1 is not in the range x>=1"),
        (("gaps", "replay"), "it is not clear which gaps to replay"),
        (("gaps", "replay", "--all", "--id", "3"), "it is not clear which gaps to replay"),
        (("gaps", "--state", "lost"), "'lost' is not one of"),
        (("gaps", "replay", "--reason", "luck"), "'luck' is not one of"),
        (("show", "first"), '"first" is not an item id'),
        (("export", "--start-id", "5", "--end-id", "2"), "comes after"),
        (("export", "--format", "xml"), "'xml'"),
        (("simulate", "--items", "0"), "--items"),
        (("simulate", "--faults", "absent.toml"), "absent.toml cannot be read"),
        (("up", "--listen", "8611"), "listen address"),
        (("up", "--demo", "--ceiling", "1/s"), "--demo and --ceiling do not go together"),
        (("up", "--demo", "--store", "sqlite:///x.db"), "--demo and --store do not go together"),
        (("init", "My Source"), "cannot be the name of a source"),
        (("init", ""), "cannot be the name of a source"),
        (("init", "2024-chats"), "begins with a letter"),
        (("catchup", "--strat-id", "3"), "No such option"),
        (("statsu",), "No such command"),
        (("run", "chats", "--source", "mails"), "both chats and --source mails are named"),
        (("status", "chats", "--source", "mails"), "both chats and --source mails are named"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(remora: CommandLine, words: tuple[str, ...], said: str) -> None:
    assert said in remora.refused(*words)


def test_every_reason_that_is_shown_can_be_asked_for(remora: CommandLine) -> None:
    for reason in GapReason:
        for words in (("gaps", "--reason", reason.value), ("gaps", "replay", "--reason", reason.value)):
            assert "there is no store" in remora.refused(*words)


def test_a_console_address_that_is_taken_is_refused_before_a_store_is_made(remora: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = remora.refused("up", "--listen", address, "--url", "http://127.0.0.1:9/v0")
    assert f"cannot listen on {address} (Address already in use)" in told
    assert "--listen 127.0.0.1:8612" in told


def test_a_token_that_is_not_set_is_refused_before_a_store_is_made(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text(LISTED)
    for words in (("up", "--listen", "127.0.0.1:0"), ("run", "chats")):
        assert "CHATS_TOKEN, which is not set" in remora.refused(*words)


def test_check_says_that_a_token_is_not_set(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text(LISTED)
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "CHATS_TOKEN, which is not set" in result.stdout


@pytest.mark.parametrize(
    "words", [("catchup", "--url", "http://127.0.0.1:9/v0"), ("status",), ("up", "--listen", "127.0.0.1:0")]
)
def test_a_database_server_that_does_not_answer_is_a_failure_that_may_heal(
    remora: CommandLine, words: tuple[str, ...]
) -> None:
    result = remora(*words, "--store", "postgresql://ada:secret@127.0.0.1:1/mirror")
    assert result.exit_code == 1  # so that whoever supervises it starts it again
    said = "PostgreSQL cannot be reached, nothing listens at its address (postgresql://***@127.0.0.1:1/mirror)"
    assert said in result.stderr
    assert "check that the server runs" in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize("url", ["postgresql:/ada:secret@host/mirror", "host=db password=secret", "ada:secret@host"])
def test_an_address_that_is_no_store_is_refused_without_its_password(remora: CommandLine, url: str) -> None:
    for words in (("status", "--store", url), ("store", "copy", "sqlite:///remora.db", url)):
        assert "secret" not in remora.refused(*words)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example/v0?key=s3cret",
        "https://api.example/v0#s3cret",
        "https://ada:s3cret@api.example/v0",
        "https://s3cret@api.example",
        "ada:s3cret@api.example",
        "https://ada:s3cret?x@api.example",
        "//ada:s3cret@api.example?mail=a@b",
        "ftp://api.example/?key=s3cret",
        "https://api.example:port/?key=s3cret",
        "https://[api.example/?key=s3cret",
        "?key=s3cret",
    ],
)
@pytest.mark.parametrize("command", ["catchup", "check", "up", "worker"])
def test_a_secret_in_the_address_of_a_source_is_refused_and_not_repeated(
    remora: CommandLine, url: str, command: str
) -> None:
    assert "s3cret" not in remora.refused(command, "--url", url)


@pytest.mark.parametrize("key", ["token_env", "token_file"])
def test_a_token_in_place_of_its_name_is_not_repeated(remora: CommandLine, key: str) -> None:
    (remora.folder / "remora.toml").write_text(LISTED.replace('token_env = "CHATS_TOKEN"', f'{key} = "ghp_s3cret"'))
    told = remora.refused("run", "chats")
    assert "s3cret" not in told
    assert key in told
    assert "s3cret" not in remora("check", "--offline").output


@pytest.mark.parametrize("command", [("catchup",), ("verify",), ("up", "--listen", "127.0.0.1:0"), ("store", "repair")])
def test_a_secret_that_cannot_be_read_is_refused_before_a_store_exists(
    remora: CommandLine, command: tuple[str, ...]
) -> None:
    (remora.folder / "remora.toml").write_text(
        '[accounts.news]\nceiling = "1/s"\nauth = { header_env = "NEWS_KEY", name = "X-Key" }\n'
        '[sources.hackernews]\nurl = "http://127.0.0.1:9"\naccount = "news"\n'
    )
    told = remora.refused(*command)
    assert "accounts.news.auth.header_env names the variable NEWS_KEY, which is not set" in told
    assert "set NEWS_KEY to the token, or write header_file instead" in told, (
        "a token_file would be sent in another way"
    )
    assert not [*remora.folder.glob("*.db*")]


@pytest.mark.parametrize(
    "character", ["\\r\\n", "\\n", "\\r", "\\t", "\\u0000", "\\u001b", "\\u007f", "\\u0085", "\\u2028"]
)
@pytest.mark.parametrize(
    "line", ['url = "http://127.0.0.1:9/{}x"', 'contact = "me{}Cookie: x"', 'headers.X-Who = "a{}b"']
)
def test_a_control_character_in_what_is_sent_is_refused(remora: CommandLine, line: str, character: str) -> None:
    (remora.folder / "remora.toml").write_text(f"[sources.hackernews]\n{line.format(character)}\n")
    told = remora.refused("catchup")
    assert f"sources.hackernews.{line.split(maxsplit=1)[0]} contains a line break or another control character" in told
    assert "one line of plain text" in told


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a\r\nX: y", "http://127.0.0.1:9\t/", " http://127.0.0.1:9"])
def test_a_control_character_or_a_space_on_the_command_line_is_refused(remora: CommandLine, url: str) -> None:
    assert "sources.hackernews.url" in remora.refused("catchup", "--url", url)


@pytest.mark.parametrize(
    "words, write",
    [
        (("up", "--listen", "127.0.0.1:0"), "remora status"),
        (("catchup",), "already catches up"),
        (("run", "chats"), "on its schedule"),
        (("gaps", "replay", "--all"), "replay from its console"),
        (("store", "migrate"), "brought the tables up to date"),
        (("store", "copy", "sqlite:///other.db", "sqlite:///remora.db"), "copy into a new file"),
    ],
)
@pytest.mark.slow
def test_every_command_that_writes_says_who_writes_already_and_what_to_do_instead(
    remora: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], write: str
) -> None:
    monkeypatch.setenv("CHATS_TOKEN", "a-token")
    (remora.folder / "remora.toml").write_text(f"[sources.hackernews]\n{LISTED}")
    for store in ("remora.db", "other.db"):
        assert remora("store", "migrate", "--store", f"sqlite:///{store}").exit_code == 0
    lock = WriterLock(remora.folder / "remora.db")
    lock.take()
    result = remora(*words)
    lock.free()
    assert result.exit_code == 1
    (line,) = result.stderr.strip().split("\n")
    sentence, _, hint = line.partition("; ")
    assert f"another process ({os.getpid()}) writes remora.db" in sentence
    assert write in hint


def test_a_demo_that_cannot_be_written_says_so(remora: CommandLine) -> None:
    (remora.folder / "demo").write_text("a file where the folder should be")
    assert "demo cannot be written" in remora.refused("up", "--demo", "--listen", "127.0.0.1:0")


def test_init_never_overwrites_a_configuration(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text("mine")
    assert "exists already" in remora.refused("init")
    assert (remora.folder / "remora.toml").read_text() == "mine"


def test_init_says_how_to_check_the_file_that_it_wrote(remora: CommandLine) -> None:
    assert remora("init").stdout.endswith("next: remora check\n")
    told = remora("init", "chats", "--config", "chats.toml").stdout
    assert told.endswith("then: remora check --config chats.toml\n")


@pytest.mark.parametrize("source", ["hackernews", "chats"])
def test_what_init_writes_can_be_read(remora: CommandLine, source: str) -> None:
    assert remora("init", source).exit_code == 0
    result = remora("check", "--offline", "--json")
    # The token is the one thing that a written file cannot bring along.
    assert result.exit_code == (0 if source == "hackernews" else 1), result.output
    assert Path("remora.toml").read_text().count("ceiling") >= 1


@pytest.mark.parametrize("command", [("check",), ("run", "chats")])
@pytest.mark.parametrize(
    "written, said, write",
    [
        ('list = { entries = "rows[?" }', "list.entries is rows[?, which is no JMESPath expression", "data.rows.0.id"),
        ('list = { key = "nope(id)" }', "list.key is nope(id), which is no JMESPath expression", "data.rows.0.id"),
        ('list = { key = "a..b" }', 'sources.chats.list.key is "a..b"', "one dot between them"),
        ('detail = { path = "/thing" }', 'sources.chats.detail.path is "/thing"', "write {key} where"),
        ('each = "rooms"', 'sources.chats.each is "rooms", but list.path holds nothing of an entry', "write {entry}"),
        (
            'detail = { parts = [{ name = "a b", path = "/x" }] }',
            'sources.chats: a part has the name "a b"',
            'name = "comments"',
        ),
        ('token_file = "token"', "has both token_env and token_file", "write one of them"),
        ('list = { method = "POST" }', "list.method is POST, but there is no list.body", 'offset = "{offset}"'),
        (
            '[[sources.chats.rules]]\nwhen = "status == \'429\'"\nmeans = "pressure"',
            "can never match",
            "write",
        ),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_before_anything_is_asked(
    remora: CommandLine, command: tuple[str, ...], written: str, said: str, write: str
) -> None:
    (remora.folder / "remora.toml").write_text(f"{LISTED}{written}\n")
    sentence, hint = remora.refused(*command).strip().split("\n")
    assert said in sentence
    assert write in hint


@pytest.mark.parametrize(
    "address, said",
    [
        ("postgresql://[::1", "a host that cannot be read"),
        ("postgresql://u:hunter2@[::1/x", "a host that cannot be read"),
        ("postgresql://u:hunter2@::1/x", "a host that cannot be read"),
        ("postgresql://u@[::1]5432/x", "a host that cannot be read"),
        ("postgresql://u:hunter2@h:99999999/x", "a port that is no number"),
        ("postgresql://h:0/x", "a port that is no number"),
        ("postgres://u@h:hunter2/x", "a port that is no number"),
        ("postgresql://a:5432,b:65536/x?sslmode=require", "a port that is no number"),
        ("postgresql://ada:hunter2/x", "a port that is no number"),
    ],
)
@pytest.mark.parametrize("command", ["init", "status"])
def test_an_address_of_a_server_that_can_never_work_is_refused_without_its_password(
    remora: CommandLine, command: str, address: str, said: str
) -> None:
    told = remora.refused(command, "--store", address)
    assert f"the store's address has {said}" in told
    assert "postgresql://user@host:5432/database" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://",
        "postgresql:///x?host=/var/run/postgresql",
        "postgresql://u:p%40ss@h/x",
        "postgresql://u@[::1]:5432/x",
        "postgresql://u@a:5432,b,[::1]:65535/x?target_session_attrs=primary",
        "postgresql://u@h:/x",
        "postgresql://h?sslmode=require",
        "postgresql://%2Fvar%2Frun/x",
    ],
)
def test_every_address_that_postgresql_reads_is_taken(remora: CommandLine, address: str) -> None:
    assert remora("init", "--store", address).exit_code == 0


def _texts_of(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A call of every command with every one of its arguments that is a text, and no text."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _texts_of(below, (*words, name))
    for parameter in command.params:
        if isinstance(parameter.type, click.types.StringParamType) and parameter.name not in PLACES_ON_DISK:
            option = (parameter.opts[0],) if isinstance(parameter, click.Option) else ()
            if not getattr(parameter, "is_flag", False):
                yield (*words, *option, "caf\udce9")


@pytest.mark.parametrize(
    "words", [call for name, command in Commands().items() for call in _texts_of(command, (name,))], ids=" ".join
)
def test_an_argument_with_bytes_that_are_no_text_is_refused(remora: CommandLine, words: tuple[str, ...]) -> None:
    told = remora.refused(*words)
    name = words[-2] if words[-2].startswith("--") else "the argument"
    assert told.startswith(f"remora: {name}")
    assert told.endswith("has bytes that are no text in UTF-8\n  write it in UTF-8, as the terminal does by default\n")


def test_a_file_whose_name_is_no_text_can_be_named(remora: CommandLine) -> None:
    mirror = with_mirror(remora)
    assert mirror("export", "--out", "caf\udce9.ndjson").exit_code == 0
    assert mirror("store", "backup", "caf\udce9.db").exit_code == 0
    assert (mirror.folder / "caf\udce9.ndjson").exists()
    assert (mirror.folder / "caf\udce9.db").exists()
