"""Which commands fetch? `up`, `worker`, `catchup` and `run`."""

# ruff: noqa: PLC0415

import sys
from typing import Final

import click

from remora.core.errors import ConfigurationError, Exit
from remora.operate.cli.asking import check_was_asked
from remora.operate.cli.common import (
    FiniteRange,
    as_json_option,
    check_one_name,
    if_busy,
    is_written,
    load_settings,
    log_options,
    print_json,
    source_options,
    start_logs,
    view_for,
)

ENDINGS: Final = {
    Exit.DONE: "done",
    Exit.FAILED: "not done",
    Exit.USAGE: "not done",
    Exit.BUDGET_USED: "not done yet; run it again to continue",
}

# Words of the ledger, for people.
LABELS: Final = {"frontier": "asked up to", "owed": "to retry"}


@click.command()
@source_options
@click.option("--start-id", type=int, metavar="N", help="The first id to fetch.")
@click.option("--end-id", type=int, metavar="N", help="The last id to fetch. Default: the newest.")
@click.option("--limit", type=int, metavar="N", help="How many ids to fetch, instead of --end-id.")
@click.option("--replay", is_flag=True, help="Also fetch ids that are already covered.")
@as_json_option
@log_options
def catchup(
    *,
    start_id: int | None,
    end_id: int | None,
    limit: int | None,
    replay: bool,
    as_json: bool,
    **common: str | None,
) -> None:
    """Backfill the history of a numbered source once. Can be stopped and resumed at any time."""
    from remora.operate.config.settings import pick_numbered

    check_range(start_id, end_id, limit)
    settings = load_settings(**common)
    check_was_asked(settings, (common.get("config"), common.get("source"), common.get("url")))
    name = pick_numbered(settings, common.get("source"))
    from remora.operate.jobs.app import backfill
    from remora.operate.jobs.stopping import run_job

    start_logs(settings)
    view = view_for(as_json=as_json)
    try:
        with if_busy("a running `remora up` already catches up; to do it apart, stop that first or use PostgreSQL"):
            ended = run_job(
                backfill(settings, source=name, start_id=start_id, end_id=end_id, limit=limit, replay=replay, view=view)
            )
    finally:
        view.close()
    _print_summary(ended.result, as_json=as_json, stopped=ended.stopped)


def check_range(start_id: int | None, end_id: int | None, limit: int | None) -> None:
    """Refuse a range that makes no sense."""
    if end_id is not None and limit is not None:
        raise ConfigurationError("both --end-id and --limit are given", hint="write one of them")
    for option, value in (("--start-id", start_id), ("--end-id", end_id), ("--limit", limit)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{option} is {value}", hint="ids and counts start at 1")
    if start_id is not None and end_id is not None and start_id > end_id:
        raise ConfigurationError(
            f"--start-id {start_id} comes after --end-id {end_id}",
            hint=f"write --start-id {end_id} --end-id {start_id} if you mean the ids between them",
        )


@click.command()
@source_options
@click.option("--demo", is_flag=True, help="Mirror a simulated provider into ./demo. Needs no configuration.")
@click.option("--no-catchup", is_flag=True, help="Fetch only new and changed items, not the history.")
@click.option("--listen", metavar="ADDR", help="The address of the console, as 127.0.0.1:8611.")
@log_options
def up(*, demo: bool, no_catchup: bool, listen: str | None, **common: str | None) -> None:
    """Run the service: every source, all loops and the console. Ctrl-C stops it."""
    from remora.operate.config.settings import known_source

    if demo and (given := [f"--{name}" for name in ("source", "store", "url", "ceiling") if is_written(name)]):
        raise ConfigurationError(
            f"--demo and {given[0]} do not go together", hint="leave it out: the demo has its own provider and store"
        )
    settings = load_settings(listen=listen, **common)
    if not demo and common["source"] is not None:
        known_source(settings, common["source"])
    check_was_asked(settings, ("demo" if demo else None, common["config"], common["source"], common["url"]))
    from remora.operate.jobs.app import serve
    from remora.operate.jobs.stopping import run_job
    from remora.operate.observe.logs import tell

    start_logs(settings, is_service=True)
    view = view_for(as_json=False, is_service=True)
    try:
        with if_busy("`remora status` shows what it does; wait for it, stop it first, or use PostgreSQL"):
            ended = run_job(serve(settings, demo=demo, catchup=not no_catchup, view=view))
    finally:
        view.close()
    if ended.stopped:
        tell("stopped on request; the next start resumes here")
    if demo:
        tell("look at the mirror with: remora status --store sqlite:///demo/remora.db")
    sys.exit(Exit.DONE if ended.result is None else ended.result)


@click.command()
@source_options
@log_options
def worker(**common: str | None) -> None:
    """Help `remora up` to fetch, from another process or host. Needs PostgreSQL. Ctrl-C stops it."""
    settings = load_settings(**common)
    from remora.operate.jobs.app import work
    from remora.operate.jobs.stopping import run_job
    from remora.operate.observe.logs import tell

    start_logs(settings, is_service=True)
    view = view_for(as_json=False, is_service=True)
    try:
        run_job(work(settings, only=common.get("source"), view=view))
    finally:
        view.close()
    tell("stopped on request")


@click.command()
@click.argument("name")
@source_options
@click.option(
    "--max-seconds", type=FiniteRange(min=0, min_open=True), metavar="S", help="Stop after this many seconds."
)
@click.option("--max-fetches", type=click.IntRange(1), metavar="N", help="Stop after this many requests.")
@click.option("--recover-only", is_flag=True, help="Fetch only what is owed, do not walk the list.")
@click.option("--force", is_flag=True, help="Walk the list even during a cool-down.")
@as_json_option
@log_options
def run(
    *,
    name: str,
    max_seconds: float | None,
    max_fetches: int | None,
    recover_only: bool,
    force: bool,
    as_json: bool,
    **common: str | None,
) -> None:
    """Make one bounded run over the listed source NAME. Exit code 75: the budget is used up, run it again."""
    from remora.operate.config.settings import pick_listed

    check_one_name(name, common.get("source"))
    settings = load_settings(**{**common, "source": name})
    pick_listed(settings, name)
    from remora.operate.jobs.app import run_listed_job
    from remora.operate.jobs.stopping import run_job

    start_logs(settings)
    view = view_for(as_json=as_json)
    listed_run = run_listed_job(
        settings,
        source=name,
        max_seconds=max_seconds,
        max_fetches=max_fetches,
        recover_only=recover_only,
        force=force,
        view=view,
    )
    try:
        with if_busy("a running `remora up` does it on its schedule; wait for it, or stop it first"):
            ended = run_job(listed_run)
    finally:
        view.close()
    _print_summary(ended.result, as_json=as_json, stopped=ended.stopped)


def _print_summary(summary: object, *, as_json: bool, stopped: bool) -> None:
    """Print the result, if there is one, and exit with its code."""
    import msgspec

    fields = {} if summary is None else msgspec.to_builtins(summary)
    exit_code: Exit = getattr(summary, "exit_code", Exit.DONE)
    if as_json:
        print_json({"event": "done", "stopped": stopped, **fields})
    else:
        click.echo("stopped on request; the next start resumes here" if stopped else ENDINGS[exit_code])
        for name, value in fields.items():
            if value is not None:
                click.echo(f"  {LABELS.get(name, name.replace('_', ' ')):<14}{_in_words(value)}")
    sys.exit(exit_code)


def _in_words(value: object) -> str:
    match value:
        case dict():
            return ", ".join(f"{_in_words(count)} {_one(name, count)}" for name, count in value.items()) or "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case _:
            return str(value)


def _one(name: str, count: int) -> str:
    """The singular of a counted name where the count is 1."""
    singular = {"requests": "request", "pages": "page", "waits": "wait", "retries": "retry"}
    return singular.get(name, name) if count == 1 else name
