"""Which command writes the mirror into files for other programs?"""

# ruff: noqa: PLC0415

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from remora.core.errors import ConfigurationError
from remora.core.units import SECOND_NS
from remora.operate.cli.common import load_settings, run, store_options
from remora.operate.cli.mirror import opened_mirror, source_of

if TYPE_CHECKING:
    from remora.operate.config.settings import Settings
    from remora.read.export import Wanted
    from remora.read.mirror import MirrorReader

FORMATS: Final = ("ndjson", "csv", "parquet", "singer")
TOLD_EVERY_S: Final = 5.0


@click.command(short_help="Write the mirror as NDJSON, CSV, Parquet or Singer messages.")
@store_options
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help="ndjson (the default), csv, parquet or singer.",
)
@click.option(
    "--out", metavar="PATH", help="The file, or for Parquet the folder. Default: stdout. Appears when complete."
)
@click.option("--since", metavar="DATE", help="Only items that changed, or documents fetched, since this moment.")
@click.option("--start-id", type=int, metavar="N", help="The first id.")
@click.option("--end-id", type=int, metavar="N", help="The last id.")
@click.option("--follow", metavar="FOLDER", help="Keep a folder of Parquet files fresh until Ctrl-C.")
def export(
    *,
    follow: str | None,
    file_format: str | None,
    out: str | None,
    since: str | None,
    start_id: int | None,
    end_id: int | None,
    **common: str | None,
) -> None:
    """Write the mirror as lines of JSON (byte for byte), CSV, Parquet or Singer messages."""
    from remora.operate.cli.collecting import check_range
    from remora.read.moments import parse_moment

    check_range(start_id, end_id, None)
    if follow is not None:
        if out is not None or since is not None or start_id is not None or end_id is not None:
            raise ConfigurationError(
                "--follow goes with no --out, --since and ids", hint="write --follow FOLDER alone: it holds everything"
            )
        if file_format not in {None, "parquet"}:
            raise ConfigurationError(
                f"--follow writes Parquet files, not {file_format}",
                hint="leave out --format; --out FILE writes others once",
            )
        with suppress(KeyboardInterrupt):
            run(_follow(load_settings(**common), common.get("source"), Path(follow)))
        return
    if file_format == "parquet" and out is None:
        raise ConfigurationError("Parquet needs a folder to write to", hint="write --out FOLDER")
    since_ns = 0 if since is None else parse_moment(since, where="--since") * SECOND_NS
    settings = load_settings(**common)
    count = run(_export(settings, common.get("source"), file_format or "ndjson", out, (start_id, end_id), since_ns))
    click.echo(f"{count:,} written", err=True)


async def _export(
    settings: "Settings",
    named: str | None,
    file_format: str,
    out: str | None,
    ids: tuple[int | None, int | None],
    since_ns: int,
) -> int:
    from remora.read.export import export_csv, export_ndjson, output
    from remora.read.resumable import check_file

    if file_format == "parquet":
        from remora.read.arrow import load_pyarrow
        from remora.read.parquet import export_parquet

        assert out is not None, "it was checked"
        load_pyarrow()
        async with opened_mirror(settings) as mirror:
            wanted = await _wanted(mirror, settings, named, ids, since_ns)
            return await export_parquet(mirror, wanted, Path(out), tell=_progress_line())
    if file_format == "singer":
        from remora.read.singer import export_singer as write
    else:
        write = export_csv if file_format == "csv" else export_ndjson
    if out is not None:
        check_file(Path(out))
    async with opened_mirror(settings) as mirror:
        wanted = await _wanted(mirror, settings, named, ids, since_ns)
        with output(out, f"{file_format} {wanted.asked}") as target:
            target.tell = _progress_line()
            return await write(mirror, wanted, target)


async def _follow(settings: "Settings", named: str | None, folder: Path) -> None:
    from remora.operate.jobs.following import Patience
    from remora.operate.jobs.lake_following import follow_into

    patience = Patience(lambda words: click.echo(words, err=True))
    async with opened_mirror(settings) as mirror:
        wanted = await _wanted(mirror, settings, named, (None, None), 0)
        await follow_into(mirror, settings.store.url, wanted, folder, tell=_progress_line(), patience=patience)


async def _wanted(
    mirror: "MirrorReader", settings: "Settings", named: str | None, ids: tuple[int | None, int | None], since_ns: int
) -> "Wanted":
    from remora.read.export import Wanted

    source, is_listed = await source_of(mirror, settings, named)
    if is_listed and ids != (None, None):
        raise ConfigurationError(
            f"{source} is a listed source, which has no ids to begin or end with",
            hint="leave out --start-id and --end-id; --since DATE takes only what was fetched since then",
        )
    store = _store_name(settings.store.url)
    return Wanted(source, is_listed, first_id=ids[0] or 0, last_id=ids[1], since_ns=since_ns, store=store)


def _store_name(url: str) -> str:
    from remora.operate.config.secrets import without_credentials
    from remora.stores import sqlite_file

    file = sqlite_file(url)
    return without_credentials(url) if file is None else f"sqlite {file.resolve()}"


def _progress_line() -> Callable[[int], None]:
    began_s = told_s = time.monotonic()

    def tell(rows: int) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        if now_s - told_s >= TOLD_EVERY_S:
            told_s = now_s
            click.echo(f"{rows:,} rows written, {rows / (now_s - began_s):,.0f}/s", err=True)

    return tell
