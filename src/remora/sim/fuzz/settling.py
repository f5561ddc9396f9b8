"""What must be true once the faults have stopped? After one rescan or full walk the store equals the world."""

import asyncio
from typing import Final

from remora.contracts import Store
from remora.core.ledger import marks
from remora.core.ledger.discovery import Kind
from remora.core.ledger.notes import FULL_WALK_NOTE
from remora.core.ledger.run import StoppedBy
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.loops.listed.run import ListedRun, RunOptions
from remora.loops.numbered.rescan import Rescan, RescanSettings
from remora.loops.recover import Recover, Recovery
from remora.sim.checks import compare
from remora.sim.crash import Generation
from remora.sim.fanned import Fanned
from remora.sim.fuzz.forms import CHANNELS, Scope, truth
from remora.sim.fuzz.judge import AT_REST, GAPS_READ_MAX, NAME
from remora.sim.fuzz.lives import WINDOW_NS, Home, Running
from remora.sim.fuzz.sharing_account import owes_refused, settle_second
from remora.sim.fuzz.verifying import verify_some
from remora.sim.listed import Archive

ROUNDS_MAX: Final = 12
RUNS_MAX: Final = 24
CALM_NS: Final = 8 * MINUTE_NS
INBOX_LOOKS_NS: Final = 10 * SECOND_NS
INBOX_WAIT_NS: Final = 30 * MINUTE_NS

Key = tuple[Kind, str]


async def settle(home: Home) -> None:
    """Heal the provider, let one more process do the remaining work, and compare the mirror with the world."""
    home.stage.calm()
    home.trouble.end()
    home.fill_disk(is_full=False)
    running = await home.start(Generation(), "last")
    try:
        # The provider may have asked for a pause of hours, justified or not: nothing is sent before it ends.
        while wait_ns := running.given.governor.state().not_before_in_ns:
            await home.clock.sleep_until(home.clock.monotonic_ns() + wait_ns)
        if running.service is not None:
            await _settle_numbered(home, running)
        else:
            await _settle_listed(home, running)
        if home.scenario.uses.verified:
            await verify_some(home, running)
    finally:
        await running.given.governor.close()
        await running.given.real.close()


async def _settle_numbered(home: Home, running: Running) -> None:
    clock, store = home.clock, running.given.store
    working = asyncio.ensure_future(running.work())
    polls_ns = round(home.scenario.poll_every_s * SECOND_NS)
    await clock.sleep_until(clock.monotonic_ns() + max(CALM_NS, 2 * polls_ns))
    newest_id = home.stage.provider.world.max_id(clock.true_ns())
    while not working.done() and (await store.open_segments(NAME) or await _frontier(store) < newest_id):
        await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS)  # at a low pace it takes long, and is not lost
    since_ns = clock.true_ns()
    await clock.sleep_until(clock.monotonic_ns() + MINUTE_NS + polls_ns)
    waits = set() if home.scenario.backstop else await _serve_inbox(home, running, working)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    if home.scenario.backstop:
        await _rescan(running)
    await _recover_all(home, running)
    await home.judge.look(store, is_numbered=True)
    await home.judge.look_for_owed(store)
    await home.judge.look_at_histories(store)
    await _compare_items(home, running, since_ns, waits, newest_id)
    await settle_second(home, running)


async def _serve_inbox(home: Home, running: Running, working: "asyncio.Future[None]") -> set[Key]:
    """Wait for what is announced by now, and return what still waits.

    At a low pace that may be much, and is not lost. If nothing was fetched, nothing is excused.
    """
    store, clock = running.given.store, home.clock
    announced, heard_ns = await _waiting(store), running.given.clock.wall_ns()
    left, until_ns = announced, clock.monotonic_ns() + INBOX_WAIT_NS
    while left and clock.monotonic_ns() < until_ns and not working.done():
        await clock.sleep_until(clock.monotonic_ns() + INBOX_LOOKS_NS)
        left = {key for key in left & await _waiting(store) if not home.judge.was_fetched(key, since_ns=heard_ns)}
    return left if len(left) < len(announced) else set()


async def _frontier(store: Store) -> int:
    return (await store.coverage(NAME)).frontier(first_id=1)


async def _waiting(store: Store) -> set[Key]:
    return {(entry.kind, entry.key) for entry in await store.waiting(NAME, limit=GAPS_READ_MAX)}


async def _rescan(running: Running) -> None:
    service = running.service
    assert service is not None
    again = Rescan(
        NAME,
        running.collector,
        running.given.store,
        clock=running.given.clock,
        settings=RescanSettings(window_ns=WINDOW_NS),
        ages=lambda: service.state().update_ages,
        owner="last",
        width=8,
    )
    await again.want()
    await again.run_once()


async def _recover_all(home: Home, running: Running) -> None:
    store, clock = running.given.store, running.given.clock
    recover = Recover(NAME, running.collector, store, clock=clock, owner="last", policy=Recovery(8))
    for _ in range(ROUNDS_MAX):
        await store.replay_gaps(NAME, now_ns=clock.wall_ns())
        while await recover.run_once():
            pass
        gaps = await store.gaps(NAME, limit=100_000)
        if all(gap.state in AT_REST or gap.reason.family == "young" for gap in gaps):
            return
        if all(gap.kind is Kind.ITEM and not home.stage.has(int(gap.key)) for gap in gaps):
            return
        await home.clock.sleep_until(home.clock.monotonic_ns() + MINUTE_NS)


async def _compare_items(home: Home, running: Running, since_ns: int, waits: set[Key], newest_id: int) -> None:
    """Up to the id that was the newest when the world had calmed down: at a low pace, later ones may still wait."""
    world, now_ns = home.stage.provider.world, home.clock.true_ns()
    frontier = await _frontier(running.given.store)
    if frontier < newest_id:
        home.judge.fail(f"the frontier ends at {frontier}, the newest id is {newest_id}")
    mirror = [pair async for pair in running.given.store.bodies(NAME)]
    held = dict(mirror)
    for difference in compare(mirror, world.dump(now_ns)):
        sent_ns, body = home.stage.latest.get(difference.item_id, (0, b""))
        if sent_ns >= since_ns and held.get(difference.item_id) == body:
            continue  # it changed and changed back, and was read in between
        is_old = world.body(difference.item_id, since_ns) == world.body(difference.item_id, now_ns)
        is_due = (Kind.ITEM, str(difference.item_id)) not in waits
        is_due = is_due and difference.item_id <= max(newest_id, frontier)
        if is_old and is_due and (home.scenario.backstop or home.stage.was_heard(difference.item_id)):
            what = difference.key or "the whole item"
            home.judge.fail(f"store and world differ in item {difference.item_id}: {what}")


async def _walk_all(running: Running) -> StoppedBy:
    """A run with a full walk: of the channels, if there are any, and of the list. How the last one that stopped early did."""
    stopped_by = StoppedBy.COMPLETE
    for name, collector in ((CHANNELS, running.channels), (NAME, running.collector)):
        if collector is None:
            continue
        store, clock = running.given.store, running.given.clock
        # Each time: the rest of an interrupted walk is a full walk, too, but its first pages were read long ago.
        await store.keep_note(name, FULL_WALK_NOTE, 0)
        await store.replay_gaps(name, now_ns=clock.wall_ns())
        options, governor = RunOptions(force=True), running.given.governor
        run = ListedRun(name, collector, store, governor, clock=clock, owner="last", options=options)
        ended = (await run.run_once()).stopped_by
        stopped_by = stopped_by if ended is StoppedBy.COMPLETE else ended
    return stopped_by


def _has_no_channels(archive: Archive, now_ns: int) -> bool:
    return isinstance(archive, Fanned) and not archive.channels.listing(now_ns)


async def _look_for_wrongly_vanished(home: Home, store: Store, *, since_ns: int, ahead_ns: int) -> None:
    """Nothing that exists and was listed is called vanished after a complete walk.

    Where our clock is behind and no mark that we have seen shows it, what moved beyond our windows looks deleted.
    """
    archive, now_ns = home.stage.provider.archive, home.clock.true_ns()
    assert archive is not None
    before = {line.key for line in archive.listing(since_ns)}
    kept = [document async for document in store.documents(NAME)]
    ours_s = (now_ns - ahead_ns) // SECOND_NS
    shown = (document.updated_at for document in kept if document.vanished_ns is None)
    is_shown = any(marks.is_from(mark, ours_s + HOUR_NS // SECOND_NS) for mark in shown)
    beyond = {line.key for line in archive.listing(now_ns) if ahead_ns and marks.is_from(line.mark, ours_s)}
    listed = {line.key for line in archive.listing(now_ns)} & before
    for document in kept:
        is_excused = document.key in beyond and not is_shown
        if document.vanished_ns is not None and document.key in listed and not is_excused:
            home.judge.fail(f"{document.key} is called vanished, and the list shows it")


async def _settle_listed(home: Home, running: Running) -> None:
    store, clock = running.given.store, home.clock
    archive = home.stage.provider.archive
    assert archive is not None
    await clock.sleep_until(clock.monotonic_ns() + CALM_NS)
    completed, stopped_by = 0, StoppedBy.COOL_DOWN
    since_ns = clock.true_ns()
    for _ in range(RUNS_MAX):
        since_ns = clock.true_ns() if not completed else since_ns
        stopped_by = await _walk_all(running)
        completed += stopped_by is StoppedBy.COMPLETE
        is_done = completed >= 2 and not await owes_refused(store, NAME)
        if is_done or _has_no_channels(archive, clock.true_ns()):
            break
        await clock.sleep_until(clock.monotonic_ns() + HOUR_NS)
    else:
        if completed < 2:
            home.judge.fail(f"no run was complete after the faults had stopped; the last stopped by {stopped_by}")
    now_ns = clock.true_ns()
    held = {document.key: document.body async for document in store.documents(NAME)}
    form = home.scenario.form
    before = truth(form, archive, since_ns)
    # The last window ends at our own time: what is newer by the provider's clock is read when our clock gets there.
    ahead_ns = max(0, now_ns - running.given.clock.wall_ns()) if form.scope is Scope.WINDOW else 0
    asked_for = {line.key: line.mark for line in archive.listing(since_ns - ahead_ns)}
    marks_now = {line.key: line.mark for line in archive.listing(now_ns)}
    await _look_for_wrongly_vanished(home, store, since_ns=since_ns, ahead_ns=ahead_ns)
    for key, body in truth(form, archive, now_ns).items():
        is_asked_for = not ahead_ns or asked_for.get(key) == marks_now.get(key)
        if before.get(key) == body and held.get(key) != body and is_asked_for:
            state = "missing" if key not in held else "outdated"
            home.judge.fail(f"store and world differ: {key} is {state}")
