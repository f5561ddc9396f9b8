"""Where does a gate get its time, and what do processes that share a store share? One ceiling, one pace, one leader.

A gate has a home (`GateHome`). The local home is for a single process, which may use all the time. The shared home borrows
time from the store, stretch by stretch, and what one process learns is known to all. Homes around one of these take away
time: while another process has the sole right to send, or while an operator pauses or lowers the source.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from remora.contracts.json import Json
from remora.core.errors import StoreError
from remora.core.rate.pacing import Pacer
from remora.core.rate.stretches import Grant, Question, Stretch


class SharedPace(msgspec.Struct, frozen=True):
    """What all processes know about the provider. `version` grows with every change."""

    record: Json = None
    version: int = 0
    interval_ns: int = 0  # that all processes keep to; 0: no other process keeps to one
    not_before_in_ns: int = 0  # 0: the provider asked for no wait
    ahead_ns: int = 0  # how far the shared clock is ahead of our monotonic one
    age_ns: int = 0  # since it was shared
    idle_ns: int | None = None  # since the last departure of any process; None: not asked, or never
    # How long a circuit breaker stops all processes; 0: it does not, None: not asked, or this process sends the probe.
    shut_in_ns: int | None = None
    cool_down_ns: int = 0  # of that circuit breaker


class Borrower(Protocol):
    """What a home must know about the gate it serves."""

    @property
    def pacer(self) -> Pacer:
        """The schedule of departures."""

    @property
    def interval_ns(self) -> int:
        """The pace it keeps: the slowest of its own, the shared one and an operator's."""

    def demand(self) -> int:
        """How many requests could be sent now if there were time for them."""

    def adopt(self, pace: SharedPace) -> None:
        """Take over what all processes know now."""

    def changed(self) -> None:
        """The available time or the pace of its home changed: requests that wait should check again."""


class GateHome(Protocol):
    """One source's time, and the place where its pace is kept."""

    @property
    def interval_ns(self) -> int:
        """The pace that all processes keep to, as far as this one knows; 0: no other process keeps to one."""

    @property
    def is_silent(self) -> bool:
        """Whether there is no time because the store does not answer."""

    @property
    def share_every_ns(self) -> int:
        """How often an unchanged pace is shared."""

    @property
    def sees_departures(self) -> bool:
        """Whether the home knows by itself when the last request was sent."""

    def serve(self, gate: Borrower) -> None:
        """Work for this gate from now on."""

    def stretch(self, pacer: Pacer, *, now_ns: int) -> Stretch | None:
        """The time in which this pacer's next departure may take place. None: there is none yet; the home gets more.

        Raises an error if it can never get more.
        """

    def departed(self, stretch: Stretch, pacer: Pacer, *, now_ns: int) -> None:
        """A request was sent in this stretch; `pacer` is the schedule from before its departure."""

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Store what this process learned on top of a version, and tell all processes.

        Refused (False, and the stored value) when that version is outdated. A longer wait and a slower interval count
        even then.
        """

    async def look(self) -> SharedPace:
        """What is known now, and for how long all processes have been idle."""

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """The provider is in trouble: nobody sends for this long, then one probe. A prober's wait replaces it."""

    async def open_again(self) -> None:
        """The probe got a good answer."""

    async def close(self) -> None:
        """Stop borrowing."""


class GateStore(Protocol):
    """The row per source from which a shared home borrows. Raises `StoreError` when the store does not answer."""

    async def borrow(self, source: str, question: Question, *, seen_version: int) -> tuple[Grant, SharedPace]:
        """The next stretch after all granted ones. The pace has its record only if it is newer than `seen_version`."""

    async def return_probe(self, source: str) -> None:
        """The granted probe was not sent: any process may have it."""

    async def share(
        self,
        source: str,
        *,
        record: Mapping[str, Json],
        interval_ns: int,
        not_before_in_ns: int,
        seen_version: int | None,
    ) -> tuple[bool, SharedPace]:
        """Store what one process learned on top of a version; see `GateHome.share`. None replaces any version."""

    async def announce(self, source: str, *, sender: str) -> None:
        """Tell all processes to give up the time they hold and ask again."""

    async def listen(self, source: str, *, sender: str, heard: Callable[[], None]) -> None:
        """Call `heard` whenever another process announces something. Until it is cancelled, or the store is lost."""

    async def look(self, source: str) -> SharedPace:
        """What all processes know."""

    async def shut(self, source: str, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """Grant nothing for this long, then one probe, and nothing more until its result is reported."""

    async def open_again(self, source: str) -> None:
        """Grant time as before."""


class LeaderLease(Protocol):
    """The right to do one named thing, held by one process at a time."""

    @property
    def unanswered(self) -> StoreError | None:
        """Why the store did not answer when it was last asked for the lease; None if it did."""

    def holds(self) -> bool:
        """Whether this process is the leader right now."""

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease and do the work. If the lease is lost, stop at once and start again, until it is done."""


class Sharing(Protocol):
    """What a shared store offers in addition."""

    @property
    def gate_store(self) -> GateStore:
        """The rows from which gates borrow their time."""

    def leader_lease(self, name: str) -> LeaderLease:
        """The leader lease with this name."""

    async def close(self) -> None:
        """Close the connections."""
