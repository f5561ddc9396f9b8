"""What has been proven, on which commit and which machine? Random worlds and planted bugs, written to docs/reliability.md."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from remora.core.units import DAY_NS
from remora.sim.fuzz.scenario import IncidentKind, draw
from remora.sim.fuzz.world import judge_world
from tests.mutants.runner import LIMIT_S, SEEDS, Caught, catch, known_seeds
from tests.mutants.table import MUTANTS, Mutant

PAGE = Path("docs/reliability.md")
EXPECTED = {
    IncidentKind.WEATHER: "every bad answer becomes a gap with its reason; nothing wrong is stored",
    IncidentKind.OUTAGE: "status says so; the circuit breaker opens; everything is collected afterwards",
    IncidentKind.FLOOD: "the inbox holds it; memory stays bounded",
    IncidentKind.BAD_ITEMS: "the neighbours are collected; the bad ones are owed until they heal",
    IncidentKind.BAN: "requests become rare; nothing is lost",
    IncidentKind.WRONG_HINT: "a readable wait is kept, an unreadable one is ignored",
    IncidentKind.LIE: "no id is skipped, no id is called absent because of it",
    IncidentKind.CRASH: "the next process goes on; nothing durable is lost, the ceiling holds across lives",
    IncidentKind.RESTART: "leases are given back; the next process goes on",
    IncidentKind.STALL: "no burst afterwards; leases of others are respected",
    IncidentKind.STEP: "gaps fall due, an older answer never overwrites a newer one",
    IncidentKind.STORE_DOWN: "nothing is sent that could not be stored for long; nothing is lost",
}


@dataclass(slots=True)
class Soak:
    """What many worlds met."""

    worlds: int = 0
    simulated_ns: int = 0
    requests: int = 0
    faults: int = 0
    crashes: int = 0
    took_s: float = 0.0
    met: Counter[IncidentKind] = field(default_factory=Counter)
    violated: Counter[IncidentKind] = field(default_factory=Counter)
    failing_seeds: list[int] = field(default_factory=list)


def main() -> int:
    """Exit code 1 where a world is violated or a planted bug is not caught."""
    parser = argparse.ArgumentParser(prog="make prove")
    parser.add_argument("--seconds", type=float, default=600.0, help="for fresh worlds")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000)
    options = parser.parse_args()
    soak = run_worlds(options.seed, options.seconds)
    caught = [(mutant, _tell(mutant, catch(mutant))) for mutant in MUTANTS]
    seen = {mutant.breaks: found.seed for mutant, found in caught if found is not None}
    SEEDS.write_text(json.dumps({**known_seeds(), **seen}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(soak, caught))
    print(f"prove: {PAGE} is written")
    return 1 if soak.failing_seeds or any(found is None for _, found in caught) else 0


def run_worlds(seed: int, seconds: float) -> Soak:
    """One seed after another, for so long."""
    soak, started = Soak(), time.monotonic()
    while time.monotonic() - started < seconds:
        verdict = judge_world(draw(seed))
        kinds = {incident.kind for incident in verdict.scenario.incidents}
        soak.worlds += 1
        soak.simulated_ns += verdict.simulated_ns
        soak.requests += verdict.requests
        soak.faults += verdict.faults
        soak.crashes += verdict.crashes
        soak.met.update(kinds)
        if verdict.violations:
            soak.failing_seeds.append(seed)
            soak.violated.update(kinds)
            print(f"prove: python -m remora.sim.fuzz --seed {seed}: {verdict.violations[0]}", flush=True)
        seed += 1
    soak.took_s = time.monotonic() - started
    return soak


def page(soak: Soak, caught: list[tuple[Mutant, Caught | None]]) -> str:
    """The page, from what was measured."""
    lines = [
        "# Reliability",
        "",
        "Written by `make prove`; do not edit. Every number is from the run named here.",
        "",
        _where(),
        "",
        "## Random worlds",
        "",
        _counts(soak),
        "",
        "In each world the same promises are checked after every step: no id or key is forgotten, frontier and watermark never",
        "pass what is unresolved, no window holds more than the ceiling, a wait that the provider asked for is kept, no two",
        "leases are alive, no history is lost, no secret is written, memory is bounded, and the words of the status are true.",
        "After the faults have stopped and one rescan or full walk has run, store and world are equal.",
        "",
        "| incident | expected | worlds with it | violated |",
        "|---|---|---:|---:|",
        *(f"| {kind} | {EXPECTED[kind]} | {soak.met[kind]} | {soak.violated[kind]} |" for kind in IncidentKind),
        "",
        "A failing world is replayed with `python -m remora.sim.fuzz --seed N` and made short with `--shrink`.",
        "",
        "## Planted bugs",
        "",
        f"{sum(found is not None for _, found in caught)} of {len(caught)} are caught within {LIMIT_S} s of one core.",
        "",
        "| room | what is broken | seed | s | first violation |",
        "|---|---|---:|---:|---|",
        *(_row(mutant, found) for mutant, found in caught),
        "",
    ]
    return "\n".join(lines)


def _where() -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"Commit {_commit()}, Python {platform.python_version()}, {machine}."


def _counts(soak: Soak) -> str:
    return (
        f"{soak.worlds} worlds, {soak.simulated_ns / DAY_NS:.1f} simulated days, {soak.requests:,} requests, "
        f"{soak.faults:,} faults, {soak.crashes:,} crashes, {len(soak.failing_seeds)} worlds with violations, "
        f"{soak.worlds / max(soak.took_s, 1):.2f} seeds per second over {soak.took_s:.0f} s on one core."
    )


def _row(mutant: Mutant, found: Caught | None) -> str:
    if found is None:
        return f"| {mutant.room} | {mutant.breaks} | – | – | not caught |"
    violation = found.violation.replace("|", "/")[:90]
    return f"| {mutant.room} | {mutant.breaks} | {found.seed} | {found.seconds} | {violation} |"


def _tell(mutant: Mutant, found: Caught | None) -> Caught | None:
    print(f"prove: {mutant.breaks}: {'not caught' if found is None else f'seed {found.seed}'}", flush=True)
    return found


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    done = subprocess.run([git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
