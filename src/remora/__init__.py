"""What does `import remora` offer? The contracts that a source implements, the errors, and the version.

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
    from remora.contracts.source import Capabilities as Capabilities
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

_HOMES: Final = {
    "Announced": "remora.contracts.announcements",
    "Announcement": "remora.contracts.announcements",
    "AuthRevoked": "remora.contracts.announcements",
    "Cancelled": "remora.contracts.announcements",
    "Ignored": "remora.contracts.announcements",
    "KeepAlive": "remora.contracts.announcements",
    "NewestAnnounced": "remora.contracts.announcements",
    "StreamPart": "remora.contracts.announcements",
    "Unread": "remora.contracts.announcements",
    "Capabilities": "remora.contracts.source",
    "NumberedSource": "remora.contracts.source",
    "Permit": "remora.contracts.source",
    "Source": "remora.contracts.source",
    "StreamBroken": "remora.contracts.source",
    "Transport": "remora.contracts.source",
    "ConfigurationError": "remora.core.errors",
    "RemoraError": "remora.core.errors",
    "StoreBusy": "remora.core.errors",
    "StoreEmpty": "remora.core.errors",
    "StoreError": "remora.core.errors",
    "StoreForeign": "remora.core.errors",
    "StoreRefused": "remora.core.errors",
    "StoreUnavailable": "remora.core.errors",
    "Decoded": "remora.core.item",
    "Document": "remora.core.item",
    "Entry": "remora.core.item",
    "Item": "remora.core.item",
    "Newest": "remora.core.item",
    "Nothing": "remora.core.item",
    "Page": "remora.core.item",
    "Readable": "remora.core.item",
    "Thing": "remora.core.item",
    "Unreadable": "remora.core.item",
    "User": "remora.core.item",
    "WrongShape": "remora.core.item",
    "Lane": "remora.core.lanes",
    "Discovery": "remora.core.ledger.discovery",
    "Kind": "remora.core.ledger.discovery",
    "Fault": "remora.core.verdict",
    "NoReply": "remora.core.verdict",
    "Reply": "remora.core.verdict",
}

__all__ = [
    "Announced",
    "Announcement",
    "AuthRevoked",
    "Cancelled",
    "Capabilities",
    "ConfigurationError",
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
    "Newest",
    "NewestAnnounced",
    "NoReply",
    "Nothing",
    "NumberedSource",
    "Page",
    "Permit",
    "Readable",
    "RemoraError",
    "Reply",
    "Source",
    "StoreBusy",
    "StoreEmpty",
    "StoreError",
    "StoreForeign",
    "StoreRefused",
    "StoreUnavailable",
    "StreamBroken",
    "StreamPart",
    "Thing",
    "Transport",
    "Unread",
    "Unreadable",
    "User",
    "WrongShape",
    "__version__",
]


if not TYPE_CHECKING:  # with a `__getattr__` in sight, a type checker would accept any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(home), name)
        globals()[name] = found  # asked for once only
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
