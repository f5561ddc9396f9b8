"""Which command follows what changes? `changes`: as lines, for a named reader, or to a webhook."""

# ruff: noqa: PLC0415

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from remora.core.errors import ConfigurationError
from remora.operate.cli.common import as_json_option, load_settings, print_json, run, store_options, wall_ns
from remora.operate.cli.mirror import opened_mirror, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remora.contracts.reader import Change
    from remora.operate.config.settings import Settings

SECRET_VARIABLE: Final = "REMORA_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
NAME_MAX_CHARACTERS: Final = 100


@click.command()
@store_options
@click.option(
    "--since", metavar="POSITION", help="Begin after this position. Default: the oldest change; with --follow now."
)
@click.option("--follow", is_flag=True, help="Wait for more until Ctrl-C.")
@click.option("--reader", metavar="NAME", help="Go on where this reader was, and remember how far it is now.")
@click.option("--webhook", metavar="URL", help="Post each batch to this address, signed, until it is accepted.")
@click.option("--readers", "wanted", flag_value="list", help="List the named readers.")
@click.option("--forget-reader", metavar="NAME", help="No longer keep changes for this reader.")
@as_json_option
def changes(
    *,
    since: str | None,
    follow: bool,
    reader: str | None,
    webhook: str | None,
    wanted: str | None,
    forget_reader: str | None,
    as_json: bool,
    **common: str | None,
) -> None:
    """List what is new or changed, in order. Each line begins with its position."""
    _check(since, reader, webhook)
    settings = load_settings(**common)
    only = common.get("source")
    if wanted is not None:
        run(_list_readers(settings, as_json=as_json))
    elif forget_reader is not None:
        run(_forget(settings, forget_reader, only))
    elif webhook is not None:
        assert reader is not None, "it was checked"
        secret = os.environ.get(SECRET_VARIABLE, "")
        with suppress(KeyboardInterrupt):
            run(_post(settings, reader, webhook, secret, only, follow=follow))
    else:
        with suppress(KeyboardInterrupt):
            run(_print(settings, since, reader, follow=follow, as_json=as_json, only=only))


def _check(since: str | None, reader: str | None, webhook: str | None) -> None:
    if reader is not None:
        if since is not None:
            raise ConfigurationError(
                "--reader and --since are both given",
                hint="a named reader goes on where it was; write --reader NAME alone",
            )
        _check_name(reader)
    if webhook is None:
        return
    if reader is None:
        raise ConfigurationError(
            "--webhook needs a named reader", hint="add --reader NAME: it remembers what was posted"
        )
    from remora.sources.address import is_web_address

    if not is_web_address(webhook):
        raise ConfigurationError("--webhook is no address", hint="write https://host/path")
    if not os.environ.get(SECRET_VARIABLE):
        raise ConfigurationError(
            f"{SECRET_VARIABLE} is not set", hint="set it to a long random text that the receiver knows, too"
        )


def _check_name(reader: str) -> None:
    from remora.operate.jobs.following import OF_SOURCE

    if not reader.strip():
        wrong = "is empty"
    elif len(reader) > NAME_MAX_CHARACTERS:
        wrong = f"has more than {NAME_MAX_CHARACTERS} characters"
    elif not reader.isprintable():
        wrong = "has a line break or another control character"
    elif OF_SOURCE in reader:
        wrong = f"has {OF_SOURCE.strip()} in it"
    else:
        return
    raise ConfigurationError(f"the reader's name {wrong}", hint="write a short name in one line, as --reader warehouse")


async def _print(
    settings: "Settings", since: str | None, reader: str | None, *, follow: bool, as_json: bool, only: str | None
) -> None:
    from remora.operate.jobs.following import NamedFeed, Patience

    patience = Patience(_tell) if follow else None
    async with opened_mirror(settings) as mirror:
        if only is not None:
            await source_of(mirror, settings, only)
        if reader is not None:
            async with NamedFeed(settings.store.url, reader, source=only, patience=patience) as feed:
                async for page in feed.pages(mirror, follow=follow):
                    _echo(page, as_json=as_json, only=only)
                    await feed.done(page[-1].position, now_ns=wall_ns())
            return
        begin = since if since is not None else await mirror.newest_position() if follow else "0"
        pages = mirror.change_pages(since=begin) if patience is None else patience.pages(mirror, since=begin)
        async for page in pages:
            _echo(page, as_json=as_json, only=only)


async def _post(settings: "Settings", reader: str, url: str, secret: str, only: str | None, *, follow: bool) -> None:
    from remora.operate.jobs.following import NamedFeed, Patience
    from remora.operate.jobs.webhook import Webhook

    patience = Patience(_tell) if follow else None
    async with (
        opened_mirror(settings) as mirror,
        NamedFeed(settings.store.url, reader, source=only, patience=patience) as feed,
        Webhook(url, secret, tell=_tell) as webhook,
    ):
        if only is not None:
            await source_of(mirror, settings, only)
        async for page in feed.pages(mirror, follow=follow):
            await webhook.deliver([change for change in page if only is None or change.source == only])
            await feed.done(page[-1].position, now_ns=wall_ns())


async def _list_readers(settings: "Settings", *, as_json: bool) -> None:
    from remora.contracts.reader import moment
    from remora.operate.jobs.keeping import housekeeping
    from remora.read.plain_text import one_line

    async with housekeeping(settings.store.url) as store:
        found = await store.named_readers()
    read_at = {each.name: moment(each.read_ns) if each.read_ns else None for each in found}
    if as_json:
        print_json({each.name: {"position": each.position, "read_at": read_at[each.name]} for each in found})
        return
    for each in found:
        when = read_at[each.name]
        click.echo(f"{one_line(each.name)}  {each.position}  {f'{when:%Y-%m-%d %H:%M}' if when else 'never'}")


async def _forget(settings: "Settings", name: str, only: str | None) -> None:
    from remora.operate.jobs.following import name_in_store
    from remora.operate.jobs.keeping import housekeeping

    known = name_in_store(name, only)
    async with housekeeping(settings.store.url) as store:
        if not await store.forget_reader(known):
            raise ConfigurationError(f"there is no reader {known}", hint="`remora changes --readers` lists them")


def _tell(words: str) -> None:
    click.echo(words, err=True)


def _echo(page: "Sequence[Change]", *, as_json: bool, only: str | None) -> None:
    for change in page:
        if only is None or change.source == only:
            click.echo(_change_line(change, as_json=as_json))


def _change_line(change: "Change", *, as_json: bool) -> str | bytes:
    from remora.core.status.answers import iso
    from remora.read.changes import as_line
    from remora.read.plain_text import one_line

    if as_json:
        return as_line(change)
    key = one_line(change.key)
    return f"{change.position}  {iso(change.changed_ns)}  {change.source}  {change.kind} {key}  {change.change}"
