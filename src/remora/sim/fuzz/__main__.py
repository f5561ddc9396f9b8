"""How do I replay one world, or try many? `python -m remora.sim.fuzz --seed 7`, or `--seconds 600`."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import count, islice
from pathlib import Path

import msgspec

from remora.core.units import DAY_NS
from remora.sim.fuzz.dialects import Dialect
from remora.sim.fuzz.many import try_many
from remora.sim.fuzz.record import keep
from remora.sim.fuzz.scenario import Scenario, draw
from remora.sim.fuzz.shrink import shrink
from remora.sim.fuzz.world import Verdict, judge_world

COMMAND = "python -m remora.sim.fuzz"


def main() -> int:
    """Exit code 0: no violation; 1: at least one."""
    options = _parser().parse_args()
    if options.scenario is not None:
        scenario = msgspec.json.decode(Path(options.scenario).read_bytes(), type=Scenario)
        return _one(scenario, options)
    if options.seconds is None and options.worlds is None:
        return _one(draw(options.seed), options)
    return _many(options)


def _one(scenario: Scenario, options: argparse.Namespace) -> int:
    verdict = judge_world(scenario)
    tell(verdict)
    if verdict.violations and options.shrink:
        first = _shape(verdict.violations[0])
        short = shrink(scenario, lambda one: any(_shape(told) == first for told in judge_world(one).violations))
        _say(msgspec.json.format(msgspec.json.encode(short)).decode())
        path = Path(f"fuzz-{scenario.seed}.json")
        path.write_bytes(msgspec.json.encode(short))
        _say(
            f"{len(short.incidents)} of {len(scenario.incidents)} incidents are left; replay: {COMMAND} --scenario {path}"
        )
    return 1 if verdict.violations else 0


def _many(options: argparse.Namespace) -> int:
    def tell_if_wanted(verdict: Verdict) -> None:
        if options.verbose or verdict.violations:
            tell(verdict)

    totals = try_many(
        _seeds(options), workers=options.workers, seconds=options.seconds, first=options.first, tell=tell_if_wanted
    )
    _say(str(totals))
    if options.record is not None:
        keep(totals, Path(options.record), commit=options.commit, which=" ".join(options.where))
    return 1 if totals.failing_seeds else 0


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    """The seeds of the wanted worlds; others are drawn and skipped, which is cheap."""
    wanted = dict(pair.split("=", 1) for pair in options.where)
    fitting = (seed for seed in count(options.seed) if fits(draw(seed), wanted))
    return islice(fitting, options.worlds)


def fits(scenario: Scenario, wanted: Mapping[str, str]) -> bool:
    """Whether every named field has one of its wanted values. Of the incidents, one is enough."""
    return all(not _values(scenario, name).isdisjoint(values.split(",")) for name, values in wanted.items())


def _values(scenario: Scenario, name: str) -> set[str]:
    match name:
        case "incident":
            return {incident.kind.value for incident in scenario.incidents}
        case "limit":
            return {scenario.limit.kind}
        case "details" | "scope" | "order" | "turning" | "posts" | "channels":
            return {str(getattr(scenario.form, name))}
        case "uses":
            return set(scenario.uses.words())
        case "searched" | "readers" | "kept_small" | "forgets_revisions" | "verified":
            return {str(getattr(scenario.uses, name))}
        case _:
            return {str(getattr(scenario, name))}


def tell(verdict: Verdict) -> None:
    """Print how a world ended, and how a violated one is replayed."""
    scenario = verdict.scenario
    _say(
        f"seed {scenario.seed}: {scenario.shape}{_form(scenario)}, {scenario.store}, {scenario.processes} process(es), "
        f"{len(scenario.incidents)} incidents{_dialect(scenario)}, {verdict.simulated_ns / DAY_NS:.2f} days, {verdict.requests} requests, "
        f"{verdict.faults} faults, {verdict.crashes} crashes, {verdict.limited_most} refusals in the worst minute, trace {verdict.trace}: "
        f"{'violated' if verdict.violations else 'well'}"
    )
    for violation in verdict.violations:
        _say(f"  {violation}")
    if verdict.violations:
        _say(f"  replay: {COMMAND} --seed {scenario.seed}    shorten: {COMMAND} --seed {scenario.seed} --shrink")


def _form(scenario: Scenario) -> str:
    form = scenario.form
    words = [
        form.details,
        form.scope,
        f"by {form.order}",
        form.turning,
        "POST" if form.posts else "",
        f"{form.channels} channels" if form.channels else "",
    ]
    return "" if scenario.shape.paging is None else f" ({' '.join(word for word in words if word)})"


def _dialect(scenario: Scenario) -> str:
    words = "" if scenario.dialect is Dialect.STATUS else f', "too many" as {scenario.dialect}'
    return f"{words}, a new credential every {scenario.rotates_every_s:g} s" if scenario.rotates_every_s else words


def _say(text: str) -> None:
    print(text, flush=True)


def _shape(violation: str) -> str:
    """The violation without its numbers; a shorter world must show the same."""
    return "".join(letter for letter in violation if not letter.isdigit())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Random worlds in virtual time, each from one seed.")
    parser.add_argument("--seed", type=int, default=1, help="the world, or the first of many (default 1)")
    parser.add_argument("--worlds", type=int, help="how many worlds")
    parser.add_argument("--seconds", type=float, help="try one seed after another for so long")
    parser.add_argument(
        "--workers", type=int, default=1, help="worlds at a time, each in a process (default 1); 0: in this process"
    )
    parser.add_argument("--record", help="a JSON file to which the totals of this run are added")
    parser.add_argument("--commit", default="unknown", help="the commit that is recorded")
    parser.add_argument("--where", nargs="*", default=[], help="only such worlds, as shape=offset,page incident=ban")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--verbose", action="store_true", help="tell of every world")
    parser.add_argument("--shrink", action="store_true", help="find the shortest world that still fails")
    parser.add_argument("--scenario", help="replay a world from a file that --shrink wrote")
    return parser


if __name__ == "__main__":
    sys.exit(main())
