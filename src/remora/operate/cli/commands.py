"""Where is each command? In the module named here, which is loaded when the command is asked for.

All of them have about 180 options. Building these takes longer than many a command runs.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Final

import click

from remora.operate.cli.common import take_texts_only
from remora.operate.cli.examples import add_example

PLACES: Final = {
    "init": "setup.init",
    "check": "setup.check",
    "try": "setup.try_",
    "notify": "setup.notify",
    "up": "collecting.up",
    "worker": "collecting.worker",
    "catchup": "collecting.catchup",
    "run": "collecting.run",
    "status": "reading.status",
    "gaps": "reading.gaps",
    "show": "mirror.show",
    "search": "search.search",
    "query": "mirror.query",
    "changes": "changes.changes",
    "export": "export.export",
    "import": "importing.import_",
    "verify": "verify.verify",
    "mcp": "mcp.mcp",
    "store": "store.store",
    "simulate": "setup.simulate",
    "completion": "completion.completion",
}


class Commands(MutableMapping[str, click.Command]):
    """The commands of `remora` by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = PLACES[name].partition(".")
            command = getattr(import_module(f"{__package__}.{module}"), attribute)
            assert isinstance(command, click.Command), f"{PLACES[name]} is no command"
            add_example(command, (name,))
            take_texts_only(command)
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise AssertionError(f"{name} belongs into `PLACES`")

    def __delitem__(self, name: str) -> None:
        raise AssertionError(f"{name} cannot be removed")
