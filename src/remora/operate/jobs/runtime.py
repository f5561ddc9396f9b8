"""What does one source need to run? Its transport, governor and collector, opened together and closed in order.

Here a declaration becomes a source: by its kind, and by the preset that may bring its own reading of the bodies.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import msgspec

from remora.collect import Collector
from remora.contracts import Clock, Meter, NumberedSource, Source, SourceSetup, Store, Transport
from remora.core.errors import ConfigurationError, RemoraError
from remora.core.item import Nothing
from remora.core.lanes import Lane
from remora.core.ledger.asking import LISTED
from remora.core.rate.gate_types import RateFacts
from remora.core.units import SECOND_NS
from remora.core.verdict import NoReply, Reply, classify, has_content
from remora.gate.governor import Governor
from remora.loops.numbered.newest import keep_newest, retract_absurd, take_up
from remora.operate.config.secrets import without_credentials
from remora.operate.config.settings import SourceKind, SourceSettings
from remora.operate.jobs.resources import SourceResources
from remora.operate.observe.recent_meter import RecentMeter
from remora.sources.auth import Credential, SignedTransport
from remora.sources.dialects import Dialects
from remora.sources.json_path import WHOLE_BODY
from remora.sources.numbered import Numbered as NumberedByDeclaration
from remora.sources.oauth import FromTokenEndpoint
from remora.sources.plugins import open_plugin
from remora.sources.presets import PRESETS
from remora.sources.rules import ends_of, headers_named
from remora.sources.transport.http import HttpTransport
from remora.sources.transport.settings import HttpSettings
from remora.sources.transport.way_out import parse_proxy, trusting

if TYPE_CHECKING:
    from remora.loops.listed.run import ListedRun, RunOptions

CONNECT_TIMEOUT_S: Final = 10.0

Run = Callable[[], Coroutine[None, None, None]]


class Numbered(msgspec.Struct, frozen=True):
    """A numbered source, ready to be asked."""

    name: str
    settings: SourceSettings
    source: NumberedSource
    governor: Governor
    collector: Collector
    credential: Credential | None = None


@asynccontextmanager
async def open_numbered(name: str, resources: SourceResources) -> AsyncIterator[Numbered]:
    """Open a numbered source. At the end the learned pace is stored and every connection is closed."""
    settings, clock, meter = resources.sources[name], resources.clock, resources.meter
    credential = resources.credentials.of(name)
    async with open_transport(name, settings, clock=clock, meter=meter) as transport:
        source = _numbered_source(name, settings, signed(transport, credential, settings))
        async with resources.gates.pass_through(name) as governor:
            await let_sign(name, credential, transport, governor, resources)
            dialect = Dialects(settings.rules)
            collector = Collector(
                source, resources.store, governor, clock=clock, meter=meter, dialect=dialect, credential=credential
            )
            yield Numbered(name, settings, source, governor, collector, credential)


class ListedRuntime(msgspec.Struct, frozen=True):
    """A listed source, ready to be asked."""

    name: str
    settings: SourceSettings
    source: Source
    governor: Governor
    collector: Collector
    credential: Credential | None = None

    def run(self, store: Store, options: "RunOptions", *, clock: Clock, owner: str) -> "ListedRun":
        """One bounded run over it."""
        from remora.loops.listed.run import ListedRun  # noqa: PLC0415

        return ListedRun(self.name, self.collector, store, self.governor, clock=clock, owner=owner, options=options)


@asynccontextmanager
async def open_listed(name: str, resources: SourceResources) -> AsyncIterator[ListedRuntime]:
    """Open a listed source. Its collector spends the allowance of a run."""
    from remora.loops.listed.joining import JoiningCollector  # noqa: PLC0415 - a numbered source starts without it

    settings, clock, meter = resources.sources[name], resources.clock, resources.meter
    credential = resources.credentials.of(name)
    async with open_transport(name, settings, clock=clock, meter=meter) as transport:
        secret_param = "" if credential is None else credential.query_parameter
        source = listed_source(name, settings, signed(transport, credential, settings), secret_param=secret_param)
        async with resources.gates.pass_through(name) as governor:
            await let_sign(name, credential, transport, governor, resources)
            collector = JoiningCollector(
                source,
                resources.store,
                governor,
                clock=clock,
                meter=meter,
                policy=LISTED,
                dialect=Dialects(settings.rules),
                credential=credential,
            )
            yield ListedRuntime(name, settings, source, governor, collector, credential)


def listed_source(name: str, settings: SourceSettings, transport: Transport, *, secret_param: str = "") -> Source:
    """The listed source that was declared, or that its plug-in makes."""
    if settings.plugin is not None:
        return _plugin_source(name, settings, transport)
    from remora.sources.listed import Listed, ListedSettings  # noqa: PLC0415 - a numbered source starts without it

    declared = ListedSettings(
        url=settings.url,
        list=settings.list,
        detail=settings.detail,
        each=settings.each,
        headers=settings.headers,
        secret_param=secret_param,
        ends=ends_of(settings.rules),
    )
    return Listed(transport, declared, name=name)


def _numbered_source(name: str, settings: SourceSettings, transport: Transport) -> NumberedSource:
    if settings.plugin is not None:
        return cast("NumberedSource", _plugin_source(name, settings, transport))
    preset = PRESETS[settings.preset] if settings.preset is not None else None
    return NumberedByDeclaration(
        transport,
        settings.url,
        settings.declaration,
        name=name,
        headers=settings.headers,
        reading=None if preset is None else preset.reading,
    )


def _plugin_source(name: str, settings: SourceSettings, transport: Transport) -> Source:
    assert settings.preset is not None, "a plug-in is named as a preset"
    assert settings.plugin is not None, "the caller has looked"
    setup = SourceSetup(name, settings.url, transport, settings.headers, settings.options)
    return open_plugin(settings.preset, settings.plugin, setup)


# The opener for each kind of source. The type of its result decides which job runs.
OPENERS: Final[Mapping[SourceKind, Callable[..., AbstractAsyncContextManager[Numbered | ListedRuntime]]]] = {
    SourceKind.NUMBERED: open_numbered,
    SourceKind.LISTED: open_listed,
}


async def let_sign(
    name: str, credential: Credential | None, transport: HttpTransport, governor: Governor, resources: SourceResources
) -> None:
    """Let a credential get its secret, now if a command needs it. What runs for ever waits for it before it sends."""
    if credential is None:
        return
    if isinstance(credential.origin, FromTokenEndpoint):
        _ask_through_gate(credential.origin, name, transport, governor, resources.clock)
    if not resources.runs_for_ever:
        await credential.require()


def _ask_through_gate(
    origin: FromTokenEndpoint, name: str, transport: HttpTransport, governor: Governor, clock: Clock
) -> None:
    """Send requests for access tokens through the gate of the account, like every other request."""

    async def post_form(url: str, form: bytes) -> Reply | NoReply:
        async with governor.admit(Lane.LIVE, name) as permit:
            reply = await transport.post_form(url, permit, form)
            decoded = Nothing() if has_content(reply) else None
            verdict = classify(reply, decoded, behind_newest=None, now_wall_ns=clock.wall_ns())
            governor.learn(permit, reply, verdict)
            return reply

    origin.post_form = post_form


def once_signed(runtime: "Numbered | ListedRuntime", run: Run) -> Run:
    """The same job, which begins when its requests can be signed."""

    async def wait_and_run() -> None:
        if runtime.credential is not None:
            await runtime.credential.ready()
        await run()

    return wait_and_run


def missing_secret(runtime: "Numbered | ListedRuntime") -> str | None:
    """Why the secret of a source was never read, so that nothing is sent for it; None if nothing is missing."""
    return None if runtime.credential is None else runtime.credential.missing


def signed(transport: Transport, credential: Credential | None, settings: SourceSettings) -> Transport:
    """The transport whose requests carry the credential."""
    return transport if credential is None else SignedTransport(transport, credential, url=settings.url)


def open_transport(name: str, settings: SourceSettings, *, clock: Clock, meter: Meter) -> HttpTransport:
    """The transport of a source: the only way out."""
    timeout_s = settings.timeout_ns / SECOND_NS
    own_host = urlsplit(settings.url).hostname or ""
    http = HttpSettings(
        in_flight_max=settings.in_flight,
        contact=settings.contact,
        connect_timeout_s=min(CONNECT_TIMEOUT_S, timeout_s),
        read_timeout_s=timeout_s,
        total_timeout_s=2 * timeout_s,
        body_max_bytes=settings.body_max,
        proxy=None if settings.proxy is None else parse_proxy(settings.proxy),
        ca_file=settings.ca_file,
        further_headers=(*headers_named(settings.rules), *settings.list.headers_read),
        stream_hosts=(own_host, *_further_hosts(settings, own_host)),
    )
    if settings.ca_file is not None:
        trusting(settings.ca_file)  # refuse a file that cannot be used before anything starts
    return HttpTransport(http, clock=clock, wire_sent=partial(meter.wire_sent, name), client=settings.client)


def _further_hosts(settings: SourceSettings, own_host: str) -> tuple[str, ...]:
    """Hosts that a preset's provider may redirect a stream to, if the address is the provider's own."""
    preset = PRESETS.get(settings.preset or "")
    hosts = () if preset is None else preset.stream_hosts
    return hosts if hosts and own_host.endswith(hosts) else ()


def no_newest_hint(settings: SourceSettings) -> str:
    """What to check when a source answers but no newest id can be read."""
    if settings.plugin is not None:
        return f"check the url, and the options of the plug-in {settings.preset}"
    newest = settings.declaration.newest
    if settings.preset is not None:
        return f"check the url: it should be the address that {without_credentials(newest.path)} is added to"
    where = "its body" if newest.at == WHOLE_BODY else f'"{newest.at}" in its body'
    return f"check url and newest: {where} should be a whole number above zero"


async def ask_newest(runtime: Numbered, store: Store, *, clock: Clock) -> int:
    """The newest id from the source or, while it does not answer, the last one it gave."""
    known = await take_up(runtime.collector, store, runtime.name)
    newest = await _newest_told(runtime, store)
    if newest is not None:
        return newest
    if known is not None:
        return known
    raise _no_newest(runtime, "nothing is known of it yet")


async def newest_now(runtime: Numbered, store: Store) -> int:
    """The newest id from the source itself; raises if it does not tell one that can be believed."""
    await take_up(runtime.collector, store, runtime.name)
    newest = await _newest_told(runtime, store)
    if newest is None:
        raise _no_newest(runtime, "nothing was repaired")
    return newest


async def _newest_told(runtime: Numbered, store: Store) -> int | None:
    """What the source tells and an item proves, made durable; None if it tells nothing of that kind."""
    newest = await runtime.collector.newest()
    if newest is not None:
        await retract_absurd(runtime.collector, store, runtime.name)
        await keep_newest(runtime.collector, store, runtime.name)
    return newest


def _no_newest(runtime: Numbered, so: str) -> RemoraError:
    """Why there is no newest id, and what to look at."""
    if (doubt := runtime.collector.doubt) is not None:
        return RemoraError(
            f"{runtime.name} says that its newest id is {doubt.told:,}, but none of the ids below it can be read",
            hint="nothing was stored; try again later, and check url and newest if it goes on",
        )
    if runtime.collector.newest_is_malformed:
        return ConfigurationError(
            f"{without_credentials(runtime.settings.url + runtime.settings.newest_path)} answers, but without a newest id",
            hint=no_newest_hint(runtime.settings),
        )
    return RemoraError(
        f"{runtime.name} gives no usable answer, and {so}",
        hint="check the network and the url with: remora check",
    )


def rate_facts(governor: Governor, meter: RecentMeter, name: str) -> RateFacts:
    """What the gate says, and the counts that belong to it."""
    return msgspec.structs.replace(
        governor.state(), wire_sends=meter.wire_sends(name), recent=meter.recent(name), barred=meter.barred(name)
    )
