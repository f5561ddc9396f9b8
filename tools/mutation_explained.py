"""Which changes of core/ cannot be noticed, or need not be? By file and change, with the reason."""

from typing import Final

EXPLAINED: Final[dict[tuple[str, str], str]] = {}
