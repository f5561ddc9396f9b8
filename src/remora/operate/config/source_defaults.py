"""Which settings does a source get from its preset and its kind? Also refuses mixtures that nothing reads."""

from collections.abc import Mapping
from typing import Any, Final

from remora.core.errors import ConfigurationError
from remora.core.quantities import parse_rate
from remora.operate.config.settings import KEYS_OF_ONE_KIND, KIND_DEFAULTS, SourceKind, default_in_flight
from remora.sources.presets import Preset, is_preset, preset_named, preset_names

SOURCE_NAME_HINT: Final = (
    "write a name that begins with a letter, of small letters, digits, - and _, at most 32 characters"
)
ITEM_HINT: Final = 'write item = { path = "/item/{id}.json" }'
NEWEST_HINT: Final = 'write newest = { path = "/newest.json", at = "id" }, or at = "." if the body is the number'
# What a source declares. A plug-in declares nothing: its code knows.
DECLARING: Final = frozenset({"item", "newest", "updates", "user", "absent", "public", "list", "detail"})

# What only the account of a source may decide.
OF_THE_ACCOUNT: Final = frozenset({"ceiling", "refusal_limit", "auth", "token_env", "token_file", "token_command"})

Table = dict[str, Any]


def with_defaults(name: str, table: Table) -> Table:
    """The whole table of one source: the owner's keys, then the defaults of its preset and its kind."""
    check_source_name(name)
    preset_name = _preset(name, table)
    preset = None if preset_name is None else preset_named(preset_name)
    kind = _kind(name, table, preset)
    _refuse_keys_of_another_kind(name, kind, table)
    _check_plugin_keys(name, preset, table)
    filled = {**KIND_DEFAULTS[kind], **_brought(preset), **table, "kind": kind}
    if preset_name is not None:
        filled["preset"] = preset_name
    if filled.get("detail") == "inline":  # the short form
        filled["detail"] = {"inline": True}
    if kind == SourceKind.NUMBERED and not _is_plugin(preset):
        _check_numbered(name, filled, table)
    if "in_flight" not in filled:
        filled["in_flight"] = default_in_flight(parse_rate(filled["ceiling"], f"sources.{name}.ceiling"))
    return filled


def with_accounts(accounts: Table, sources: Table) -> Table:
    """The sources' tables, each with the ceiling of the account that it names."""
    for account in accounts:
        check_source_name(account)
        if account in sources and sources[account].get("account") != account:
            raise ConfigurationError(
                f"[accounts.{account}] has the name of a source that does not belong to it",
                hint=f'write account = "{account}" in [sources.{account}], or give the account another name',
            )
    return {name: _with_account(name, accounts, table) for name, table in sources.items()}


def _with_account(name: str, accounts: Table, table: Table) -> Table:
    account = table.get("account")
    if account is None:
        return table
    if account not in accounts:
        known = ", ".join(sorted(accounts)) or "none"
        raise ConfigurationError(
            f'sources.{name}.account is "{account}", and there is no [accounts.{account}]',
            hint=f"add [accounts.{account}] with its ceiling, or pick one of: {known}",
        )
    for key in sorted(OF_THE_ACCOUNT & table.keys()):
        # An account does not know the short forms.
        form = f" as auth = {{ {key.replace('token_', 'bearer_')} = … }}" if key.startswith("token_") else ""
        raise ConfigurationError(
            f"sources.{name} has {key}, but it belongs to the account {account}, which has one for all its sources",
            hint=f"leave it out, or move it to [accounts.{account}]{form}",
        )
    return {**table, **{key: accounts[account][key] for key in OF_THE_ACCOUNT & accounts[account].keys()}}


def check_source_name(name: str) -> None:
    """Names become parts of variables, metrics and paths."""
    is_plain = name.isascii() and name.replace("-", "_").isidentifier() and name == name.lower()
    if not (is_plain and name[0].isalpha() and len(name) <= 32):
        raise ConfigurationError(f'"{name}" cannot be the name of a source', hint=SOURCE_NAME_HINT)


def _preset(name: str, table: Mapping[str, Any]) -> str | None:
    """The preset that is named. A source without preset and kind may be named like a preset."""
    kind = table.get("kind")
    if isinstance(kind, str) and kind not in KIND_DEFAULTS and is_preset(kind):
        raise ConfigurationError(f'sources.{name}.kind is "{kind}", which is a preset', hint=f'write preset = "{kind}"')
    if "preset" not in table and "kind" not in table:
        return name if is_preset(name) else None
    chosen = table.get("preset")
    if chosen is None:
        return None
    preset = preset_named(chosen) if isinstance(chosen, str) else None
    if not isinstance(chosen, str) or preset is None:
        raise ConfigurationError(f"sources.{name}.preset is {chosen!r}", hint=f"there are: {preset_names()}")
    if again := preset.declares.keys() & table.keys():
        key = min(again)
        raise ConfigurationError(
            f"[sources.{name}] has {key}, which the preset {chosen} declares already",
            hint=f"leave {key} out, or leave preset out and declare the whole source",
        )
    return chosen


def _kind(name: str, table: Mapping[str, Any], preset: Preset | None) -> str:
    kind = str(table.get("kind", preset.kind if preset is not None else ""))
    if preset is not None and kind != preset.kind:
        raise ConfigurationError(
            f"sources.{name}.kind is {kind}, but its preset is of kind {preset.kind}", hint="leave kind out"
        )
    if kind not in KIND_DEFAULTS:
        what = f'sources.{name}.kind is "{kind}"' if "kind" in table else f"sources.{name} has no kind"
        raise ConfigurationError(
            what, hint=f'write kind = "numbered" or kind = "listed", or a preset ({preset_names()}), as preset = "…"'
        )
    return kind


def _brought(preset: Preset | None) -> Table:
    if preset is None:
        return {}
    address = {"url": preset.url} if preset.url else {}
    further = {} if preset.plugin is None else preset.plugin.defaults
    return {**address, "ceiling": preset.ceiling, **further, **preset.declares}


def _is_plugin(preset: Preset | None) -> bool:
    return preset is not None and preset.plugin is not None


def _check_plugin_keys(name: str, preset: Preset | None, table: Table) -> None:
    """A plug-in has options and declares nothing; every other source declares and has no options."""
    if _is_plugin(preset):
        for key in sorted(DECLARING & table.keys()):
            raise ConfigurationError(
                f"[sources.{name}] has {key}, but its preset is a plug-in, whose code knows it",
                hint="leave it out; what a plug-in can be told goes into options",
            )
    elif "options" in table:
        raise ConfigurationError(f"[sources.{name}] has options, which only plug-ins read", hint="leave them out")


def _refuse_keys_of_another_kind(name: str, kind: str, table: Table) -> None:
    """A key that nothing would read is a mistake, even where another kind of source knows it."""
    strange = {key: other for other, keys in KEYS_OF_ONE_KIND.items() if other != kind for key in keys & table.keys()}
    if strange:
        key, other = min(strange.items())
        raise ConfigurationError(
            f"[sources.{name}] has {key}, which only sources of kind {other} have",
            hint=f"leave it out: this one is of kind {kind}",
        )


def _check_numbered(name: str, filled: Table, written: Table) -> None:
    """A numbered source must say where an item and the newest id are. A rescan by age needs items with a time."""
    for key, hint in (("item", ITEM_HINT), ("newest", NEWEST_HINT)):
        if key not in filled:
            raise ConfigurationError(f"sources.{name} has no {key}", hint=hint)
    item = filled["item"]
    if "rescan" in written and isinstance(item, dict) and "time" not in item:
        raise ConfigurationError(
            f"[sources.{name}] has rescan, but nothing says how old an item is",
            hint='write where an item has its time, as item = { path = "…", time = "created_at" }, or leave rescan out',
        )
