"""Is each source of an account served? None starves while another one sends, and each is complete in the end."""

from typing import Final

from remora.contracts import Store
from remora.core.ledger.gap import GapState
from remora.core.ledger.notes import FULL_WALK_NOTE
from remora.core.ledger.run import PRESSURE, StoppedBy
from remora.core.units import HOUR_NS, MINUTE_NS
from remora.loops.listed.run import ListedRun, RunOptions
from remora.sim.fuzz.judge import NAME
from remora.sim.fuzz.lives import Home, Process, Running
from remora.sim.fuzz.second_source import SECOND
from remora.sim.fuzz.stage import IDS, LISTS

RUNS_MAX: Final = 24
# A source has work and makes no progress for so long, and so many requests of the other one are sent meanwhile: it starves.
# Each lane is guaranteed one of twenty turns.
STARVED_NS: Final = 4 * MINUTE_NS
STARVED_AFTER: Final = 80


class Fairness:
    """Whether a source with work waits while the other one is served."""

    def __init__(self, home: Home, processes: list[Process]) -> None:
        self._home = home
        self._processes = processes
        # By source: since when it waits, how far it was then, and what the other one had sent.
        self._waits: dict[str, tuple[int, tuple[int, ...], int]] = {}

    async def look(self, store: Store) -> None:
        """Fail if a source starves."""
        if not self._home.scenario.uses.second:
            return
        stage, left = self._home.stage, sum((await store.open_segments(NAME)).values())
        # One refused id holds the cursor until all others of its batch had their turn, so answers count as well.
        answered = sum(item_id <= self._home.scenario.items for item_id in stage.honest.keys() | stage.absences.keys())
        is_awake = any(process.is_awake() for process in self._processes)
        self._check(IDS, LISTS, has_work=left > 0 and is_awake, progress=(left, answered))
        self._check(LISTS, IDS, has_work=self._is_running(), progress=(stage.sent[LISTS],))

    def _check(self, source: str, other: str, *, has_work: bool, progress: tuple[int, ...]) -> None:
        now_ns, others = self._home.clock.monotonic_ns(), self._home.stage.sent[other]
        since_ns, before, others_before = self._waits.get(source, (now_ns, (), 0))
        if not has_work or progress != before:
            self._waits[source] = (now_ns, progress, others)
        elif now_ns - since_ns >= STARVED_NS and others - others_before >= STARVED_AFTER:
            minutes = (now_ns - since_ns) // MINUTE_NS
            self._home.judge.fail(f"{source} starve: {others - others_before} requests for {other} in {minutes} min")

    def _is_running(self) -> bool:
        """Whether a run over the list is under way in each process that is awake: one of them has the lease."""
        running = [process.running for process in self._processes if process.is_awake()]
        schedules = [one.second.schedule for one in running if one is not None and one.second is not None]
        return bool(schedules) and all(one is not None and one.state().doing != "waiting" for one in schedules)


async def settle_second(home: Home, running: Running) -> None:
    """After the faults have stopped and two full walks were complete, the second source equals its list."""
    second, archive = running.second, home.stage.provider.archive
    if second is None or archive is None:
        return
    store, clock = running.given.store, running.given.clock
    completed, since_ns = 0, home.clock.true_ns()
    for _ in range(RUNS_MAX):
        since_ns = home.clock.true_ns() if not completed else since_ns
        await store.keep_note(SECOND, FULL_WALK_NOTE, 0)
        await store.replay_gaps(SECOND, now_ns=clock.wall_ns())
        options, governor = RunOptions(force=True), running.given.governor
        run = ListedRun(SECOND, second.collector, store, governor, clock=clock, owner="last", options=options)
        completed += (await run.run_once()).stopped_by is StoppedBy.COMPLETE
        if completed >= 2 and not await owes_refused(store, SECOND):
            break
        await home.clock.sleep_until(home.clock.monotonic_ns() + HOUR_NS)
    else:
        if completed < 2:
            home.judge.fail("no run of the second source was complete after the faults had stopped")
    held = {document.key: document.body async for document in store.documents(SECOND)}
    before, now = archive.readable(since_ns), archive.readable(home.clock.true_ns())
    for key, body in now.items():
        if before.get(key) == body and held.get(key) != body:
            home.judge.fail(
                f"the second source and its list differ: {key} is {'outdated' if key in held else 'missing'}"
            )


async def owes_refused(store: Store, source: str) -> bool:
    """Whether the hidden limit refused something of a complete run: the next one asks for it again."""
    return any(gap.state is GapState.OWED and gap.reason in PRESSURE for gap in await store.gaps(source))
