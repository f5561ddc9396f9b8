"""What do processes that share a store share beyond it? One ceiling, one learned pace, and who alone does what.

A store that belongs to one process has no fleet: there the governor's own gate is the whole gate.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from remora.contracts.json import Json


@dataclass(frozen=True, slots=True)
class SharedPace:
    """What all processes know about the provider. `version` grows with every change."""

    record: Json = None
    version: int = 0
    interval_ns: int = 0  # 0: nothing learned, only the ceiling binds
    not_before_in_ns: int = 0  # 0: the provider asked for no wait
    ahead_ns: int = 0  # how far the clock that all processes share is ahead of our monotonic one
    age_ns: int = 0  # since it was shared
    idle_ns: int | None = None  # since the last departure of any process; None: not asked, or never
    shut_in_ns: int | None = None  # for how long the circuit of any process holds all; 0: it does not, None: not asked
    cool_down_ns: int = 0  # of that circuit


class Slot(Protocol):
    """The right of one request to leave, as far as all processes are concerned; never used twice."""

    @property
    def pace(self) -> SharedPace:
        """What all processes know by now."""

    @property
    def binds(self) -> bool:
        """Whether the pace held this request back, rather than a want of requests."""

    @property
    def is_probe(self) -> bool:
        """Whether this is the only request of all processes, until its answer is told with `shut` or `open_again`."""

    def is_fresh(self, *, now_ns: int) -> bool:
        """Whether the request may leave now (monotonic); asked right before it is written."""

    def departed(self, *, now_ns: int) -> None:
        """The request leaves."""

    def end(self) -> None:
        """The request is on the wire, or will not leave with this slot. May be said more than once."""


class CommonGate(Protocol):
    """One source's gate of all processes."""

    async def slot(self, *, interval_ns: int) -> Slot:
        """Wait until one request of this process may leave. `interval_ns` is the pace it would keep by itself.

        The slot is not fresh when the pace changed before the request's turn came: hear of it, and ask again. Raises
        `StoreError`; without an answer of the store nothing leaves.
        """

    async def share(
        self, record: Mapping[str, Json], *, interval_ns: int, not_before_in_ns: int, seen_version: int
    ) -> tuple[bool, SharedPace]:
        """Tell all processes what this one learned on top of a version.

        Refused (False, and what stands instead) when that version is outdated; a longer wait and a slower interval
        count even then.
        """

    async def look(self) -> SharedPace:
        """What all processes know by now, and for how long all of them have been idle."""

    async def shut(self, *, for_ns: int, cool_down_ns: int, was_prober: bool) -> None:
        """The provider is in trouble: nobody leaves for so long, and then one probe. A prober's word replaces the wait."""

    async def open_again(self) -> None:
        """The probe was answered well."""


class LeaderLease(Protocol):
    """The right to do one named thing, held by one process at a time."""

    def holds(self) -> bool:
        """Whether this process is the one right now."""

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be the one and do the work; stop it at once when the right is lost, and begin anew. Until it is done."""


class Fleet(Protocol):
    """What a shared store offers beside itself."""

    def common_gate(self, source: str, *, ceiling_interval_ns: int) -> CommonGate:
        """The gate of all processes that mirror this source."""

    def alone(self, name: str) -> LeaderLease:
        """The right to do what has this name."""

    async def close(self) -> None:
        """Let go of the connections."""
