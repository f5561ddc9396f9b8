"""What has been proven, on which commit and which machine? Worlds, planted bugs, mutants, kills: docs/reliability.md.

`make prove` runs everything and writes the page. `python -m tools.prove --page` writes it again from what was recorded.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from remora.sim.fuzz.many import try_many
from remora.sim.fuzz.record import RecordedRun, keep, machine, read
from remora.sim.fuzz.scenario import IncidentKind
from remora.sim.fuzz.world import Verdict
from tests.mutants.runner import LIMIT_S, Caught, catch, is_seen_by_its_test, keep_caught, known
from tests.mutants.table import MUTANTS, Mutant
from tools import mutation_run, prove_faults, prove_kills
from tools.mutation import interval
from tools.mutation_explained import EXPLAINED
from tools.mutation_run import MutationRun, Tried
from tools.prove_faults import Faulted
from tools.prove_found import FOUND
from tools.prove_kills import Killed, commit
from tools.prove_parts import run_parts, source_commit
from tools.prove_real import REAL, Real
from tools.real_faults import CASES

PAGE = Path("docs/reliability.md")
RECORD = Path("docs/reliability.json")
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
    IncidentKind.SUSPEND: "the others take over; what it still does with outdated leases is refused",
    IncidentKind.STEP: "gaps fall due, an older answer never overwrites a newer one",
    IncidentKind.STORE_DOWN: "nothing is sent that could not be stored for long; nothing is lost",
    IncidentKind.DISK_FULL: "what does not fit is not acknowledged; it goes on by itself once there is room",
}
USED = {
    "search": "a word finds exactly what has it, also after the indexer was killed and the index was built anew",
    "readers": "every change arrives at least once, without a hole; a copy that is kept by the feed alone equals the mirror",
    "retention": "only what is old and read by all is deleted, and all of that",
    "verify": "every finding is true, and what differed is healed",
    "import": "what was held stays; an old dump with holes and damaged lines leaves no id out; store and world are equal in the end",
    "second source": "a list shares the account of a numbered source: one ceiling, neither starves, both are complete in the end",
}


def main() -> int:
    """Exit code 1 where a world is violated, a planted bug is not caught or a kill loses something."""
    parser = argparse.ArgumentParser(prog="make prove")
    parser.add_argument("--seconds", type=float, default=600.0, help="for fresh worlds")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000)
    parser.add_argument("--workers", type=int, default=2, help="worlds at a time")
    parser.add_argument("--kills", type=int, default=1_000, help="how many processes are killed")
    parser.add_argument("--mutants", type=int, default=300, help="how many small changes of core/ are tried")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="seconds of processor time for each planted bug")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    is_well = options.page or prove(options)
    PAGE.write_text(
        page(
            read(RECORD),
            [(mutant, known().get(mutant.breaks)) for mutant in MUTANTS],
            prove_kills.read(),
            mutation_run.read(),
            prove_faults.read(),
        )
    )
    print(f"prove: {PAGE} is written")
    return 0 if is_well else 1


def prove(options: argparse.Namespace) -> bool:
    """Run everything and record it. Whether all of it was well. An interrupted run goes on with the part that it was at."""
    parts = {
        "worlds": lambda: _try_worlds(options),
        "planted bugs": lambda: _plant_bugs(options.limit),
        "small changes": lambda: _change_core(options.mutants),
        "faults": _suffer_faults,
        "kills": lambda: not any(one.violations for one in prove_kills.kill_many(options.kills, record=True)),
    }
    return run_parts(parts, of=source_commit(), tell=lambda text: print(f"prove: {text}", flush=True))


def _try_worlds(options: argparse.Namespace) -> bool:
    totals = try_many(
        count(options.seed), workers=options.workers, seconds=options.seconds, first=False, tell=_tell_of_world
    )
    print(f"prove: {totals}", flush=True)
    keep(totals, RECORD, commit=commit())
    return not totals.failing_seeds


def _plant_bugs(limit_s: int) -> bool:
    caught = {mutant.breaks: _tell(mutant, catch(mutant, limit_s=limit_s)) for mutant in MUTANTS if not mutant.guard}
    keep_caught(caught)
    return None not in caught.values() and all(is_seen_by_its_test(mutant) for mutant in MUTANTS if mutant.guard)


def _change_core(mutants: int) -> bool:
    # In a process of its own: whoever has imported Remora cannot load a changed module instead.
    command = [sys.executable, "-m", "tools.mutation_run", "--mutants", str(mutants), "--record"]
    return subprocess.run(command, check=False).returncode == 0


def _suffer_faults() -> bool:
    faulted = prove_faults.suffer_all(CASES, seconds=None, together=prove_faults.TOGETHER, record=True)
    return not any(one.violations for one in faulted)


def page(
    runs: Sequence[RecordedRun],
    caught: Sequence[tuple[Mutant, Caught | None]],
    killed: Sequence[Killed],
    sample: MutationRun | None = None,
    faulted: Sequence[Faulted] = (),
) -> str:
    """The page, from what was recorded."""
    parts = [
        _worlds(runs),
        _found(),
        _planted(caught),
        _changed(sample),
        _hostile(),
        _real(),
        _faulted(faulted),
        _killed(killed),
    ]
    return "\n".join([*chain.from_iterable(parts), ""])


def _worlds(runs: Sequence[RecordedRun]) -> list[str]:
    met, violated = _added(run.met for run in runs), _added(run.violated for run in runs)
    days = sum(run.numbered_days + run.listed_days for run in runs)
    return [
        "# Reliability",
        "",
        "Written by `make prove` from recorded runs; do not edit. Every number is from a run that is named here. The parts: random",
        "worlds (production code in virtual time), what they found, bugs that are planted to see whether the worlds notice them, small",
        "changes of `core/` to see whether the tests notice them, real processes that are killed, and hostile input.",
        "",
        "## Random worlds",
        "",
        _so_far(runs, days),
        "",
        "| date | commit | machine | which | s | processes | worlds | days | requests | faults | crashes | violated |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(_run(run) for run in runs),
        "",
        "The same promises are checked in every world, in small ones every half minute and at every call of the store: no id",
        "or key is forgotten, frontier and watermark never pass what is unresolved, no window holds more than the ceiling, a",
        "wait that the provider asked for is kept, no two leases are alive, no history is lost, no secret is written, memory is",
        "bounded, and the words of the status are true. After the faults have stopped and one rescan or full walk has run, store",
        "and world are equal. A failing world is replayed with `python -m remora.sim.fuzz --seed N`.",
        "",
        "Worlds run in memory and on SQLite. A real server does not go with virtual time, so PostgreSQL is asked every call that the",
        "processes of some worlds made, in the same order, and must give the same answers and hold the same in the end",
        "(`tests/fuzz/test_worlds_on_postgres.py`).",
        "",
        "| fault | expected | worlds with it | of those violated |",
        "|---|---|---:|---:|",
        *(f"| {kind} | {EXPECTED[kind]} | {met[kind]:,} | {violated[kind]} |" for kind in IncidentKind),
        "",
        "In some worlds more is done with the mirror, most of it by programs that are killed at any of their calls:",
        "",
        "| use | expected | worlds with it | of those violated |",
        "|---|---|---:|---:|",
        *(f"| {use} | {expected} | {met[use]:,} | {violated[use]} |" for use, expected in USED.items()),
        "",
    ]


def _so_far(runs: Sequence[RecordedRun], days: float) -> str:
    return (
        f"So far {sum(run.worlds for run in runs):,} worlds and {days:,.1f} simulated days, "
        f"{sum(run.numbered_days for run in runs):,.1f} of them of numbered sources; "
        f"{sum(len(run.failing_seeds) for run in runs)} worlds with violations."
    )


def _run(run: RecordedRun) -> str:
    days = f"{run.numbered_days + run.listed_days:,.1f}"
    seeds = ", ".join(str(seed) for seed in run.failing_seeds) or "0"
    return (
        f"| {run.date} | {run.commit} | {run.machine} | {run.which or 'all'} | {run.seconds} | {run.processes} | {run.worlds} | {days} "
        f"| {run.requests:,} | {run.faults:,} | {run.crashes:,} | {seeds} |"
    )


def _found() -> list[str]:
    rows = [f"| {one.seed} | {one.where} | {one.what} | {one.shown_by} |" for one in FOUND]
    return [
        "## What the worlds found",
        "",
        "| seed | in | what was wrong | shown by |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _planted(caught: Sequence[tuple[Mutant, Caught | None]]) -> list[str]:
    guarded = [mutant for mutant, found in caught if found is None and mutant.guard]
    number = sum(found is not None for _, found in caught)
    return [
        "## Planted bugs",
        "",
        "Each is one change of production code that breaks a promise. Random worlds must see it.",
        "",
        f"{number} of {len(caught) - len(guarded)} have been caught within {LIMIT_S} s of processor time: one minute on two cores. Those without a seed were not.",
        f"{len(guarded)} more are harmless in a world, because another layer guards against them; the last column says which.",
        "",
        "| part | what is broken | seed | s | first violation |",
        "|---|---|---:|---:|---|",
        *(_planted_row(mutant, found) for mutant, found in caught),
        "",
    ]


def _planted_row(mutant: Mutant, found: Caught | None) -> str:
    if found is None:
        guard = f"guarded: {mutant.guard}; `{mutant.seen_by}`" if mutant.guard else "–"
        return f"| {mutant.room} | {mutant.breaks} | – | – | {guard} |"
    violation = found.violation.replace("|", "/")[:90]
    return f"| {mutant.room} | {mutant.breaks} | {found.seed} | {found.seconds} | {violation} |"


def _changed(run: MutationRun | None) -> list[str]:
    """How many small changes of core/ the tests notice."""
    if run is None:
        return []
    killed = sum(one.fate != "survived" for one in run.mutants)
    share, (low, high) = killed / max(1, len(run.mutants)), interval(killed, len(run.mutants))
    survivors = [one for one in run.mutants if one.fate == "survived"]
    unexplained = [one for one in survivors if (one.file, one.change) not in EXPLAINED]
    rows = [f"| {one.file.removeprefix('src/remora/')} | {_code(one.change)} | {_why(one)} |" for one in survivors]
    return [
        "## Small changes of core/",
        "",
        "One token of `core/` is changed: a comparison, a connective, an operator, a constant or a result; a constant of a thousand",
        "or more is doubled. The quick tests that run the changed line must fail.",
        "",
        f"Of {run.places:,} possible changes {len(run.mutants)} were drawn (seed {run.seed}, commit {run.commit}); the tests noticed {killed} of them: {share:.1%},",
        f"with a 95 % interval from {low:.1%} to {high:.1%}. {len(unexplained)} of the {len(survivors)} survivors are unexplained.",
        *_first(run),
        "",
        "| file | change | why no test notices it |",
        "|---|---|---|",
        *rows,
        "",
    ]


def _first(run: MutationRun) -> list[str]:
    if run.noticed_first is None:
        return []
    share = run.noticed_first / max(1, len(run.mutants))
    return [
        f"Tests were written for survivors of this very sample; before, {run.noticed_first} were noticed ({share:.1%}). A fresh sample lies between."
    ]


def _why(one: Tried) -> str:
    return EXPLAINED.get((one.file, one.change), "unexplained: a test is missing")


def _code(change: str) -> str:
    text = change.replace("|", "/").replace("\n", " ")
    return f"`{text[:137]}...`" if len(text) > 140 else f"`{text}`"


def _hostile() -> list[str]:
    """Which tests make up input."""
    return [
        "## Hostile input",
        "",
        "These run with every `make test`. schemathesis makes up requests for every address of the read API from its OpenAPI document",
        "(`tests/operate/test_hostile_api.py`). hypothesis makes up paths, queries, headers, forms and bytes for all pages of the console",
        "(`tests/operate/test_hostile_console.py`), configurations, quantities, queries, positions, dumps, packed bodies, HTML and HTTP",
        "answers (`tests/operate/test_hostile_input.py`), streams, announcements, items, pages, links, keys and headers",
        "(`tests/sources`, `tests/core`). atheris is not used: it builds only with a clang that contains libFuzzer.",
        "",
    ]


def _real() -> list[str]:
    rows = [f"| {one.fault} | {one.expected} | {_tests(one)} |" for one in REAL]
    return [
        "## Real processes, files and servers",
        "",
        "Faults of the machine that tests show with real processes, for seconds. The next table has the long ones.",
        "",
        "| fault | expected | shown by |",
        "|---|---|---|",
        *rows,
        "",
    ]


def _faulted(faulted: Sequence[Faulted]) -> list[str]:
    """What faults did to a running `up`."""
    rows = [
        f"| {one.fault} | {one.store} | {one.seconds:g} | {one.expected} | {_plain('; '.join(one.observed))} "
        f"| {_plain('; '.join(one.violations)) or '0'} | {one.commit} |"
        for one in faulted
    ]
    return [
        "## Faults of a running `up`",
        "",
        "A real `up` mirrors a simulated provider on loopback while the fault lasts. Afterwards it must complete the mirror and end on",
        "request. Then the store is whole, equals the provider, nothing is in it twice, and no window of arrivals exceeds the ceiling.",
        "`python -m tools.prove_faults` runs them again.",
        "",
        "| fault | store | s | expected | observed | violations | commit |",
        "|---|---|---:|---|---|---|---|",
        *rows,
        "",
    ]


def _plain(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def _tests(one: Real) -> str:
    return ", ".join(f"`{test.rpartition('/')[2]}`" for test in one.shown_by) or "\N{EN DASH}"


def _killed(killed: Sequence[Killed]) -> list[str]:
    rows = [
        f"| {one.date} | {one.commit} | `{one.command}` | {one.store} | {one.kills} | {len(one.violations)} |"
        for one in killed
    ]
    return [
        "## Killed processes",
        "",
        "Real processes against a simulated provider on loopback, killed with SIGKILL at random moments. After the last kill one",
        "process runs to its end: the store is whole and equals the provider, and no window of arrivals exceeds the ceiling.",
        f"So far {sum(one.kills for one in killed):,} kills, {sum(len(one.violations) for one in killed)} violations.",
        "",
        "| date | commit | command | store | kills | violations |",
        "|---|---|---|---|---:|---:|",
        *rows,
        "",
        f"This page: commit {commit()}, {machine()}.",
    ]


def _added(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _tell_of_world(verdict: Verdict) -> None:
    if verdict.violations:
        seed = verdict.scenario.seed
        print(f"prove: python -m remora.sim.fuzz --seed {seed}: {verdict.violations[0]}", flush=True)


def _tell(mutant: Mutant, found: Caught | None) -> Caught | None:
    print(f"prove: {mutant.breaks}: {'not caught' if found is None else f'seed {found.seed}'}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
