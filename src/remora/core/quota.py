"""What is a quota? How many requests a provider still allows until a reset."""

import msgspec


class Quota(msgspec.Struct, frozen=True):
    """What an answer says about a quota: how many requests are left, of how many, until the reset."""

    remaining: int
    limit: int | None  # None: it does not say
    reset_in_ns: int
