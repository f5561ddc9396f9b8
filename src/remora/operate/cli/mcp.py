"""Which command lets an assistant read the mirror?"""

# ruff: noqa: PLC0415

import sys

import click

from remora.operate.cli.common import load_settings, store_options
from remora.operate.cli.common import run as run_to_end


@click.command(short_help="Serve the mirror to an assistant; it can only read.")
@store_options
def mcp(**common: str | None) -> None:
    """Serve search, items, threads, history and status to an assistant over stdio (Model Context Protocol)."""
    settings = load_settings(**common)
    from remora.operate.jobs.assistants import make_server

    server = make_server(settings)
    if sys.stdin.isatty():
        click.echo("an assistant starts this command by itself; it speaks JSON on stdin and stdout", err=True)
    run_to_end(server.run_stdio_async())
