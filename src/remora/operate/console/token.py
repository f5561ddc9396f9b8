"""Where is the console's token? In a variable, in the owner's file, or in a file that we create on first use."""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from remora.core.errors import ConfigurationError
from remora.files import PRIVATE_FILE
from remora.operate.config.secrets import token_from_environment, token_from_file
from remora.operate.config.settings import Settings
from remora.sources.secret import Secret
from remora.stores import sqlite_file

TOKEN_BYTES: Final = 32
# Shorter ones can be guessed over a network.
TOKEN_CHARACTERS_LEAST: Final = 16
SUFFIX: Final = ".token"


class Found(NamedTuple):
    """The token and its file; no file if a variable holds it."""

    secret: Secret
    file: Path | None


def console_token(settings: Settings, environ: Mapping[str, str]) -> Found | None:
    """The token, created if needed. None on loopback, unless the owner configured one."""
    console = settings.console
    if console.token_env is not None:
        where = "console.token_env"
        return Found(_strong(token_from_environment(where, console.token_env, environ), where), None)
    if console.token_file is None and console.is_private:
        return None
    path = _default_file(settings) if console.token_file is None else Path(console.token_file).expanduser()
    _create(path)
    return Found(_strong(token_from_file("console.token_file", path), f"the file {path}"), path)


def _default_file(settings: Settings) -> Path:
    """Beside the store's file; in the working folder if the store is not a file."""
    store = sqlite_file(settings.store.url)
    return Path(f"remora{SUFFIX}") if store is None else Path(f"{store}{SUFFIX}")


def _create(path: Path) -> None:
    """Write a new token unless there is one. It appears under its name only when it is complete."""
    if path.exists():
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            os.write(file, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        with suppress(FileExistsError):  # another process was first: its token counts
            os.link(part, path)
    except OSError as error:
        raise ConfigurationError(
            f"the console listens beyond this machine and needs a token, but {path} cannot be written ({error.strerror})",
            hint="write console.token_file with a path you may write to, or keep the console on 127.0.0.1",
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _strong(token: str, where: str) -> Secret:
    if len(token) < TOKEN_CHARACTERS_LEAST:
        raise ConfigurationError(
            f"the console's token in {where} has fewer than {TOKEN_CHARACTERS_LEAST} characters",
            hint="write a longer one, or remove the file: a new one is created at the next start",
        )
    return Secret(token)
