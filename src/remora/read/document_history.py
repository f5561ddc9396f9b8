"""What was a document before? Every content that was seen of it; the last one is the current one."""

from collections.abc import Sequence

from remora.contracts.browsing import BrowsingReader
from remora.contracts.reader import MirroredDocument, Revision


async def read_document_history(reader: BrowsingReader, document: MirroredDocument) -> Sequence[Revision]:
    """Oldest first. Empty while the detail was never fetched."""
    earlier = await reader.document_revisions(document.source, document.key)
    facts = await reader.document_facts(document.source, document.key)
    if document.body is None or facts is None:
        return earlier
    changed_ns = facts.changed_ns or facts.first_seen_ns
    return (*earlier, Revision(facts.revision, document.body, changed_ns, document.fetched_ns or changed_ns))
