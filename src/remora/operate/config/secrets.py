"""Where does a source's token come from, and how is it kept out of sight?"""

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from remora.core.errors import ConfigurationError
from remora.operate.config.auth_settings import AuthSettings
from remora.operate.config.settings import Settings, SourceSettings
from remora.sources.secret import MASK, Secret

TOKEN_CHARACTERS_MAX: Final = 16_384
SECRET_PARAMETER: Final = re.compile("key|token|secret|pass|auth|sig", re.IGNORECASE)
VARIABLE_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
# Settings that name or carry a secret: somebody may have written the secret itself there.
SECRET_SETTING: Final = re.compile(r"(^|\.)(auth|headers|webhook|token_\w+|\w+_env)(\.|$)")


def read_token(name: str, source: SourceSettings, environ: Mapping[str, str]) -> Secret | None:
    """The secret of one source if it can be read at once. None if it needs none, or a command prints it."""
    if source.credential is None:
        return None
    kind, text = source.credential.origin
    where = f"{key_of(name, source)}_{kind}"
    match kind:
        case "env":
            return Secret(token_from_environment(where, text, environ))
        case "file":
            return Secret(token_from_file(where, Path(text).expanduser()))
        case _:
            return None


def key_of(name: str, source: SourceSettings) -> str:
    """The setting that says where the secret comes from, as it is written, without its `_env`, `_file` or `_command`."""
    table = f"sources.{name}" if source.account is None else f"accounts.{source.account}"
    return f"{table}.token" if source.auth is None else f"{table}.auth.{source.auth.way}"


def secret_setting(name: str, source: SourceSettings) -> str | None:
    """The setting that the secret comes from, as it is written; None if the source has no secret."""
    auth = source.credential
    if auth is None:
        return None
    key, (kind, _) = key_of(name, source), auth.origin
    return f"{key.removesuffix(f'.{auth.way}')}.oauth_url" if kind == "oauth" else f"{key}_{kind}"


def oauth_secret(key: str, auth: AuthSettings, name: str, environ: Mapping[str, str]) -> Secret | None:
    """The client secret or the refresh token; None if there is none."""
    variable, file = getattr(auth, f"{name}_env"), getattr(auth, f"{name}_file")
    if variable is not None:
        return Secret(token_from_environment(f"{key}.{name}_env", variable, environ))
    return None if file is None else Secret(token_from_file(f"{key}.{name}_file", Path(file).expanduser()))


def _all_secrets(name: str, source: SourceSettings, environ: Mapping[str, str]) -> Iterator[Secret | None]:
    yield read_token(name, source, environ)
    if source.auth is not None:
        for secret in ("client_secret", "refresh_token"):
            yield oauth_secret(f"sources.{name}.auth", source.auth, secret, environ)


def secret_values(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret value, for the redaction of the log."""
    console = settings.console.token_env
    found: list[str] = [environ[console].strip()] if console is not None and environ.get(console) else []
    for name, source in settings.sources.items():
        found.extend(source.headers.values())
        for path in _paths(source):
            query = parse_qsl(urlsplit(path).query)
            found.extend(value for parameter, value in query if SECRET_PARAMETER.search(parameter))
        # A secret that cannot be read cannot leak either. The code that needs it reports the error.
        with suppress(ConfigurationError):
            found.extend(secret.reveal() for secret in _all_secrets(name, source, environ) if secret is not None)
    return tuple(found)


def _paths(source: SourceSettings) -> Iterator[str]:
    """Every path that the owner wrote."""
    yield from (source.list.path, source.detail.path)
    yield from (part.path for part in source.detail.parts)
    declared = (source.newest, source.item, source.updates, source.user)
    yield from (each.path for each in declared if each is not None)


def without_credentials(url: str) -> str:
    """The address with its user and password masked and its query left out."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return MASK
    if parts.username is None and parts.password is None and not parts.query:
        return url
    host = (
        f"{MASK}@{parts.hostname or ''}" if parts.username is not None or parts.password is not None else parts.netloc
    )
    if port is not None and "@" in host:
        host = f"{host}:{port}"
    return parts._replace(netloc=host, query=MASK if parts.query else "").geturl()


def holds_password(store: str) -> bool:
    """Whether the address of a store may hold a password: before its host, or in its query."""
    try:
        parts = urlsplit(store)
    except ValueError:
        return True
    return parts.password is not None or "password" in parts.query


def shown(value: object, where: str = "") -> str:
    """A value that is refused, as a sentence may show it; `where` is its setting."""
    if SECRET_SETTING.search(where):
        return MASK
    return f'"{value}"' if isinstance(value, str) else str(value)


def without_secrets(text: str) -> str:
    """The part of an invalid address that may be shown: nothing that may be a password or a key."""
    return MASK if "@" in text else re.sub(r"[?#].*", f"?{MASK}", text, flags=re.DOTALL)


def token_from_environment(where: str, variable: str, environ: Mapping[str, str]) -> str:
    """The token in a variable; `where` is the setting that names it."""
    file = f"{where.rpartition('.')[2].removesuffix('_env')}_file"
    token = text_from_environment(
        where,
        variable,
        environ,
        holds="the token",
        instead=f", or write {file} instead",
        example='token_env = "ARCHIVE_TOKEN"',
    )
    return checked_token(token.strip(), f"the variable {variable}")


def text_from_environment(
    where: str, variable: str, environ: Mapping[str, str], *, holds: str, instead: str = "", example: str
) -> str:
    """The text in a variable, which must be set; `where` is the setting that names it."""
    text = environ.get(variable, "")
    if text.strip():
        return text
    if VARIABLE_NAME.fullmatch(variable):
        raise ConfigurationError(
            f"{where} names the variable {variable}, which is not set", hint=f"set {variable} to {holds}{instead}"
        )
    # Not shown: somebody may have written the secret itself.
    raise ConfigurationError(
        f"{where} names a variable that is not set",
        hint=f"write the name of the variable that holds {holds}, as {example}",
    )


def token_from_file(where: str, path: Path) -> str:
    """The token in a file that only its owner can read; `where` is the setting that names it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise ConfigurationError(
                f"{where} {path} can be read by others (mode {mode:04o})",
                hint=f"run chmod 600 {path}",
            )
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        shown = f" {path}" if path.parent != Path() else ""  # a single word may be the token itself
        raise ConfigurationError(
            f"{where}{shown} cannot be read ({getattr(error, 'strerror', 'it is not UTF-8 text')})",
            hint="write the path of a text file that holds only the token, with mode 0600",
        ) from None
    return checked_token(token, f"the file {path}")


def checked_token(token: str, where: str) -> str:
    """The token. Refuses one that a header cannot carry."""
    if not token or len(token) > TOKEN_CHARACTERS_MAX or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"{where} does not hold a token", hint="it should hold one line of printable ASCII and nothing else"
        )
    return token
