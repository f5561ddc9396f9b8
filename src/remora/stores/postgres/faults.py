"""What does a PostgreSQL error mean for us, and what can the operator do about it?

Messages name the kind of error and its code, never the server's own text, because that may quote an item's content.
"""

import re
from typing import Final

import psycopg

from remora.core.errors import StoreError, StoreRefused, StoreUnavailable


class ConnectionLost(StoreUnavailable):
    """The connection broke during a statement. Whether the statement took effect is unknown."""


class Conflict(StoreUnavailable):
    """Two transactions changed the same rows. The work succeeds when it is repeated."""


class LockTimeout(StoreUnavailable):
    """Another session held a lock for longer than we wait."""


class BadRow(StoreError):
    """The server refuses a value. The other rows are not at fault."""


CONFLICTS: Final = frozenset({"40001", "40P01", "23505"})
# Data the server cannot take: class 22 (wrong data), class 54 (too large) and broken checks.
BAD_ROW_PREFIXES: Final = ("22", "54", "23514", "23502")
CONNECTION_PREFIXES: Final = ("08", "57P")
# Trouble of the server's own: no room or memory, and a disk that cannot be read or written.
SERVER_PREFIXES: Final = ("53", "58")

LOCK_NOT_FREE: Final = "55P03"

# What the operator can do, by SQLSTATE. All of these may be temporary.
PASSING: Final[dict[str, tuple[str, str]]] = {
    "25006": (
        "PostgreSQL accepts no writes here: this server is read-only",
        "point the store's URL at the primary, or list all hosts in it with target_session_attrs=read-write; a running Remora goes on by itself",
    ),
    "53100": (
        "PostgreSQL's disk is full",
        "free or add disk space on the database's host; a running Remora goes on by itself",
    ),
    "53200": ("PostgreSQL is out of memory", "lower work_mem or give the server more memory"),
    "53300": (
        "PostgreSQL has no free connection",
        "raise max_connections, and the connection limit of the role and the database, or run fewer processes",
    ),
    LOCK_NOT_FREE: (
        "a lock was not free in time",
        "look in pg_stat_activity for a session that holds a transaction open on Remora's tables",
    ),
    "57014": (
        "a statement ran into its time limit",
        "look for load or long locks on the database's host; Remora tries again by itself",
    ),
    "25P03": ("a transaction was idle for too long and was ended", "this process or host stalls; look at its load"),
    "25P04": ("a transaction ran for too long and was ended", "look for load on the database's host"),
}

# These last until somebody acts.
LASTING: Final[dict[str, tuple[str, str]]] = {
    "42501": (
        "the database role lacks a right that Remora needs",
        "grant it, or run `remora store migrate --grant-to ROLE` as the owner; docs/scaling.md lists the rights",
    ),
    "28P01": (
        "PostgreSQL refused the password",
        "check the user and password in the store's URL; in it, @ is written %40, : %3A and / %2F",
    ),
    "28000": (
        "PostgreSQL refused the user",
        "check the user in the store's URL and the server's pg_hba.conf; it may ask for encryption: sslmode=require",
    ),
    "3D000": (
        "the database does not exist",
        "create it with `createdb`, or correct its name behind the last / of the store's URL",
    ),
}

# The schema is missing or incomplete: somebody must create it, or is restoring it right now.
FOREIGN: Final = frozenset({"42P01", "42703", "3F000"})


# A refused connection has no code. Only the server's message tells why, and only if it is in English.
REFUSALS: Final = (
    ("password authentication failed", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("no password supplied", "28P01"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
    ("too many connections for", "53300"),
    ("is not permitted to log in", "28000"),
    ("permission denied for database", "42501"),
    ("session is read-only", "25006"),
    ("server is in hot standby mode", "25006"),
)
# Faults of the address itself, or of the encryption it asks for: what happened, and what to write.
MISTAKES: Final = (
    (
        "invalid sslmode value",
        "the store's URL has an sslmode that does not exist",
        "write one of disable, allow, prefer, require, verify-ca and verify-full",
    ),
    (
        "does not support SSL",
        "the server offers no encryption, and the store's URL asks for it",
        "write sslmode=prefer, or switch on ssl in the server's postgresql.conf",
    ),
    (
        "root certificate file",
        "the certificate to know the server by is missing",
        "name its file with sslrootcert=FILE, or write sslmode=require to encrypt without knowing the server",
    ),
    (
        "certificate verify failed",
        "the server's certificate is signed by nobody we know",
        "name the signer's certificate with sslrootcert=FILE in the store's URL",
    ),
    (
        "does not match host name",
        "the server's certificate was made for another name",
        "write the name in the certificate as the host of the store's URL, or sslmode=verify-ca",
    ),
    (
        "invalid port number",
        "the store's URL has a port that does not exist",
        "write postgresql://user@host:5432/database",
    ),
    (
        "invalid integer value",
        "the store's URL has a word where a number belongs",
        "write postgresql://user@host:5432/database",
    ),
)
# Why nobody answered, in our own words: the driver's message repeats the address.
CAUSES: Final = (
    ("Connection refused", "nothing listens at its address"),
    ("resolve host", "its host's name is not known"),
    ("timeout expired", "it gave no answer in time"),
    ("No such file or directory", "there is no socket where its URL points"),
    ("invalid response", "what answers at its address is no PostgreSQL"),
    ("unreachable", "there is no way to its host"),
    ("No route to host", "there is no way to its host"),
    ("starting up", "it is still starting"),
    ("not yet accepting connections", "it is still starting"),
    ("recovery mode", "it is recovering from a crash"),
    ("not currently accepting connections", "the database is closed to connections"),
    ("shutting down", "it is shutting down"),
)
_NO_ROLE: Final = re.compile(r'role ".*" does not exist')
_NO_DATABASE: Final = re.compile(r'database ".*" does not exist')


def code_of(error: psycopg.Error) -> str | None:
    """The SQLSTATE, or the one that a refused connection's message means."""
    if error.sqlstate is not None or not isinstance(error, psycopg.OperationalError):
        return error.sqlstate
    words = str(error)
    if _NO_ROLE.search(words):
        return "28000"
    if _NO_DATABASE.search(words):
        return "3D000"
    return next((code for part, code in REFUSALS if part in words), None)


def explained(error: psycopg.Error, *, connected: bool) -> StoreError:
    """Our error for the server's. `connected` says whether the connection survived it."""
    code = code_of(error)
    what = f"{type(error).__name__}, {code or 'no code'}"
    if code in PASSING:
        message, hint = PASSING[code]
        kind = LockTimeout if code == LOCK_NOT_FREE else StoreUnavailable
        return kind(f"{message} ({what})", hint=hint)
    if code in LASTING:
        message, hint = LASTING[code]
        return StoreRefused(message, hint=hint)
    if code is None and (mistake := _mistake(error)) is not None:
        return mistake
    if code in CONFLICTS:
        return Conflict(f"two transactions met on the same rows ({what})", hint="trying again is enough")
    if code in FOREIGN:
        return StoreRefused(f"a table of Remora is missing ({what})", hint="run `remora store migrate`")
    if code is not None and code.startswith(BAD_ROW_PREFIXES):
        return BadRow(f"PostgreSQL refuses a value ({what})", hint="this is a mistake in Remora; please report it")
    if code is not None and code.startswith(SERVER_PREFIXES):
        return StoreUnavailable(
            f"PostgreSQL has trouble of its own ({what})",
            hint="look into the server's log for the reason; Remora goes on by itself",
        )
    if not connected or code is None or code.startswith(CONNECTION_PREFIXES):
        cause = next((cause for part, cause in CAUSES if part in str(error)), None)
        return ConnectionLost(
            f"PostgreSQL cannot be reached, {cause}" if cause else f"the connection to PostgreSQL is lost ({what})",
            hint="check that the server runs and that the store's URL leads to it; a running Remora reconnects by itself",
        )
    return StoreError(f"PostgreSQL refused a statement ({what})", hint="look into the server's log for the reason")


def _mistake(error: psycopg.Error) -> StoreRefused | None:
    words = str(error)
    return next((StoreRefused(message, hint=hint) for part, message, hint in MISTAKES if part in words), None)
