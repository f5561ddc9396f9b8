"""What must a clock offer? Time that never goes back, and a sleep that never ends early."""

from typing import Protocol


class Clock(Protocol):
    """The only source of time."""

    def monotonic_ns(self) -> int:
        """Never goes back; not related to the date."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970. Never goes back within one process, whatever the system clock does."""

    async def sleep_until(self, monotonic_ns: int) -> None:
        """Return at or after this moment, as close to it as the event loop allows, never before."""
