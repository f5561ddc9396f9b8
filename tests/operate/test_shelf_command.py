"""What does `remora init` know besides Hacker News? The shelf: `--list` shows it, and a name of it writes a whole file."""

import pytest

from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from remora.sources.shelf import shelf_entry, shelf_names
from tests.operate.command_line import CommandLine
from tests.sources.test_plugins import GOOD, Installer
from tests.sources.test_plugins import install as install


def test_the_list_shows_every_declaration_and_writes_nothing(remora: CommandLine) -> None:
    shown = remora("init", "--list")
    assert shown.exit_code == 0
    names = [line.split()[0] for line in shown.stdout.splitlines()]
    assert names == ["hackernews", *shelf_names()]
    assert "GitHub issues with their comments" in shown.stdout
    assert not list(remora.folder.iterdir())


@pytest.mark.parametrize("name", shelf_names())
def test_a_name_of_the_shelf_writes_a_configuration_that_can_be_read(remora: CommandLine, name: str) -> None:
    written = remora("init", name)
    assert written.exit_code == 0
    assert "fill in what its comments name, then: remora check" in written.stdout
    text = (remora.folder / "remora.toml").read_text()
    assert shelf_entry(name).text in text
    settings = load(Flags(config=str(remora.folder / "remora.toml")), {})
    assert settings.store.url == "sqlite:///remora.db"
    assert all(source.ceiling_per_s <= 5 for source in settings.sources.values()), "a ready declaration is careful"


@pytest.mark.parametrize(
    "name, meant", [("github-issue", "github-issues"), ("hacker_news", "hackernews"), ("chats", None), ("gmail", None)]
)
def test_a_name_that_is_almost_one_of_the_shelf_is_told(remora: CommandLine, name: str, meant: str | None) -> None:
    written = remora("init", name)
    assert written.exit_code == 0
    told = f"{name} is a name of your own; if you meant {meant}, delete remora.toml and run: remora init {meant}"
    assert (told in written.stdout) == (meant is not None)
    assert ("if you meant" in written.stdout) == (meant is not None)


def test_a_file_that_exists_is_left_alone(remora: CommandLine) -> None:
    (remora.folder / "remora.toml").write_text("# mine\n")
    assert "exists already" in remora.refused("init", "gmail")
    assert (remora.folder / "remora.toml").read_text() == "# mine\n"


def test_the_name_of_a_plugin_writes_its_preset(remora: CommandLine, install: Installer) -> None:
    install(GOOD)
    shown = remora("init", "--list")
    assert "weather" in shown.stdout
    written = remora("init", "weather")
    assert written.exit_code == 0, written.stderr
    source = load(Flags(config=str(remora.folder / "remora.toml")), {}).sources["weather"]
    assert (source.preset, source.ceiling_per_s) == ("weather", 0.5)


def test_a_broken_plugin_is_listed_and_refused_in_one_sentence(remora: CommandLine, install: Installer) -> None:
    install("1 / 0")
    assert "weather" in remora("init", "--list").stdout
    assert "cannot be imported: ZeroDivisionError" in remora.refused("init", "weather")
    assert not (remora.folder / "remora.toml").exists()
