"""What does `remora` understand? The group of all commands, and how our own errors leave it: one sentence and a hint."""

import sys
from typing import Any

import click

from remora import __version__
from remora.core.errors import RemoraError
from remora.operate.cli.collecting import catchup, run, up, worker
from remora.operate.cli.reading import export, gaps, show, status
from remora.operate.cli.setup import check, init, simulate
from remora.operate.cli.store import store


class RemoraGroup(click.Group):
    """Turns our own errors into a sentence on stderr and an exit code. Anything else is a bug and shows its trace."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RemoraError as error:
            click.echo(f"remora: {error.message}\n  {error.hint}", err=True)
            sys.exit(error.exit_code)


@click.group(
    cls=RemoraGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Durations are written 90s, 15m, 6h, 3d; rates 5/s, 300/min. What a mirror always needs stands in remora.toml.",
)
@click.version_option(__version__, prog_name="remora")
def main() -> None:
    """Keep a complete, always-fresh copy of a source that limits how fast it may be read.

    Start with `remora init`, then `remora up`; `remora status` says how it is going.
    """


for command in (init, check, up, worker, catchup, run, status, gaps, show, export, store, simulate):
    main.add_command(command)
