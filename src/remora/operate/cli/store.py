"""Which commands manage the store? `migrate`, `stats`, `backup`, `compact`, `repair` and `copy`."""

# ruff: noqa: PLC0415

from typing import TYPE_CHECKING, Final

import click

from remora.core.errors import ConfigurationError
from remora.operate.cli.common import (
    as_json_option,
    if_busy,
    load_settings,
    print_json,
    run,
    source_options,
    store_options,
)

if TYPE_CHECKING:
    from remora.operate.config.settings import Settings
    from remora.operate.jobs.backup import PagesCopied
    from remora.stores.copy import CopyReport, Progress

# A copy reports its progress after this many rows.
TOLD_EVERY_ROWS: Final = 50_000


@click.group()
def store() -> None:
    """Manage the store."""


@store.command()
@store_options
@click.option("--grant-to", metavar="ROLE", help="PostgreSQL: grant this role all that the service needs.")
def migrate(*, grant_to: str | None, **common: str | None) -> None:
    """Create the store or update its tables. The service does this by itself if it has the rights."""
    settings = load_settings(**common)
    from remora.stores import is_shared, steps_behind

    if is_shared(settings.store.url):
        run(_migrate(settings.store.url, grant_to))
    elif grant_to is not None:
        raise ConfigurationError("--grant-to is for PostgreSQL", hint="leave it out: a file belongs to whoever owns it")
    else:
        if steps := steps_behind(settings.store.url):
            click.echo(f"bringing the tables up to date ({steps:,} {'step' if steps == 1 else 'steps'}) …", err=True)
        run(_open_once(settings))
    click.echo("the store is up to date")


async def _migrate(url: str, grant_to: str | None) -> None:
    from remora.operate.jobs.startup_checks import naming_store
    from remora.stores.postgres import migrate as migrate_postgres

    with naming_store(url):
        await migrate_postgres(url, grant_to=grant_to)


async def _open_once(settings: "Settings") -> None:
    from remora.operate.jobs.opened_store import opened_store

    with if_busy("stop it first; it brought the tables up to date when it started"):
        async with opened_store(settings, read_only=False):
            pass


@store.command(short_help="Show what each table takes, and how it grows.")
@store_options
@click.option("--exact", is_flag=True, help="Read the whole store instead of estimating from a sample.")
@as_json_option
def stats(*, exact: bool, as_json: bool, **common: str | None) -> None:
    """Show how much the store holds, what each table takes, and how fast it grows.

    Sizes, rows and the last day are estimates, within a few percent.
    """
    from remora.operate.jobs.keeping import describe
    from remora.operate.jobs.preflight import store_stats

    settings = load_settings(**common)
    found: dict[str, object] = dict(run(store_stats(settings)))
    found |= run(describe(settings, exact=exact))
    if as_json:
        print_json(found)
        return
    estimated = ("tables", "last_day", "growth_bytes_per_day") if found.pop("estimated") else ()
    for name, value in found.items():
        about = "about " if name in estimated and value else ""
        if isinstance(value, dict):
            for inner, told in value.items():
                click.echo(f"{name + ' ' + inner:<35} {about}{_in_words(told)}")
        else:
            click.echo(f"{name:<35} {about}{_in_words(value)}")


def _in_words(value: object) -> str:
    match value:
        case {"bytes": int(size), "rows": rows}:
            return f"{size:,} bytes" + (f", {rows:,} rows" if isinstance(rows, int) else "")
        case int():
            return f"{value:,}"
        case _:
            return str(value or "unknown")


@store.command(short_help="Write a consistent copy to a new file, while the service runs.")
@click.argument("target", metavar="FILE")
@store_options
@as_json_option
def backup(*, target: str, as_json: bool, **common: str | None) -> None:
    """Write a consistent copy of the store to a new file, also while a service writes the store."""
    from remora.operate.jobs.backup import back_up_store
    from remora.operate.jobs.stopping import interrupted_by_signals

    with interrupted_by_signals():
        done = back_up_store(load_settings(**common), target, progress=_pages_line())
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(done))
        return
    checked = "checked" if done.is_checked else "checked in part: it is large"
    click.echo(f"{done.file}: {done.size_bytes:,} bytes, everything recorded until {done.as_of}, {checked}")


def _pages_line() -> "PagesCopied":
    told = [0]

    def tell(done: int, whole: int) -> None:
        if (tenth := 10 * done // max(1, whole)) > told[0]:
            told[0] = tenth
            click.echo(f"{10 * tenth} % copied", err=True)

    return tell


@store.command(short_help="Delete old changes and revisions, and give room back.")
@store_options
@click.option(
    "--changes-older", metavar="DURATION", help="Delete changes older than this, as 90d, that all readers have."
)
@click.option("--revisions-older", metavar="DURATION", help="Delete earlier contents first seen longer ago than this.")
@click.option("--settled-older", metavar="DURATION", help="Delete gaps that were settled longer ago than this.")
@click.option("--no-shrink", is_flag=True, help="Only delete; the file keeps its size and uses the space again.")
@as_json_option
def compact(
    *,
    changes_older: str | None,
    revisions_older: str | None,
    settled_older: str | None,
    no_shrink: bool,
    as_json: bool,
    **common: str | None,
) -> None:
    """Delete old changes, revisions and settled gaps if you say so, and give unused space back."""
    from remora.core.quantities import parse_duration
    from remora.operate.jobs.keeping import compact as compact_store

    older = {
        option: None if text is None else parse_duration(text, option)
        for option, text in (
            ("--changes-older", changes_older),
            ("--revisions-older", revisions_older),
            ("--settled-older", settled_older),
        )
    }
    settings = load_settings(**common)
    with if_busy("stop it first, or write --no-shrink: only shrinking needs the file for itself"):
        done = run(
            compact_store(
                settings,
                changes_older_ns=older["--changes-older"],
                revisions_older_ns=older["--revisions-older"],
                settled_older_ns=older["--settled-older"],
                shrink=not no_shrink,
            )
        )
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(done))
        return
    click.echo(f"{done.changes:,} changes, {done.revisions:,} revisions and {done.settled_gaps:,} settled gaps deleted")
    if changes_older is not None and done.waits_for is not None:
        click.echo(f"changes that {done.waits_for} has not read are kept")
    if done.bytes_before is not None and done.bytes_after is not None:
        click.echo(f"{done.bytes_before:,} bytes before, {done.bytes_after:,} after")


@store.command()
@source_options
@as_json_option
def repair(*, as_json: bool, **common: str | None) -> None:
    """Forget what was planned beyond the newest id a source tells. Items are kept."""
    from remora.operate.config.settings import pick_numbered

    settings = load_settings(**common)
    if (name := common.get("source")) is not None:
        pick_numbered(settings, name)
    from remora.operate.jobs.repair import repair as repair_store
    from remora.operate.jobs.stopping import run_job
    from remora.operate.observe.logs import set_up_logs

    set_up_logs(settings)
    with if_busy("stop it first, or let it: the next true answer of the source repairs the same"):
        ended = run_job(repair_store(settings, only=name))
    if ended.result is None:
        click.echo("stopped on request", err=True)
        return
    if as_json:
        print_json({each.source: {"believed": each.believed, "newest_id": each.newest_id} for each in ended.result})
    else:
        for each in ended.result:
            if each.newest_id is not None:
                before = f"the store believed {each.believed:,}" if each.was_wrong else "nothing to repair"
                click.echo(f"{each.source}: the newest id is {each.newest_id:,}; {before}")
    failures = [each.failure for each in ended.result if each.failure is not None]
    for failure in failures[:-1]:
        click.echo(str(failure), err=True)
    if failures:
        raise failures[-1]


@store.command()
@click.argument("source_url", metavar="FROM")
@click.argument("target_url", metavar="TO")
@as_json_option
def copy(*, source_url: str, target_url: str, as_json: bool) -> None:
    """Copy a whole mirror into an empty store and compare both. Can be stopped and resumed."""
    from remora.operate.config.reader import check_store
    from remora.operate.jobs.stopping import run_job

    for url in (source_url, target_url):
        check_store(url)
    if source_url == target_url:
        raise ConfigurationError("both stores are the same one", hint="name an empty store as the second")
    ended = run_job(_copy(source_url, target_url))
    report = ended.result
    if report is None:
        click.echo("stopped on request; the same command resumes here", err=True)
    elif as_json:
        print_json({name: {"rows": table.rows, "digest": table.digest} for name, table in report.tables.items()})
    else:
        for name, table in report.tables.items():
            click.echo(f"{name:<12}{table.rows:>14,} {'row ' if table.rows == 1 else 'rows'}  {table.digest}")
        click.echo(f"{report.rows:,} rows, the same on both sides")


async def _copy(source_url: str, target_url: str) -> "CopyReport":
    from remora.operate.jobs.startup_checks import naming_store
    from remora.stores.copy import copy_store, open_portable

    source = open_portable(source_url, read_only=True)
    target = open_portable(target_url, read_only=False)
    with naming_store(source_url):
        await source.open()
    try:
        with naming_store(target_url), if_busy("copy into a new file, or stop what writes this one"):
            await target.open()
        try:
            return await copy_store(source, target, progress=_progress_line())
        finally:
            await target.close()
    finally:
        await source.close()


def _progress_line() -> "Progress":
    told: dict[str, int] = {}

    def tell(table: str, rows: int) -> None:
        if table not in told or rows - told[table] >= TOLD_EVERY_ROWS:
            told[table] = rows
            click.echo(f"{table}: {rows:,} row{'' if rows == 1 else 's'} copied", err=True)

    return tell
