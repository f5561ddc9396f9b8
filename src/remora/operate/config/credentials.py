"""Where does a credential come from? A variable, a file that is read again when it changes, or a command that is run again."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from remora.contracts import Clock
from remora.core.errors import ConfigurationError
from remora.files import write_whole
from remora.operate.config.auth_settings import AuthSettings
from remora.operate.config.owned_commands import end_with_children, needs_terminal
from remora.operate.config.secrets import checked_token, key_of, oauth_secret, token_from_environment, token_from_file
from remora.operate.config.settings import SourceSettings, account_of
from remora.sources.auth import Credential, Issued, SecretOrigin, issued
from remora.sources.oauth import FromTokenEndpoint, OwnersSecret
from remora.sources.secret import Secret

log = structlog.get_logger()

COMMAND_MAX_S: Final = 30.0
# A command that takes longer than this is told, so that nobody wonders what is waited for.
COMMAND_TOLD_AFTER_S: Final = 2.0
# Far more than a secret has. A command that prints without end must not fill the memory.
PRINTED_BYTES_MAX: Final = 65_536


class Credentials:
    """The credentials of one process, one per account. A secret that cannot be read is refused when it is opened."""

    def __init__(self, sources: Mapping[str, SourceSettings], environ: Mapping[str, str], *, clock: Clock) -> None:
        self._sources = sources
        self._environ = environ
        self._clock = clock
        self._open: dict[str, Credential | None] = {}

    def of(self, name: str) -> Credential | None:
        """The credential of this source's account; None if it needs none."""
        source = self._sources[name]
        account = account_of(name, source)
        if account not in self._open:
            self._open[account] = open_credential(name, source, self._environ, clock=self._clock)
        return self._open[account]

    async def check(self, name: str, *, only_open: bool = False) -> None:
        """Refuse a secret that cannot be read. One from a token endpoint is requested later, through the gate.

        `only_open`: a command that prints it is not run.
        """
        credential = self.of(name)
        if credential is not None and not only_open and not isinstance(credential.origin, FromTokenEndpoint):
            await credential.require()


def open_credential(
    name: str, source: SourceSettings, environ: Mapping[str, str], *, clock: Clock
) -> Credential | None:
    """The credential of a source; None if it needs none."""
    auth = source.credential
    if auth is None:
        return None
    origin = _origin(key_of(name, source), auth, environ)
    return Credential(auth.way, origin, clock=clock, name=auth.name or "", account=account_of(name, source))


def _origin(key: str, auth: AuthSettings, environ: Mapping[str, str]) -> SecretOrigin:
    """Where the secret comes from."""
    kind, text = auth.origin
    where = f"{key}_{kind}"
    match kind:
        case "env":
            return FromEnvironment(where, text, environ)
        case "file":
            return FromFile(where, Path(text).expanduser())
        case "oauth":
            return _token_endpoint(key.removesuffix(f".{auth.way}"), auth, environ)
        case _:
            return FromCommand(where, text)


def _token_endpoint(key: str, auth: AuthSettings, environ: Mapping[str, str]) -> FromTokenEndpoint:
    assert auth.oauth_url is not None, "checked when it was read"
    assert auth.client_id is not None, "checked when it was read"
    return FromTokenEndpoint(
        f"{key}.oauth_url",
        auth.oauth_url,
        client_id=auth.client_id,
        client_secret=_owners_secret(key, auth, "client_secret", environ),
        refresh_token=_owners_secret(key, auth, "refresh_token", environ),
        scope=auth.scope,
    )


def _owners_secret(key: str, auth: AuthSettings, name: str, environ: Mapping[str, str]) -> OwnersSecret | None:
    """The client secret or the refresh token; None if there is none."""
    secret = oauth_secret(key, auth, name, environ)
    if secret is None:
        return None
    file = getattr(auth, f"{name}_file")
    return InMemory(secret) if file is None else InFile(f"{key}.{name}_file", Path(file).expanduser(), secret)


class InMemory:
    """`OwnersSecret` that came from a variable. One that the provider replaces is lost with the process."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def now(self) -> Secret:
        return self._secret

    def replace(self, secret: Secret) -> None:
        self._secret = secret


class InFile:
    """`OwnersSecret` in a file. What its owner writes there wins over what the provider gave."""

    def __init__(self, where: str, path: Path, secret: Secret) -> None:
        self._where = where
        self._path = path
        self._secret = secret
        self._in_file = secret.reveal()  # what the file held when it was last read or written

    def now(self) -> Secret:
        """The last one stays in use while the file cannot be read."""
        with suppress(ConfigurationError):
            found = token_from_file(self._where, self._path)
            if found != self._in_file:
                self._secret, self._in_file = Secret(found), found
        return self._secret

    def replace(self, secret: Secret) -> None:
        """One that cannot be written is used all the same, told, and written with the next answer."""
        last = self._secret
        if self.now() is not last:
            return  # its owner has written another one meanwhile
        self._secret = secret
        if secret.reveal() != self._in_file:
            self._write(secret.reveal())

    def _write(self, text: str) -> None:
        """Replace the file whole: a crash in between must lose neither the old token nor the new one."""
        try:
            write_whole(self._path, text.encode())
        except OSError as error:
            log.warning("refresh_token_not_kept", setting=self._where, why=error.strerror or type(error).__name__)
        else:
            self._in_file = text.strip()  # as it will be read


class FromEnvironment:
    """A variable, which never changes while the process runs."""

    def __init__(self, where: str, variable: str, environ: Mapping[str, str]) -> None:
        self._secret = Secret(token_from_environment(where, variable, environ))

    def has_changed(self) -> bool:
        return False

    async def read(self) -> Issued:
        return Issued(self._secret)


class FromFile:
    """A file, read again when it was written or replaced."""

    def __init__(self, where: str, path: Path) -> None:
        self._where = where
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        token_from_file(where, path)  # report an unreadable file before anything starts

    def has_changed(self) -> bool:
        return self._look() != self._seen

    async def read(self) -> Issued:
        self._seen = self._look()
        return Issued(Secret(token_from_file(self._where, self._path)))

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - before every request: a tenth of the time of Path.stat
        except OSError:
            return self._seen  # while it is being replaced, the last secret is used
        return found.st_ino, found.st_mtime_ns, found.st_size


class _Answer(msgspec.Struct):
    """What a command may print instead of the bare secret."""

    expires_in: float | None = None
    token: str | None = None
    access_token: str | None = None


@asynccontextmanager
async def _reading(pipe: int) -> AsyncIterator[asyncio.StreamReader]:
    """A reader of this end of a pipe, which it closes."""
    reader = asyncio.StreamReader()
    # The transport closes the pipe, nobody else: uvloop does it later, when the number may be another file's.
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What arrives until it is closed, or a little more than a secret may have."""
    printed = b""
    while len(printed) <= PRINTED_BYTES_MAX and (some := await reader.read(PRINTED_BYTES_MAX)):
        printed += some
    return printed


class FromCommand:
    """A command that prints the secret, or JSON with `token` (or `access_token`) and `expires_in` in seconds."""

    def __init__(self, where: str, command: str, *, told_after_s: float = COMMAND_TOLD_AFTER_S) -> None:
        self._where = where
        self._told_after_s = told_after_s
        try:
            self._words = shlex.split(command)
        except ValueError:
            raise ConfigurationError(f"{where} has a quote that does not end", hint="close it") from None

    def has_changed(self) -> bool:
        return False

    async def read(self) -> Issued:
        """Run it. Its output is never shown, because it may be the secret."""
        awaited = asyncio.get_running_loop().call_later(self._told_after_s, self._tell)
        try:
            async with asyncio.timeout(COMMAND_MAX_S):
                printed, code = await self._run()
        except TimeoutError:
            raise ConfigurationError(
                f"{self._where} took longer than {COMMAND_MAX_S:.0f} s", hint="make it quicker"
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"{self._where} cannot be run ({error.strerror})", hint="write the whole path of a program"
            ) from None
        finally:
            awaited.cancel()
        if len(printed) > PRINTED_BYTES_MAX:
            raise ConfigurationError(
                f"{self._where} prints more than {PRINTED_BYTES_MAX:,} bytes", hint="let it print the token only"
            )
        if code:
            raise ConfigurationError(
                f"{self._where} ended with code {code}", hint="run it by hand: it should print the token"
            )
        return self._issued(printed.decode("utf-8", "replace").strip())

    async def _run(self) -> tuple[bytes, int]:
        """What it printed, and how it ended.

        The pipe is our own: asyncio counts a process as running while one of its pipes is open, and a program that the
        command has started may hold it for ever.
        """
        ours, theirs = os.pipe()
        async with _reading(ours) as reader:
            process = await self._start(stdout=theirs)
            try:
                printed = await _read_to_end(reader)
                if len(printed) <= PRINTED_BYTES_MAX:
                    return printed, await process.wait()
            except asyncio.CancelledError:  # or the time is up
                await end_with_children(process)
                raise
            await end_with_children(process)
            return printed, process.returncode or 0

    async def _start(self, *, stdout: int) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=not needs_terminal(),
            )
        finally:
            os.close(stdout)

    def _tell(self) -> None:
        log.warning("credential_awaited", setting=self._where, most_s=COMMAND_MAX_S)

    def _issued(self, printed: str) -> Issued:
        if not printed.startswith("{"):
            return Issued(Secret(checked_token(printed, f"what {self._where} prints")))
        try:
            answer = msgspec.json.decode(printed, type=_Answer)
        except msgspec.DecodeError:
            raise ConfigurationError(
                f"{self._where} prints JSON that has no token", hint='print {"token": "…"}'
            ) from None
        token = checked_token(answer.token or answer.access_token or "", f"what {self._where} prints")
        return issued(Secret(token), answer.expires_in)
