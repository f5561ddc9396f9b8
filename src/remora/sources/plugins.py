"""Which sources do other packages bring? Those that an entry point of the group `remora.sources` names.

Names are looked up when a configuration needs one, and a package is imported only when a source uses it. A package that
cannot be imported, or that names something else, is reported in one sentence.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, cast

import structlog

from remora.contracts.plugin import SourcePlugin, SourceSetup
from remora.contracts.source import ConnectGate, Permit, Source, SourceFailed, Transport
from remora.core.errors import ConfigurationError, RemoraError
from remora.core.item import (
    Batch,
    Decoded,
    Document,
    Entry,
    Item,
    Newest,
    Nothing,
    Page,
    Piece,
    Readable,
    StreamOpened,
    Unreadable,
    Updated,
    User,
    WrongShape,
)
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply, Reply, has_content

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "remora.sources"

log = structlog.get_logger()


def plugin_names() -> frozenset[str]:
    """The names of all installed plug-ins. Imports none of them."""
    return frozenset(point.name for point in _entry_points())


@cache
def plugin_named(name: str) -> SourcePlugin | None:
    """The plug-in with this name, imported; None if no package brings one."""
    points = [point for point in _entry_points() if point.name == name]
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        packages = " and ".join(sorted(_package(point) for point in points))
        raise ConfigurationError(f"{packages} both bring a plug-in {name}", hint="uninstall one of them")
    return _loaded(points[0])


def _entry_points() -> Sequence["EntryPoint"]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - most configurations name no plug-in

    return tuple(entry_points(group=GROUP))


def open_plugin(preset: str, plugin: SourcePlugin, setup: SourceSetup) -> Source:
    """The source that a plug-in makes. A mistake in its code becomes one sentence."""
    try:
        source = plugin.make(replace(setup, transport=_WatchedTransport(setup.transport)))
        is_declared = source.capabilities == plugin.capabilities and source.name == setup.name
    except RemoraError:
        raise
    except Exception as error:
        raise _failed(preset, f"failed to open the source {setup.name}", error) from error
    if not is_declared:
        raise ConfigurationError(
            f"the plug-in {preset} opened a source with another name or other capabilities than it declares",
            hint="tell its author: name and capabilities of the source must be those of the setup and of the plug-in",
        )
    return cast("Source", _Guarded(source))


class _WatchedPermit:
    """A permit that remembers whether the gate failed and what the provider answered, and is good for one request."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._is_used = False
        self.failure: Exception | None = None
        self.reply: Reply | NoReply | None = None

    async def depart(self) -> int:
        if self._is_used:
            raise SourceFailed("a second request with one permit")
        self._is_used = True
        try:
            return await self._permit.depart()
        except Exception as failure:
            self.failure = failure
            raise

    def sent(self) -> None:
        self._permit.sent()


class _WatchedTransport:
    """A transport whose answers the permit remembers, whatever a plug-in makes of them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        return _remembered(permit, await self._transport.get(url, permit, headers=headers))

    async def post(
        self, url: str, permit: Permit, body: bytes, *, headers: Mapping[str, str] | None = None
    ) -> Reply | NoReply:
        return _remembered(permit, await self._transport.post(url, permit, body, headers=headers))

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        return self._transport.stream(url, connect, headers=headers)


def _remembered(permit: Permit, reply: Reply | NoReply) -> Reply | NoReply:
    if isinstance(permit, _WatchedPermit):
        permit.reply = reply
    return reply


class _Guarded:
    """A plug-in's source that fails for one thing only: no request and no body may end the whole run."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> object:
        if name == "fetch_now":  # not a part of what a plug-in is promised, and nothing could guard it
            raise AttributeError(name)
        return getattr(self._source, name)

    async def fetch(self, discovery: Discovery, permit: Permit) -> Reply | NoReply:
        watched, cancellations = _WatchedPermit(permit), _cancellations()
        reply: object = None
        failure, at = "WrongResult", f" in fetch of a {discovery.kind}"
        try:
            reply = await self._source.fetch(discovery, watched)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - foreign code
            failure, at = type(error).__name__, _place(error)
        if _cancellations() > cancellations:
            raise asyncio.CancelledError  # by us, even if the plug-in went on; without it, it was the plug-in's own doing
        if isinstance(reply, Reply | NoReply):
            return reply
        if watched.failure is not None:
            raise watched.failure  # of the gate or its store: the plug-in is not to blame
        log.warning("plugin_failed", source=self._source.name, error=failure, at=at)
        if watched.reply is not None and not has_content(watched.reply):
            return watched.reply  # a plug-in that raises for a 429 must not hide it from the gate
        raise SourceFailed(failure)  # without the error's text, which may hold a secret

    def decode(self, discovery: Discovery, reply: Reply) -> Decoded:
        try:
            found = self._source.decode(discovery, reply)
        except Exception as error:  # noqa: BLE001 - foreign code over foreign data
            # Never the error's text: it may hold a part of the body.
            failure = type(error).__name__
            log.warning("plugin_failed", source=self._source.name, error=failure, at=_place(error))
            return WrongShape(f"the plug-in failed with {failure}")
        if _is_decoded(found, discovery.kind):
            return found
        log.warning(
            "plugin_failed", source=self._source.name, error="WrongResult", at=f" in decode of a {discovery.kind}"
        )
        return WrongShape("the plug-in gave a result that decode may not have")


def _cancellations() -> int:
    """How often the running task was told to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _is_decoded(found: object, kind: Kind) -> bool:
    """Whether it is one of the results that `decode` may have, with fields of their types. Foreign code is not type-checked."""
    match found:
        case Readable(thing=Page(entries=tuple() | list() as entries, next_position=str() | None)):
            return kind is Kind.PAGE and all(map(_is_entry, entries))
        case Readable(thing=Document(key=str(), body=bytes(), updated_at=str() | None)):
            return kind is Kind.DOCUMENT
        case Readable(thing=Item(item_id=int(), body=bytes())):
            return kind is Kind.ITEM
        case Readable(thing=User(name=str(), body=bytes())):
            return kind is Kind.USER
        case Readable(thing=Newest(item_id=int())):
            return kind is Kind.NEWEST
        case Readable(thing=Batch(documents=tuple() as documents)):
            return kind is Kind.DOCUMENT and all(_is_decoded(Readable(each), kind) for each in documents)
        case Readable(thing=Piece() | Updated() | StreamOpened()):
            return True
        case _:
            return isinstance(found, Nothing | Unreadable | WrongShape)


def _is_entry(entry: object) -> bool:
    match entry:
        case Entry(key=str(), updated_at=str() | None, created_at=str() | None, body=bytes() | None):
            return True
        case _:
            return False


def _loaded(point: "EntryPoint") -> SourcePlugin:
    try:
        found = point.load()
    except Exception as error:
        raise _failed(point.name, f"of {_package(point)} cannot be imported", error) from error
    if isinstance(found, SourcePlugin):
        return found
    raise ConfigurationError(
        f"the plug-in {point.name} of {_package(point)} is {point.value}, which is not a remora.SourcePlugin",
        hint="tell its author: the entry point must name a remora.SourcePlugin",
    )


def _failed(name: str, what: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"the plug-in {name} {what}: {type(error).__name__}{_place(error)}",
        hint="update the package, or remove the source that uses it",
    )


def _place(error: BaseException) -> str:
    """The last line that the error came through. The error's text may hold a secret and is not shown."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" in {PurePath(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"


def _package(point: "EntryPoint") -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
