"""Is an answer whose head was read before the same as one that the parser reads, however it comes?"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remora.core.verdict import NoReply, Reply
from remora.sources.transport import known_heads
from remora.sources.transport.connection import Connection
from remora.sources.transport.known_heads import HEADS_MAX, KnownHeads
from tests.sources.permits import LoopClock

USUAL = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\n"
LONGER = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nContent-Length: 12\r\n\r\n"
BODY_MAX_BYTES = 1_000
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n"


class ByHand:
    """A poller that looks when the test says so: what is sent before arrives in one read."""

    late_ns = 0

    def __init__(self) -> None:
        self.look: Callable[[], None] = lambda: None

    def add(self, _descriptor: int, on_readable: Callable[[], None]) -> None:
        self.look = on_readable

    def remove(self, _descriptor: int) -> None:
        self.look = lambda: None

    def look_now(self, _now_ns: int) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""


async def answers(*sent: Sequence[bytes]) -> list[Reply | NoReply]:
    """What one client makes of answers that are sent like this, each in some pieces. It connects again if it must."""
    heads, poller, got = KnownHeads(), ByHand(), list[Reply | NoReply]()

    def connected() -> tuple[Connection, socket.socket]:
        ours, theirs = (opened.enter_context(each) for each in socket.socketpair())
        ours.setblocking(False)
        buffer = memoryview(bytearray(1 << 16))
        return Connection(ours, poller, buffer, clock=LoopClock(), body_max_bytes=BODY_MAX_BYTES, heads=heads), theirs

    with ExitStack() as opened:
        link, theirs = connected()
        for pieces in sent:
            if link.is_closed:
                link, theirs = connected()
            link.send(b"GET / HTTP/1.1\r\n\r\n", got.append, departed_at_ns=1)
            for piece in pieces:
                with suppress(BrokenPipeError):  # it was given up
                    theirs.sendall(piece)
                poller.look()
        link.close()
    return got


def bodies(replies: Sequence[Reply | NoReply]) -> list[bytes | str]:
    return [reply.body if isinstance(reply, Reply) else str(reply.fault) for reply in replies]


def was_parsed_once(replies: Sequence[Reply | NoReply]) -> bool:
    """Whether the headers of all of them are one object: what the parser made of the first."""
    return len({id(reply.headers) for reply in replies if isinstance(reply, Reply)}) == 1


async def test_a_head_that_comes_again_is_not_parsed_again_and_means_the_same() -> None:
    got = await answers([USUAL + b"fine"], [USUAL + b"good"], [USUAL + b"nice"])
    assert bodies(got) == [b"fine", b"good", b"nice"]
    assert was_parsed_once(got)
    for reply in got:
        assert isinstance(reply, Reply)
        assert (reply.status, reply.headers) == (200, {"retry-after": "7"})
        assert reply.answered_at_ns >= reply.departed_at_ns > 0


async def test_a_head_with_another_length_is_not_parsed_again() -> None:
    got = await answers([USUAL + b"fine"], [LONGER + b"twelve bytes"], [USUAL.replace(b"4", b"0")], [USUAL + b"nice"])
    assert bodies(got) == [b"fine", b"twelve bytes", b"", b"nice"]
    assert was_parsed_once(got)


@pytest.mark.parametrize(
    "length", [b"04", b"+4", b"4 ", b"3", b"5", b"", b"4\r\nContent-Length: 4", b"0x4", b"4,4", b"\xb2"]
)
async def test_a_length_that_is_not_as_usual_is_for_the_parser(length: bytes) -> None:
    odd = USUAL.replace(b"4", length) + b"good"
    assert bodies(await answers([USUAL + b"fine"], [odd, b"!"])) == [b"fine", *bodies(await answers([odd, b"!"]))]


async def test_a_body_that_is_too_large_is_none_although_its_head_is_known() -> None:
    most, too_large = (USUAL.replace(b"4", b"%d" % size) + b"x" * size for size in (BODY_MAX_BYTES, BODY_MAX_BYTES + 1))
    got = await answers([USUAL + b"fine"], [most], [too_large], [USUAL + b"nice"])
    assert bodies(got) == [b"fine", b"x" * BODY_MAX_BYTES, "too_large", b"nice"]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: identity\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\t4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 004\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_a_head_that_does_not_tell_one_length_as_usual_is_not_kept(head: bytes) -> None:
    heads = KnownHeads()
    heads.learn(head + b"fine", 200, {}, b"fine")
    assert heads.answer_in(head + b"fine") is None


def test_a_head_before_the_head_of_the_answer_is_not_kept() -> None:
    heads, early = KnownHeads(), b"HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n"
    heads.learn(early + USUAL + b"fine", 200, {}, b"fine")
    assert heads.answer_in(early + b"fine") is None


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_the_length_of_an_answer_that_never_has_a_body_means_nothing(status: bytes) -> None:
    empty, odd = (b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status, length) for length in (0, 4))
    assert bodies(await answers([empty], [odd + b"evil"], [USUAL + b"nice"])) == [b"", b"", b"nice"]


async def test_a_length_that_is_written_oddly_pushes_no_known_head_out() -> None:
    odd = USUAL.replace(b"4", b"04")
    got = await answers([USUAL + b"fine"], *[[odd + b"good"]] * HEADS_MAX, [USUAL + b"nice"])
    assert bodies(got) == [b"fine", *[b"good"] * HEADS_MAX, b"nice"]
    assert was_parsed_once([got[0], got[-1]])


async def test_what_an_announcement_says_about_the_connection_is_known_to_the_parser_alone() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n"
    with_heads = await answers([USUAL + b"fine"], [early, USUAL + b"good"], [USUAL + b"nice"])
    assert bodies(with_heads)[1:] == bodies(await answers([early, USUAL + b"good"], [USUAL + b"nice"]))


async def test_what_follows_the_length_is_read_too() -> None:
    length_first = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nRetry-After: 7\r\n\r\n"
    got = await answers([length_first + b"fine"], [length_first.replace(b"7", b"9") + b"good"])
    assert [reply.headers for reply in got if isinstance(reply, Reply)] == [{"retry-after": "7"}, {"retry-after": "9"}]


def test_a_length_that_is_kept_is_that_of_each_answer() -> None:
    heads = KnownHeads()
    heads.learn(USUAL + b"fine", 200, {"content-length": "4"}, b"fine")
    assert heads.answer_in(LONGER + b"twelve bytes") is None


@settings(max_examples=300)
@given(
    at=st.integers(0, len(LONGER) + 12),
    instead=st.binary(max_size=6)
    | st.sampled_from([b"\r\n", b"\r\n\r\n", b"0", b" ", b"\r\nTransfer-Encoding: chunked"]),
    cut=st.integers(0, 20),
)
def test_whatever_comes_means_the_same_with_and_without_known_heads(at: int, instead: bytes, cut: int) -> None:
    usual = LONGER + b"twelve bytes"
    odd = usual[:at] + instead + usual[at + cut :]

    def meaning(replies: Sequence[Reply | NoReply]) -> list[object]:
        return [
            (reply.status, reply.body, reply.headers) if isinstance(reply, Reply) else reply.fault for reply in replies
        ]

    assert meaning(asyncio.run(answers([USUAL + b"fine"], [odd])))[1:] == meaning(asyncio.run(answers([odd])))


async def test_the_parser_reads_the_next_answer_after_one_that_it_did_not_see() -> None:
    missing = b"HTTP/1.1 404 Not Found\r\nRetry-After: 8\r\nContent-Length: 4\r\n\r\nnone"
    got = await answers([USUAL + b"fine"], [USUAL + b"good"], [missing], [USUAL + b"nice"], [missing])
    assert [reply.status for reply in got if isinstance(reply, Reply)] == [200, 200, 404, 200, 404]
    assert was_parsed_once([got[0], got[1], got[3]])
    assert was_parsed_once([got[2], got[4]])


@pytest.mark.parametrize(
    "pieces",
    [
        [USUAL[:9], USUAL[9:] + b"good"],
        [USUAL, b"good"],
        [USUAL + b"go", b"od"],
    ],
)
async def test_an_answer_in_pieces_is_whole_although_its_head_is_known(pieces: list[bytes]) -> None:
    assert bodies(await answers([USUAL + b"fine"], pieces, [USUAL + b"nice"])) == [b"fine", b"good", b"nice"]


async def test_a_body_that_comes_in_chunks_has_no_known_head() -> None:
    got = await answers([IN_CHUNKS + b"4\r\nfine\r\n0\r\n\r\n"], [IN_CHUNKS + b"3\r\nbig\r\n1\r\ns\r\n0\r\n\r\n"])
    assert bodies(got) == [b"fine", b"bigs"]
    assert not was_parsed_once(got)


async def test_the_end_of_an_empty_body_in_chunks_is_no_body() -> None:
    got = await answers([IN_CHUNKS + b"5\r\nfives\r\n0\r\n\r\n"], [IN_CHUNKS + b"0\r\n\r\n"])
    assert bodies(got) == [b"fives", b""]


async def test_what_looks_like_a_known_head_in_the_middle_of_another_is_none() -> None:
    early, missing = b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
    odd = [early + b"HTTP/1.1 200 OK\r\nX-Odd: ", USUAL + b"good"]
    got = await answers([USUAL + b"fine"], odd, [missing])
    assert [(reply.status, reply.body) for reply in got if isinstance(reply, Reply)] == [
        (200, b"fine"),
        (200, b"good"),
        (404, b"none"),
    ]


async def test_an_announcement_before_an_answer_is_no_known_head() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    got = await answers([early + USUAL + b"fine"], [early, USUAL + b"good"], [early + USUAL[:20], USUAL[20:] + b"nice"])
    assert bodies(got) == [b"fine", b"good", b"nice"]


async def test_what_follows_a_known_answer_unasked_is_nobodys_answer() -> None:
    got = await answers([USUAL + b"fine"], [USUAL + b"good" + USUAL + b"evil"], [USUAL + b"nice"])
    assert bodies(got) == [b"fine", b"good", b"nice"]


async def test_a_connection_that_is_to_be_closed_has_no_known_head() -> None:
    last = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
    got = await answers([last + b"fine"], [last + b"good"])
    assert bodies(got) == [b"fine", b"good"]
    assert not was_parsed_once(got)


def test_the_newest_heads_are_kept() -> None:
    heads = KnownHeads()
    for number in range(HEADS_MAX + 1):
        heads.learn(b"HTTP/1.1 200 OK\r\nAge: %d\r\nContent-Length: 1\r\n\r\nx" % number, 200, {}, b"x")
    assert heads.answer_in(b"HTTP/1.1 200 OK\r\nAge: 0\r\nContent-Length: 1\r\n\r\ny") is None
    for number in range(1, HEADS_MAX + 1):
        assert heads.answer_in(b"HTTP/1.1 200 OK\r\nAge: %d\r\nContent-Length: 1\r\n\r\ny" % number) is not None


def test_a_very_long_head_is_not_kept() -> None:
    heads = KnownHeads()
    long = b"HTTP/1.1 200 OK\r\nX: %b\r\nContent-Length: 1\r\n\r\n" % (b"x" * known_heads.HEAD_BYTES_MAX)
    heads.learn(long + b"x", 200, {}, b"x")
    assert heads.answer_in(long + b"x") is None
