"""What goes wrong at the provider? Faults at random, by id and by time, declared in one frozen value or a file."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from remora.core.errors import ConfigurationError
from remora.sim.limits import Limit


class FaultKind(StrEnum):
    """One way in which a single answer can be wrong."""

    RATE_LIMITED = "rate_limited"  # 429
    SERVER_ERROR = "server_error"  # 500
    UNAVAILABLE = "unavailable"  # 503
    UNAUTHORIZED = "unauthorized"  # 401 {"error":"Permission denied"}
    FORBIDDEN = "forbidden"  # 403
    NOT_FOUND = "not_found"  # 404
    GONE = "gone"  # 410
    HANG = "hang"  # no answer, the connection stays open
    RESET = "reset"  # the connection breaks before any answer
    TRUNCATED = "truncated"  # the connection breaks in the middle of the body
    CUT_SHORT = "cut_short"  # a complete answer that holds half a body
    GARBLED = "garbled"  # bytes that are not UTF-8
    WRONG_ID = "wrong_id"  # another item's body
    WRONG_SHAPE = "wrong_shape"  # a list where an object belongs
    NULL = "null"  # a replica that does not have it yet
    STALE = "stale"  # a replica that has an older body
    SLOW = "slow"  # the right answer, late


class Outage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A period, in seconds since the provider started, in which a part of the provider does not answer."""

    from_s: float
    to_s: float
    what: Literal["all", "stream", "requests"] = "all"


class Flood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A period in which the stream of changes is flooded with old ids."""

    from_s: float
    to_s: float
    ids_per_second: float = 100.0


class StreamFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What goes wrong with event streams. Zero means never."""

    drops_per_hour: float = 0.0  # the connection is closed
    zombies_per_hour: float = 0.0  # the stream goes silent and stays open
    cancels_per_hour: float = 0.0  # a `cancel` event, then the end
    revokes_per_hour: float = 0.0  # an `auth_revoked` event, then the end
    missed_share: float = 0.03  # changes that are never announced
    floods: tuple[Flood, ...] = ()


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that goes wrong, and the hidden limit."""

    seed: int = 0
    rates: dict[FaultKind, float] = {}  # share of item requests, by kind
    ids: dict[str, FaultKind] = {}  # item ids (or user names, or document keys) that always fail, until healed
    retry_after_s: float | None = None  # sent with random 429s and 503s
    slow_s: float = 3.0
    stale_by_s: float = 600.0
    latency_ms: float = 0.0  # added to every answer
    outages: tuple[Outage, ...] = ()
    stream: StreamFaults = StreamFaults()
    limit: Limit = Limit()

    def __post_init__(self) -> None:
        if any(rate < 0 for rate in self.rates.values()) or sum(self.rates.values()) > 1:
            raise ValueError(f"fault rates must be shares that add up to at most 1, not {sum(self.rates.values()):g}")


NO_FAULTS = Faults()


def every_kind(share: float, *, seed: int = 0) -> Faults:
    """Faults of every kind that together hit this share of requests."""
    return Faults(seed=seed, rates=dict.fromkeys(FaultKind, share / len(FaultKind)), slow_s=0.5)


def parse_faults(text: str | bytes, *, is_toml: bool) -> Faults:
    """Faults from TOML or JSON text; an error says where the mistake is."""
    try:
        plain = (
            tomllib.loads(text if isinstance(text, str) else text.decode()) if is_toml else msgspec.json.decode(text)
        )
        return msgspec.convert(plain, Faults)
    except (tomllib.TOMLDecodeError, msgspec.MsgspecError, ValueError) as error:
        raise ConfigurationError(
            f"the faults cannot be read: {error}",
            hint=f"write for example rates = {{ server_error = 0.01 }}; the kinds are {', '.join(FaultKind)}",
        ) from error


def load_faults(path: Path) -> Faults:
    """Faults from a .toml or .json file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"the faults file {path} cannot be read: {error.strerror}", hint="give the path of a .toml or .json file"
        ) from error
    return parse_faults(text, is_toml=path.suffix == ".toml")
