"""Can the examples be used as they are? Each is read by the real reader, and asks for what its provider offers."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from remora.contracts import ConnectGate, Permit
from remora.core.item import Document, Page, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, SourceKind
from remora.sim.clock import SimClock, run
from remora.sim.transport import FreePermit
from remora.sources.listed import Listed, ListedSettings
from tests.sources.permits import OnlyGets
from tests.sources.replies import replied

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
FIRST_PAGE = {
    "chat-archive": "https://chat.example/backend-api/conversations?order=updated&offset=0&limit=100",
    "github-issues": "https://api.github.com/repos/OWNER/REPOSITORY/issues"
    "?state=all&sort=updated&direction=desc&per_page=100",
}
DETAIL = {
    "chat-archive": "https://chat.example/backend-api/conversation/7",
    "github-issues": "https://api.github.com/repos/OWNER/REPOSITORY/issues/7",
}
# What the two providers answer, cut down to what is read.
LISTS = {
    "chat-archive": {"items": [{"id": "7", "title": "t", "update_time": 9}], "total": 1, "limit": 100, "offset": 0},
    "github-issues": [{"number": 7, "title": "t", "updated_at": "2026-01-02T03:04:05Z"}],
}
DETAILS = {
    "chat-archive": {"conversation_id": "7", "title": "t", "mapping": {}},
    "github-issues": {"number": 7, "title": "t", "updated_at": "2026-01-02T03:04:05Z"},
}


class Recorder(OnlyGets):
    """A transport that remembers the address and answers nothing."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def get(self, url: str, permit: Permit, *, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        self.urls.append(url)
        return Reply(200, b"null", await permit.depart(), 0)

    def stream(
        self, url: str, connect: ConnectGate, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        raise AssertionError("a listed source has no stream")


def declared(folder: str) -> tuple[Listed, Recorder]:
    settings = load(Flags(config=str(EXAMPLES / folder / "remora.toml")), {})
    ((name, source),) = settings.sources.items()
    assert source.kind is SourceKind.LISTED
    assert source.in_flight == 1
    assert source.ceiling_interval_ns >= SECOND_NS, "an example is careful"
    wire = Recorder()
    return Listed(wire, ListedSettings(source.url, source.list, source.detail), name=name), wire


def test_every_example_is_tested() -> None:
    declared = {folder.name for folder in EXAMPLES.iterdir()} - {"plug-in"}  # which has a test of its own
    assert sorted(declared) == sorted(FIRST_PAGE)
    assert all((EXAMPLES / folder / "README.md").is_file() for folder in FIRST_PAGE)


@pytest.mark.parametrize("folder", FIRST_PAGE)
def test_an_example_asks_for_the_list_and_the_details_where_they_are(folder: str) -> None:
    async def main(clock: SimClock) -> None:
        source, wire = declared(folder)
        await source.fetch(Discovery(Kind.PAGE, "", Lane.WALK), FreePermit(clock))
        await source.fetch(Discovery(Kind.DOCUMENT, "7", Lane.DETAIL), FreePermit(clock))
        assert wire.urls == [FIRST_PAGE[folder], DETAIL[folder]]

    run(main)


@pytest.mark.parametrize("folder", FIRST_PAGE)
def test_an_example_reads_what_its_provider_answers(folder: str) -> None:
    source, _ = declared(folder)
    page = source.decode(Discovery(Kind.PAGE, "", Lane.WALK), replied(json.dumps(LISTS[folder]).encode()))
    assert isinstance(page, Readable)
    assert isinstance(page.thing, Page)
    assert [entry.key for entry in page.thing.entries] == ["7"]
    assert all(entry.updated_at for entry in page.thing.entries)
    assert page.thing.next_position is None
    detail = source.decode(Discovery(Kind.DOCUMENT, "7", Lane.DETAIL), replied(json.dumps(DETAILS[folder]).encode()))
    assert isinstance(detail, Readable)
    assert isinstance(detail.thing, Document)
