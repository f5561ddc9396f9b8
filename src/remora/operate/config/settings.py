"""What did the owner decide? One frozen value, read once: defaults, then remora.toml, the environment, the flags.

`Settings` has the shape of the file; `load` reads it. Every mistake is one sentence and what to write instead.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from math import ceil
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from remora.contracts import Capabilities, SourcePlugin
from remora.core.errors import ConfigurationError
from remora.core.quantities import parse_duration, parse_rate, parse_size
from remora.core.rate.refusal_limit import RefusalLimit, parse_refusal_limit
from remora.core.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS
from remora.operate.config.auth_settings import AuthSettings
from remora.operate.config.notify_settings import NotifySettings as NotifySettings
from remora.sources.declaration import (
    AbsentSettings,
    Declaration,
    ItemSettings,
    NewestSettings,
    UpdatesSettings,
    UserSettings,
)
from remora.sources.detail_settings import DetailSettings, capabilities_of, entry_fields
from remora.sources.fan_out import check_each, placeholders
from remora.sources.json_path import is_steps
from remora.sources.paging import ListSettings
from remora.sources.plugins import plugin_named
from remora.sources.presets import PRESETS
from remora.sources.rules import Rule
from remora.sources.transport.settings import Client
from remora.sources.transport.way_out import parse_proxy

FILE_NAME: Final = "remora.toml"
DEFAULT_SOURCE: Final = "hackernews"
DEFAULT_STORE: Final = "sqlite:///remora.db"
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
DEFAULT_LISTEN: Final = "127.0.0.1:8611"
# The default number of requests in flight is enough for a provider that takes this long to answer.
LATENCY_COVERED_S: Final = 0.256
IN_FLIGHT_LEAST: Final = 4
IN_FLIGHT_MOST: Final = 256

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")

Duration = Annotated[int, msgspec.Meta(extra={"reads": parse_duration})]
Interval = Annotated[int, msgspec.Meta(extra={"reads": parse_rate})]
Size = Annotated[int, msgspec.Meta(extra={"reads": parse_size})]
Refusals = Annotated[RefusalLimit, msgspec.Meta(extra={"reads": parse_refusal_limit})]


def parse_window(value: object, where: str) -> int:
    """A rescan window; "auto" is 0 and lets the update ages decide."""
    return 0 if value == "auto" else parse_duration(value, where)


def parse_max_seconds(value: object, where: str) -> int:
    """A run's wall clock: a number of seconds or a span of time."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    span_ns = int(float(str(value)) * SECOND_NS) if number else parse_duration(value, where)
    if span_ns <= 0:
        raise ConfigurationError(f"{where} is {value}, which leaves no time", hint='write seconds, as 900, or "15m"')
    return span_ns


def parse_hosts(value: object, where: str) -> tuple[str, ...]:
    """Host names of the console, without scheme and port."""
    if isinstance(value, list) and all(isinstance(name, str) and _HOST_NAME.fullmatch(name) for name in value):
        return tuple(name.lower() for name in value)
    raise ConfigurationError(
        f"{where} is {value}, which is not a list of names",
        hint='write names without scheme and port, as hosts = ["mirror.example.org"]',
    )


Window = Annotated[int, msgspec.Meta(extra={"reads": parse_window})]
Hosts = Annotated[tuple[str, ...], msgspec.Meta(extra={"reads": parse_hosts})]
Seconds = Annotated[int, msgspec.Meta(extra={"reads": parse_max_seconds})]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]
Workers = Annotated[int, msgspec.Meta(ge=1, le=1_024)]


class SourceKind(StrEnum):
    """What kind of source it is."""

    NUMBERED = "numbered"  # integer ids and a highest one, perhaps a stream of changes
    LISTED = "listed"  # a list newest first, and one detail request per entry


class StoreSettings(msgspec.Struct, frozen=True):
    """Where the mirror is stored."""

    url: str = DEFAULT_STORE

    def __repr__(self) -> str:
        # The address may contain a password.
        return f"StoreSettings({urlsplit(self.url).scheme}://…)"


class ConsoleSettings(msgspec.Struct, frozen=True):
    """Where the status page is served, under which names, and which token a visitor needs."""

    listen: str = DEFAULT_LISTEN
    hosts: Hosts = ()
    token_env: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        if self.token_env is not None and self.token_file is not None:
            raise ConfigurationError("console has both token_env and token_file", hint="write one of them")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; checked when the settings were read."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach it."""
        return self.address[0] in LOOPBACK_NAMES


class RescanSettings(msgspec.Struct, frozen=True):
    """How often recent items are read again, and how far back."""

    every_ns: Duration = msgspec.field(default=6 * HOUR_NS, name="every")
    window_ns: Window = msgspec.field(default=3 * DAY_NS, name="window")  # 0: from the ages of updates


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the provider counts: one ceiling and one credential for all its sources."""

    ceiling_interval_ns: Interval = msgspec.field(name="ceiling")
    refusal_limit: Refusals | None = None
    auth: AuthSettings | None = None


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One source. Only `ceiling` decides about speed; everything else can only make it slower."""

    kind: SourceKind
    preset: str | None = None
    url: str
    account: str | None = None
    ceiling_interval_ns: Interval = msgspec.field(name="ceiling")
    refusal_limit: Refusals | None = None
    in_flight: Workers
    jitter_max_ns: Duration = msgspec.field(default=20 * MILLISECOND_NS, name="jitter")
    jitter_min_ns: Duration = msgspec.field(default=0, name="jitter_min")
    contact: str | None = None
    timeout_ns: Duration = msgspec.field(default=30 * SECOND_NS, name="timeout")
    body_max: Size = 16 << 20
    client: Client = Client.LEAN
    proxy: str | None = None
    ca_file: str | None = None
    item: ItemSettings | None = None
    newest: NewestSettings | None = None
    updates: UpdatesSettings | None = None
    user: UserSettings | None = None
    absent: AbsentSettings = AbsentSettings()
    public: bool = False
    first_id: Count = 1
    rescan: RescanSettings = RescanSettings()
    workers: Workers = 8
    poll_every_ns: Duration = msgspec.field(default=15 * SECOND_NS, name="poll_every")
    token_env: str | None = None
    token_file: str | None = None
    token_command: str | None = None
    auth: AuthSettings | None = None
    headers: dict[str, str] = {}
    options: dict[str, Any] = {}
    each: str | None = None
    list: ListSettings = ListSettings()
    detail: DetailSettings = DetailSettings()
    rules: tuple[Rule, ...] = ()
    every_ns: Duration = msgspec.field(default=15 * 60 * SECOND_NS, name="every")
    max_wall_ns: Seconds | None = msgspec.field(default=None, name="max_seconds")
    max_fetches: Count | None = None

    @property
    def credential(self) -> AuthSettings | None:
        """What is declared as `auth`, or in its short form: `token_env`, `token_file` or `token_command`."""
        env, file, command = self.token_env, self.token_file, self.token_command
        if self.auth is not None or (env is None and file is None and command is None):
            return self.auth
        return AuthSettings(bearer_env=env, bearer_file=file, bearer_command=command)

    def __post_init__(self) -> None:
        # Building the declaration refuses parts that do not fit together.
        _ = self.capabilities
        self._check_each()
        if self.proxy is not None:
            parse_proxy(self.proxy)
        if self.detail.inline and not is_steps(self.list.entries):
            raise ConfigurationError(
                f"detail is inline, but list.entries is the expression {self.list.entries}",
                hint='write a path to the entries, as entries = "data.rows": their bodies are kept as they came',
            )

    def _check_each(self) -> None:
        in_list = [*placeholders(self.list.path, self.list.body)]
        check_each(self.each, in_list=in_list, elsewhere=entry_fields(self.list, self.detail))

    @property
    def ceiling_per_s(self) -> float:
        """The owner's one number, in requests per second."""
        return SECOND_NS / self.ceiling_interval_ns

    @property
    def declaration(self) -> Declaration:
        """The declaration of a numbered source."""
        assert self.item is not None, "a numbered source says where an item is"
        assert self.newest is not None, "a numbered source says where the newest id is"
        return Declaration(
            item=self.item,
            newest=self.newest,
            updates=self.updates,
            user=self.user,
            absent=self.absent,
            public=self.public,
        )

    @property
    def newest_path(self) -> str:
        """Where the newest id is told; empty if only a plug-in knows."""
        return "" if self.newest is None else self.newest.path

    @property
    def plugin(self) -> SourcePlugin | None:
        """The plug-in that makes the source; None: it is declared."""
        return None if self.preset is None or self.preset in PRESETS else plugin_named(self.preset)

    @property
    def capabilities(self) -> Capabilities:
        """What the source can do, known before it is opened. The only place that asks for the kind."""
        if (plugin := self.plugin) is not None:
            return plugin.capabilities
        match self.kind:
            case SourceKind.NUMBERED:
                return self.declaration.capabilities
            case SourceKind.LISTED:
                return capabilities_of(self.list, self.detail, self.each)

    def __repr__(self) -> str:
        # Headers may contain secrets. The address does not: credentials in it are refused.
        return f"SourceSettings({self.kind}, {self.url}, one request per {self.ceiling_interval_ns} ns)"


class Settings(msgspec.Struct, frozen=True):
    """Everything the owner decided."""

    store: StoreSettings = StoreSettings()
    accounts: dict[str, AccountSettings] = {}
    sources: dict[str, SourceSettings] = {}
    console: ConsoleSettings = ConsoleSettings()
    notify: NotifySettings = NotifySettings()


class Flags(msgspec.Struct, frozen=True):
    """What the command line says; None where it says nothing."""

    config: str | None = None
    store: str | None = None
    url: str | None = None
    ceiling: str | None = None
    source: str | None = None
    listen: str | None = None


KIND_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    SourceKind.NUMBERED: {"ceiling": "60/min"},
    SourceKind.LISTED: {"ceiling": "60/min", "in_flight": 1},
}


KEYS_OF_ONE_KIND: Final[Mapping[str, frozenset[str]]] = {
    SourceKind.NUMBERED: frozenset(
        {"item", "newest", "updates", "user", "absent", "public", "first_id", "workers", "poll_every", "rescan"}
    ),
    SourceKind.LISTED: frozenset({"every", "max_seconds", "max_fetches", "each", "list", "detail"}),
}


def default_in_flight(ceiling_interval_ns: int) -> int:
    """The requests in flight that the ceiling needs at a usual latency."""
    needed = ceil(LATENCY_COVERED_S * SECOND_NS / ceiling_interval_ns)
    return max(IN_FLIGHT_LEAST, min(IN_FLIGHT_MOST, needed))


def pick_numbered(settings: Settings, name: str | None) -> str:
    """The numbered source a command means: the named one, or the only one."""
    return _pick(settings, name, SourceKind.NUMBERED)


def account_of(name: str, source: SourceSettings) -> str:
    """The account that a source belongs to: the one it names, or its own."""
    return source.account or name


def pick_listed(settings: Settings, name: str | None) -> str:
    """The listed source a command means: the named one, or the only one."""
    return _pick(settings, name, SourceKind.LISTED)


def _pick(settings: Settings, name: str | None, kind: SourceKind) -> str:
    names = [known for known, source in settings.sources.items() if source.kind is kind]
    listed = ", ".join(sorted(settings.sources)) or "none"
    if name is None:
        if len(names) == 1:
            return names[0]
        few = "no source" if not names else "more than one source"
        raise ConfigurationError(
            f"there is {few} of kind {kind} to choose from", hint=f"name one with --source; configured: {listed}"
        )
    known_source(settings, name)
    if name not in names:
        raise ConfigurationError(
            f"source {name} is {settings.sources[name].kind}, not {kind}", hint=_other_command(settings.sources[name])
        )
    return name


def known_source(settings: Settings, name: str) -> str:
    """The name itself. Refuses a source that does not exist."""
    if name in settings.sources:
        return name
    listed = ", ".join(sorted(settings.sources)) or "none"
    raise ConfigurationError(
        f"there is no source {name}", hint=f"configured: {listed}; add [sources.{name}] or pick one"
    )


def _other_command(source: SourceSettings) -> str:
    match source.kind:
        case SourceKind.NUMBERED:
            return "use remora catchup or remora up for it"
        case SourceKind.LISTED:
            return "use remora run for it"
