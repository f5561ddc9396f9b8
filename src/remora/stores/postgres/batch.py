"""What is already stored about the things in a batch of observations, and what will be written?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap
from remora.stores.decisions import Held
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, load_key


@dataclass(slots=True)
class DocumentRow:
    """What is known about a document besides its body."""

    listed_mark: str | None = None
    listed_ns: int | None = None
    vanished_ns: int | None = None


@dataclass(slots=True)
class Batch:
    """What is stored about one source's things in the batch, and what will be written."""

    source: str
    number: int
    held: dict[str, Held] = field(default_factory=dict)
    gaps: dict[str, Gap] = field(default_factory=dict)
    documents: dict[str, DocumentRow] = field(default_factory=dict)
    new_items: list[Row] = field(default_factory=list)
    changed_items: list[Row] = field(default_factory=list)
    kept_ids: list[int] = field(default_factory=list)
    read_s: dict[int, int] = field(default_factory=dict)  # unchanged items, with the second in which they were read
    changes: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # keys by kind and change
    changed_at: int = 0
    moved_gaps: list[Row] = field(default_factory=list)
    answered: list[Row] = field(default_factory=list)
    single: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)  # statements for users and documents
    departed_ns: dict[str, int] = field(default_factory=dict)
    fetched_again: list[tuple[str, int]] = field(default_factory=list)  # stored things, and their departures

    def add_change(self, kind: Kind, key: str, change: str) -> None:
        """Add one line to the change feed."""
        named = ("item", key) if kind is Kind.ITEM else (kind.value, dump_key(key))
        self.changes.setdefault((named[0], change), []).append(named[1])


def name_in_batch(kind: Kind, key: str) -> str:
    """The name of anything but an item: kind and key, so that it cannot be mistaken for an item."""
    return f"{kind}\0{key}"


async def fetched_again(connection: Connection, batch: Batch, names: list[str]) -> dict[str, int]:
    """When any process last fetched these again, as far back as it matters."""
    values = {"number": batch.number, "keys": [dump_key(name) for name in names]}
    found = await connection.execute(SQL["held_fetches"], values, binary=True)
    return {load_key(key): departed_ns for key, departed_ns in await found.fetchall()}
