"""What is a quota? So many requests that a provider still allows, until it is full again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """What an answer tells about a quota: so many requests are left, of so many, until it is full again."""

    remaining: int
    limit: int | None  # None: it does not say
    reset_in_ns: int
