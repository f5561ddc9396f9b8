"""What must a clock offer? Time that never goes back, and a sleep that never ends early."""

from typing import Protocol


class Clock(Protocol):
    """The only source of time."""

    def monotonic_ns(self) -> int:
        """Never goes back; not related to the date."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970. Never goes back within one process, whatever the system clock does."""

    async def sleep_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment, a millisecond or two late, never before."""

    async def sleep_exactly_until(self, monotonic_ns: int) -> None:
        """The same, as close to the moment as the event loop allows. It costs processor time: for departures only."""
