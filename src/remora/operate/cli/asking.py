"""Which questions does `remora init` ask? What to mirror, how fast, and where; then it says what that costs."""

# ruff: noqa: PLC0415

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from remora.core.errors import ConfigurationError, RemoraError
from remora.operate.cli.shelf import shelf_ceiling

if TYPE_CHECKING:
    from remora.operate.config.settings import Settings

FIRST_CEILING: Final = {True: "60/min", False: "250/s"}  # listed or not
WHAT: Final = """\
What do you want to mirror?
  hackernews   all of Hacker News, with every change
  a name       one that `remora init --list` shows, as "github-issues"
  another one  an account's archive that is found by a list, as "chats"; you describe it in the file afterwards"""


class Choice(NamedTuple):
    """What the owner chose."""

    source: str
    ceiling: str
    store: str

    @property
    def listed(self) -> bool:
        """Whether it is found by a list."""
        return self.source != "hackernews"


def is_asked_on_terminal(source: str | None) -> bool:
    """Whether to ask: nobody said what, and somebody can answer."""
    return source is None and sys.stdin.isatty() and sys.stdout.isatty()


def ask(*, ceiling: str | None, store: str | None) -> Choice:
    """The three questions, without those that options have answered. An answer that makes no sense is asked for again."""
    from remora.operate.config.settings import DEFAULT_STORE
    from remora.operate.config.source_defaults import check_source_name

    if ceiling:
        _check_ceiling(ceiling, "--ceiling")
    if store:
        _check_store(store)
    click.echo(WHAT)
    source = _prompt("What", "hackernews", check_source_name)
    click.echo("\nHow fast at most? Remora never sends faster, and learns by itself how much less is polite.")
    fast = ceiling or _prompt("At most", _first_ceiling(source), _check_ceiling)
    click.echo("\nWhere? A file in this folder, or postgresql://user@host/database.")
    where = store or _prompt("Store", DEFAULT_STORE, _check_store)
    click.echo("")
    return Choice(source, fast.strip(), where)


def chosen(source: str | None, *, ceiling: str | None, store: str | None) -> Choice:
    """The same without questions, for scripts."""
    from remora.operate.config.settings import DEFAULT_STORE
    from remora.operate.config.source_defaults import check_source_name

    name = "hackernews" if source is None else source
    check_source_name(name)
    choice = Choice(name, (ceiling or _first_ceiling(name)).strip(), store or DEFAULT_STORE)
    _check_ceiling(choice.ceiling, "--ceiling")
    _check_store(choice.store)
    return choice


def _check_ceiling(rate: str, where: str = "the ceiling") -> None:
    from remora.core.quantities import parse_rate

    parse_rate(rate, where)


def _check_store(address: str) -> None:
    """Refuse what could not be read again from the file."""
    from remora.operate.config.plain_text import one_line
    from remora.stores import open_store

    open_store(one_line(address, "the address of the store"))


def told_cost(choice: Choice) -> str:
    """What it costs, and that nothing was sent."""
    from remora.operate.config.cost import HACKERNEWS, cost_in_words

    return f"it costs {cost_in_words(choice.ceiling, None if choice.listed else HACKERNEWS)}; nothing was sent yet"


def _first_ceiling(source: str) -> str:
    return shelf_ceiling(source) or FIRST_CEILING[source != "hackernews"]


def check_was_asked(settings: "Settings", named: tuple[str | None, ...]) -> None:
    """Refuse to read the real Hacker News from an empty folder: nobody has asked for that yet."""
    from remora.operate.config.settings import FILE_NAME
    from remora.stores import sqlite_file

    store = sqlite_file(settings.store.url)
    has_mirror = store is None or store.exists()
    has_variables = any(name.startswith("REMORA_") and value for name, value in os.environ.items())
    if any(named) or has_mirror or has_variables or Path(FILE_NAME).is_file():
        return
    raise ConfigurationError(
        f"there is no {FILE_NAME} here, so nobody has said what to mirror",
        hint="`remora init` asks three questions and sends nothing; `remora up --demo` shows a simulated source",
    )


def _prompt(question: str, default: str, check: Callable[[str], Any]) -> str:
    while True:
        answer = str(click.prompt(question, default=default)).strip()
        try:
            check(answer)
        except RemoraError as error:
            click.echo(f"{error.message}; {error.hint}")
        else:
            return answer
