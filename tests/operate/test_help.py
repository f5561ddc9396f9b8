"""Does every help fit a screen, show a call that works, and say what happens next?"""

import shlex
from collections.abc import Iterator

import click
import pytest

from remora.operate.cli.examples import EXAMPLES
from remora.operate.cli.main import main

SCREEN = 40
WIDTH = 100


def commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


ALL = dict(commands(main))


def test_every_example_belongs_to_a_command() -> None:
    assert set(EXAMPLES) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_help_fits_a_screen_and_ends_with_an_example(name: str) -> None:
    told = ALL[name].get_help(click.Context(ALL[name], info_name=name, max_content_width=WIDTH, terminal_width=WIDTH))
    assert len(told.splitlines()) <= SCREEN
    assert max(map(len, told.splitlines())) <= WIDTH
    assert f"Example: remora {name}" in told


@pytest.mark.parametrize("name", ALL)
def test_an_example_has_only_options_that_exist(name: str) -> None:
    words = shlex.split(EXAMPLES[name][0].partition(" > ")[0])
    known = {option for parameter in ALL[name].params for option in parameter.opts}
    if name != "store":
        assert {word for word in words if word.startswith("--")} <= known


def test_the_first_help_fits_a_screen() -> None:
    told = main.get_help(click.Context(main, info_name="remora", max_content_width=WIDTH, terminal_width=WIDTH))
    assert len(told.splitlines()) <= SCREEN
