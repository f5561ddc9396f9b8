"""How does a test skip the climb from one request per second? With a pace as an earlier process would have left it."""

import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from remora.contracts import Json
from remora.core.rate.law import cold_start
from remora.core.rate.pace_record import record_to_json, to_record
from remora.core.units import SECOND_NS
from remora.stores.sqlite import SqliteStore


def learned_pace(rate_per_s: float, *, now_wall_ns: int | None = None) -> dict[str, Json]:
    """A pace as a run that ended a moment ago would have stored it."""
    now_wall_ns = time.time_ns() if now_wall_ns is None else now_wall_ns
    cold = cold_start(ceiling_interval_ns=int(SECOND_NS / rate_per_s), now_ns=0)
    learned = replace(cold, rate_per_s=rate_per_s, octave_per_s=rate_per_s)
    record = record_to_json(to_record(learned, now_ns=0, now_wall_ns=now_wall_ns))
    return {"pace": cast("Json", record), "saved_at_wall_ns": now_wall_ns}


async def warm_up(path: Path, source: str, rate_per_s: float) -> None:
    """As if an earlier process had learned this pace a moment ago and left it in this file."""
    store = SqliteStore(path)
    await store.open()
    await store.save_pace(source, learned_pace(rate_per_s))
    await store.close()
