"""What does a source get to decode? A whole reply, made from the few parts that a test is about."""

from remora.core.verdict import Reply


def replied(body: bytes, **headers: str) -> Reply:
    """A reply with this body and these headers (lower-case names)."""
    return Reply(200, body, departed_at_ns=0, answered_at_ns=0, headers=headers)
