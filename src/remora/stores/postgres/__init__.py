"""Where is a mirror kept that many processes and hosts share? In PostgreSQL: store, queue, lock and gate."""

from remora.stores.postgres.gaps import PostgresGaps
from remora.stores.postgres.gate import PostgresGate
from remora.stores.postgres.lists import PostgresLists
from remora.stores.postgres.migrations import migrate
from remora.stores.postgres.mirror import PostgresMirror
from remora.stores.postgres.notes import PostgresNotes
from remora.stores.postgres.segments import PostgresSegments
from remora.stores.postgres.singleton import Singleton

__all__ = ["PostgresGate", "PostgresStore", "Singleton", "migrate"]


class PostgresStore(PostgresMirror, PostgresSegments, PostgresGaps, PostgresNotes, PostgresLists):
    """Everything durable, shared by any number of processes. A new process never resets the work of others."""
