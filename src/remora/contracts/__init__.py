"""Which contracts are there? Clock, Transport, Source, Store, Meter and what processes share; each with its promise.

Every implementation of a contract passes the same behaviour suite (`tests/contract`).
"""

from remora.contracts.announcements import Announced as Announced
from remora.contracts.announcements import Announcement as Announcement
from remora.contracts.announcements import AuthRevoked as AuthRevoked
from remora.contracts.announcements import Cancelled as Cancelled
from remora.contracts.announcements import Ignored as Ignored
from remora.contracts.announcements import KeepAlive as KeepAlive
from remora.contracts.announcements import NewestAnnounced as NewestAnnounced
from remora.contracts.announcements import StreamPart as StreamPart
from remora.contracts.announcements import Unread as Unread
from remora.contracts.clock import Clock as Clock
from remora.contracts.json import Json as Json
from remora.contracts.meter import Meter as Meter
from remora.contracts.plugin import SourcePlugin as SourcePlugin
from remora.contracts.plugin import SourceSetup as SourceSetup
from remora.contracts.sharing import Borrower as Borrower
from remora.contracts.sharing import GateHome as GateHome
from remora.contracts.sharing import GateStore as GateStore
from remora.contracts.sharing import LeaderLease as LeaderLease
from remora.contracts.sharing import SharedPace as SharedPace
from remora.contracts.sharing import Sharing as Sharing
from remora.contracts.source import Capabilities as Capabilities
from remora.contracts.source import ConnectGate as ConnectGate
from remora.contracts.source import Credential as Credential
from remora.contracts.source import Dialect as Dialect
from remora.contracts.source import NumberedSource as NumberedSource
from remora.contracts.source import OnReply as OnReply
from remora.contracts.source import Permit as Permit
from remora.contracts.source import PromptPermit as PromptPermit
from remora.contracts.source import PromptSource as PromptSource
from remora.contracts.source import PromptTransport as PromptTransport
from remora.contracts.source import Sent as Sent
from remora.contracts.source import Source as Source
from remora.contracts.source import StreamBroken as StreamBroken
from remora.contracts.source import StreamConnect as StreamConnect
from remora.contracts.source import Transport as Transport
from remora.contracts.store import GapCount as GapCount
from remora.contracts.store import GapLedger as GapLedger
from remora.contracts.store import Inbox as Inbox
from remora.contracts.store import InboxEntry as InboxEntry
from remora.contracts.store import ListLedger as ListLedger
from remora.contracts.store import Mirror as Mirror
from remora.contracts.store import NewItem as NewItem
from remora.contracts.store import Notes as Notes
from remora.contracts.store import Observation as Observation
from remora.contracts.store import Outcome as Outcome
from remora.contracts.store import OwedDetail as OwedDetail
from remora.contracts.store import PaceBook as PaceBook
from remora.contracts.store import RunRecord as RunRecord
from remora.contracts.store import SegmentLedger as SegmentLedger
from remora.contracts.store import Store as Store
from remora.contracts.store import StoredDocument as StoredDocument
from remora.contracts.store import StoredItem as StoredItem
from remora.contracts.store import WalkState as WalkState
