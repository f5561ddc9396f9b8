"""How many requests really arrived? The counting server that plug-ins test with, too."""

from remora.testing.counting_server import HEAD_MAX_BYTES as HEAD_MAX_BYTES
from remora.testing.counting_server import Behaviour as Behaviour
from remora.testing.counting_server import CountingServer as CountingServer
from remora.testing.counting_server import Wire as Wire
from remora.testing.counting_server import WireRequest as WireRequest
from remora.testing.counting_server import hang as hang
from remora.testing.counting_server import polite as polite
