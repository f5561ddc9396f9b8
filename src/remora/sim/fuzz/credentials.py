"""What if the provider replaces the credential from time to time? The old one is refused with 401 until the new one is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from remora.core.units import SECOND_NS
from remora.sources.auth import Issued
from remora.sources.secret import Secret

_SHARE: Final = 0.2
_EVERY_S: Final = (2_400.0, 7_200.0, 30_000.0)
_AUTHORIZATION: Final = "authorization"


def draw_rotation(seed: int) -> float:
    """After how many seconds a credential is replaced; 0: never. With a chance of its own."""
    chance = Random(f"credential/{seed}")
    return chance.choice(_EVERY_S) if chance.random() < _SHARE else 0.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """The credentials of a world, one after the other. It is also the origin that a process reads them from."""

    text: str  # how all of them begin
    every_s: float
    now: Callable[[], int]  # the provider's time

    def current(self) -> str:
        """The credential that the provider accepts now."""
        return f"{self.text}-{self.now() // round(self.every_s * SECOND_NS)}"

    def has_changed(self) -> bool:
        """An origin that does not tell, as a command: only a refusal shows that the credential was replaced."""
        return False

    async def read(self) -> Issued:
        """The credential as it is now."""
        return Issued(Secret(self.current()))

    def accepted(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers with the credential that the archive knows; None if the one in them is no longer valid."""
        given = {name.lower(): value for name, value in (headers or {}).items()}
        if given.get(_AUTHORIZATION) != f"Bearer {self.current()}":
            return None
        return {**given, _AUTHORIZATION: f"Bearer {self.text}"}
