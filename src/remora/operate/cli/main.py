"""Which commands does `remora` have, and what catches what they raise?"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click

from remora.operate.cli.commands import Commands
from remora.operate.cli.common import writes_events
from remora.operate.cli.examples import GROUPS
from remora.operate.cli.failures import (
    end,
    explain,
    make_stdout_fail_if_closed,
    make_stdout_take_every_character,
)
from remora.operate.cli.lean_start import load_structlog_alone
from remora.operate.observe.terminal_guard import guard_terminals
from remora.version import __version__


class RemoraGroup(click.Group):
    """Ends every failure with one line on stderr and an exit code."""

    _meta: Mapping[str, Any] = MappingProxyType({})

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command. A closed pipe, Ctrl-C and mistakes in the arguments are click's own business."""
        make_stdout_fail_if_closed()
        make_stdout_take_every_character()
        guard_terminals()
        try:
            return super().main(*args, **extra)
        except Exception as error:  # noqa: BLE001 - the last place that can say why the process ends
            words, code = explain(error)
        return end(words, code, as_event=writes_events(self._meta, code))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by what they are for, several in a line: one line each would not fit a screen."""
        room = formatter.width - max(map(len, GROUPS)) - 4
        with formatter.section("Commands"):
            formatter.write_dl([(group, _in_lines(uses, room)) for group, uses in GROUPS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand; neither `--version` nor `--help` comes here."""
        load_structlog_alone()
        self._meta = ctx.meta  # shared with the context of the subcommand
        return super().invoke(ctx)


@click.group(
    cls=RemoraGroup,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample: remora up --demo\nNext: open http://127.0.0.1:8611, or run remora COMMAND --help.",
)
@click.version_option(__version__, prog_name="remora")
def main() -> None:
    """Keep a complete, fresh copy of a source that limits how fast it may be read.

    Start with `remora init`, then `remora up`; `remora status` tells how it goes.
    """


def _in_lines(uses: dict[str, str], width: int) -> str:
    """Each command with its use, as many in a line as fit; no line ends between a command and its use."""
    lines: list[str] = []
    for told in (f"{name} ({use})" for name, use in uses.items()):
        if lines and len(lines[-1]) + len(told) + 2 < width:
            lines[-1] += f", {told}"
        else:
            lines.append(told)
    return "\b\n" + ",\n".join(lines)
