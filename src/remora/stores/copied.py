"""Is this store the target of a copy? Then it is no mirror until the copy is finished, and none to overwrite once it is used.

A small module: every start asks this, and only `remora store copy` needs the rest.
"""

from typing import Final

from remora.contracts import Json, NoteKeeping
from remora.core.errors import StoreForeign

# Notes without a source are the copy's own and are not copied.
OWN_NOTES: Final = ""
PROGRESS: Final = "copy"
FINISHED: Final[Json] = {"table": "finished", "after": []}


async def check_whole(store: NoteKeeping) -> Json:
    """Refuse half a copy: it may say that ids are covered, and not yet that some of them are owed. Returns the note."""
    progress = await store.note(OWN_NOTES, PROGRESS)
    check_finished(progress)
    return progress


def check_finished(progress: Json) -> None:
    """The same for a note that was read."""
    if progress not in (None, FINISHED):
        raise StoreForeign(
            "the store holds an unfinished copy of another one",
            hint="run the same `remora store copy` again to finish it, or begin with a new file or an empty database",
        )


async def take_over(store: NoteKeeping) -> None:
    """Refuse half a copy. A whole one is a mirror of its own from now on: no later copy may overwrite it."""
    if await check_whole(store) is not None:
        await store.keep_note(OWN_NOTES, PROGRESS, None)
