"""Where is the search index of a SQLite mirror? In a separate file, so that the mirror's writer never waits for it."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from remora.contracts.browsing import too_slow
from remora.contracts.search import EntryColumns, IndexEntry, IndexSize, SearchOrder, SearchQuery
from remora.core.errors import StoreBusy, StoreError, StoreUnavailable
from remora.core.texts import storable
from remora.core.words import searchable, wanted_words
from remora.stores.search_values import FEW_MAX, indexed, of_another_form, search_values
from remora.stores.sqlite.database import (
    BUSY_TIMEOUT_MS,
    Connection,
    bounded,
    check_unwritten,
    explained,
    frozen,
    roll_back,
    search_file,
    size_with_log,
    while_awaited,
)
from remora.stores.sqlite.offload import InThread, Offloader
from remora.stores.sqlite.reserve import RESERVE_BYTES, check_room
from remora.stores.sqlite.writer_lock import WriterLock
from remora.stores.statements import with_common

_FORM: Final = 2  # of `create_index`; an index of another form is built again

T = TypeVar("T")


@cache
def _statements() -> dict[str, str]:
    return dict(with_common((files(__package__) / "search.sql").read_text("utf-8")))


class SqliteSearchIndex:
    """An FTS5 index in `FILE-search`."""

    def __init__(self, mirror: Path, *, seconds_max: float, offload: Callable[[], Offloader] = InThread) -> None:
        self._seconds_max = seconds_max
        self._offload = offload
        self._path = search_file(mirror)
        self._lock = WriterLock(self._path)
        self._reserve_bytes = RESERVE_BYTES
        self._thread: Offloader | None = None
        self._connection: Connection | None = None
        self._frozen: tuple[int, int] | None = None  # time and size of a file that nobody may begin to write
        self._sql = _statements()

    async def exists(self) -> bool:
        """Whether there is a file that is not empty."""
        return self._path.exists() and self._path.stat().st_size > 0

    async def open(self, *, to_write: bool) -> None:
        """Open the file. For writing, create it if needed."""
        self._thread = self._offload()
        try:
            await self._run(lambda: self._open(to_write=to_write))
        except BaseException:
            await self.close()
            raise

    def _open(self, *, to_write: bool) -> None:
        if to_write:
            check_room(self._path, self._reserve_bytes)
            self._lock.take()
        else:
            self._frozen = frozen(self._path)
        mode = "rwc" if to_write else "ro" if self._frozen is None else "ro&immutable=1"
        uri = f"{self._path.absolute().as_uri()}?mode={mode}"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if to_write:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._create()

    def _create(self) -> None:
        connection = self._open_connection()
        match self._form():
            case 0:
                connection.executescript(f"BEGIN IMMEDIATE;\n{self._sql['create_index']}\nCOMMIT;")
            case form if form != _FORM:
                self._begin_anew()

    def _form(self) -> int:
        found: int = self._open_connection().execute("PRAGMA user_version").fetchone()[0]
        return found

    def _check_form(self) -> None:
        if self._form() != _FORM:
            raise of_another_form()

    def _begin_anew(self) -> None:
        connection = self._open_connection()
        steps = f"{self._sql['drop_index']}\n{self._sql['create_index']}"
        connection.executescript(f"BEGIN IMMEDIATE;\n{steps}\nCOMMIT;")
        connection.execute("VACUUM")

    async def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        thread, connection = self._thread, self._connection
        self._thread = self._connection = None
        if thread is not None:
            if connection is not None:
                await thread.run(connection.close)
            thread.close()
        self._lock.free()

    async def progress(self) -> str | None:
        """How far the index has come."""
        return await self._run(self._progress)

    def _progress(self) -> str | None:
        row = self._open_connection().execute(self._sql["index_progress"]).fetchone()
        return row[0] if row else None

    async def write(self, entries: Sequence[IndexEntry], *, before: str | None, after: str) -> None:
        """Add or replace entries in one transaction."""
        await self._run(lambda: self._write(entries, before, after))

    def _write(self, entries: Sequence[IndexEntry], before: str | None, after: str) -> None:
        connection = self._open_connection()
        check_room(self._path, self._reserve_bytes)
        try:
            connection.execute("BEGIN IMMEDIATE")
            if self._progress() != before:
                raise StoreBusy("another process writes the search index", hint="let it finish")
            for entry in entries:
                self._put(connection, entry)
            connection.execute(self._sql["forget_progress"])
            connection.execute(self._sql["keep_progress"], {"value": after})
            connection.execute("COMMIT")
        finally:
            roll_back(connection)

    def _put(self, connection: Connection, entry: IndexEntry) -> None:
        title, text = indexed(entry, searchable)
        words_hash = blake2b(f"{title}\0{text}".encode(), digest_size=8).digest()
        columns = {
            "source": entry.source,
            "kind": entry.kind,
            "key": entry.key,
            "type": entry.type,
            "author": entry.by,
            "domain": entry.domain,
            "time": entry.time_s,
            "score": entry.score,
            "words_hash": words_hash,
        }
        held = connection.execute(self._sql["held_entry"], columns).fetchone()
        if held is not None and held[1] == words_hash:
            connection.execute(self._sql["change_entry"], {**columns, "entry": held[0]})
            return
        if held is not None:
            connection.execute(self._sql["remove_entry"], {"entry": held[0]})
        number = connection.execute(self._sql["add_entry"], columns).lastrowid
        connection.execute(self._sql["add_words"], {"entry": number, "title": title, "text": text})

    async def find(
        self, query: SearchQuery, *, source: str | None, order: SearchOrder, limit: int
    ) -> Sequence[tuple[str, str, str]]:
        """What matches, best first."""
        await self._run(self._check_form)
        values = search_values(query, match=_match(query), source=source, order=order, limit=limit)
        if query.has_words:
            few = {"by": values["by"], "domain": values["domain"], "few": FEW_MAX + 1}
            has_few = (await self._rows("has_few", few))[0][0]
            name = "find_words_of_few" if has_few else "find_words"
        elif query.by is not None:
            name = "find_author"
        else:
            name = "find_newest" if query.domain is None else "find_domain"
        return await self._rows(name, values)

    async def columns(self, keys: Sequence[tuple[str, str, str]]) -> Sequence[EntryColumns]:
        """The columns of entries."""
        rows = await self._rows("entry_columns", {"keys": json.dumps(keys)})
        return [EntryColumns(*row) for row in rows]

    async def _rows(self, name: str, values: dict[str, Any]) -> list[Any]:
        """What a statement finds. It ends when nobody waits for it any more."""
        with while_awaited() as is_left:
            return await self._run(lambda: self._find(name, values, is_left=is_left))

    def _find(self, name: str, values: dict[str, Any], *, is_left: Callable[[], bool]) -> list[Any]:
        connection = self._open_connection()
        try:
            with bounded(connection, self._seconds_max, is_left=is_left):
                return connection.execute(self._sql[name], values).fetchall()
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise too_slow(self._seconds_max) from None
            raise

    async def size(self) -> IndexSize:
        """Entries, and bytes of the file with its log."""
        await self._run(self._check_form)
        entries: int = await self._run(lambda: self._open_connection().execute(self._sql["index_size"]).fetchone()[0])
        return IndexSize(entries, size_with_log(self._path))

    async def clear(self) -> None:
        """An empty index."""
        await self._run(self._begin_anew)

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise StoreUnavailable("the search index is not open", hint="open it first")
        return self._connection

    async def _run(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise StoreUnavailable("the search index is not open", hint="open it first")
        try:
            found = await self._thread.run(work)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        check_unwritten(self._path, self._frozen)
        return found

    def _explained(self, error: sqlite3.Error) -> StoreError:
        if any(words in str(error) for words in ("not a database", "malformed")):
            return StoreError(
                f"the search index {self._path} is damaged: {error}",
                hint="delete this file, then run `remora search --build`: all of it comes from the mirror",
            )
        return explained(error, self._path)


def _match(query: SearchQuery) -> str:
    """Every term as a quoted FTS5 phrase, so that no input is read as an operator."""
    wanted = [_phrase(term.text) for term in query.terms if not term.is_excluded]
    excluded = [_phrase(term.text) for term in query.terms if term.is_excluded]
    return " NOT ".join([" AND ".join(wanted), *excluded])


def _phrase(text: str) -> str:
    words, is_beginning = wanted_words(storable(text))
    return f'"{" ".join(words)}"{" *" if is_beginning else ""}'
