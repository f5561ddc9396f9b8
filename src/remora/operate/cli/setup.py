"""Which commands prepare a mirror? `init`, `check`, `try` and `simulate`."""

# ruff: noqa: PLC0415

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remora.core.errors import ConfigurationError, Exit
from remora.operate.cli.common import (
    FiniteRange,
    as_json_option,
    check_one_name,
    load_settings,
    print_json,
    run,
    source_options,
)
from remora.operate.cli.shelf import list_option, near_name, shelf_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remora.operate.jobs.trial import Finding
    from remora.sim.faults import Faults
    from remora.sim.listed import ArchiveSettings
    from remora.sim.world import WorldSettings


@click.command(short_help="Write a commented configuration and say what it costs.")
@click.argument("source", required=False)
@click.option("--config", metavar="FILE", default="remora.toml", show_default=True, help="The file to write.")
@click.option("--ceiling", metavar="RATE", help="The most requests to send, as 250/s or 60/min.")
@click.option("--store", metavar="URL", help="Where the mirror is kept, as sqlite:///remora.db.")
@list_option
def init(*, source: str | None, config: str, ceiling: str | None, store: str | None) -> None:
    """Write a commented configuration, and say what the mirror will cost. Sends nothing.

    SOURCE is hackernews, a name that --list shows, or any name for a listed source of your own. Without SOURCE it
    asks three questions on a terminal.
    """
    from remora.operate.cli.asking import ask, chosen, is_asked_on_terminal, told_cost
    from remora.operate.config.secrets import holds_password
    from remora.operate.config.templates import configuration_for

    path = Path(config)
    if path.exists():
        raise _exists(path)
    make = ask if is_asked_on_terminal(source) else partial(chosen, source)
    choice = make(ceiling=ceiling, store=store)
    ready = shelf_configuration(choice.source, ceiling=choice.ceiling, store=choice.store)
    text = ready or configuration_for(choice.source, listed=choice.listed, ceiling=choice.ceiling, store=choice.store)
    _write_configuration(path, text, is_private=holds_password(choice.store))
    following = "remora check" if config == "remora.toml" else f"remora check --config {config}"
    before = "fill in its address and paths, then: " if choice.listed else ""
    if ready is not None:
        before = "fill in what its comments name, then: "
    click.echo(told_cost(choice))
    click.echo(f"wrote {path}; next: {before}{following}")
    if near := near_name(choice.source):
        click.echo(
            f"{choice.source} is a name of your own; if you meant {near}, delete {path} and run: remora init {near}"
        )


def _write_configuration(path: Path, text: str, *, is_private: bool) -> None:
    """All of it or nothing: an empty configuration would mirror the real Hacker News."""
    from remora.files import PRIVATE_FILE, USUAL_FILE, write_new
    from remora.read.resumable import unwritable

    try:
        write_new(path, text.encode(), mode=PRIVATE_FILE if is_private else USUAL_FILE)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise unwritable(path, error) from None


def _exists(path: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} exists already", hint="edit it, or name another file with --config")


@click.command()
@source_options
@click.option("--offline", is_flag=True, help="Send no request to the sources.")
@as_json_option
def check(*, offline: bool, as_json: bool, **common: str | None) -> None:
    """Check whether it can work before it starts.

    Checks configuration, ceiling, token, disk, clock and store, and sends two requests to each source. Writes nothing.
    """
    from remora.operate.jobs.preflight import examine
    from remora.operate.observe.logs import set_up_logs

    settings = load_settings(**common)
    set_up_logs(settings, level="warning")
    _show(run(examine(settings, only=common.get("source"), offline=offline)), as_json=as_json)


@click.command(name="notify", short_help="Send a test notice by every channel of [notify].")
@click.option("--config", metavar="FILE", help="The configuration file. Default: ./remora.toml if present.")
def notify(*, config: str | None) -> None:
    """Send a test notice by every channel of [notify], and say which of them worked."""
    from remora.operate.jobs.clock import SystemClock
    from remora.operate.observe.logs import set_up_logs
    from remora.operate.observe.notify import Notifier
    from remora.stores import open_store

    settings = load_settings(config=config)
    set_up_logs(settings, level="error")
    if not settings.notify.is_anybody_told:
        raise ConfigurationError(
            "[notify] names nobody", hint='write command, webhook or mail_to, as mail_to = "you@…"'
        )
    notifier = Notifier(settings.notify, open_store("memory://"), clock=SystemClock())
    told = run(notifier.test())
    click.echo(told)
    sys.exit(Exit.FAILED if "failed" in told else Exit.DONE)


@click.command(name="try")
@click.argument("name")
@source_options
@as_json_option
def try_(*, name: str, as_json: bool, **common: str | None) -> None:
    """Show what a declaration understands of its source.

    Asks for one page and one detail, or for the newest id and one item. Writes nothing. Change the declaration and try
    again until it says what you expect.
    """
    from remora.operate.jobs.preflight import try_out
    from remora.operate.observe.logs import set_up_logs

    check_one_name(name, common["source"])
    settings = load_settings(**{**common, "source": name})
    set_up_logs(settings, level="warning")
    _show(run(try_out(settings, name)), as_json=as_json)


def _show(findings: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print the findings and end the process: 1 if one of them is bad."""
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            # A long name keeps its distance, too.
            click.echo(f"{finding.verdict:<8}{finding.what + '  ':<22}{finding.told}")
            if finding.hint:
                click.echo(f"{'':<30}{finding.hint}")
    sys.exit(Exit.FAILED if any(finding.verdict == "bad" for finding in findings) else Exit.DONE)


@click.command()
@click.option(
    "--items", type=click.IntRange(min=1), default=20_000, show_default=True, help="Ids that exist at the start."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8612, show_default=True, help="The port. 0: any free one."
)
@click.option("--faults", metavar="FILE", help="A file of faults to simulate, in TOML or JSON.")
@click.option("--speed", type=FiniteRange(min=0), default=1.0, show_default=True, help="Speed of simulated time.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same world.")
@click.option("--new-per-day", type=FiniteRange(min=1), default=12_000.0, show_default=True, help="New ids a day.")
@click.option("--conversations", type=click.IntRange(min=1), help="Also serve a listed archive with this many entries.")
@as_json_option
def simulate(
    *,
    items: int,
    port: int,
    faults: str | None,
    speed: float,
    seed: int,
    new_per_day: float,
    conversations: int | None,
    as_json: bool,
) -> None:
    """Run a simulated Hacker News on loopback.

    It can have hidden limits and faults. Ctrl-C stops it.
    """
    from remora.operate.jobs.stopping import run_job
    from remora.sim.faults import NO_FAULTS, load_faults
    from remora.sim.listed import ArchiveSettings
    from remora.sim.world import WorldSettings

    world = WorldSettings(seed=seed, items=items, new_per_day=new_per_day)
    wrong = load_faults(Path(faults)) if faults is not None else NO_FAULTS
    archive = None if conversations is None else ArchiveSettings(seed=seed, conversations=conversations)
    run_job(_simulate(world, archive, wrong, port=port, speed=speed, as_json=as_json))


async def _simulate(
    world: "WorldSettings",
    archive: "ArchiveSettings | None",
    faults: "Faults",
    *,
    port: int,
    speed: float,
    as_json: bool,
) -> None:
    import asyncio

    from remora.sim.server import serve

    try:
        server = await serve(world, address=("127.0.0.1", port), faults=faults, speed=speed, archive=archive)
    except OSError as error:
        raise ConfigurationError(
            f"port {port} cannot be used ({os.strerror(error.errno or 0)})",
            hint="choose another with --port; 0 takes any free one",
        ) from None
    async with server:
        if as_json:
            listed = None if archive is None else {"url": f"{server.origin}/archive", "token": archive.token}
            told = {"url": server.url, "origin": server.origin, "port": server.port, "items": world.items}
            print_json(told if listed is None else {**told, "archive": listed})
        else:
            for line in _told(server.url, f"{server.origin}/archive", world, archive):
                click.echo(line)
        sys.stdout.flush()
        await asyncio.Event().wait()


def _told(url: str, archive_url: str, world: "WorldSettings", archive: "ArchiveSettings | None") -> "Iterator[str]":
    """What is simulated, and what to type next. Who asked for an archive gets the commands for it."""
    if archive is None:
        yield f"{world.items:,} items at {url}"
        yield f"in another terminal: remora catchup --url {url}"
        return
    yield f"{archive.conversations:,} conversations at {archive_url}, token {archive.token}"
    yield "in another terminal: remora init chats"
    yield f"  export CHATS_TOKEN={archive.token}"
    yield f"  remora run chats --url {archive_url} --ceiling 20/s"
    yield f"and {world.items:,} items of a simulated Hacker News at {url}"
