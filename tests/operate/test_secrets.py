"""Does a token stay out of sight? It comes from a variable or a closed file, and no text shows it."""

from pathlib import Path

import msgspec
import pytest

from remora.core.errors import ConfigurationError
from remora.operate.config.reader import load
from remora.operate.config.secrets import read_token, secret_values, without_credentials
from remora.operate.config.settings import Flags, Settings, SourceSettings
from remora.sources.secret import MASK, Secret


@pytest.fixture
def source(tmp_path: Path) -> SourceSettings:
    return load(Flags(), {}, directory=tmp_path).sources["hackernews"]


def with_file(source: SourceSettings, path: Path, text: str, mode: int) -> SourceSettings:
    path.write_text(text)
    path.chmod(mode)
    return msgspec.structs.replace(source, token_file=str(path))


def test_a_token_is_read_from_its_variable(source: SourceSettings) -> None:
    token = read_token("chats", msgspec.structs.replace(source, token_env="T"), {"T": " s3cret \n"})
    assert token is not None
    assert token.reveal() == "s3cret"


def test_a_token_is_read_from_a_closed_file(source: SourceSettings, tmp_path: Path) -> None:
    token = read_token("chats", with_file(source, tmp_path / "token", "s3cret\n", 0o600), {})
    assert token is not None
    assert token.reveal() == "s3cret"


def test_a_source_without_a_token_has_none(source: SourceSettings) -> None:
    assert read_token("chats", source, {}) is None


def test_a_file_that_others_can_read_is_refused_and_says_how_to_close_it(
    source: SourceSettings, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"mode 0640.*run chmod 600"):
        read_token("chats", with_file(source, tmp_path / "token", "s3cret", 0o640), {})


@pytest.mark.parametrize("text", ["", "two\nlines", "gehört", "x" * 20_000])
def test_what_cannot_be_a_token_is_refused_without_showing_it(
    source: SourceSettings, tmp_path: Path, text: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_token("chats", with_file(source, tmp_path / "token", text, 0o600), {})
    assert not text or text not in str(refused.value)


def test_a_key_in_the_query_of_a_path_is_a_secret(source: SourceSettings) -> None:
    listed = msgspec.structs.replace(source.list, path="/list?api_key=s3cret&sort=created")
    settings = Settings(sources={"chats": msgspec.structs.replace(source, list=listed)})
    assert secret_values(settings, {}) == ("s3cret",)


def test_a_missing_variable_or_file_is_named(source: SourceSettings, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set CHATS_TOKEN"):
        read_token("chats", msgspec.structs.replace(source, token_env="CHATS_TOKEN"), {})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token("chats", msgspec.structs.replace(source, token_file=str(tmp_path / "none")), {})


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret("s3cret")
    assert "s3cret" not in f"{secret} {secret!r} {[secret]}"


def test_every_value_that_must_not_be_seen_is_known_to_the_redaction(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(
        '[sources.hackernews]\nheaders = { "X-Key" = "swordfish" }\ntoken_env = "T"\n'
        '[sources.chats]\nkind = "listed"\nurl = "https://host"\ntoken_env = "NOT_SET"\n'
    )
    settings = load(Flags(), {}, directory=tmp_path)
    assert secret_values(settings, {"T": "s3cret"}) == ("swordfish", "s3cret")


def test_a_key_in_any_path_is_known_to_the_redaction(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(
        '[sources.numbers]\nkind = "numbered"\nurl = "https://host"\nnewest = { path = "/newest?api_key=one" }\n'
        'item = { path = "/item/{id}?api_key=two&page=3" }\n'
    )
    settings = load(Flags(), {}, directory=tmp_path)
    assert set(secret_values(settings, {})) == {"one", "two"}


@pytest.mark.parametrize(
    "url, shown",
    [
        ("sqlite:///remora.db", "sqlite:///remora.db"),
        ("postgresql://me:word@host:5432/db", f"postgresql://{MASK}@host:5432/db"),
        ("https://host/path?key=1", f"https://host/path?{MASK}"),
        ("https://host:notaport/", MASK),
    ],
)
def test_an_address_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
