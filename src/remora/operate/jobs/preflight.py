"""Can Remora work with this configuration? Checks files, store, disk and clock, and sends one request per source."""

import os
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

from remora.contracts import Json
from remora.core.errors import RemoraError, StoreEmpty
from remora.core.quantities import format_duration, format_rate
from remora.core.status.model import Covered
from remora.core.status.readout import is_alive
from remora.files import room_for
from remora.operate.config.credentials import Credentials
from remora.operate.config.secrets import without_credentials
from remora.operate.config.settings import (
    DEFAULT_LISTEN,
    ConsoleSettings,
    NotifySettings,
    Settings,
    SourceSettings,
    account_of,
    known_source,
)
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.opened_store import opened_store
from remora.operate.jobs.trial import Finding, KnownParents, open_trials
from remora.operate.observe.notify import PATH
from remora.operate.observe.read_status import decode_beats, read_status
from remora.stores import sqlite_file
from remora.stores.sqlite.database import find_damage

FREE_BYTES_LEAST: Final = 1 << 30
# A clock before the release date of this version is wrong.
CLOCK_EARLIEST_S: Final = 1_790_000_000

# Nobody waits minutes for a preflight, so a very large file is searched for damage only in part.
DAMAGE_SEARCH_MAX_S: Final = 20.0


async def examine(settings: Settings, *, only: str | None, offline: bool) -> list[Finding]:
    """Run all checks. Nothing is written."""
    names = sorted(settings.sources) if only is None else [known_source(settings, only)]
    findings = [
        Finding("ok", "configuration", f"the source{'s' * (len(names) > 1)} {', '.join(names)}"),
    ]
    credentials = Credentials(settings.sources, os.environ, clock=SystemClock())
    for name in names:
        findings.extend([*_source(name, settings.sources[name]), *await _token(name, settings, credentials)])
    findings.extend([_disk(settings), _clock(time.time()), await _store(settings)])
    findings.extend([*_console(settings.console), *_notify(settings.notify)])
    if not offline:
        findings.extend([finding async for finding in _reach(settings, names, credentials)])
    return findings


def _source(name: str, source: SourceSettings) -> Iterator[Finding]:
    told = f"never faster than {format_rate(source.ceiling_per_s)}, at most {source.in_flight} in flight"
    if (limit := source.refusal_limit) is not None:
        told += f", at most {limit.most:,} refused within {format_duration(limit.within_ns)}"
    yield Finding("ok", f"{name}: ceiling", told)
    if source.contact is None:
        hint = f'write contact = "you@example.org" in [sources.{name}], so that the provider can reach you'
        yield Finding("warning", f"{name}: contact", "none", hint)


async def _token(name: str, settings: Settings, credentials: Credentials) -> list[Finding]:
    """A token endpoint is only asked together with the source."""
    if (auth := settings.sources[name].credential) is None:
        return []
    try:
        await credentials.check(name)
    except RemoraError as error:
        return [Finding("bad", f"{name}: token", error.message, error.hint)]
    told = "can be read" if auth.oauth_url is None else "what its endpoint asks for can be read"
    return [Finding("ok", f"{name}: token", told)]


def _disk(settings: Settings) -> Finding:
    path = sqlite_file(settings.store.url)
    if path is None:
        return Finding("ok", "disk", "the store is not a local file")
    free = room_for(path if path.parent.is_dir() else Path("here"))
    told = f"{free / (1 << 30):,.1f} GiB free"
    if free < FREE_BYTES_LEAST:
        return Finding("bad", "disk", told, "the whole of Hacker News needs about 40 GiB; make room first")
    return Finding("ok", "disk", told)


def _clock(now_s: float) -> Finding:
    if now_s < CLOCK_EARLIEST_S:
        return Finding("bad", "clock", "the system clock is in the past", "set it, for instance with timedatectl")
    return Finding("ok", "clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now_s)))


async def _store(settings: Settings) -> Finding:
    path, shown = sqlite_file(settings.store.url), without_credentials(settings.store.url)
    if path is not None and not path.exists():
        if not path.parent.is_dir():
            return Finding("bad", "store", f"the folder of {shown} does not exist", f"run mkdir -p {path.parent}")
        if not _may(path.parent, os.W_OK | os.X_OK):
            return Finding("bad", "store", f"{shown} cannot be created", "name a file in a folder you may write to")
        return Finding("ok", "store", f"{shown} will be created by the first start")
    if path is not None and path.is_file() and path.stat().st_size == 0:
        hint = "if it held a mirror, restore a backup; if not, delete it: the first start makes a new one"
        return Finding("bad", "store", f"{shown} has 0 bytes, so it holds no mirror", hint)
    try:
        async with opened_store(settings, read_only=True) as store:
            await store.heartbeats()
        if path is None:
            async with opened_store(settings, read_only=False):  # refused without the right to write
                pass
        damage, is_whole = (None, True) if path is None else find_damage(path, seconds_max=DAMAGE_SEARCH_MAX_S)
    except StoreEmpty:
        return Finding("ok", "store", f"{shown} is empty; its tables will be created by the first start")
    except RemoraError as error:
        return Finding("bad", "store", error.message, error.hint)
    if damage is not None:
        hint = "restore a backup, and keep this file: parts of it can be read"
        return Finding("bad", "store", f"{shown} is damaged: {damage}", hint)
    if path is not None and not (_may(path, os.W_OK) and _may(path.parent, os.W_OK | os.X_OK)):
        hint = "work as the user who owns it and its folder, or name another file"
        return Finding("bad", "store", f"{shown} can be read, but not written by this user", hint)
    if path is not None and (names := path.stat().st_nlink) > 1:
        hint = "remove the other hard links: the latest writes are in a file beside only one of the names"
        return Finding("warning", "store", f"{shown} has {names} names", hint)
    if not is_whole:
        hint = f'to search all of it: sqlite3 {path} "PRAGMA quick_check"'
        return Finding(
            "ok", "store", f"{shown} can be read; no damage found within {DAMAGE_SEARCH_MAX_S:.0f} seconds", hint
        )
    return Finding("ok", "store", f"{shown} can be read")


def _console(console: ConsoleSettings) -> Iterator[Finding]:
    if not console.is_private:
        told = f"{console.listen} may be open to other machines; it asks for a token, but speaks plain http"
        hint = f'put a proxy that speaks https in front of it, or write listen = "{DEFAULT_LISTEN}"'
        yield Finding("warning", "console", told, hint)


def _notify(notify: NotifySettings) -> Iterator[Finding]:
    """The command is not shown, because it may contain a secret address."""
    if notify.search is not None and not notify.is_anybody_told:
        yield Finding("warning", "notify", "nobody is told", "write a command beside search in [notify]")
    if notify.command is None:
        return
    program = shlex.split(notify.command)[0]
    if shutil.which(program, path=PATH) is not None:
        yield Finding("ok", "notify", "its command can be run")
    elif Path(program).is_file():
        yield Finding("bad", "notify", "this user may not run its command", "allow it with chmod +x")
    else:
        hint = f'write a whole path, as command = "/opt/tell-me --now"; without one it is looked for in {PATH}'
        yield Finding("bad", "notify", "its command was not found", hint)


async def _reach(settings: Settings, names: list[str], credentials: Credentials) -> AsyncIterator[Finding]:
    """Send two requests to each source, except those that a running process reads: it uses their ceiling."""
    running, learned, parents = await _known(settings, names)
    busy = {account_of(other, settings.sources[other]) for other in running}
    async with open_trials(settings.sources, credentials, learned, parents) as trials:
        for name in names:
            if name in running:
                yield Finding("ok", f"{name}: reachable", "a running process reads it now; see remora status")
            elif any(account_of(one, settings.sources[one]) in busy for one in _with_parents(settings, name, parents)):
                told = "not asked: a running process uses the ceiling of its account"
                yield Finding("ok", f"{name}: reachable", told)
            else:
                for finding in await trials.try_source(name):
                    yield finding


def _with_parents(settings: Settings, name: str, known: KnownParents) -> Iterator[str]:
    """The sources that are asked to try this one: itself, and those whose entries its list is walked for."""
    yield name
    each = settings.sources[name].each
    if each is not None and each not in known:
        yield from _with_parents(settings, each, known)


async def try_out(settings: Settings, name: str) -> list[Finding]:
    """What one declaration understands of its source. Sends nothing while a running process uses the ceiling."""
    credentials = Credentials(settings.sources, os.environ, clock=SystemClock())
    return [finding async for finding in _reach(settings, [known_source(settings, name)], credentials)]


async def _known(settings: Settings, names: list[str]) -> tuple[frozenset[str], Mapping[str, Json], KnownParents]:
    """The sources that a running process reads, the stored pace of each source, and one entry of each that has children."""
    path = sqlite_file(settings.store.url)
    if path is not None and not path.exists():
        return frozenset(), {}, {}
    parents = {each for name in names if (each := settings.sources[name].each) is not None}
    known: dict[str, tuple[str, bytes]] = {}
    try:
        async with opened_store(settings, read_only=True) as store:
            beats = decode_beats(await store.heartbeats())
            asked = settings.sources if parents else names
            learned = {name: await store.load_pace(account_of(name, settings.sources[name])) for name in asked}
            for parent in parents:
                async for held in store.documents(parent):
                    if held.body is not None and held.vanished_ns is None:
                        known[parent] = (held.key, held.body)
                        break
    except RemoraError:
        return frozenset(), {}, {}
    alive = (beat for beat in beats if is_alive(beat, now_ns=time.time_ns()))
    running = frozenset(name for beat in alive for name in beat.snapshot.sources if name in settings.sources)
    return running, learned, known


async def store_stats(settings: Settings) -> dict[str, int | str | None]:
    """How much the store holds, per source, and how large its file is."""
    path = sqlite_file(settings.store.url)
    found: dict[str, int | str | None] = {"store": without_credentials(settings.store.url)}
    async with opened_store(settings, read_only=True) as store:
        status = await read_status(store, settings, now_ns=time.time_ns())
        found["bytes"] = path.stat().st_size if path is not None else None
        for name, source in status.sources.items():
            if settings.sources[name].capabilities.newest_id:
                coverage = source.coverage
                found[f"{name}.settled"] = coverage.settled if isinstance(coverage, Covered) else None
            else:
                found[f"{name}.documents"] = sum([1 async for _ in store.documents(name)])
            found[f"{name}.gaps"] = sum(gaps.count for gaps in source.gaps)
            found[f"{name}.inbox"] = await store.inbox_depth(name)
    return found


def _may(path: Path, how: int) -> bool:
    return os.access(path, how, effective_ids=True)
