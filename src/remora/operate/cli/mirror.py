"""Which commands show what is in the mirror? They read the store only and work while a service writes it."""

# ruff: noqa: PLC0415

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from remora.core.errors import ConfigurationError
from remora.operate.cli.common import FiniteRange, as_json_option, load_settings, run, store_options
from remora.read.arguments import ROWS_MAX, SECONDS_MAX

if TYPE_CHECKING:
    from remora.contracts.reader import MirroredItem, QueryResult, Revision
    from remora.operate.config.settings import Settings
    from remora.read.mirror import MirrorReader
    from remora.read.thread import ThreadNode

# In which form an item or a document is shown, by the name of its parameter.
FORMS: Final = {"as_json": "--json", "as_html": "--html", "with_history": "--history", "only_body": "--body"}


@asynccontextmanager
async def opened_mirror(settings: "Settings") -> "AsyncIterator[MirrorReader]":
    """The mirror of these settings, open for reading."""
    from remora.operate.jobs.startup_checks import naming_store
    from remora.read.mirror import MirrorReader

    mirror = MirrorReader(settings.store.url, configured=settings.sources)
    with naming_store(settings.store.url):
        await mirror.__aenter__()
    try:
        yield mirror
    finally:
        await mirror.__aexit__(None, None, None)


async def source_of(mirror: "MirrorReader", settings: "Settings", named: str | None) -> tuple[str, bool]:
    """The source that a command means, and whether it is listed: the named one, or the only one."""
    held = {source.name: source.is_listed for source in await mirror.sources()}
    configured = {name: not source.capabilities.newest_id for name, source in settings.sources.items()}
    # The configuration knows best: a listed source looks like any other in the store until its first page is read.
    known = {**held, **configured}
    if named is None:
        names = sorted(configured) if len(configured) == 1 else sorted(known)
        if len(names) != 1:
            raise ConfigurationError(
                "there is more than one source", hint=f"name one with --source: {', '.join(names)}"
            )
        named = names[0]
    if named not in known:
        from remora.operate.config.settings import known_source

        known_source(settings, named)
    return named, known[named]


@click.command()
@click.argument("key", metavar="ID|KEY")
@store_options
@click.option("--history", "with_history", is_flag=True, help="Show every revision and what changed in it.")
@click.option("--html", "as_html", is_flag=True, help="Show the thread or the document as one HTML page.")
@click.option("--body", "only_body", is_flag=True, help="Show only the body, as the provider sent it, indented.")
@as_json_option
def show(*, key: str, **options: Any) -> None:
    """Show one item with its thread, or one document."""
    chosen = [name for name in FORMS if options.pop(name)]
    if len(chosen) > 1 and chosen != ["as_json", "with_history"]:  # the JSON holds the history, too
        names = " and ".join(FORMS[name] for name in chosen)
        raise ConfigurationError(f"{names} are given together", hint="write one of them: each is a form of its own")
    settings = load_settings(**options)
    _check_key(settings, options.get("source"), key)
    text = run(_shown(settings, options.get("source"), key, form=chosen[0] if chosen else "as_text"))
    if text is None:
        hint = "remora gaps lists what is owed; remora status counts what was not fetched yet"
        click.echo(f"remora: {key} is not in the mirror\n  {hint}", err=True)
        sys.exit(1)
    click.echo(text)


async def _shown(settings: "Settings", named: str | None, key: str, *, form: str) -> str | bytes | None:
    from remora.read.as_text import history_text, thread_text

    async with opened_mirror(settings) as mirror:
        source, is_listed = await source_of(mirror, settings, named)
        if is_listed:
            return await _shown_document(settings, mirror, source, key, form=form)
        item_id = _item_id(key)
        item = await mirror.item(item_id, source=source)
        if item is None:
            return None
        if form == "only_body":
            return _body_text(item.body)
        if form == "with_history":
            return history_text(await mirror.history(item_id, source=source))
        thread = await mirror.thread(item_id, source=source)
        assert thread is not None, "nothing is ever removed from a mirror"
        if form == "as_json":
            return _item_json(item, await mirror.history(item_id, source=source), thread)
        if form == "as_html":
            from remora.operate.console.reader.standalone import thread_html

            return thread_html(thread).encode("utf-8", "replace")
        return thread_text(thread)


async def _shown_document(
    settings: "Settings", mirror: "MirrorReader", source: str, key: str, *, form: str
) -> str | bytes | None:
    from remora.read.as_text import history_text
    from remora.read.json_layout import as_value

    document = await mirror.document(key, source=source)
    if document is None or document.body is None:
        return None
    if form == "as_json":
        return _json(
            {
                "source": source,
                "key": key,
                "body": as_value(document.body),
                "fetched_at": _iso_or_none(document.fetched_ns),
                "vanished_at": _iso_or_none(document.vanished_ns),
                "gone": document.is_gone,
            }
        )
    if form == "as_html":
        from remora.operate.console.reader.standalone import document_html

        return document_html(document).encode("utf-8", "replace")
    if form == "with_history":
        from remora.read.browsing import opened_browsing
        from remora.read.document_history import read_document_history

        async with opened_browsing(settings.store.url) as reader:
            return history_text(await read_document_history(reader, document))
    return _body_text(document.body)


def _body_text(body: bytes) -> str | bytes:
    """The body with indents. What a terminal would act on is escaped for a terminal only."""
    from remora.read.as_text import pretty
    from remora.read.json_layout import indented

    return pretty(body) if sys.stdout.isatty() else indented(body) or body


def _item_json(item: "MirroredItem", history: "tuple[Revision, ...] | Any", thread: "ThreadNode") -> bytes:
    from remora.read.json_layout import as_value

    return _json(
        {
            "source": item.source,
            "key": str(item.id),
            "body": as_value(item.body),
            "fetched_at": _iso_or_none(item.last_fetched_ns),  # null: it came from a dump
            "first_seen_at": _iso(item.first_seen_ns),
            "changed_at": _iso(item.changed_ns),
            "revision": item.revision,
            "earlier": [
                {"revision": past.number, "changed_at": _iso(past.changed_ns), "body": as_value(past.body)}
                for past in history[:-1]
            ],
            "thread": [
                {
                    "depth": depth,
                    "id": node.item.id,
                    "body": as_value(node.item.body),
                    "missing": node.missing,
                    "elsewhere": node.elsewhere,
                    "cycles": node.cycles,
                    "is_cut": node.is_cut,
                }
                for depth, node in thread.walk()
            ],
        }
    )


@click.command(short_help="Run one SQL query that only reads.")
@click.argument("statement", metavar="SQL")
@store_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header line.")
@click.option(
    "--limit", type=click.IntRange(1, ROWS_MAX), default=10_000, show_default=True, help="The most rows to print."
)
@click.option(
    "--timeout", type=FiniteRange(0.1, SECONDS_MAX), default=60.0, show_default=True, help="The most seconds to take."
)
@as_json_option
def query(*, statement: str, as_csv: bool, limit: int, timeout: float, as_json: bool, **common: str | None) -> None:
    """Run one SQL query that only reads, and print a table, CSV or JSON."""
    from remora.read.tables import as_csv_text, as_json_text, as_table

    if as_csv and as_json:
        raise ConfigurationError("both --csv and --json are given", hint="write one of them")
    settings = load_settings(**common)
    found = run(_query(settings, statement, limit, timeout))
    if as_json:
        click.echo(as_json_text(found))
    elif as_csv:
        click.echo(as_csv_text(found).encode("utf-8", "backslashreplace"), nl=False)  # whatever the terminal can show
    else:
        click.echo(as_table(found))
    if found.is_cut:
        click.echo(f"only the first {limit:,} rows are shown; --limit allows more", err=True)


async def _query(settings: "Settings", statement: str, limit: int, timeout_s: float) -> "QueryResult":
    async with opened_mirror(settings) as mirror:
        return await mirror.query(statement, rows_max=limit, seconds_max=timeout_s)


def _check_key(settings: "Settings", named: str | None, key: str) -> None:
    """Refuse an impossible key before the store is opened. The store judges sources that are not configured."""
    names = [named] if named is not None else list(settings.sources)
    sources = [settings.sources[name] for name in names if name in settings.sources]
    if sources and len(sources) == len(names) and all(source.capabilities.newest_id for source in sources):
        _item_id(key)


def _item_id(key: str) -> int:
    if key.isascii() and key.isdigit() and len(key) < 19:
        return int(key)
    raise ConfigurationError(f'"{key}" is not an item id', hint="write the number of an item, as remora show 8863")


def _iso(moment_ns: int) -> str:
    from remora.core.status.answers import iso

    return iso(moment_ns)


def _iso_or_none(moment_ns: int | None) -> str | None:
    from remora.core.status.answers import iso_or_none

    return iso_or_none(moment_ns)


def _json(value: object) -> bytes:
    import msgspec

    return msgspec.json.encode(value)
