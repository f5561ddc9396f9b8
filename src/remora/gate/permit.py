"""What does a request hold while it is in flight? Its permit: one turn, one departure, one place in flight."""

from types import TracebackType
from typing import Protocol

import msgspec

from remora.core.lanes import Lane
from remora.core.rate.gate_types import Sent


class Gate(Protocol):
    """What gives permits and takes them back: the governor."""

    async def turn(self, lane: Lane, *, is_canary: bool) -> "GovernedPermit":
        """Wait for a turn."""

    async def depart(self, permit: "GovernedPermit") -> int:
        """Wait for the departure and return its time."""

    def depart_now(self, permit: "GovernedPermit") -> int | None:
        """Depart without waiting; None: something holds the request back."""

    def sent(self, permit: "GovernedPermit") -> None:
        """The request is on the wire."""

    def give_back(self, *permits: "GovernedPermit") -> None:
        """These requests are over."""


class GovernedPermit(msgspec.Struct, eq=False, gc=False):
    """The right to send one request; see `contracts.Permit`."""

    gate: Gate
    lane: Lane
    admitted_at_ns: int
    pace_bound: bool
    is_canary: bool = False  # asks for something known to be good
    source: str = ""  # whose request it is; several sources may pass one gate
    is_probe: bool = False  # the only one that is sent while the circuit is open
    was_ready: bool = False  # before the pace let it depart
    was_heard: bool = False
    was_given_back: bool = False
    departed_at_ns: int | None = None
    departed_wall_ns: int | None = None

    async def depart(self) -> int:
        """Depart now; waits again only if something changed since the permit was given."""
        return await self.gate.depart(self)

    def depart_now(self) -> int | None:
        """Depart without waiting; None: something holds the request back, or another one is first."""
        return self.gate.depart_now(self)

    def sent(self) -> None:
        """The request is on the wire."""
        self.gate.sent(self)

    def as_sent(self) -> Sent:
        """How it was sent, for whoever learns from its answer."""
        return Sent(self.departed_at_ns, self.pace_bound, self.is_probe, self.is_canary)

    def assert_unused(self) -> None:
        """A second departure is our own bug."""
        assert self.departed_at_ns is None, "a permit is for one request"
        assert not self.was_given_back, "a permit that was given back"


class Admission:
    """`async with governor.admit(lane) as permit`; a class of its own because it runs for every request."""

    __slots__ = ("_gate", "_is_canary", "_lane", "_permit", "_source")

    def __init__(self, gate: Gate, lane: Lane, source: str, *, is_canary: bool = False) -> None:
        self._gate = gate
        self._lane = lane
        self._source = source
        self._is_canary = is_canary
        self._permit: GovernedPermit | None = None

    async def __aenter__(self) -> GovernedPermit:
        self._permit = await self._gate.turn(self._lane, is_canary=self._is_canary)
        self._permit.source = self._source
        return self._permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._permit is not None, "left without having entered"
        self._gate.give_back(self._permit)
