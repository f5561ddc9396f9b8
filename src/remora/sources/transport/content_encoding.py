"""What if the provider compresses although it was asked not to? The body is decompressed up to a limit."""

import zlib
from collections.abc import Callable, Iterator
from typing import Final

# Tells zlib to recognise both the gzip and the zlib framing.
_ANY_FRAMING: Final = zlib.MAX_WBITS | 32
_NO_FRAMING: Final = -zlib.MAX_WBITS
_GZIP: Final = frozenset({"gzip", "x-gzip"})
# Each member costs a copy of what follows: thousands of tiny ones would cost more than one large body.
_MEMBERS_MAX: Final = 64
# A few bytes of a stream may become very many: they are given in parts of this size.
_PART_MAX_BYTES: Final = 64 * 1024


class TooLarge(Exception):
    """The body exceeds its bound."""


class BadEncoding(Exception):
    """The body is not what its Content-Encoding says, or the encoding is not supported."""


def decompress(body: bytes, encoding: str | None, most_bytes: int) -> bytes:
    """The decompressed body; raises `TooLarge` or `BadEncoding`."""
    match (encoding or "identity").strip().lower():
        case "identity" | "":
            return body
        case name if name in _GZIP:
            return _inflate_members(body, most_bytes)
        case "deflate":
            return _inflate_deflate(body, most_bytes)
        case _:
            raise BadEncoding


def parts_of_stream(encoding: str | None) -> Callable[[bytes], Iterator[bytes]]:
    """What turns each chunk of a stream into its decompressed parts; both raise `BadEncoding`."""
    match (encoding or "identity").strip().lower():
        case "identity" | "":
            return lambda chunk: iter((chunk,))
        case name if name in _GZIP or name == "deflate":
            return _Inflating().parts
        case _:
            raise BadEncoding


class _Inflating:
    """One stream that is compressed."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=_ANY_FRAMING)

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        """What can be decompressed so far, bounded part by bounded part; none of them is empty."""
        while True:
            try:
                part = self._inflater.decompress(chunk, _PART_MAX_BYTES)
            except zlib.error:
                raise BadEncoding from None
            chunk = self._inflater.unconsumed_tail
            if self._inflater.eof:
                chunk, self._inflater = self._inflater.unused_data, zlib.decompressobj(wbits=_ANY_FRAMING)
            if part:
                yield part
            if not chunk and len(part) < _PART_MAX_BYTES:
                return


def _inflate_members(body: bytes, most_bytes: int) -> bytes:
    """A gzip body may be several members, one after the other."""
    parts: list[bytes] = []
    rest = body
    while rest:
        if len(parts) == _MEMBERS_MAX:
            raise BadEncoding
        part, rest = _inflate(rest, _ANY_FRAMING, most_bytes - sum(map(len, parts)))
        parts.append(part)
    return b"".join(parts)


def _inflate_deflate(body: bytes, most_bytes: int) -> bytes:
    """Some servers send deflate with its framing, as the standard says, and some without."""
    try:
        return _inflate(body, _ANY_FRAMING, most_bytes)[0]
    except BadEncoding:
        return _inflate(body, _NO_FRAMING, most_bytes)[0]


def _inflate(body: bytes, framing: int, most_bytes: int) -> tuple[bytes, bytes]:
    """One member and what follows it."""
    inflater = zlib.decompressobj(wbits=framing)
    try:
        # One byte more than allowed shows that there is more; zero would mean no bound at all.
        part = inflater.decompress(body, most_bytes + 1)
    except zlib.error:
        raise BadEncoding from None
    if len(part) > most_bytes:
        raise TooLarge
    if not inflater.eof:
        raise BadEncoding
    return part, inflater.unused_data
