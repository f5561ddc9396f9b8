"""How do changes reach a webhook? One signed post per batch, repeated until it is accepted, in order, at least once."""

import asyncio
import hmac
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

from remora.contracts.reader import Change
from remora.read.changes import as_line
from remora.sources.transport.webhook_post import WebhookPoster

FIRST_WAIT_S: Final = 1.0
WAIT_MAX_S: Final = 300.0
SIGNATURE: Final = "Remora-Signature"


def signature(secret: str, moment_s: int, body: bytes) -> str:
    """What proves that a post is ours: an HMAC over its time and its body. An old one can be refused by its time."""
    told = hmac.new(secret.encode(), f"{moment_s}.".encode() + body, sha256).hexdigest()
    return f"t={moment_s},v1={told}"


def body_of(changes: Sequence[Change]) -> bytes:
    """A batch: the changes in order."""
    return b'{"changes":[' + b",".join(map(as_line, changes)) + b"]}"


class Webhook:
    """Delivers batches to one address."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        tell: Callable[[str], None],
        wall_s: Callable[[], float] = time.time,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._poster = WebhookPoster(url)
        self._secret = secret
        self._tell = tell
        self._wall_s = wall_s
        self._first_wait_s = first_wait_s

    async def __aenter__(self) -> Self:
        await self._poster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._poster.__aexit__(kind, error, trace)

    async def deliver(self, changes: Sequence[Change]) -> None:
        """Return when the receiver has accepted the batch. Nothing is skipped: a batch waits as long as it takes."""
        if not changes:
            return
        body, wait_s = body_of(changes), self._first_wait_s
        while True:
            headers = {
                "Content-Type": "application/json",
                SIGNATURE: signature(self._secret, int(self._wall_s()), body),
                "Remora-Position": changes[-1].position,
            }
            why = await self._poster.post(body, headers)
            if why is None:
                return
            self._tell(f"the webhook did not accept {len(changes):,} changes ({why}); again in {wait_s:g} s")
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_MAX_S)
