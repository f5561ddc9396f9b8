"""Which faults occur in this epoch? Each epoch has a few random kinds; some epochs are calm.

Faults that always occur together hide each other's consequences. A few at a time, in changing combinations, do not.
"""

from random import Random
from typing import Final

import msgspec

from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock
from remora.sim.faults import FaultKind, Faults, StreamFaults
from remora.sim.provider import Provider

_CALM_SHARE: Final = 0.25
_RATE_MAX: Final = 0.05  # share of requests, for each kind of the epoch
_PER_HOUR_MAX: Final = 6.0


def weather(seed: int, epoch: int, climate: Faults) -> Faults:
    """The faults of one epoch: a few random kinds and rates. Ids, outages, floods and the limit come from `climate`."""
    chance = Random(f"weather/{seed}/{epoch}")
    if chance.random() < _CALM_SHARE:
        return msgspec.structs.replace(climate, rates={}, stream=_stream(chance, climate, stormy=False))
    kinds = chance.sample(list(FaultKind), k=chance.randint(1, 5))
    return msgspec.structs.replace(
        climate,
        rates={kind: chance.uniform(0, _RATE_MAX) for kind in kinds},
        retry_after_s=chance.choice([None, 0.0, 2.0, 30.0]),
        slow_s=chance.uniform(0.5, 20.0),
        stale_by_s=chance.choice([60.0, 600.0, 3_600.0]),
        stream=_stream(chance, climate, stormy=chance.random() < 0.5),
    )


def _stream(chance: Random, climate: Faults, *, stormy: bool) -> StreamFaults:
    rates = [chance.uniform(0, _PER_HOUR_MAX) if stormy and chance.random() < 0.5 else 0.0 for _ in range(4)]
    return msgspec.structs.replace(
        climate.stream,
        drops_per_hour=rates[0],
        zombies_per_hour=rates[1],
        cancels_per_hour=rates[2],
        revokes_per_hour=rates[3],
    )


async def change_weather(provider: Provider, clock: SimClock, *, seed: int, epoch_s: float = 3_600.0) -> None:
    """Give the provider new weather every epoch, until the caller cancels this."""
    climate = provider.faults
    epoch_ns = round(epoch_s * SECOND_NS)
    for epoch in range(1 << 30):
        provider.set_faults(weather(seed, epoch, climate))
        await clock.sleep_until((clock.monotonic_ns() // epoch_ns + 1) * epoch_ns)
