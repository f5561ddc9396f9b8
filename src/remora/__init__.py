"""What does `import remora` offer? An open mirror to read, the contracts that a source implements, and the errors.

This is the public API; `docs/python.md` documents every name. Everything else in the package is private and may change
in any release. A name is imported from its module when it is first used, so `import remora` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from remora.version import __version__ as __version__

if TYPE_CHECKING:
    from remora.contracts.announcements import Announced as Announced
    from remora.contracts.announcements import Announcement as Announcement
    from remora.contracts.announcements import AuthRevoked as AuthRevoked
    from remora.contracts.announcements import Cancelled as Cancelled
    from remora.contracts.announcements import Ignored as Ignored
    from remora.contracts.announcements import KeepAlive as KeepAlive
    from remora.contracts.announcements import NewestAnnounced as NewestAnnounced
    from remora.contracts.announcements import StreamPart as StreamPart
    from remora.contracts.announcements import Unread as Unread
    from remora.contracts.plugin import SourcePlugin as SourcePlugin
    from remora.contracts.plugin import SourceSetup as SourceSetup
    from remora.contracts.reader import Change as Change
    from remora.contracts.reader import MirroredDocument as MirroredDocument
    from remora.contracts.reader import MirroredItem as MirroredItem
    from remora.contracts.reader import MirroredSource as MirroredSource
    from remora.contracts.reader import MirroredUser as MirroredUser
    from remora.contracts.reader import QueryResult as QueryResult
    from remora.contracts.reader import Revision as Revision
    from remora.contracts.source import Capabilities as Capabilities
    from remora.contracts.source import ConnectGate as ConnectGate
    from remora.contracts.source import NumberedSource as NumberedSource
    from remora.contracts.source import Permit as Permit
    from remora.contracts.source import Source as Source
    from remora.contracts.source import StreamBroken as StreamBroken
    from remora.contracts.source import Transport as Transport
    from remora.core.errors import ConfigurationError as ConfigurationError
    from remora.core.errors import RemoraError as RemoraError
    from remora.core.errors import StoreBusy as StoreBusy
    from remora.core.errors import StoreEmpty as StoreEmpty
    from remora.core.errors import StoreError as StoreError
    from remora.core.errors import StoreForeign as StoreForeign
    from remora.core.errors import StoreRefused as StoreRefused
    from remora.core.errors import StoreUnavailable as StoreUnavailable
    from remora.core.item import Decoded as Decoded
    from remora.core.item import Document as Document
    from remora.core.item import Entry as Entry
    from remora.core.item import Item as Item
    from remora.core.item import Newest as Newest
    from remora.core.item import Nothing as Nothing
    from remora.core.item import Page as Page
    from remora.core.item import Readable as Readable
    from remora.core.item import Thing as Thing
    from remora.core.item import Unreadable as Unreadable
    from remora.core.item import User as User
    from remora.core.item import WrongShape as WrongShape
    from remora.core.lanes import Lane as Lane
    from remora.core.ledger.discovery import Discovery as Discovery
    from remora.core.ledger.discovery import Kind as Kind
    from remora.core.verdict import Fault as Fault
    from remora.core.verdict import NoReply as NoReply
    from remora.core.verdict import Reply as Reply
    from remora.read.mirror import MirrorReader as MirrorReader
    from remora.read.mirror import open_mirror as open  # noqa: A004
    from remora.read.search import SearchHit as SearchHit
    from remora.read.sync import SyncMirrorReader as SyncMirrorReader
    from remora.read.sync import open_mirror_sync as open_sync
    from remora.read.thread import ThreadNode as ThreadNode

_HOMES: Final = {
    "Change": ("remora.contracts.reader", "Change"),
    "MirroredDocument": ("remora.contracts.reader", "MirroredDocument"),
    "MirroredItem": ("remora.contracts.reader", "MirroredItem"),
    "MirroredSource": ("remora.contracts.reader", "MirroredSource"),
    "MirroredUser": ("remora.contracts.reader", "MirroredUser"),
    "QueryResult": ("remora.contracts.reader", "QueryResult"),
    "Revision": ("remora.contracts.reader", "Revision"),
    "MirrorReader": ("remora.read.mirror", "MirrorReader"),
    "open": ("remora.read.mirror", "open_mirror"),
    "SearchHit": ("remora.read.search", "SearchHit"),
    "SyncMirrorReader": ("remora.read.sync", "SyncMirrorReader"),
    "open_sync": ("remora.read.sync", "open_mirror_sync"),
    "ThreadNode": ("remora.read.thread", "ThreadNode"),
    "Announced": ("remora.contracts.announcements", "Announced"),
    "Announcement": ("remora.contracts.announcements", "Announcement"),
    "AuthRevoked": ("remora.contracts.announcements", "AuthRevoked"),
    "Cancelled": ("remora.contracts.announcements", "Cancelled"),
    "Ignored": ("remora.contracts.announcements", "Ignored"),
    "KeepAlive": ("remora.contracts.announcements", "KeepAlive"),
    "NewestAnnounced": ("remora.contracts.announcements", "NewestAnnounced"),
    "StreamPart": ("remora.contracts.announcements", "StreamPart"),
    "Unread": ("remora.contracts.announcements", "Unread"),
    "Capabilities": ("remora.contracts.source", "Capabilities"),
    "ConnectGate": ("remora.contracts.source", "ConnectGate"),
    "SourcePlugin": ("remora.contracts.plugin", "SourcePlugin"),
    "SourceSetup": ("remora.contracts.plugin", "SourceSetup"),
    "NumberedSource": ("remora.contracts.source", "NumberedSource"),
    "Permit": ("remora.contracts.source", "Permit"),
    "Source": ("remora.contracts.source", "Source"),
    "StreamBroken": ("remora.contracts.source", "StreamBroken"),
    "Transport": ("remora.contracts.source", "Transport"),
    "ConfigurationError": ("remora.core.errors", "ConfigurationError"),
    "RemoraError": ("remora.core.errors", "RemoraError"),
    "StoreBusy": ("remora.core.errors", "StoreBusy"),
    "StoreEmpty": ("remora.core.errors", "StoreEmpty"),
    "StoreError": ("remora.core.errors", "StoreError"),
    "StoreForeign": ("remora.core.errors", "StoreForeign"),
    "StoreRefused": ("remora.core.errors", "StoreRefused"),
    "StoreUnavailable": ("remora.core.errors", "StoreUnavailable"),
    "Decoded": ("remora.core.item", "Decoded"),
    "Document": ("remora.core.item", "Document"),
    "Entry": ("remora.core.item", "Entry"),
    "Item": ("remora.core.item", "Item"),
    "Newest": ("remora.core.item", "Newest"),
    "Nothing": ("remora.core.item", "Nothing"),
    "Page": ("remora.core.item", "Page"),
    "Readable": ("remora.core.item", "Readable"),
    "Thing": ("remora.core.item", "Thing"),
    "Unreadable": ("remora.core.item", "Unreadable"),
    "User": ("remora.core.item", "User"),
    "WrongShape": ("remora.core.item", "WrongShape"),
    "Lane": ("remora.core.lanes", "Lane"),
    "Discovery": ("remora.core.ledger.discovery", "Discovery"),
    "Kind": ("remora.core.ledger.discovery", "Kind"),
    "Fault": ("remora.core.verdict", "Fault"),
    "NoReply": ("remora.core.verdict", "NoReply"),
    "Reply": ("remora.core.verdict", "Reply"),
}

__all__ = [
    "Announced",
    "Announcement",
    "AuthRevoked",
    "Cancelled",
    "Capabilities",
    "Change",
    "ConfigurationError",
    "ConnectGate",
    "Decoded",
    "Discovery",
    "Document",
    "Entry",
    "Fault",
    "Ignored",
    "Item",
    "KeepAlive",
    "Kind",
    "Lane",
    "MirrorReader",
    "MirroredDocument",
    "MirroredItem",
    "MirroredSource",
    "MirroredUser",
    "Newest",
    "NewestAnnounced",
    "NoReply",
    "Nothing",
    "NumberedSource",
    "Page",
    "Permit",
    "QueryResult",
    "Readable",
    "RemoraError",
    "Reply",
    "Revision",
    "SearchHit",
    "Source",
    "SourcePlugin",
    "SourceSetup",
    "StoreBusy",
    "StoreEmpty",
    "StoreError",
    "StoreForeign",
    "StoreRefused",
    "StoreUnavailable",
    "StreamBroken",
    "StreamPart",
    "SyncMirrorReader",
    "Thing",
    "ThreadNode",
    "Transport",
    "Unread",
    "Unreadable",
    "User",
    "WrongShape",
    "__version__",
    "open",
    "open_sync",
]


if not TYPE_CHECKING:  # with a `__getattr__` in sight, a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, inside = _HOMES[name]
        found = getattr(import_module(home), inside)
        globals()[name] = found  # asked for once only
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
