"""What does the owner allow? The ceiling, perhaps a limit on refusals, and settings that can only make it slower."""

from dataclasses import dataclass
from typing import Final

from remora.core.errors import ConfigurationError
from remora.core.rate.pace_record import DEFAULT_STALE_AFTER_NS
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS

# Noise that keeps independent mirrors from sending in step; never longer than the ceiling's interval.
JITTER_NS: Final = 20 * MILLISECOND_NS


@dataclass(frozen=True, slots=True)
class Limits:
    """The owner's ceiling, and settings that can only make it slower."""

    ceiling_interval_ns: int
    in_flight: int = 1
    jitter_min_ns: int = 0
    jitter_max_ns: int = JITTER_NS
    stale_after_ns: int = DEFAULT_STALE_AFTER_NS
    refusal_limit: RefusalLimit | None = None

    def __post_init__(self) -> None:
        if self.ceiling_interval_ns < 1:
            raise ConfigurationError("the ceiling is not a rate", hint='write the most you will send, like "240/min"')
        if self.jitter_min_ns > self.ceiling_interval_ns:
            raise ConfigurationError(
                f"jitter_min is {self.jitter_min_ns / MILLISECOND_NS:g} ms, longer than the ceiling's interval of "
                f"{self.ceiling_interval_ns / MILLISECOND_NS:g} ms, so the ceiling could never be reached",
                hint="leave jitter_min out, or lower the ceiling if you want fewer requests",
            )
        if self.in_flight < 1:
            raise ConfigurationError(f"in_flight is {self.in_flight}", hint="write 1 or more")

    def jitter_ns(self, chance: float) -> int:
        """How long one request waits only to be out of step with other mirrors; `chance` is below 1."""
        high_ns = max(self.jitter_min_ns, min(self.jitter_max_ns, self.ceiling_interval_ns))
        return self.jitter_min_ns + int(chance * (high_ns - self.jitter_min_ns))
