"""Which heads were read before? Providers repeat all but the length of the body, and what was read is not parsed again.

Only a usual answer is known: complete in one read, with its length told once, kept open and not encoded. The same bytes
around another length then mean the same, so nothing is decided here: the parser has decided it once.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

# A head changes with its date, each second. Several servers behind one address may each have their own.
HEADS_MAX: Final = 8
HEAD_BYTES_MAX: Final = 2_048
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)(?=\r\n)", re.IGNORECASE)
# With one of these in it twice, or at all, a head means more than it shows.
_ONCE: Final = b"content-length"
_NEVER: Final = b"transfer-encoding"


class KnownHead(msgspec.Struct, frozen=True, gc=False):
    """What the parser made of a head, and its bytes before and after the length of the body."""

    status: int
    headers: Mapping[str, str]  # as far as they are kept; never changed
    before: bytes
    after: bytes  # to the end of the head


class KnownHeads:
    """The heads that were read lately, for all connections of one transport."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: list[KnownHead] = []  # the newest first

    def answer_in(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The head and the body of the one complete answer that these bytes are; None if the parser must read them."""
        for known in self._heads:
            before, end, body = data.partition(known.after)
            if end and before == known.before + str(len(body)).encode():
                return known, body
        return None

    def learn(self, data: bytes, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """The parser read exactly one usual answer from these bytes."""
        end = data.find(_END) + len(_END)
        # The body must be what follows the head, as it came: not in chunks, for example. Some statuses never have one.
        if end > HEAD_BYTES_MAX or not body or data[end:] != body or "content-length" in headers:
            return
        head = data[:end]
        length, lower = _LENGTH.search(head), head.lower()
        if length is None or length[1] != b"%d" % len(body) or lower.count(_ONCE) > 1 or _NEVER in lower:
            return
        known = KnownHead(status, headers, head[: length.start(1)], head[length.end(1) :])
        self._heads = [known, *self._heads[: HEADS_MAX - 1]]
