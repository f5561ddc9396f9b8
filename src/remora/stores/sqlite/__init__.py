"""Where is a mirror kept on one machine? In one SQLite file: one process writes it, any number read it."""

from remora.stores.sqlite.gaps import SqliteGaps
from remora.stores.sqlite.lists import SqliteLists
from remora.stores.sqlite.mirror import SqliteMirror
from remora.stores.sqlite.notes import SqliteNotes
from remora.stores.sqlite.offload import InPlace, InThread, Offloader
from remora.stores.sqlite.segments import SqliteSegments

__all__ = ["InPlace", "InThread", "Offloader", "SqliteStore"]


class SqliteStore(SqliteMirror, SqliteSegments, SqliteGaps, SqliteNotes, SqliteLists):
    """The whole store in one file, with a lock file beside it."""
