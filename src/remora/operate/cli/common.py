"""What do all commands share? Options, settings and output.

Everything heavy is imported when a command runs, so that `remora --help` answers at once.
"""

# ruff: noqa: PLC0415

import gc
import math
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from remora.core.errors import ConfigurationError, Exit, StoreBusy

if TYPE_CHECKING:
    from remora.operate.config.settings import Settings
    from remora.operate.jobs.progress import ProgressView

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")

# What a command keeps in the context that it shares with `main`.
LOG_CHOICE: Final = f"{__name__}.log"
IS_SERVICE: Final = f"{__name__}.service"

SOURCE_VARIABLE: Final = "REMORA_SOURCE"

# The arguments that name a file or a folder, which may have any name; by the names of their parameters.
PLACES_ON_DISK: Final = frozenset({"config", "faults", "follow", "out", "target"})

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("auto", "text", "json", "journal")


class FiniteRange(click.FloatRange):
    """A number that can be compared: `nan` is in every range, and `inf` has no end."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a mistake in one sentence."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Text(click.types.StringParamType):
    """A text in UTF-8. Other bytes arrive as halves of surrogate pairs, which no database and no request can hold."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text, or a mistake in one sentence."""
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            name = param.opts[0] if isinstance(param, click.Option) else "the argument"
            shown = text.encode("utf-8", "backslashreplace").decode()
            raise ConfigurationError(
                f'{name} "{shown}" has bytes that are no text in UTF-8',
                hint="write it in UTF-8, as the terminal does by default",
            ) from None
        return text


def take_texts_only(command: click.Command) -> None:
    """Let this command, and every command below it, refuse what is no text, apart from places on a disk."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.StringParamType) and parameter.name not in PLACES_ON_DISK:
            parameter.type = Text()
    if isinstance(command, click.Group):
        for below in command.commands.values():
            take_texts_only(below)


def log_options(command: Command) -> Command:
    """The options of every command that logs; `start_logs` uses what was chosen."""

    @wraps(command)
    def with_logs(*, log_level: str | None, log_format: str, verbose: bool, **extra: Any) -> Any:
        level = log_level or ("info" if verbose else None)
        click.get_current_context().meta[LOG_CHOICE] = (level, log_format)
        if log_format != "auto":
            # A refusal of the configuration comes before `start_logs`, and is a line of the same log.
            _set_up(None, level, log_format)
        return command(**extra)

    for option in (
        click.option("--verbose", is_flag=True, help="The same as --log-level info."),
        click.option(
            "--log-format",
            type=click.Choice(LOG_FORMATS),
            default="auto",
            metavar="FORMAT",
            help="How events read: text, json, journal or auto.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(LOG_LEVELS),
            metavar="LEVEL",
            help="Log what is debug, info, warning or error and above.",
        ),
    ):
        with_logs = option(with_logs)
    return cast("Command", with_logs)


def start_logs(settings: "Settings", *, is_service: bool = False) -> None:
    """Log as the options of the command say."""
    meta = click.get_current_context().meta
    _set_up(settings, *meta[LOG_CHOICE], is_service=is_service)
    meta[IS_SERVICE] = is_service


def writes_events(meta: Mapping[str, Any], code: Exit) -> bool:
    """Whether the last line of a failure belongs into a log for machines.

    A refusal is text unless events were asked for: whoever started the command corrects something.
    """
    _, log_format = meta.get(LOG_CHOICE, (None, "auto"))
    if log_format == "auto":
        return bool(meta.get(IS_SERVICE)) and code is not Exit.USAGE
    return bool(log_format != "text")


def _set_up(settings: "Settings | None", level: str | None, log_format: str, *, is_service: bool = False) -> None:
    from remora.operate.observe.log_format import LogFormat
    from remora.operate.observe.logs import set_up_logs

    set_up_logs(settings, level=level, log_format=LogFormat(log_format), is_service=is_service)


def store_options(command: Command) -> Command:
    """The options of every command that works on a mirror."""
    for option in (
        click.option("--source", envvar=SOURCE_VARIABLE, metavar="NAME", help="The configured source to work on."),
        click.option("--store", metavar="URL", help="The store of the mirror, as sqlite:///remora.db."),
        click.option("--config", metavar="FILE", help="The configuration. Default: ./remora.toml if present."),
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    """The options of every command that talks to a source."""
    for option in (
        click.option("--ceiling", metavar="RATE", help="The most requests to send, as 240/min or 250/s."),
        click.option("--url", metavar="BASE", help="The address of the source, instead of the configured one."),
    ):
        command = option(command)
    return store_options(command)


def check_one_name(name: str | None, source: str | None) -> None:
    """Refuse two different names where one source is expected. A name on the command line wins over the variable."""
    if name is not None and source is not None and name != source and is_written("source"):
        raise ConfigurationError(f"both {name} and --source {source} are named", hint="write one of them")


def is_written(option: str) -> bool:
    """Whether an option is on the command line, not only in a variable."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def load_settings(
    *,
    config: str | None = None,
    store: str | None = None,
    source: str | None = None,
    url: str | None = None,
    ceiling: str | None = None,
    listen: str | None = None,
) -> "Settings":
    """All settings. The command line wins over the environment and the file."""
    from remora.operate.config.reader import load
    from remora.operate.config.settings import Flags

    flags = Flags(config=config, store=store, source=source, url=url, ceiling=ceiling, listen=listen)
    return load(flags, os.environ)


@contextmanager
def if_busy(hint: str) -> Iterator[None]:
    """Replace the hint of `StoreBusy` by what it means for this command."""
    try:
        yield
    except StoreBusy as busy:
        raise StoreBusy(busy.message, hint=hint) from None


def view_for(*, as_json: bool, is_service: bool = False) -> "ProgressView":
    """The view that shows the progress of a long job. A service that nobody watches writes a log, not progress."""
    from remora.operate.observe.logs import is_read_by_machines

    if as_json:
        from remora.operate.jobs.progress import JsonView

        return JsonView()
    if sys.stderr.isatty() and not is_read_by_machines():
        from remora.operate.cli.terminal import TerminalView

        return TerminalView()
    from remora.operate.jobs.progress import PlainView, ServiceView

    return ServiceView() if is_service or is_read_by_machines() else PlainView()


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    import msgspec

    click.echo(msgspec.json.encode(value))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a short piece of asynchronous work to its end."""
    import asyncio

    found: list[T] = []

    async def keep() -> None:
        """Give nothing back: when asyncio is done it puts what its task gave into words, however much that is."""
        found.append(await work)

    if (
        not gc.isenabled()
    ):  # it is off while modules are loaded; a command that runs this again must not keep its garbage
        gc.freeze()
        gc.enable()
    asyncio.run(keep())
    return found[0]


def wall_ns() -> int:
    """Now, for commands that only read."""
    return time.time_ns()
