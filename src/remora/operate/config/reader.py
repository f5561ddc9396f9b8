"""How does what the owner wrote become settings? The shape of the structs is the only list of what may be written."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import inspect

from remora.core.errors import ConfigurationError
from remora.core.quantities import format_exactly
from remora.operate.config.header_names import check_headers
from remora.operate.config.naming import naming
from remora.operate.config.notify_settings import NOTICE_VARIABLES
from remora.operate.config.plain_text import one_line
from remora.operate.config.secrets import shown, without_secrets
from remora.operate.config.settings import (
    DEFAULT_SOURCE,
    FILE_NAME,
    Flags,
    Settings,
    SourceSettings,
)
from remora.operate.config.source_defaults import with_accounts, with_defaults
from remora.sources.fan_out import check_parents
from remora.sources.rules import check_rules

ENVIRONMENT_PREFIX: Final = "REMORA_"
# Each is one flag and one place in the file. SOURCE_KEYS apply to the source that the command means.
ENVIRONMENT_FLAGS: Final = {f"{ENVIRONMENT_PREFIX}{name.upper()}": name for name in Flags.__struct_fields__}
STORE_SCHEMES: Final = ("sqlite", "postgresql", "postgres", "memory")

Table = dict[str, Any]


def load(flags: Flags, environ: Mapping[str, str], *, directory: Path | None = None) -> Settings:
    """All settings. A later layer wins: defaults, the file, REMORA_... variables, flags."""
    flags = _with_environment(flags, environ)
    written = _read_file(flags.config, directory or Path())
    _check_sections(written)
    _overlay_environment(written, environ)
    _overlay_flags(written, flags)
    accounts, sources = (
        {name: _table(table, f"{section}.{name}") for name, table in _section(written, section).items()}
        for section in ("accounts", "sources")
    )
    sources = with_accounts(accounts, sources)
    written["sources"] = {name: with_defaults(name, source) for name, source in sources.items()}
    settings = _read(inspect.type_info(Settings), written, "")
    assert isinstance(settings, Settings), "the root of the settings is read as itself"
    check_store(settings.store.url)
    _check_listen(settings.console.listen)
    _check_command(settings.notify.command)
    settings.notify.check_sources(settings.sources)
    check_parents(
        {name: source.each for name, source in settings.sources.items()},
        {name for name, source in settings.sources.items() if source.capabilities.list},
    )
    return msgspec.structs.replace(
        settings, sources={name: _checked(name, source) for name, source in settings.sources.items()}
    )


def read_source(name: str, table: Table) -> SourceSettings:
    """One source by itself, as its section would be read."""
    where = f"sources.{name}"
    source = _read(inspect.type_info(SourceSettings), with_defaults(name, table), where)
    assert isinstance(source, SourceSettings), "a source is read as itself"
    return _checked(name, source)


# -- layers ------------------------------------------------------------------------------------------------------------


def _read_file(config: str | None, directory: Path) -> Table:
    path = Path(config) if config is not None else directory / FILE_NAME
    try:
        if config is None and not path.is_file():
            return {}
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        hint = 'compare with the file that remora init writes; texts stand in quotes, as ceiling = "250/s"'
        why = error if isinstance(error, tomllib.TOMLDecodeError) else "it is nested too deeply"
        raise ConfigurationError(f"{path} is not valid TOML: {why}", hint=hint) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text", hint="save it as UTF-8 in your editor") from None
    except OSError as error:
        raise ConfigurationError(
            f"the configuration {path} cannot be read ({error.strerror})",
            hint="write the path of an existing file after --config, or run remora init",
        ) from None


def _with_environment(flags: Flags, environ: Mapping[str, str]) -> Flags:
    _refuse_near_misses(environ)
    found = {name: environ[variable] for variable, name in ENVIRONMENT_FLAGS.items() if environ.get(variable)}
    given = {name: value for name in Flags.__struct_fields__ if (value := getattr(flags, name)) is not None}
    return Flags(**{**found, **given})


def _refuse_near_misses(environ: Mapping[str, str]) -> None:
    # Only near misses: container platforms set variables of their own that start with a service's name.
    for variable in environ.keys() - NOTICE_VARIABLES.values():
        own = variable.startswith(ENVIRONMENT_PREFIX) and not variable.startswith(f"{ENVIRONMENT_PREFIX}SOURCES_")
        if own and variable not in ENVIRONMENT_FLAGS and (near := _nearest(variable, ENVIRONMENT_FLAGS)):
            raise ConfigurationError(f"the variable {variable} means nothing to remora", hint=f"did you mean {near}?")


def _overlay_environment(written: Table, environ: Mapping[str, str]) -> None:
    """REMORA_SOURCES_<NAME>_<KEY> sets one key of one source; name and key are in capitals."""
    prefix = f"{ENVIRONMENT_PREFIX}SOURCES_"
    names = {name.upper().replace("-", "_"): name for name in (*_section(written, "sources"), DEFAULT_SOURCE)}
    keys = {key.upper(): key for key in _keys_of(SourceSettings)}
    for variable, value in environ.items():
        if not variable.startswith(prefix):
            continue
        places = [
            (name, rest[len(name) + 1 :]) for name in names if (rest := variable[len(prefix) :]).startswith(f"{name}_")
        ]
        known = [(names[name], keys[key]) for name, key in places if key in keys]
        if not known:
            near = _nearest(variable, [f"{prefix}{name}_{key}" for name in names for key in keys])
            hint = f"did you mean {near}?" if near else f"write {prefix}<NAME>_<KEY>, as {prefix}HACKERNEWS_CEILING"
            raise ConfigurationError(f"the variable {variable} names no source and key", hint=hint)
        name, key = known[0]
        _source_table(written, name)[key] = _value_of(key, value)


def _overlay_flags(written: Table, flags: Flags) -> None:
    if flags.store is not None:
        _section(written, "store")["url"] = flags.store
    if flags.listen is not None:
        _section(written, "console")["listen"] = flags.listen
    if not _section(written, "sources"):
        _source_table(written, DEFAULT_SOURCE)
    if flags.url is None and flags.ceiling is None:
        return
    name = _meant_source(written, flags)
    given = {"url": flags.url, "ceiling": flags.ceiling}
    _source_table(written, name).update({key: value for key, value in given.items() if value is not None})


def _meant_source(written: Table, flags: Flags) -> str:
    names = list(_section(written, "sources"))
    name = flags.source or (names[0] if len(names) == 1 else None)
    if name is None:
        raise ConfigurationError(
            "--url and --ceiling need a source to apply to", hint=f"name it with --source: {', '.join(sorted(names))}"
        )
    if name not in names:
        raise ConfigurationError(
            f"there is no source {name}", hint=f"add [sources.{name}], or pick one of: {', '.join(sorted(names))}"
        )
    return name


# -- reading one value -------------------------------------------------------------------------------------------------


def _read(kind: inspect.Type, value: Any, where: str) -> Any:
    """The value converted to its type."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return extra["reads"](value, where) if extra and "reads" in extra else _read(inner, value, where)
        case inspect.StructType():
            return _read_struct(kind, _table(value, where), where)
        case inspect.DictType(value_type=inner):
            table = _table(value, where)
            return {key: _read(inner, entry, f"{where}.{key}") for key, entry in table.items()}
        case inspect.UnionType(types=types):
            return _read(next(each for each in types if not isinstance(each, inspect.NoneType)), value, where)
        case inspect.EnumType(cls=cls):
            return _read_choice(cls, value, where)
        case inspect.IntType():
            return _read_integer(kind, value, where)
        case inspect.VarTupleType(item_type=inspect.StructType() as inner) if isinstance(value, list):
            return tuple(_read(inner, each, f"{where}[{position}]") for position, each in enumerate(value, start=1))
        case inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            return tuple(_read(inner, each, where) for each in value)
        case inspect.VarTupleType():
            raise ConfigurationError(f"{where} is {shown(value, where)}, not a list", hint=f"write {_key(where)} = […]")
        case inspect.BoolType() if isinstance(value, bool):
            return value
        case inspect.StrType(min_length=0) if value == "":
            return ""
        case inspect.AnyType():
            return value  # the options of a plug-in, which checks them itself
        case inspect.StrType() if isinstance(value, str) and value.strip():
            return one_line(value, where)
        case inspect.StrType():
            raise ConfigurationError(
                f"{where} is {shown(value, where)}, which is not a text", hint=f'write {_key(where)} = "…"'
            )
        case _:
            raise ConfigurationError(f"{where} is {shown(value, where)}", hint="write true or false")


def _read_struct(kind: inspect.StructType, table: Table, where: str) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    for key in table:
        if key not in fields:
            raise unknown_key(key, where, fields)
    for key, field in fields.items():
        if field.required and key not in table:
            raise ConfigurationError(f"{where} has no {key}", hint=_missing_hint(key, where))
    inside = f"{where}." if where else ""
    values = {fields[key].name: _read(fields[key].type, entry, f"{inside}{key}") for key, entry in table.items()}
    with naming(where, SourceSettings.__struct_fields__):
        return kind.cls(**values)


def unknown_key(key: str, where: str, known: Iterable[str]) -> ConfigurationError:
    """The error for an unknown key."""
    near = _nearest(key, known)
    place = f"[{where}]" if where else "the file"
    hint = f"did you mean {near}?" if near else f"known here: {', '.join(sorted(known))}"
    return ConfigurationError(f"{place} has an unknown key {key}", hint=hint)


def _read_choice(cls: Any, value: Any, where: str) -> Any:
    choices = [member.value for member in cls]
    if value not in choices:
        hint = f"write one of: {', '.join(choices)}"
        raise ConfigurationError(f"{where} is {shown(value, where)}, which is not a choice", hint=hint)
    return cls(value)


def _read_integer(kind: inspect.IntType, value: Any, where: str) -> int:
    least = kind.ge if kind.ge is not None else 0
    most = kind.le if kind.le is not None else 1 << 62
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        hint = f"write a whole number from {least:,} to {most:,} without quotes or commas"
        raise ConfigurationError(f"{where} is {shown(value, where)}", hint=hint)
    return value


# -- checks across several values ------------------------------------------------------------------------------------


def _checked(name: str, source: SourceSettings) -> SourceSettings:
    where = f"sources.{name}"
    _check_url(source.url, where)
    check_headers(source.headers, where)
    check_rules(source.rules, where)
    _check_one_credential(source, where)
    if source.timeout_ns <= 0 or source.poll_every_ns <= 0 or source.every_ns <= 0 or source.rescan.every_ns <= 0:
        raise ConfigurationError(
            f"{where} has a span of time that is zero (timeout, poll_every, every or rescan.every)",
            hint='write how long, as "30s"',
        )
    interval_ns = source.ceiling_interval_ns
    if source.jitter_min_ns > interval_ns:
        raise ConfigurationError(
            f"{where}.jitter_min ({format_exactly(source.jitter_min_ns)}) is longer than the ceiling's interval"
            f" ({format_exactly(interval_ns)}), so the ceiling would mean nothing",
            hint=f'write jitter_min = "0ms", or a slower ceiling, as ceiling = "{format_exactly(source.jitter_min_ns)}"',
        )
    jitter_max_ns = min(max(source.jitter_max_ns, source.jitter_min_ns), interval_ns)
    return msgspec.structs.replace(source, jitter_max_ns=jitter_max_ns, url=source.url.rstrip("/"))


def _check_one_credential(source: SourceSettings, where: str) -> None:
    given = [key for key in ("auth", "token_env", "token_file", "token_command") if getattr(source, key) is not None]
    of_secrets = {"authorization", "cookie", *([source.auth.header] if source.auth is not None else [])}
    written = [f"headers.{name}" for name in source.headers if name.lower() in of_secrets]
    if len(given) > 1 or (given and written):
        one, other, *_ = (*given, *written)
        raise ConfigurationError(f"{where} has both {one} and {other}", hint="write one of them")
    _check_command(source.token_command, f"{where}.token_command")


def _check_url(url: str, where: str) -> None:
    hint = 'write the address with its scheme, as url = "https://archive.example/api"'
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigurationError(f"{where}.url is not an address", hint=hint) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"{where}.url contains a user or a password", hint="leave it out and use token_env or token_file"
        )
    if not usable or parts.query or parts.fragment or " " in url:
        raise ConfigurationError(
            f"{where}.url is {shown(without_secrets(url))}, which is not a base address", hint=hint
        )


def check_store(url: str) -> None:
    """Refuse an address that is not one of our stores, or can lead to none."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in STORE_SCHEMES or (scheme == "sqlite" and rest in {"", "/"}):
        # Only the first word is shown: what follows may contain a password.
        word = re.split(r"\W", url.strip(), maxsplit=1)[0]
        raise ConfigurationError(
            f'the store\'s address, which begins with "{word}", names no store of ours',
            hint='write "sqlite:///remora.db" for a file, or "postgresql://user@host/database"',
        )
    if scheme in {"postgresql", "postgres"}:
        from remora.stores.server_address import check_server  # noqa: PLC0415

        check_server(url)


def _check_command(command: str | None, where: str = "notify.command") -> None:
    """Refuse a command that cannot be split into words, without showing it: it may contain a secret address."""
    try:
        shlex.split(command or "")
    except ValueError:
        raise ConfigurationError(f"{where} has a quote that does not end", hint="close it, or leave it out") from None


def _check_listen(listen: str) -> None:
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigurationError(
            f"the console's listen address is {shown(listen)}", hint='write a host and a port, as "127.0.0.1:8611"'
        )


def _check_sections(written: Table) -> None:
    known = _keys_of(Settings)
    for key in written:
        if key not in known:
            raise unknown_key(key, "", known)


# -- small words -------------------------------------------------------------------------------------------------------


def _table(value: Any, where: str) -> Table:
    if isinstance(value, dict):
        return value
    raise ConfigurationError(
        f"{where} is {shown(value, where)}, not a section", hint=f"write [{where}] and its keys below it"
    )


def _section(written: Table, name: str) -> Table:
    return _table(written.setdefault(name, {}), name)


def _source_table(written: Table, name: str) -> Table:
    return _table(_section(written, "sources").setdefault(name, {}), f"sources.{name}")


def _keys_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return struct.__struct_encode_fields__


def _field(struct: inspect.Type, key: str) -> inspect.Type:
    assert isinstance(struct, inspect.StructType), "only structs have fields"
    return next(field.type for field in struct.fields if field.encode_name == key)


def _value_of(key: str, text: str) -> object:
    """A variable is always text. Where a number or a boolean belongs, it is read as one."""
    wanted = _field(inspect.type_info(SourceSettings), key)
    if isinstance(wanted, inspect.BoolType):
        return {"true": True, "false": False}.get(text, text)
    return int(text) if _wants_number(wanted) and text.isascii() and text.isdigit() else text


def _wants_number(kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata(type=inner):
            return _wants_number(inner)
        case inspect.UnionType(types=types):
            return any(_wants_number(each) for each in types)
        case _:
            return isinstance(kind, inspect.IntType)


def _nearest(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    found = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return found[0] if found else None


def _missing_hint(key: str, where: str) -> str:
    return f'write {key} = "https://…" in [{where}]' if key == "url" else f"write {key} = … in [{where}]"


def _key(where: str) -> str:
    return where.rpartition(".")[2]
