"""Where does the console's token come from? The owner's variable or file, or a private file that is created once."""

import stat
from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.operate.config.reader import load
from remora.operate.config.secrets import secret_values
from remora.operate.config.settings import Flags, Settings
from remora.operate.console.token import console_token
from tests.operate.command_line import command_line_in

TOKEN = "correct-horse-battery-staple"


def settings_in(folder: Path, console: str, *, store: str | None = None) -> Settings:
    (folder / "remora.toml").write_text(f"[console]\n{console}\n")
    return load(Flags(store=store or f"sqlite:///{folder}/remora.db"), {}, directory=folder)


def test_on_loopback_none_is_needed_and_none_is_made(tmp_path: Path) -> None:
    assert console_token(settings_in(tmp_path, 'listen = "127.0.0.1:8611"'), {}) is None
    assert [path.name for path in tmp_path.iterdir()] == ["remora.toml"]


def test_off_loopback_one_is_made_beside_the_store_and_stays_the_same(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, 'listen = "0.0.0.0:8611"')
    first, again = console_token(settings, {}), console_token(settings, {})
    assert first is not None
    assert again is not None
    assert first.file == again.file == tmp_path / "remora.db.token"
    assert first.secret.reveal() == again.secret.reveal()
    assert len(first.secret.reveal()) >= 43  # 256 bits
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["remora.db.token", "remora.toml"]


def test_where_the_store_is_no_file_it_is_made_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    console_token(settings_in(tmp_path, 'listen = "0.0.0.0:8611"', store="memory://"), {})
    assert (tmp_path / "remora.token").is_file()


def test_a_file_that_the_owner_names_is_used_also_on_loopback(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    found = console_token(settings_in(tmp_path, f'token_file = "{file}"'), {})
    assert found is not None
    assert found.secret.reveal() == TOKEN


def test_a_variable_that_the_owner_names_is_used_and_masked_in_the_log(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, 'token_env = "CONSOLE_TOKEN"')
    found = console_token(settings, {"CONSOLE_TOKEN": TOKEN})
    assert found is not None
    assert (found.secret.reveal(), found.file) == (TOKEN, None)
    assert TOKEN in secret_values(settings, {"CONSOLE_TOKEN": TOKEN})


@pytest.mark.parametrize("text, mode, said", [("short", 0o600, "16 characters"), (TOKEN, 0o644, "chmod 600")])
def test_a_weak_or_open_token_is_refused_without_showing_it(tmp_path: Path, text: str, mode: int, said: str) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=said) as refused:
        console_token(settings_in(tmp_path, f'token_file = "{file}"'), {})
    assert TOKEN not in str(refused.value)


def test_without_a_place_for_a_token_the_service_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remora = command_line_in(tmp_path, monkeypatch)
    (tmp_path / "remora.toml").write_text('[console]\ntoken_file = "absent/token"\n')
    said = remora.refused("up", "--listen", "0.0.0.0:0")
    assert "needs a token" in said
    assert "console.token_file" in said


@pytest.mark.parametrize(
    "console, said",
    [
        ('hosts = "mirror.example"', "not a list of names"),
        ('hosts = ["https://mirror.example"]', "without scheme and port"),
        ('hosts = ["mirror.example:8611"]', "without scheme and port"),
        ('token_env = "A"\ntoken_file = "b"', "write one of them"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, console: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        settings_in(tmp_path, console)


def test_names_are_read_in_small_letters(tmp_path: Path) -> None:
    assert settings_in(tmp_path, 'hosts = ["Mirror.Example"]').console.hosts == ("mirror.example",)
