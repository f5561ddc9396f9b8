"""What do the tests of a plug-in need? A server that counts, permits, a moving world, and a run to completion.

These names are public; `docs/plug-ins.md` documents them.
"""

from remora.sim.replies import Answer as Answer
from remora.testing.contract import check_source as check_source
from remora.testing.counting_server import CountingServer as CountingServer
from remora.testing.counting_server import Wire as Wire
from remora.testing.counting_server import WireRequest as WireRequest
from remora.testing.fake import TOKEN as TOKEN
from remora.testing.fake import Fake as Fake
from remora.testing.fake import FakeTransport as FakeTransport
from remora.testing.fake import Request as Request
from remora.testing.fake import after as after
from remora.testing.fake import answer_json as answer_json
from remora.testing.fake import not_found as not_found
from remora.testing.mirroring import Mirrored as Mirrored
from remora.testing.mirroring import mirror_declared as mirror_declared
from remora.testing.mirroring import mirror_plugin as mirror_plugin
from remora.testing.permits import CountingGate as CountingGate
from remora.testing.world import Thing as Thing
from remora.testing.world import World as World
from remora.testing.world import iso as iso
