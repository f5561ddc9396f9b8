"""Which command searches the mirror, and builds the index that a search needs?"""

# ruff: noqa: PLC0415

from typing import TYPE_CHECKING, Final

import click

from remora.core.errors import ConfigurationError
from remora.operate.cli.common import as_json_option, if_busy, load_settings, print_json, run, store_options, wall_ns
from remora.operate.cli.mirror import opened_mirror, source_of

if TYPE_CHECKING:
    from remora.operate.config.settings import Settings
    from remora.read.search import IndexReport, SearchHit

# The orders of `SearchOrder`, written out: importing it would slow down every start.
ORDERS: Final = ("relevance", "time", "score")
TOLD_EVERY_ROWS: Final = 50_000


@click.command()
@click.argument("words", metavar="QUERY", nargs=-1)
@store_options
@click.option("--order", type=click.Choice(ORDERS), default="relevance", show_default=True, help="What comes first.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="The most hits to print.")
@click.option("--build", "wanted", flag_value="build", help="Build the index, or add what is missing.")
@click.option("--rebuild", "wanted", flag_value="rebuild", help="Build the index anew.")
@click.option("--stats", "wanted", flag_value="stats", help="Show the size of the index and how far it is behind.")
@as_json_option
def search(
    *, words: tuple[str, ...], order: str, limit: int, wanted: str | None, as_json: bool, **common: str | None
) -> None:
    """Search titles and texts; build the index first with --build."""
    if bool(words) == bool(wanted):
        raise ConfigurationError(
            "there is nothing to search for"
            if not words
            else "a query and --build, --rebuild or --stats are both given",
            hint="write one of: remora search WORDS, remora search --build, remora search --stats",
        )
    settings = load_settings(**common)
    match wanted:
        case None:
            _search(settings, " ".join(words), common.get("source"), order, limit, as_json=as_json)
        case "stats":
            _print_report(run(_report(settings)), as_json=as_json)
        case _:
            with if_busy("`remora up` keeps the index up to date while it runs"):
                _print_report(run(_build(settings, rebuild=wanted == "rebuild")), as_json=as_json)


def _search(settings: "Settings", query: str, source: str | None, order: str, limit: int, *, as_json: bool) -> None:
    hits, report = run(_found(settings, query, source, order, limit))
    if as_json:
        print_json([_fields(hit) for hit in hits])
        return
    for hit in hits:
        click.echo(_line(hit))
        if hit.snippet:
            click.echo(f"    {hit.snippet}")
    told = "" if report is None else f"; index: {report.words(now_ns=wall_ns())}"
    click.echo(f"{len(hits):,} hit{'' if len(hits) == 1 else 's'}{told}", err=True)
    if not hits and len(query.split()) > 1:
        click.echo("every word must occur in a hit: try fewer words", err=True)


async def _found(
    settings: "Settings", query: str, source: str | None, order: str, limit: int
) -> "tuple[list[SearchHit], IndexReport | None]":
    async with opened_mirror(settings) as mirror:
        if source is not None:
            await source_of(mirror, settings, source)
        hits = await mirror.search(query, source=source, order=order, limit=limit)
        return list(hits), await mirror.search_report()


async def _report(settings: "Settings") -> "IndexReport":
    from remora.read.search import no_index

    async with opened_mirror(settings) as mirror:
        report = await mirror.search_report()
    if report is None:
        raise no_index()
    return report


async def _build(settings: "Settings", *, rebuild: bool) -> "IndexReport":
    from remora.operate.jobs.search_index import build
    from remora.operate.jobs.startup_checks import naming_store

    read = told = 0

    def tell(count: int) -> None:
        nonlocal read, told
        read += count
        if read - told >= TOLD_EVERY_ROWS:
            told = read
            click.echo(f"{read:,} rows read", err=True)

    with naming_store(settings.store.url):
        return await build(settings.store.url, rebuild=rebuild, tell=tell)


def _print_report(report: "IndexReport", *, as_json: bool) -> None:
    if not as_json:
        click.echo(f"the search index has {report.words(now_ns=wall_ns())}")
        return
    behind_s = None if report.waits_since_ns is None else max(0, wall_ns() - report.waits_since_ns) / 1e9
    size = report.size
    print_json(
        {"entries": size.entries, "bytes": size.bytes, "is_building": report.is_building, "behind_s": behind_s or 0}
    )


def _line(hit: "SearchHit") -> str:
    from remora.contracts.reader import MirroredItem
    from remora.read.as_text import points
    from remora.read.plain_text import one_line

    parts = [f"{hit.source} {hit.key}"]
    if isinstance(hit.thing, MirroredItem):
        item, created = hit.thing, hit.thing.created_at
        parts += [item.type or "", points(item.score) if item.score is not None else ""]
        parts += [f"by {item.by}" if item.by else "", f"{created:%Y-%m-%d}" if created else ""]
    parts.append(hit.title)
    return "  ".join(one_line(part) for part in parts if part)


def _fields(hit: "SearchHit") -> dict[str, object]:
    from remora.contracts.reader import MirroredItem

    fields: dict[str, object] = {"source": hit.source, "kind": hit.kind, "key": hit.key}
    fields |= {"title": hit.title, "snippet": hit.snippet}
    if isinstance(hit.thing, MirroredItem):
        item = hit.thing
        fields |= {"type": item.type, "by": item.by, "time": item.time, "score": item.score, "url": item.url}
    return fields
