"""How is a batch posted to a receiver of the owner's own? One request with bounds; it never goes to a source."""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp

TIMEOUT_S: Final = 30.0
ANSWER_MAX_BYTES: Final = 65_536


class WebhookPoster:
    """Posts bodies to one address. Redirects are not followed: a signed batch goes where its owner said."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post once. None: it was accepted; otherwise why not, in a few words."""
        assert self._session is not None, "it is used inside `async with`"
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                await answer.content.read(ANSWER_MAX_BYTES)
                return None if str(answer.status).startswith("2") else f"HTTP {answer.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return type(error).__name__
