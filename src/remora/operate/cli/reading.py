"""Which commands show how the mirror is doing? `status` and `gaps`. They send nothing and work beside a service."""

# ruff: noqa: PLC0415

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from remora.core.errors import ConfigurationError
from remora.core.reasons import GapReason
from remora.operate.cli.common import (
    as_json_option,
    check_one_name,
    if_busy,
    load_settings,
    print_json,
    run,
    store_options,
    wall_ns,
)

if TYPE_CHECKING:
    from remora.core.ledger.gap import Gap, GapState
    from remora.core.status.model import Status
    from remora.operate.config.settings import Settings

# The states of `GapState`, written out: importing it would slow down every start.
GAP_STATES: Final = ("owed", "leased", "settled", "absent", "gone", "dead")
# As strings: from an enum, click would take the names, which differ from the values that are shown.
REASONS: Final = tuple(reason.value for reason in GapReason)
WATCH_EVERY_S: Final = 1.0
GAPS_SHOWN: Final = 1_000
CLEAR_SCREEN: Final = "\x1b[2J\x1b[H"


@click.command()
@click.argument("name", required=False)
@store_options
@click.option("--check", is_flag=True, help="Exit with 0 OK, 1 warning, 2 critical or 3 unknown.")
@click.option("--watch", is_flag=True, help="Refresh every second until Ctrl-C.")
@as_json_option
def status(*, name: str | None, check: bool, watch: bool, as_json: bool, **common: str | None) -> None:
    """Show whether the copy is complete, fresh, polite and working."""
    from remora.operate.config.settings import known_source

    settings = load_settings(**common)
    check_one_name(name, common.get("source"))
    only = name or common.get("source")
    if only is not None:
        known_source(settings, only)
    if watch:
        _watch(settings, only, as_json=as_json)
        return
    found = run(_read_status(settings, only))
    _print_status(found, as_json=as_json)
    if check:
        from remora.core.status.health import severity

        sys.exit(severity(found))


def _watch(settings: "Settings", only: str | None, *, as_json: bool) -> None:
    """Refresh until Ctrl-C, which is not a failure here."""
    from remora.operate.observe.terminal_guard import terminal_of

    with suppress(KeyboardInterrupt):
        while True:
            found = run(_read_status(settings, only))
            if not as_json:
                click.echo(CLEAR_SCREEN, nl=False, file=terminal_of(sys.stdout))
            _print_status(found, as_json=as_json)
            time.sleep(WATCH_EVERY_S)


async def _read_status(settings: "Settings", only: str | None) -> "Status":
    from remora.operate.jobs.opened_store import opened_store
    from remora.operate.observe.disk import DiskGauge
    from remora.operate.observe.read_status import read_status

    async with opened_store(settings, read_only=True) as store:
        disk = DiskGauge(settings.store.url).read(now_ns=wall_ns())
        return await read_status(store, settings, now_ns=wall_ns(), only=only, disk=disk)


def _print_status(found: "Status", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from remora.operate.cli.status_text import render

    click.echo(render(found))


@click.group(invoke_without_command=True)
@store_options
@click.option("--state", type=click.Choice(GAP_STATES), metavar="STATE", help=f"Only {', '.join(GAP_STATES)}.")
@click.option("--reason", type=click.Choice(REASONS), metavar="REASON", help="Only gaps with this reason, as timeout.")
@as_json_option
@click.pass_context
def gaps(ctx: click.Context, /, *, state: str | None, reason: str | None, as_json: bool, **common: str | None) -> None:
    """List what is owed, oldest first. Dead letters are gaps in state dead."""
    if ctx.invoked_subcommand is not None:
        return
    from remora.core.ledger.gap import GapState

    settings = load_settings(**common)
    wanted_state = GapState(state) if state else None
    wanted_reason = GapReason(reason) if reason else None
    found = run(_read_gaps(settings, common.get("source"), wanted_state, wanted_reason))
    if as_json:
        print_json([_gap_fields(name, gap, page) for name, gap, page in found])
        return
    for name, gap, page in found:
        fields = _gap_fields(name, gap, page)
        named = f"{fields['kind']} {fields['key']}{'' if page is None else f' ({page})'}"
        click.echo(
            f"{fields['source']}  {named}  {fields['state']}  {fields['reason']}  "
            f"{gap.attempts} attempt{'' if gap.attempts == 1 else 's'}  next {fields['next_attempt_at'] or 'never'}"
        )
    click.echo(f"{len(found):,} gap{'' if len(found) == 1 else 's'}", err=True)
    shown = Counter(name for name, _, _ in found)
    for name in (name for name, count in shown.items() if count >= GAPS_SHOWN):
        click.echo(f"{name}: only the oldest {GAPS_SHOWN:,} gaps are shown; remora status counts all of them", err=True)


async def _read_gaps(
    settings: "Settings", source: str | None, state: "GapState | None", reason: GapReason | None
) -> "list[tuple[str, Gap, str | None]]":
    """Every gap with the name of its source and, of a page of a list, which page it is."""
    from remora.loops.listed.owed_pages import owed_pages
    from remora.operate.jobs.opened_store import opened_store

    async with opened_store(settings, read_only=True) as store:
        found: list[tuple[str, Gap, str | None]] = []
        for name in _sources(settings, source):
            gaps_of_one = await store.gaps(name, state=state, reason=reason, limit=GAPS_SHOWN)
            pages = {owed.gap.key: owed.unread.words for owed in await owed_pages(store, name) if owed.unread}
            found.extend((name, gap, pages.get(gap.key)) for gap in gaps_of_one)
        return found


def _gap_fields(name: str, gap: "Gap", page: str | None) -> dict[str, object]:
    from remora.core.ledger.gap import GapState
    from remora.core.status.readout import iso

    return {
        "source": name,
        "kind": str(gap.kind),
        "key": gap.key,
        "page": page,
        "state": str(gap.state),
        "reason": str(gap.reason),
        "attempts": gap.attempts,
        "first_seen_at": iso(gap.first_seen_ns),
        "last_seen_at": iso(gap.last_seen_ns),
        "next_attempt_at": None if gap.state in {GapState.ABSENT, GapState.GONE} else iso(gap.not_before_ns),
    }


@gaps.command()
@store_options
@click.option("--all", "everything", is_flag=True, help="Every gap.")
@click.option("--reason", type=click.Choice(REASONS), metavar="REASON", help="Gaps with this reason, as timeout.")
@click.option("--id", "key", metavar="KEY", help="The gap of this one item or document.")
@as_json_option
def replay(*, everything: bool, reason: str | None, key: str | None, as_json: bool, **common: str | None) -> None:
    """Make gaps due now, also dead, absent and gone ones. The next backfill, run or service fetches them."""
    if sum((everything, reason is not None, key is not None)) != 1:
        raise ConfigurationError(
            "it is not clear which gaps to replay", hint="write one of --all, --reason R or --id KEY"
        )
    settings = load_settings(**common)
    count = run(_replay(settings, common.get("source"), GapReason(reason) if reason else None, key))
    if key is not None and count == 0:
        raise ConfigurationError(f"there is no gap of {key}", hint="`remora gaps` lists all gaps with their keys")
    if as_json:
        print_json({"replayed": count})
    else:
        click.echo(f"{count:,} gap{' is' if count == 1 else 's are'} due now")


async def _replay(settings: "Settings", source: str | None, reason: GapReason | None, key: str | None) -> int:
    from remora.operate.jobs.opened_store import opened_store
    from remora.operate.jobs.replaying import replay_gaps

    names = _sources(settings, source)
    async with opened_store(settings, read_only=True):
        pass  # fails if there is no store; opening for writing would create one
    with if_busy("replay from its console, or stop it first"):
        async with opened_store(settings, read_only=False) as store:
            return await replay_gaps(store, settings.sources, names, reason=reason, key=key, now_ns=wall_ns())


def _sources(settings: "Settings", source: str | None) -> list[str]:
    from remora.operate.config.settings import known_source

    return sorted(settings.sources) if source is None else [known_source(settings, source)]
