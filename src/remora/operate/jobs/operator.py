"""How does the service do what an operator asks for? Each action answers with one sentence about what happens next."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.core.ledger.gap import Gap, GapState
from remora.core.quantities import format_rate, parse_duration, parse_rate
from remora.core.reasons import GapReason
from remora.core.status.timeline import Event
from remora.core.units import SECOND_NS
from remora.operate.config.settings import Settings, known_source
from remora.operate.jobs.steering import Steering
from remora.operate.observe.timeline import Timeline

log = structlog.get_logger()


class ServiceOperator:
    """`console.actions.Operator` of a running service."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        steering: Steering,
        timeline: Timeline,
        *,
        test_notifications: Callable[[], Awaitable[str]],
    ) -> None:
        self._settings = settings
        self._store = store
        self._steering = steering
        self._timeline = timeline
        self._test_notifications = test_notifications
        self.run_now_by_source: dict[str, Callable[[], bool]] = {}
        self.missing_secrets: dict[str, Callable[[], str | None]] = {}  # why nothing can be signed for a source
        # Sources for which another process may send instead, and whether it does.
        self.stands_by: dict[str, Callable[[], bool]] = {}

    async def pause(self, source: str) -> str:
        await self._steering.pause(known_source(self._settings, source))
        return self._did(
            "paused", source, f"{source} is paused{self._for_account(source)}; nothing is sent until you resume it"
        )

    async def resume(self, source: str) -> str:
        await self._steering.resume(known_source(self._settings, source))
        return self._did("resumed", source, f"{source} goes on{self._for_account(source)}")

    async def run_now(self, source: str) -> str:
        known_source(self._settings, source)
        stands_by = self.stands_by.get(source)
        if stands_by is not None and stands_by():
            raise ConfigurationError(f"another process sends for {source}", hint="ask that one, or stop it first")
        start = self.run_now_by_source.get(source)
        if start is None:
            raise ConfigurationError(f"{source} is always on", hint="only a listed source has runs")
        begins, missing = start(), self.missing_secrets.get(source)
        if self._steering.of(source).paused_at_ns is not None:
            told = f"{source} is paused; a run of it goes on as soon as you resume it"
        elif not begins:
            return f"a run of {source} is under way already"
        elif missing is not None and (why := missing()) is not None:
            told = f"a run of {source} begins as soon as its secret can be read: {why}"
        else:
            told = f"a run of {source} begins now"
        return self._did("run_asked_for", source, told)

    async def lower(self, source: str, ceiling: str, span: str) -> str:
        configured = self._settings.sources[known_source(self._settings, source)]
        interval_ns, for_ns = parse_rate(ceiling, "the ceiling"), parse_duration(span, "the span")
        await self._steering.lower(
            source, interval_ns=interval_ns, for_ns=for_ns, ceiling_interval_ns=configured.ceiling_interval_ns
        )
        told = f"{source} sends at most {format_rate(SECOND_NS / interval_ns)} for {span}{self._for_account(source)}"
        return self._did("ceiling_lowered", source, told)

    async def restore(self, source: str) -> str:
        await self._steering.restore(known_source(self._settings, source))
        return self._did("ceiling_restored", source, f"{source} is back at the owner's ceiling")

    async def send_test_notice(self) -> str:
        return await self._test_notifications()

    async def gaps(self, source: str, *, state: GapState | None, reason: GapReason | None, limit: int) -> Sequence[Gap]:
        return await self._store.gaps(known_source(self._settings, source), state=state, reason=reason, limit=limit)

    def is_public(self, source: str) -> bool:
        return self._settings.sources[source].capabilities.public

    def timeline(self) -> Mapping[str, tuple[Event, ...]]:
        return self._timeline.all()

    def _did(self, what: str, source: str, told: str) -> str:
        log.info("operator", action=what, source=source)
        return told

    def _for_account(self, source: str) -> str:
        account = self._settings.sources[source].account
        return "" if account is None else f" with all sources of the account {account}"
