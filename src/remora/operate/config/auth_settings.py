"""How is a credential configured? How it is sent and where it comes from, in one key: `bearer_env`, `header_file`."""

from collections.abc import Iterator
from itertools import product
from typing import Final
from urllib.parse import urlsplit

import msgspec

from remora.core.errors import ConfigurationError
from remora.operate.config.header_names import OF_THE_REQUEST
from remora.sources.address import is_web_address
from remora.sources.auth import Way

ORIGINS: Final = ("env", "file", "command")
NAMED: Final = frozenset({Way.HEADER, Way.QUERY, Way.COOKIE})
EXAMPLE: Final = 'auth = { bearer_env = "ARCHIVE_TOKEN" }'
OAUTH_EXAMPLE: Final = 'auth = { oauth_url = "https://…", client_id = "…", client_secret_env = "ARCHIVE_SECRET" }'
OF_OAUTH: Final = (
    "oauth_url",
    "client_id",
    "client_secret_env",
    "client_secret_file",
    "refresh_token_env",
    "refresh_token_file",
    "scope",
)


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One credential. The secret itself is never written here."""

    bearer_env: str | None = None
    bearer_file: str | None = None
    bearer_command: str | None = None
    basic_env: str | None = None
    basic_file: str | None = None
    basic_command: str | None = None
    header_env: str | None = None
    header_file: str | None = None
    header_command: str | None = None
    query_env: str | None = None
    query_file: str | None = None
    query_command: str | None = None
    cookie_env: str | None = None
    cookie_file: str | None = None
    cookie_command: str | None = None
    name: str | None = None
    oauth_url: str | None = None
    client_id: str | None = None
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    refresh_token_env: str | None = None
    refresh_token_file: str | None = None
    scope: str | None = None

    def __post_init__(self) -> None:
        if self._is_oauth():
            return
        given = [f"{way}_{origin}" for way, origin, _ in self._given()]
        if len(given) > 1:
            raise ConfigurationError(
                f"auth has two credentials, {given[0]} and {given[1]}", hint=f"write one of them, as {EXAMPLE}"
            )
        if not given:
            raise ConfigurationError("auth says nowhere where the secret comes from", hint=f"write {EXAMPLE}")
        if (self.way in NAMED) != (self.name is not None):
            hint = f'write its name, as auth = {{ {given[0]} = "…", name = "X-Api-Key" }}'
            if self.name is not None:
                hint = "leave name out"
            raise ConfigurationError(f"auth has {given[0]} {'with a' if self.name else 'without a'} name", hint=hint)
        if self.name is not None and not (self.name.isascii() and self.name.replace("-", "_").isidentifier()):
            raise ConfigurationError(f'auth.name is "{self.name}"', hint="write letters, digits, - and _")
        if self.header in OF_THE_REQUEST:
            raise ConfigurationError(
                f'auth.name is "{self.name}", a header that Remora writes itself',
                hint='write the API\'s header for its key, as "X-Api-Key"',
            )

    def _is_oauth(self) -> bool:
        """Whether it is OAuth. Refuses OAuth together with anything else."""
        of_oauth = [key for key in OF_OAUTH if getattr(self, key) is not None]
        if not of_oauth:
            return False
        others = [f"{way}_{origin}" for way, origin, _ in self._given()]
        if others:
            raise ConfigurationError(
                f"auth has two credentials, {of_oauth[0]} and {others[0]}", hint=f"write one of them, as {EXAMPLE}"
            )
        if self.name is not None:
            raise ConfigurationError(
                "auth has oauth_url with a name", hint="leave name out: the token goes out as Authorization: Bearer"
            )
        for secret in ("client_secret", "refresh_token"):
            if getattr(self, f"{secret}_env") is not None and getattr(self, f"{secret}_file") is not None:
                raise ConfigurationError(f"auth has both {secret}_env and {secret}_file", hint="write one of them")
        if self.client_secret_env is None and self.client_secret_file is None and not self.has_refresh_token:
            raise ConfigurationError(
                "auth has neither a client secret nor a refresh token", hint=f"write both or one, as {OAUTH_EXAMPLE}"
            )
        if self.client_id is None or not _is_private_address(self.oauth_url or ""):
            raise ConfigurationError(
                "auth needs an oauth_url that begins with https:// and holds no password, and a client_id",
                hint=f"write {OAUTH_EXAMPLE}",
            )
        return True

    @property
    def has_refresh_token(self) -> bool:
        """Whether the access token is obtained with a refresh token."""
        return self.refresh_token_env is not None or self.refresh_token_file is not None

    @property
    def way(self) -> Way:
        """How the secret is sent."""
        return Way.BEARER if self.oauth_url is not None else next(self._given())[0]

    @property
    def header(self) -> str:
        """The header that the owner chose for the secret, in small letters; empty if it is sent in another way."""
        return (self.name or "").lower() if self.oauth_url is None and self.way is Way.HEADER else ""

    @property
    def origin(self) -> tuple[str, str]:
        """Where it comes from (env, file, command or oauth), and the variable, path, command or address."""
        if self.oauth_url is not None:
            return "oauth", self.oauth_url
        _, origin, text = next(self._given())
        return origin, text

    def __repr__(self) -> str:
        # A command may contain a secret.
        return f"AuthSettings({self.way})"

    def _given(self) -> Iterator[tuple[Way, str, str]]:
        for way, origin in product(Way, ORIGINS):
            text = getattr(self, f"{way}_{origin}")
            if text is not None:
                yield way, origin, text


def _is_private_address(url: str) -> bool:
    """Whether nobody on the way reads what is sent there: https, or this machine. A password in it is refused, too."""
    if not is_web_address(url) or "@" in urlsplit(url).netloc:
        return False
    return urlsplit(url).scheme == "https" or urlsplit(url).hostname == "127.0.0.1"
