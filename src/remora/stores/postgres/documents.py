"""How are observations of documents recorded? Part of `recording`; a document also has an entry in a list."""

from collections.abc import Iterable

from remora.contracts import Observation, Outcome
from remora.core.item import Document
from remora.core.ledger.discovery import Kind, fingerprint
from remora.core.ledger.gap import Listing
from remora.stores.decisions import Decision, is_still_owed, listing_of
from remora.stores.postgres.batch import Batch, DocumentRow, fetched_again, name_in_batch
from remora.stores.postgres.connections import Connection, Row
from remora.stores.postgres.statements import SQL
from remora.stores.postgres.values import dump_key, dump_mark, load_key, load_mark
from remora.stores.rows import milliseconds, nanoseconds


async def held_documents(connection: Connection, batch: Batch, keys: list[str]) -> Iterable[tuple[str, Row]]:
    """What must be known about stored documents to judge new observations of them."""
    values = {"source": batch.source, "keys": [dump_key(key) for key in keys]}
    held: list[tuple[str, Row]] = []
    for row in await (await connection.execute(SQL["held_documents"], values, binary=True)).fetchall():
        key, body_hash, fetched, listed_mark, listed_at, revision, vanished_at = row
        name = name_in_batch(Kind.DOCUMENT, load_key(key))
        batch.documents[name] = DocumentRow(load_mark(listed_mark), nanoseconds(listed_at), nanoseconds(vanished_at))
        if body_hash is not None:
            held.append((name, (body_hash, body_hash, revision, fetched)))
    again_ns = await fetched_again(connection, batch, [name for name, _ in held])
    return ((name, (*row, again_ns.get(name), b"")) for name, row in held)


def listing(batch: Batch, observation: Observation) -> Listing:
    """What its list says about a document; unknown for other things."""
    if observation.discovery.kind is not Kind.DOCUMENT:
        return Listing.UNKNOWN
    row = batch.documents.get(name_in_batch(Kind.DOCUMENT, observation.discovery.key), DocumentRow())
    return listing_of(listed_ns=row.listed_ns, vanished_ns=row.vanished_ns, started_at_ns=observation.started_at_ns)


def ensure_document(batch: Batch, observation: Observation) -> None:
    """Make sure that a requested document has a row, found or not."""
    if name_in_batch(Kind.DOCUMENT, observation.discovery.key) not in batch.documents:
        batch.single.append(("ensure_document", _values(batch.source, observation)))


def settle_gone_document(batch: Batch, observation: Observation) -> None:
    """A document that is gone is no longer owed. If it is listed again meanwhile, this transaction fails."""
    batch.single.append(("settle_gone_document", _values(batch.source, observation)))


def store_document(batch: Batch, document: Document, observation: Observation, decision: Decision) -> None:
    """Store a document's body, its earlier body as a revision, and whether its detail is still owed."""
    assert decision.held is not None, "what was found is held"
    row = batch.documents.get(name_in_batch(Kind.DOCUMENT, observation.discovery.key), DocumentRow())
    owed = is_still_owed(
        listed_mark=row.listed_mark,
        listed_ns=row.listed_ns,
        document=document,
        started_at_ns=observation.started_at_ns,
    )
    values = {
        **_values(batch.source, observation),
        "owed": owed,
        "updated_at": dump_mark(row.listed_mark if document.updated_at is None else document.updated_at),
        "fetched": milliseconds(observation.started_at_ns),
    }
    if decision.keeps_earlier:
        batch.single.append(("keep_document_revision", values))
    if decision.outcome is Outcome.UNCHANGED:
        batch.single.append(("confirm_document", values))
    else:
        held = {"revision": decision.held.revision, "hash": decision.held.hash, "body": document.body}
        batch.single.append(("write_document", {**values, **held}))


def _values(source: str, observation: Observation) -> dict[str, object]:
    key = observation.discovery.key
    return {
        "source": source,
        "key": dump_key(key),
        "fingerprint": fingerprint(source, key),
        "now": milliseconds(observation.now_ns),
    }
