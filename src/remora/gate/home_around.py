"""One home around another: what does it add? Only what its class overrides; everything else is left to the inner home."""

from collections.abc import Mapping

from remora.contracts import Borrower, GateHome, Json, SharedPace
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Stretch


class HomeAround:
    """`contracts.GateHome` that leaves everything to another one. It knows the gate that it serves."""

    def __init__(self, inner: GateHome) -> None:
        self._inner = inner
        self._gate: Borrower | None = None
        self.departed = inner.departed  # called for every request, so without a call in between

    @property
    def interval_ns(self) -> int:
        return self._inner.interval_ns

    @property
    def is_silent(self) -> bool:
        return self._inner.is_silent

    @property
    def share_every_ns(self) -> int:
        return self._inner.share_every_ns

    @property
    def sees_departures(self) -> bool:
        return self._inner.sees_departures

    def serve(self, gate: Borrower) -> None:
        self._gate = gate
        self._inner.serve(gate)

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        return self._inner.stretch(pacer, now_ns=now_ns)

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        return await self._inner.share(
            record, interval_ns=interval_ns, not_before_in_ns=not_before_in_ns, seen_version=seen_version
        )

    async def look(self) -> SharedPace:
        return await self._inner.look()

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        await self._inner.shut(for_ns=for_ns, cool_down_ns=cool_down_ns, was_prober=was_prober)

    async def open_again(self) -> None:
        await self._inner.open_again()

    async def close(self) -> None:
        await self._inner.close()
