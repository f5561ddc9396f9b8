"""Which pages of a list are owed? Each is a gap of its own; a note says where it was and which marks surround it."""

from typing import Final, NamedTuple

from remora.contracts import Json, Store
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap
from remora.core.ledger.notes import UNREAD_NOTE
from remora.core.ledger.unread_page import UnreadPage

PAGES_LOOKED_AT: Final = 10_000


class OwedPage(NamedTuple):
    """A page that is owed. `unread` is None if its note is lost."""

    gap: Gap
    unread: UnreadPage | None

    @property
    def words(self) -> str:
        """Which page, and why it is owed."""
        named = "a page of the list" if self.unread is None else self.unread.words
        tried = f"{self.gap.attempts} attempt{'' if self.gap.attempts == 1 else 's'}"
        return f"{named} cannot be read ({self.gap.reason}, {tried})"


async def owed_pages(store: Store, source: str) -> list[OwedPage]:
    """The pages of a source's list that are owed, the oldest first."""
    gaps = await store.gaps(source, kind=Kind.UNREAD_PAGE, limit=PAGES_LOOKED_AT)
    return [OwedPage(gap, read_note(await store.note(source, note_name(gap.key)))) for gap in gaps]


def note_name(key: str) -> str:
    """The name of the note about a page."""
    return f"{UNREAD_NOTE} {key}"


def written(unread: UnreadPage) -> dict[str, Json]:
    """What is known about a page, as it is kept."""
    return {
        "position": unread.position,
        "words": unread.words,
        "above": unread.above,
        "below": unread.below,
        "by_walk": unread.by_walk,
    }


def read_note(note: Json) -> UnreadPage | None:
    """What was kept; None if nothing was, or nothing that can be read."""
    match note:
        case {
            "position": str(position),
            "words": str(words),
            "above": None | str() as above,
            "below": None | str() as below,
            "by_walk": bool(by_walk),
        }:
            return UnreadPage(position, words, above, below, by_walk)
        case _:
            return None
