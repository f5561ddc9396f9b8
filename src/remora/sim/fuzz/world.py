"""What happens in one world? A scenario runs from its beginning to its verdict, in virtual time."""

import asyncio
import logging
import signal
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec
import structlog

from remora.core.item import Item, Readable
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.loops.numbered.inbox import MEMORY_MAX
from remora.sim.clock import Deadlock, Livelock, RanTooLong, SimClock, run
from remora.sim.fanned import Channels, Fanned
from remora.sim.faults import FaultKind, Faults, Flood, Outage, StreamFaults
from remora.sim.fuzz.credentials import Rotation
from remora.sim.fuzz.dumping import import_dump
from remora.sim.fuzz.judge import CANARY, Judge
from remora.sim.fuzz.left_out import LeftOut
from remora.sim.fuzz.lives import SPARSE, Home, Process
from remora.sim.fuzz.readout import Readout
from remora.sim.fuzz.scenario import Incident, IncidentKind, Scenario, Size, SourceShape
from remora.sim.fuzz.settling import settle
from remora.sim.fuzz.sharing_account import Fairness
from remora.sim.fuzz.stage import Stage, honest
from remora.sim.fuzz.using import Using
from remora.sim.limits import Limit
from remora.sim.listed import Archive, ArchiveSettings
from remora.sim.lives import Chances
from remora.sim.provider import Provider
from remora.sim.world import World, WorldSettings
from remora.sources.hackernews_item import decode_item
from remora.sources.numbered import DeclaredReading

# Small worlds are looked at often: some mistakes can be seen for seconds only. Lists change less: eight times as long.
LOOK_EVERY_NS: Final = {Size.SMALL: 31 * SECOND_NS, Size.LARGE: 7 * MINUTE_NS, Size.LONG: 56 * MINUTE_NS}
AWAKE_AFTER_NS: Final = 20 * SECOND_NS
LONGEST_NS: Final = 90 * DAY_NS
# A world that uses so much of the processor hangs. Small ones need one to twenty seconds, the largest about a minute.
PROCESSOR_S_MAX: Final = {Size.SMALL: 100.0, Size.LARGE: 300.0, Size.LONG: 300.0}
TASKS_MAX: Final = 500
SECOND_ENTRIES: Final = 400
# Once the rate law knows a limit, it keeps refusals to a few per minute; without learning there are hundreds.
LIMITED_PER_MINUTE_MAX: Final = 30
_RATE_MAX: Final = 0.06
_PER_HOUR_MAX: Final = 8.0


@dataclass(slots=True)
class Verdict:
    """How a world ended, and what happened in it."""

    scenario: Scenario
    violations: list[str] = field(default_factory=list)
    simulated_ns: int = 0
    requests: int = 0
    faults: int = 0
    crashes: int = 0
    looks: int = 0
    limited_most: int = 0  # refusals of the hidden limit in the worst minute
    trace: str = ""


class Spins(KeyboardInterrupt):
    """A world uses the processor and does not go on. An interrupt, because asyncio passes no other error through a task."""


class Violated(Exception):
    """A promise is broken: the world ends here."""


def judge_world(scenario: Scenario) -> Verdict:
    """Run one world to its end, or to the first violation."""
    verdict = Verdict(scenario)
    judge = Judge(_content_of(scenario.shape))
    before = structlog.get_config()
    structlog.configure(
        processors=[_listening(judge)], wrapper_class=structlog.make_filtering_bound_logger(logging.INFO)
    )

    async def main(clock: SimClock) -> None:
        with tempfile.TemporaryDirectory(prefix="remora-fuzz-") as folder:
            await _live_through(scenario, clock, judge, verdict, Path(folder))

    try:
        with at_most(PROCESSOR_S_MAX[scenario.size]):
            run(main, seed=scenario.seed, limit_ns=LONGEST_NS)
    except Violated:
        pass
    except Spins as spins:
        judge.fail(str(spins))
    except (Deadlock, Livelock, RanTooLong) as stuck:
        judge.fail(f"{type(stuck).__name__}: {stuck}")
    except Exception as error:  # noqa: BLE001  any error that escapes production code is a violation
        judge.fail(f"{type(error).__name__}: {error}")
    finally:
        structlog.configure(**before)
    verdict.violations = judge.violations
    verdict.looks = judge.looks
    return verdict


@contextmanager
def at_most(processor_s: float) -> Iterator[None]:
    """Interrupt a world that spins without ever waiting: no virtual time passes in it, so only real time can tell."""

    def interrupt(_signal: int, frame: FrameType | None) -> None:
        place = "" if frame is None else f" in {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        raise Spins(f"the world did not end within {processor_s:g} s of processor time{place}")

    before = signal.signal(signal.SIGPROF, interrupt)
    # Again and again: after the first interrupt, asyncio cancels all tasks, and one that spins may swallow that.
    signal.setitimer(signal.ITIMER_PROF, processor_s, max(processor_s / 10, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _listening(judge: Judge) -> Any:
    def listen(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        judge.told(repr(event), where="the log")
        raise structlog.DropEvent

    return listen


async def _live_through(scenario: Scenario, clock: SimClock, judge: Judge, verdict: Verdict, folder: Path) -> None:
    stage = _make_stage(scenario, clock, judge)
    stage.archive_pages, stage.form = scenario.shape is SourceShape.PAGE, scenario.form
    stage.dialect, stage.refusals_max = scenario.dialect, scenario.refusal_limit
    if scenario.rotates_every_s:
        stage.rotation = Rotation(CANARY, scenario.rotates_every_s, clock.true_ns)
    judge.keeps_contents = not scenario.uses.forgets_revisions
    judge.stage, judge.is_exact = stage, scenario.store == "memory"
    home = Home(scenario, clock, stage, judge, folder)
    processes = [Process(home, number) for number in range(scenario.processes)]
    using = Using(home)
    dump = scenario.uses.dump
    try:
        if dump is not None and not dump.at_s:
            await import_dump(home, dump)
        end_ns = round(scenario.hours * 3_600 * SECOND_NS)
        tasks = [asyncio.ensure_future(process.live_on()) for process in processes]
        beside = using.begin(processes)
        try:
            await _until(end_ns, home, processes, tasks)
        finally:
            for task in (*tasks, *beside):
                task.cancel()
            await asyncio.gather(*tasks, *beside, return_exceptions=True)
        if stage.limited_most > LIMITED_PER_MINUTE_MAX:
            judge.fail(f"the hidden limit refused {stage.limited_most} requests in one minute, long after the first")
        _stop_if_violated(judge)
        await settle(home)
        await using.finish()
    finally:
        verdict.simulated_ns, verdict.requests, verdict.trace = clock.monotonic_ns(), stage.requests, stage.trace
        verdict.faults = stage.faults_met.total() + home.trouble.failures
        verdict.limited_most = stage.limited_most
        verdict.crashes = sum(process.crashes for process in processes)
        with suppress(Exception):
            await home.close()


async def _until(end_ns: int, home: Home, processes: list[Process], tasks: list["asyncio.Task[None]"]) -> None:
    """Check everything every few minutes, and let the incidents happen in between."""
    readout, left_out, fairness = Readout(home, processes), LeftOut(home, processes), Fairness(home, processes)
    moments: list[tuple[int, int, Incident]] = []
    for number, incident in enumerate(home.scenario.incidents):
        starts_ns = round(incident.at_s * SECOND_NS)
        moments.append((starts_ns, 2 * number, incident))
        moments.append((starts_ns + round(incident.for_s * SECOND_NS), 2 * number + 1, incident))
    moments = sorted((moment for moment in moments if moment[0] < end_ns), key=lambda moment: moment[:2])
    looks_ns = LOOK_EVERY_NS[home.scenario.size] * (1 if home.scenario.shape.paging is None else 8)
    while home.clock.monotonic_ns() < end_ns:
        next_ns = moments[0][0] if moments else end_ns
        await home.clock.sleep_until(min(next_ns, home.clock.monotonic_ns() + looks_ns, end_ns))
        while moments and moments[0][0] <= home.clock.monotonic_ns():
            _, number, incident = moments.pop(0)
            _happen(home, processes, incident, begins=number % 2 == 0)
            if incident.kind in {
                IncidentKind.STALL,
                IncidentKind.SUSPEND,
            }:  # who has just woken up still believes what was true before
                await home.clock.sleep_until(home.clock.monotonic_ns() + AWAKE_AFTER_NS)
        await _look(home, processes, readout)
        if home.scenario.shape.paging is None and (reader := await home.reader()) is not None:
            await left_out.look(reader)
            await fairness.look(reader)
        for task in tasks:
            if task.done():
                home.judge.fail(f"a process could not start again: {task.exception()!r}")
        _stop_if_violated(home.judge)


def _happen(home: Home, processes: list[Process], incident: Incident, *, begins: bool) -> None:
    process = processes[incident.seed % len(processes)]
    match incident.kind:
        case IncidentKind.CRASH if begins:
            calls = 0 if incident.detail == "at once" else int(incident.amount)
            down_ns = round(incident.for_s * SECOND_NS)
            process.crash(calls=calls, after_effect=incident.detail == "after", down_for_ns=down_ns)
        case IncidentKind.RESTART if begins:
            process.stop(down_for_ns=round(incident.for_s * SECOND_NS))
        case IncidentKind.STALL if begins:
            home.clock.stall(round(incident.for_s * SECOND_NS))
        case IncidentKind.SUSPEND if begins:
            home.stage.forgive()
            home.clock.suspend(process.life, round(incident.for_s * SECOND_NS))
        case IncidentKind.STEP if begins:
            home.judge.clock_stepped = True
            home.stage.hints.clear()
            home.clock.step_wall(round(incident.amount * SECOND_NS))
        case IncidentKind.STORE_DOWN:
            home.stage.hints.clear()
            home.stage.let_store(works=not begins)
            is_shared = home.scenario.store == "memory"
            home.trouble.begin(
                incident.seed, lost_answers=is_shared and incident.amount > 0.5
            ) if begins else home.trouble.end()
        case IncidentKind.DISK_FULL:
            home.stage.hints.clear()
            home.stage.let_store(works=not begins)
            home.fill_disk(is_full=begins)
        case (
            IncidentKind.BAN
            | IncidentKind.WRONG_HINT
            | IncidentKind.LIE
            | IncidentKind.WEATHER
            | IncidentKind.BAD_ITEMS
        ):
            home.judge.is_lied_to |= incident.kind is IncidentKind.LIE
            (home.stage.begin if begins else home.stage.end)(incident)
            home.stage.provider.set_faults(_faults(home))
        case _:
            pass  # the provider knows outages and floods from the beginning


async def _look(home: Home, processes: list[Process], readout: Readout) -> None:
    judge = home.judge
    if len(asyncio.all_tasks()) > TASKS_MAX * len(processes):
        judge.fail(f"{len(asyncio.all_tasks())} tasks are alive")
    for process in processes:
        if process.is_awake() and process.running is not None and process.running.service is not None:
            state = process.running.service.state()
            if state.inbox_in_memory > MEMORY_MAX:
                judge.fail(f"{state.inbox_in_memory} inbox entries are in memory")
    reader = await home.reader()
    if reader is not None:
        await judge.look(reader, is_numbered=home.scenario.shape.paging is None)
        await readout.look(reader)


def _stop_if_violated(judge: Judge) -> None:
    if judge.violations:
        raise Violated


# -- what the world is made of -------------------------------------------------------------------------------------


def _make_stage(scenario: Scenario, clock: SimClock, judge: Judge) -> Stage:
    is_sparse = scenario.shape is SourceShape.NUMBERED
    world = World(
        WorldSettings(
            seed=scenario.seed,
            items=scenario.items,
            new_per_day=scenario.new_per_day,
            absent_share=0.3 if is_sparse else 0.002,
            odd_share=0.0 if is_sparse else 0.003,
            chances=Chances(late=0.1, delayed=0.05, deleted=0.1, dead=0.1, dead_and_deleted=0.02, edited=0.3),
        )
    )
    listed = scenario.shape.paging is not None
    provider = Provider(
        world,
        Faults(seed=scenario.seed, limit=scenario.limit if not listed else Limit(), **_from_the_beginning(scenario)),
        now=clock.true_ns,
        ticks=clock.monotonic_ns,
        archive=_archive(scenario) if listed else _second(scenario),
    )
    return Stage(
        provider,
        ceiling_interval_ns=round(SECOND_NS / scenario.ceiling_per_s),
        is_sparse=is_sparse,
        fail=judge.fail,
    )


def _archive(scenario: Scenario) -> Archive:
    """The lists of a listed world: one, or one for each channel."""
    settings = ArchiveSettings(
        seed=scenario.seed,
        conversations=scenario.items,
        added_per_day=scenario.new_per_day,
        token=CANARY,
        limit=scenario.limit,
        removed_share=Random(scenario.seed).choice([0.02, 0.2, 0.6]),
    )
    if not scenario.form.channels:
        return Archive(settings)
    chance = Random(f"channels/{scenario.seed}")
    added = chance.choice([0.0, 0.1, 0.4] if scenario.size is Size.LONG else [0.0, 2.0, 8.0])
    return Fanned(settings, Channels(scenario.form.channels, added, chance.choice([0.0, 0.2, 0.5])))


def _second(scenario: Scenario) -> Archive | None:
    """The list of the second source. It is long: the ids wait for their share of the turns for a while."""
    settings = ArchiveSettings(seed=scenario.seed, conversations=SECOND_ENTRIES, token=CANARY, limit=Limit())
    return Archive(settings) if scenario.uses.second else None


def _from_the_beginning(scenario: Scenario) -> dict[str, Any]:
    """Outages and floods, which the provider knows from the beginning."""
    outages = tuple(
        Outage(incident.at_s, incident.at_s + incident.for_s, incident.detail)  # type: ignore[arg-type]
        for incident in scenario.incidents
        if incident.kind is IncidentKind.OUTAGE
    )
    floods = tuple(
        Flood(incident.at_s, incident.at_s + min(incident.for_s, 120.0), ids_per_second=50 * incident.amount)
        for incident in scenario.incidents
        if incident.kind is IncidentKind.FLOOD
    )
    return {"outages": outages, "stream": StreamFaults(missed_share=scenario.missed_share, floods=floods)}


def _faults(home: Home) -> Faults:
    """The faults of the provider during the current incidents."""
    scenario, stage = home.scenario, home.stage
    faults = Faults(seed=scenario.seed, limit=stage.provider.faults.limit, **_from_the_beginning(scenario), slow_s=3.0)
    rates: dict[FaultKind, float] = {}
    stream = faults.stream
    for incident in stage.active(IncidentKind.WEATHER):
        chance = Random(incident.seed)
        kinds = list(FaultKind) if scenario.backstop else honest(list(FaultKind))
        for kind in chance.sample(kinds, k=chance.randint(1, 5)):
            rates[kind] = chance.uniform(0, _RATE_MAX)
        per_hour = [chance.uniform(0, _PER_HOUR_MAX) if chance.random() < 0.4 else 0.0 for _ in range(4)]
        stream = msgspec.structs.replace(
            stream,
            drops_per_hour=per_hour[0],
            zombies_per_hour=per_hour[1],
            cancels_per_hour=per_hour[2],
            revokes_per_hour=per_hour[3],
        )
    ids: dict[str, FaultKind] = {}
    for incident in stage.active(IncidentKind.BAD_ITEMS):
        chance = Random(incident.seed)
        first, kind = chance.randint(1, scenario.items), chance.choice(honest(list(FaultKind)))
        last = first + chance.randint(1, 25) - 1
        archive = stage.provider.archive
        keys = [str(item_id) for item_id in range(first, last + 1)]
        if archive is not None and scenario.shape.paging is not None:
            keys = archive.keys(first, last, stage.provider.now())
        ids |= dict.fromkeys(keys, kind)
    return msgspec.structs.replace(faults, rates=rates, stream=stream, ids=ids)


def _content_of(shape: SourceShape) -> Any:
    reading = DeclaredReading(SPARSE)

    def content(item_id: int, body: bytes) -> bytes:
        decoded = decode_item(item_id, body) if shape is SourceShape.HACKERNEWS else reading.item(item_id, body)
        if not isinstance(decoded, Readable) or not isinstance(decoded.thing, Item):
            return b"?"
        return decoded.thing.content_in(body) or b"?"

    return content
