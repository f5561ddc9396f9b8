"""Does every help fit a screen, show a call that works, and say what happens next?"""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from remora.operate.cli.examples import EXAMPLES, GROUPS
from remora.operate.cli.main import main

# The smallest terminal that is still common.
SCREEN = 24
WIDTH = 80


def commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


ALL = dict(commands(main))


def help_on_a_terminal(name: str) -> list[str]:
    """What `remora NAME --help` prints on a terminal of 80 columns."""
    return (
        CliRunner()
        .invoke(main, [*name.split(), "--help"], prog_name="remora", terminal_width=WIDTH)
        .output.splitlines()
    )


def test_every_example_belongs_to_a_command() -> None:
    assert set(EXAMPLES) == set(ALL)


@pytest.mark.parametrize("name", ["", *ALL])
def test_a_help_fits_a_screen_and_ends_with_an_example_and_what_happens_next(name: str) -> None:
    lines = help_on_a_terminal(name)
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= WIDTH
    assert lines[-2].startswith(f"  Example: remora {name}".rstrip())
    assert lines[-1].endswith(".") or ": remora " in lines[-1]


@pytest.mark.parametrize("name", ALL)
def test_an_example_has_only_options_that_exist(name: str) -> None:
    words = shlex.split(EXAMPLES[name][0].partition(" > ")[0])
    known = {option for parameter in ALL[name].params for option in parameter.opts}
    if name != "store":
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("name", ALL)
def test_a_help_shows_no_value_of_python(name: str) -> None:
    assert "None" not in "\n".join(help_on_a_terminal(name))


def test_the_first_help_names_every_command_once() -> None:
    shown = "\n".join(help_on_a_terminal(""))
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(main.commands)
    assert [name for name in main.commands if len(re.findall(rf"(?<=\s){name} \(", shown)) != 1] == []
