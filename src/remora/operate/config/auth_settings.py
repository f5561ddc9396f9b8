"""How is a credential written? A way to show it and where it comes from, in one key: `bearer_env`, `header_file`."""

from collections.abc import Iterator
from itertools import product
from typing import Final

import msgspec

from remora.core.errors import ConfigurationError
from remora.sources.auth import Way

ORIGINS: Final = ("env", "file", "command")
NAMED: Final = frozenset({Way.HEADER, Way.QUERY, Way.COOKIE})
EXAMPLE: Final = 'auth = { bearer_env = "ARCHIVE_TOKEN" }'


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

    def __post_init__(self) -> None:
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

    @property
    def way(self) -> Way:
        """How the secret is shown."""
        return next(self._given())[0]

    @property
    def origin(self) -> tuple[str, str]:
        """Where it comes from (env, file or command), and the variable, path or command."""
        _, origin, text = next(self._given())
        return origin, text

    def __repr__(self) -> str:
        # A command may hold what must not be seen.
        return f"AuthSettings({self.way})"

    def _given(self) -> Iterator[tuple[Way, str, str]]:
        for way, origin in product(Way, ORIGINS):
            text = getattr(self, f"{way}_{origin}")
            if text is not None:
                yield way, origin, text
