"""Does a source keep its contract? One request per permit, and a reading that never raises and never invents an end."""

from collections.abc import Sequence
from typing import Final

from remora.contracts import Source
from remora.core.item import Decoded, Document, Page, Readable
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.verdict import NoReply, Reply
from remora.testing.permits import CountingGate

# What comes instead of an answer when something between two machines is broken.
DAMAGED: Final = (b"", b"null", b"[]", b"{}", b"17", b'"text"', b'{"id":"oh', b"\xff\xfe", b"<html>Bad gateway</html>")
NESTED: Final = b"[" * 5_000 + b"]" * 5_000


async def check_source(source: Source, *, keys: Sequence[str]) -> None:
    """Assert that a source asks and reads as `remora.Source` promises. `keys` are things that its fake has.

    Its transport must lead to a fake or to a `CountingServer`: one request for each key is sent.
    """
    capabilities = source.capabilities
    assert capabilities.list or capabilities.newest_id, "a source has a list, or a newest id"
    assert source.name, "a source has a name"
    for key in keys:
        discovery = _discovery(source, key)
        gate = CountingGate()
        reply = await source.fetch(discovery, gate.permit())
        assert gate.departures == 1, f"{gate.departures} requests for one permit"
        assert isinstance(reply, Reply | NoReply), f"fetch returned {type(reply).__name__}"
        if isinstance(reply, Reply):
            assert _read(source, discovery, reply.body) == source.decode(discovery, reply), "decode is not pure"
    first = Discovery(Kind.PAGE, "", Lane.WALK) if capabilities.list else Discovery.newest()
    for body in (*DAMAGED, NESTED):
        page = _read(source, first, body)
        is_end = isinstance(page, Readable) and isinstance(page.thing, Page) and not page.thing.next_position
        assert not is_end or body in {b"[]", b"{}", b"null", b""}, f"{body[:20]!r} was read as the end of the list"
        read = _read(source, _discovery(source, keys[0]), body)
        if isinstance(read, Readable) and isinstance(read.thing, Document):
            assert read.thing.body == body, "a document's body is kept byte for byte"


def _discovery(source: Source, key: str) -> Discovery:
    if source.capabilities.newest_id:
        return Discovery.item(int(key), via=Lane.LIVE)
    return Discovery(Kind.DOCUMENT, key, Lane.DETAIL)


def _read(source: Source, discovery: Discovery, body: bytes) -> Decoded:
    try:
        return source.decode(discovery, Reply(200, body, 0, 1))
    except Exception as error:
        raise AssertionError(f"decode raised {type(error).__name__} for {body[:20]!r}") from error
