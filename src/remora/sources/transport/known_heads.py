"""Which heads were read before? Providers repeat them byte for byte, and what was read once need not be parsed again.

Only a usual answer is known: complete in one read, with its length told, kept open and not encoded. The same bytes then
mean the same, so nothing is decided here: the parser has decided it once.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

# A head differs from the next by its date and the length of the body: a few hundred of them are new in each second.
HEADS_MAX: Final = 1_024
HEAD_BYTES_MAX: Final = 2_048
_END: Final = b"\r\n\r\n"


class KnownHead(msgspec.Struct, frozen=True, gc=False):
    """What the parser made of a head."""

    status: int
    headers: Mapping[str, str]  # as far as they are kept; never changed
    body_bytes: int


class KnownHeads:
    """The heads that were read lately, for all connections of one transport."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def answer_in(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The head and the body of the one complete answer that these bytes are; None if the parser must read them."""
        end = data.find(_END) + len(_END)
        known = self._heads.get(data[:end])
        return (known, data[end:]) if known is not None and len(data) - end == known.body_bytes else None

    def learn(self, data: bytes, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """The parser read exactly one usual answer from these bytes."""
        end = data.find(_END) + len(_END)
        # The body must be what follows the head, as it came: not in chunks, for example.
        if end > HEAD_BYTES_MAX or data[end:] != body:
            return
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        self._heads[data[:end]] = KnownHead(status, headers, len(body))
