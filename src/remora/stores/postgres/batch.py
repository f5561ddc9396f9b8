"""What is already stored about the things in a batch of observations, and what will be written?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remora.contracts import Observation
from remora.core.item import Item
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap
from remora.stores.decisions import Held
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, load_key
from remora.stores.rows import milliseconds


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
    observations: Sequence[Observation]
    items: list[str] = field(default_factory=list)  # the keys of observed items, and of anything else by its kind
    others: dict[Kind, list[str]] = field(default_factory=dict)
    latest_ns: int = 0  # of all observations
    changed_at: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    gaps: dict[str, Gap] = field(default_factory=dict)
    documents: dict[str, DocumentRow] = field(default_factory=dict)
    added: list[tuple[Item, Observation]] = field(default_factory=list)  # never seen nor owed before; see `new_items`
    new_items: list[Row] = field(default_factory=list)
    changed_items: list[Row] = field(default_factory=list)
    kept_ids: list[int] = field(default_factory=list)
    read_s: dict[int, int] = field(default_factory=dict)  # unchanged items, with the second in which they were read
    changes: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # keys by kind and change
    moved_gaps: list[Row] = field(default_factory=list)
    answered: list[Row] = field(default_factory=list)
    single: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)  # statements for users and documents
    departed_ns: dict[str, int] = field(default_factory=dict)
    fetched_again: list[tuple[str, int]] = field(default_factory=list)  # stored things, and their departures

    def __post_init__(self) -> None:
        earliest_ns = self.observations[0].now_ns
        for observation in self.observations:
            discovery = observation.discovery
            if discovery.kind is Kind.ITEM:
                self.items.append(discovery.key)
            else:
                self.others.setdefault(discovery.kind, []).append(discovery.key)
            self.latest_ns = max(self.latest_ns, observation.now_ns)
            earliest_ns = min(earliest_ns, observation.now_ns)
        self.changed_at = milliseconds(earliest_ns)  # a line of the feed is never later than its content

    def add_changes(self, kind: Kind, keys: Iterable[str], change: str) -> None:
        """Add a line to the change feed for each of these."""
        dumped = keys if kind is Kind.ITEM else map(dump_key, keys)
        self.changes.setdefault((kind.value, change), []).extend(dumped)


def name_in_batch(kind: Kind, key: str) -> str:
    """The name of anything but an item: kind and key, so that it cannot be mistaken for an item."""
    return f"{kind}\0{key}"


async def fetched_again(connection: Connection, batch: Batch, names: list[str]) -> dict[str, int]:
    """When any process last fetched these again, as far back as it matters."""
    values = {"number": batch.number, "keys": [dump_key(name) for name in names]}
    found = await connection.execute(SQL["held_fetches"], values, binary=True)
    return {load_key(key): departed_ns for key, departed_ns in await found.fetchall()}
