"""What do discovery, rest and probe, and a quota look like? Three small drawings for the docs."""

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

from bench.controllers.ours import Remora
from bench.controllers.rows import ROWS
from bench.controllers.world import Trace, run
from remora.core.rate.law import cold_start
from remora.core.units import SECOND_NS

WIDTH, HEIGHT, MARGIN = 640, 200, 34
POINTS = 120


@dataclass(frozen=True, slots=True)
class Drawing:
    file: str
    title: str
    row: str
    from_s: int
    to_s: int


DRAWINGS = [
    Drawing("rate-law-discovery.svg", "Discovery: 10/s with a burst of 10, from a cold start", "b=10", 0, 120),
    Drawing("rate-law-rest.svg", "Rest and probe: the same provider, minutes 20 to 40", "b=10", 1_200, 2_400),
    Drawing("rate-law-quota.svg", "A quota: 5,000 per hour, told by headers", "5,000/h told", 0, 10_800),
]


def draw_all(folder: Path) -> None:
    for drawing in DRAWINGS:
        (folder / drawing.file).write_text(_svg(drawing, _trace(drawing), ROWS[drawing.row].limit_per_s))


def _trace(drawing: Drawing) -> Trace:
    row = ROWS[drawing.row]
    ceiling_ns = row.ceiling_interval_ns
    ours = Remora(cold_start(ceiling_interval_ns=ceiling_ns, now_ns=0))
    until_ns = (drawing.to_s + 1) * SECOND_NS
    return run(ours, row.provider(1, 1), in_flight=1, ceiling_interval_ns=ceiling_ns, until_ns=until_ns)


def _svg(drawing: Drawing, trace: Trace, limit_per_s: float) -> str:
    width_s = (drawing.to_s - drawing.from_s) / POINTS
    starts_s = [drawing.from_s + point * width_s for point in range(POINTS)]
    rates = [_count(trace.good_at_ns, start_s, width_s) / width_s for start_s in starts_s]
    most = 1.15 * max(limit_per_s, *rates)

    def x(at_s: float) -> float:
        return round(MARGIN + (at_s - drawing.from_s) / (drawing.to_s - drawing.from_s) * (WIDTH - 2 * MARGIN), 1)

    def y(per_s: float) -> float:
        return round(HEIGHT - MARGIN - per_s / most * (HEIGHT - 2 * MARGIN), 1)

    line = " ".join(f"{x(start_s + width_s / 2)},{y(rate)}" for start_s, rate in zip(starts_s, rates, strict=True))
    refused_s = [at_ns / SECOND_NS for at_ns in trace.refused_at_ns]
    marks = "".join(
        f'<path d="M{x(at_s)} {HEIGHT - MARGIN}v-12" stroke="#c22"/>'
        for at_s in refused_s
        if drawing.from_s <= at_s <= drawing.to_s
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/><text x="{MARGIN}" y="16">{drawing.title}</text>'
        f'<path d="M{MARGIN} {y(limit_per_s)}H{WIDTH - MARGIN}" stroke="#888" stroke-dasharray="4 3"/>'
        f'<text x="{WIDTH - MARGIN + 2}" y="{y(limit_per_s) + 4}" fill="#555">limit</text>'
        f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" stroke="#000"/>'
        f'<polyline points="{line}" fill="none" stroke="#16c"/>{marks}'
        f'<text x="{MARGIN}" y="{HEIGHT - 14}">{drawing.from_s} s</text>'
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 14}" text-anchor="end">{drawing.to_s} s</text>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">blue: accepted/s; red: refusals</text></svg>\n'
    )


def _count(at_ns: list[int], start_s: float, width_s: float) -> int:
    return bisect_left(at_ns, int((start_s + width_s) * SECOND_NS)) - bisect_left(at_ns, int(start_s * SECOND_NS))
