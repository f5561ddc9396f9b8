"""What does a command that fails say last, and with which exit code? One line on stderr that gives the reason."""

# ruff: noqa: PLC0415

import gc
import os
import sys
from contextlib import suppress
from errno import EACCES, EBADF, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn

import click

from remora.core.errors import DISK_ERRORS, Exit, RemoraError

# Every part that opens files turns these errors into its own. What is left can only come from printing.
OUTPUT_ERRORS: Final = DISK_ERRORS | {EBADF}
# A place that somebody named and that cannot be reached: even the look whether something is there fails.
PLACE_ERRORS: Final = frozenset({EACCES, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS})
PACKAGE: Final = "remora"


def make_stdout_fail_if_closed() -> None:
    """Without stdout (`>&-`) Python has None there, and what is printed would be lost without a word.

    A reader of changes would even be remembered as if it had them. Writing to what is open for reading only fails.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # the first free number: 1


def make_stdout_take_every_character() -> None:
    """What the encoding of a terminal lacks (latin-1 has no €) is printed as its number, as on stderr; it ends no command.

    What machines read is written as bytes and is not touched.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def explain(error: Exception) -> tuple[str, Exit]:
    """The last line for an error that ends the process, and the exit code. Logs the traceback of a bug."""
    if isinstance(error, RemoraError):
        # A refusal is read by a person who corrects something; a failure is read as the last line of a log.
        separator = "\n  " if error.exit_code is Exit.USAGE else "; "
        return f"remora: {error.message}{separator}{error.hint}", error.exit_code
    if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and error.filename is None:
        return (
            f"remora: the output cannot be written ({error.strerror}); free some space or write elsewhere",
            Exit.FAILED,
        )
    place = _leaf(error)
    if isinstance(place, OSError) and place.errno in PLACE_ERRORS and place.filename is not None:
        hint = "name another place, or let this user enter its folder"
        return f"remora: {place.filename} cannot be used ({place.strerror})\n  {hint}", Exit.USAGE
    _log_traceback(error)
    what = f"{type(_leaf(error)).__name__}{_place(_leaf(error)) or _place(error)}"
    return f"remora: stopped by a bug ({what}); please report the traceback above, the next start resumes", Exit.FAILED


def end(words: str, code: Exit, *, as_event: bool = False) -> NoReturn:
    """Print the last line, as an event where stderr is a log for machines, and exit. Nothing is printed after it."""
    gc.collect()  # asyncio reports an error that nobody read when the task is freed; let it do so before the last line
    _drop_unwritable_output()
    with suppress(OSError):
        if as_event:
            from remora.operate.observe.logs import tell

            tell(words, is_failure=True)
        else:
            click.echo(words, err=True)
    sys.exit(code)


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _place(error: BaseException) -> str:
    """The last line of our own code that the error came through. Never the error's text, which may hold a secret."""
    found = ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if PACKAGE in path.parts:
            inside = path.parts[len(path.parts) - 1 - path.parts[::-1].index(PACKAGE) :]
            found = f" at {'/'.join(inside)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _log_traceback(error: Exception) -> None:
    import structlog

    from remora.operate.observe.logs import set_up_logs

    if not structlog.is_configured():  # a command that only reads
        set_up_logs()
    log = structlog.get_logger()
    log.error("stopped_by_a_bug", error=type(_leaf(error)).__name__, exc_info=error)


def _drop_unwritable_output() -> None:
    """Point stdout at nothing if it cannot be flushed, or Python reports the same error again when it exits."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
