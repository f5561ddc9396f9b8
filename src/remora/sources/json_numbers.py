"""Which numbers of a provider are believed? Those that every JSON reader reads alike; a longer one costs nothing to refuse."""

from typing import Final

NUMBER_MAX: Final = 2**53  # the largest whole number that every JSON reader agrees on
DIGITS_MAX: Final = 19  # more of them are beyond 64 bits, and thousands of them take long to read


def bounded_int(digits: str) -> int | float:
    """The number that these digits write; infinity if there are too many. For `json.loads(..., parse_int=...)`."""
    return int(digits) if len(digits) <= DIGITS_MAX else float("inf")
