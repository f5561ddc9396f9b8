"""Is a wrong declaration stopped, each with a sentence that helps, before anything wrong is called complete?"""

from collections.abc import Mapping

import pytest

from remora.core.errors import Exit
from remora.core.item import Order
from remora.core.ledger.run import StoppedBy
from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock, run
from remora.sim.replies import Answer, Response, ok
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive

MOVED = Answer(301, b"", {"location": "https://new.example:8443/v2/list?token=secret"})


class Wrapped(SmallArchive):
    """Another shape than the usual one: the entries are elsewhere, or the list is sorted the other way round."""

    oldest_first = False

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        if path == "/deep":
            entries = b'[{"id": "a", "update_time": 2}, {"id": "b", "update_time": 1}]'
            return ok(b'{"count": 2, "data": {"errors": [{}], "issues": {"nodes": %s}}}' % entries)
        if path == "/data":
            return ok(b'{"count": 2, "data": [{"id": "a", "update_time": 2}, {"id": "b", "update_time": 1}]}')
        return super()._page(path, query)

    def listing(self) -> list[tuple[str, int]]:
        return super().listing()[::-1] if self.oldest_first else super().listing()


WRONG = {
    "the order": (
        ListSettings(page_size=10),
        "the list is declared as newest first, but a page has marks from 1 to 10",
        'write order = "oldest"',
    ),
    "the mark": (
        ListSettings(page_size=10, updated="updated_at"),
        '10 of 10 entries have no mark at "updated_at"',
        "check list.updated",
    ),
    "the next cursor": (
        ListSettings(path="/cursor", paging=Paging.CURSOR, page_size=10, next_cursor="paging.next"),
        'the first page names no next page at "paging.next", but has "next_cursor"',
        'write next_cursor = "next_cursor"',
    ),
    "the cursor's parameter": (
        ListSettings(path="/cursor", paging=Paging.CURSOR, page_size=10, cursor_param="after"),
        "leads to this page again",
        "check list.next_cursor and list.cursor_param",
    ),
    "the entries": (
        ListSettings(path="/data", page_size=10),
        'there are no entries at "items", but a list at "data"',
        'write entries = "data"',
    ),
    "entries that are deep inside": (
        ListSettings(path="/deep", page_size=10),
        'there are no entries at "items", but a list at "data.issues.nodes"',
        'write entries = "data.issues.nodes"',
    ),
    "the key": (
        ListSettings(page_size=10, key="uuid"),
        '10 of 10 entries have no key at "uuid"',
        "check list.key",
    ),
    "the path": (ListSettings(path="/lists", page_size=10), "the provider refuses the list (not_found)", "list.path"),
    "the address": (
        ListSettings(path="/moved", page_size=10),
        "the list moved to https://new.example:8443/v2/list",
        "write this address",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_declaration_is_stopped_with_a_sentence_that_helps(what: str) -> None:
    async def main(clock: SimClock) -> None:
        settings, read, write = WRONG[what]
        archive = Wrapped(57)
        archive.oldest_first = what == "the order"
        rig = ListedRig(clock, archive, settings=settings, ceiling_ns=SECOND_NS // 50)
        if what == "the address":
            archive.hook = lambda asked: MOVED if asked.startswith("page") else None
        summary = await rig.run()
        assert summary.stopped_by.exit_code is Exit.FAILED
        assert read in summary.because
        assert write in summary.because
        assert "secret" not in summary.because
        state = await rig.store.walk_state(NAME)
        assert (state.watermark, state.full_walk) == (None, None), "nothing is called complete"

    run(main)


def test_an_error_that_comes_as_a_success_is_not_taken_for_a_wrong_declaration() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(5), settings=ListSettings(page_size=10, order=Order.UPDATED))
        rig.archive.hook = lambda _asked: ok(b'{"errors": [{"message": "try later"}]}')
        assert (await rig.run()).stopped_by is StoppedBy.LIST_UNREADABLE

    run(main)
