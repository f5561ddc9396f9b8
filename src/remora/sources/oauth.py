"""How do we get an OAuth 2 access token? From the token endpoint, through the gate."""

from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import urlencode

import msgspec

from remora.core.errors import ConfigurationError, RemoraError
from remora.core.verdict import NoReply, Reply, has_content, is_down
from remora.sources.auth import Issued, issued
from remora.sources.secret import Secret

# Posts a form to an address, through the gate.
PostForm = Callable[[str, bytes], Awaitable[Reply | NoReply]]


class OwnersSecret(Protocol):
    """A client secret or a refresh token, where its owner keeps it."""

    def now(self) -> Secret:
        """The one to use now: its owner may have replaced it."""

    def replace(self, secret: Secret) -> None:
        """The provider takes this one from now on. Called with each answer, also if it is the same."""


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None
    refresh_token: str | None = None


_answer = msgspec.json.Decoder(_Answer, strict=False)


class FromTokenEndpoint:
    """`SecretOrigin` of an access token. A new refresh token from the provider replaces the last one."""

    def __init__(
        self,
        where: str,
        url: str,
        *,
        client_id: str,
        client_secret: OwnersSecret | None = None,
        refresh_token: OwnersSecret | None = None,
        scope: str | None = None,
    ) -> None:
        self._where = where
        self._url = url
        self._client_id = client_id
        self._client_secret = client_secret
        self._refresh_token = refresh_token
        self._scope = scope
        self.post_form: PostForm | None = None  # set once there is a gate

    def has_changed(self) -> bool:
        """It only changes when it is requested."""
        return False

    async def read(self) -> Issued:
        """Ask the endpoint for an access token. Its answer is never shown."""
        assert self.post_form is not None, "a token is asked for once there is a gate"
        refresh_token = None if self._refresh_token is None else self._refresh_token.now()
        reply = await self.post_form(self._url, urlencode(self._form(refresh_token)).encode())
        if not isinstance(reply, Reply):
            raise RemoraError(f"{self._where}: the token endpoint does not answer ({reply.fault})", hint="wait")
        if is_down(reply.status):
            raise RemoraError(f"{self._where}: the token endpoint answers HTTP {reply.status}", hint="wait")
        try:
            answer = _answer.decode(reply.body) if has_content(reply) else None
        except (ValueError, RecursionError):
            answer = None
        if answer is None or not (answer.access_token.isascii() and answer.access_token.isprintable()):
            raise ConfigurationError(
                f"{self._where}: the token endpoint gives no token (HTTP {reply.status})",
                hint="check client_id, its secret and the refresh token",
            )
        if self._refresh_token is not None and refresh_token is not None:
            self._refresh_token.replace(Secret(answer.refresh_token) if answer.refresh_token else refresh_token)
        return issued(Secret(answer.access_token), answer.expires_in)

    def _form(self, refresh_token: Secret | None) -> dict[str, str]:
        form = {"grant_type": "client_credentials", "client_id": self._client_id}
        if refresh_token is not None:
            form |= {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()}
        if self._client_secret is not None:
            form["client_secret"] = self._client_secret.now().reveal()
        if self._scope is not None:
            form["scope"] = self._scope
        return form
