"""What can happen to one request? The closed set of things that the simulated provider does with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from remora.core.units import SECOND_NS


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `cut_at`: the connection breaks after this many bytes of the body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names
    delay_ns: int = 0
    cut_at: int | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer, and the connection stays open."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection breaks without an answer."""


Response = Answer | Hang | Reset

SERVER_ERROR: Final = Answer(500, b'{"error":"Internal server error."}')
UNAUTHORIZED: Final = Answer(401, b'{"error":"Permission denied"}')
FORBIDDEN: Final = Answer(403, b'{"error":"Forbidden"}')
NOT_FOUND: Final = Answer(404, b'{"error":"Not found"}')
GONE: Final = Answer(410, b'{"error":"Gone"}')


def ok(body: bytes) -> Answer:
    """200."""
    return Answer(200, body)


def rate_limited(retry_after_ns: int | None) -> Answer:
    """429, with or without a `Retry-After` in whole seconds."""
    return Answer(429, b'{"error":"Too many requests"}', _retry_after(retry_after_ns))


def unavailable(retry_after_ns: int | None) -> Answer:
    """503, with or without a `Retry-After` in whole seconds."""
    return Answer(503, b'{"error":"Service unavailable"}', _retry_after(retry_after_ns))


def _retry_after(wait_ns: int | None) -> Mapping[str, str]:
    return {} if wait_ns is None else {"retry-after": str(ceil(wait_ns / SECOND_NS))}
