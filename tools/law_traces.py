"""When does the rate law send? `python -m tools.law_traces` records it for some providers; a test compares.

A change of the law is measured first (`python -m bench.controllers`); then the new traces are recorded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.controllers.ours import Remora
from bench.controllers.rows import ROWS
from bench.controllers.world import run
from remora.core.rate.law import cold_start
from remora.core.units import MILLISECOND_NS

RECORD: Final = Path("tests/core/law_traces.json")
REQUESTS: Final = 1_500
EVERY: Final = 60  # of the departures one is recorded
PROVIDERS: Final = (
    "fixed 600/min",
    "sliding 60/min",
    "5,000/h told",
    "10/s b=20 and 300/min sliding",
    "Retry-After 1 s on 600/min",
    "shared, 5 min on and off",
    "b=10",
    "b=100, 100/s",
    "steps x5",
    "stray 429 1 %",
    "penalty doubles",
    "503 for 30 s each 20 min",
)

Trace = tuple[int, int, tuple[int, ...]]  # sent, refused, and when some were sent, in milliseconds


def traces() -> Mapping[str, Trace]:
    """What the law does with each provider, one in flight and as many as the row has."""
    return {
        f"{name} ({in_flight})": _trace(name, in_flight)
        for name in PROVIDERS
        for in_flight in sorted({1, ROWS[name].in_flight[-1]})
    }


def recorded() -> Mapping[str, Trace]:
    """What it did when the traces were recorded."""
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Trace])


def _trace(name: str, in_flight: int) -> Trace:
    row = ROWS[name]
    ours = Remora(cold_start(ceiling_interval_ns=row.ceiling_interval_ns, now_ns=0))
    until_ns = min(row.until_ns, REQUESTS * row.ceiling_interval_ns * 4)
    provider = row.provider(in_flight, 1)
    seen = run(ours, provider, in_flight=in_flight, ceiling_interval_ns=row.ceiling_interval_ns, until_ns=until_ns)
    some = tuple(at_ns // MILLISECOND_NS for at_ns in seen.sent_at_ns[:REQUESTS:EVERY])
    return len(seen.sent_at_ns), len(seen.refused_at_ns), some


if __name__ == "__main__":
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(traces()), indent=1) + b"\n")
    print(f"law_traces: {RECORD} is written")
