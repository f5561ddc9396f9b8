"""Is this store the target of a copy? Then it is no mirror until the copy is finished, and none to overwrite once it is used.

A small module: every start asks this, and only `remora store copy` needs the rest.
"""

from typing import Final, Protocol

from remora.contracts import Json
from remora.core.errors import StoreForeign

# Notes without a source are the copy's own and are not copied.
OWN_NOTES: Final = ""
PROGRESS: Final = "copy"
FINISHED: Final[Json] = {"table": "finished", "after": []}


class _Notes(Protocol):
    async def note(self, source: str, name: str) -> Json:
        """A small fact, or None."""

    async def keep_note(self, source: str, name: str, value: Json) -> None:
        """Keep it, durably. None deletes it."""


async def check_whole(store: _Notes) -> None:
    """Refuse half a copy: it may say that ids are covered, and not yet that some of them are owed."""
    if await store.note(OWN_NOTES, PROGRESS) not in (None, FINISHED):
        raise StoreForeign(
            "the store holds an unfinished copy of another one",
            hint="run the same `remora store copy` again to finish it, or begin with a new file or an empty database",
        )


async def take_over(store: _Notes) -> None:
    """Refuse half a copy. A whole one is a mirror of its own from now on: no later copy may overwrite it."""
    await check_whole(store)
    if await store.note(OWN_NOTES, PROGRESS) is not None:
        await store.keep_note(OWN_NOTES, PROGRESS, None)
