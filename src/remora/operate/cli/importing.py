"""Which command takes a dump into the mirror?"""

# ruff: noqa: PLC0415

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from remora.operate.cli.common import as_json_option, if_busy, load_settings, print_json, store_options

TOLD_EVERY_S: Final = 5.0


@click.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@store_options
@as_json_option
def import_(*, files: tuple[Path, ...], as_json: bool, **common: str | None) -> None:
    """Take items from dumps: lines of JSON, or Parquet. Nothing is fetched, and nothing held is overwritten.

    Known tables: an export of Remora, BigQuery's hacker_news.full, the Hacker News archives on Hugging Face. The same
    command resumes after an interruption; a file that was imported before costs nothing.
    """
    from remora.operate.config.settings import pick_numbered

    settings = load_settings(**common)
    name = pick_numbered(settings, common.get("source"))
    from remora.operate.jobs.importing import import_files
    from remora.operate.jobs.stopping import run_job

    with if_busy("stop it first, or use PostgreSQL: only one process may write a SQLite file"):
        ended = run_job(import_files(settings, name, files, tell=_progress_line()))
    if ended.result is None:
        click.echo("stopped on request; the same command resumes here", err=True)
        return
    if as_json:
        import msgspec

        print_json([msgspec.to_builtins(each) for each in ended.result])
        return
    for each in ended.result:
        passed_over = f", {each.passed_over:,} rows passed over" if each.passed_over else ""
        click.echo(f"{each.file}: {each.rows:,} rows, {each.items:,} new items{passed_over}, {each.seconds:,.0f} s")
    click.echo("`remora verify` asks the source for a sample; `remora up` fetches what is missing", err=True)


def _progress_line() -> Callable[[str, int], None]:
    told_s = began_s = time.monotonic()
    begin_rows: dict[str, int] = {}

    def tell(file: str, rows: int) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        begin_rows.setdefault(file, rows)
        if now_s - told_s >= TOLD_EVERY_S:
            rate = sum(begin_rows.values()) and (rows - begin_rows[file]) / max(now_s - began_s, 1e-9)
            told_s = now_s
            click.echo(f"{file}: {rows:,} rows read, {rate:,.0f}/s", err=True)

    return tell
