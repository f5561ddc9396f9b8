"""Does the change stream stay open, and is everything it could not tell repaired?"""

import asyncio
from itertools import pairwise

import pytest

from remora.contracts import Store, StreamBroken
from remora.core.ledger.coverage import IdRange
from remora.core.ledger.discovery import Kind
from remora.core.ledger.freshness import LastEvent, last_event_from_json, last_event_to_json
from remora.core.ledger.segment import SegmentKind
from remora.core.rate.pacing import burst_allowance
from remora.loops.numbered.inbox import InboxWorkers
from remora.loops.numbered.updates import LAST_EVENT_NOTE, Updates
from remora.sim.checks import worst_window
from remora.sim.clock import SimClock
from remora.sim.faults import Faults, Outage
from remora.sim.transport import SimTransport
from remora.sim.world import WorldSettings
from tests.loops.rig import HOUR_NS, MINUTE_NS, NAME, SECOND_NS, Process, Rig, in_virtual_time
from tests.loops.streams import CANCEL, END, KEEP_ALIVE, SILENCE, Scripted, pause, updates

Line = bytes | float | StreamBroken


class Listener:
    """The updates loop alone, with its wishes written down."""

    def __init__(self, process: Process) -> None:
        self.rescans = 0
        self.looks = 0
        inbox = InboxWorkers(NAME, process.collector, process.store, clock=process.clock)
        self.loop = Updates(
            process.source,
            process.collector,
            process.store,
            inbox,
            clock=process.clock,
            want_rescan=self._want_rescan,
            look_for_new=self._look,
        )

    async def _want_rescan(self) -> None:
        self.rescans += 1

    def _look(self) -> None:
        self.looks += 1

    async def listen_for(self, seconds: float) -> None:
        running = asyncio.get_running_loop().create_task(self.loop.run())
        await asyncio.sleep(seconds)
        assert not running.done(), "the loop ended by itself"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def listen(
    rig: Rig, script: list[list[Line]], *, seconds: float, newest_id: int | None = None
) -> tuple[Listener, Scripted]:
    transport = Scripted(SimTransport(rig.provider, rig.clock), rig.clock, script)
    async with rig.process(transport=transport) as process:
        process.collector.newest_id = newest_id or rig.world.max_id(rig.clock.true_ns())
        listener = Listener(process)
        await listener.listen_for(seconds)
        return listener, transport


async def waiting_items(store: Store) -> list[int]:
    entries = await store.waiting(NAME, limit=10_000)
    return sorted(int(entry.key) for entry in entries if entry.kind is Kind.ITEM)


async def last_event(store: Store) -> LastEvent:
    last = last_event_from_json(await store.note(NAME, LAST_EVENT_NOTE))
    assert last is not None
    return last


def test_announced_items_and_profiles_are_durable_in_the_inbox() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        await listen(rig, [[updates(5, 7, 5, profiles=["ada"]), SILENCE]], seconds=10)
        assert await waiting_items(rig.store) == [5, 7]
        assert [e.key for e in await rig.store.waiting(NAME, limit=9) if e.kind is Kind.USER] == ["ada"]

    in_virtual_time(main)


@pytest.mark.parametrize("last_line", [END, CANCEL, b"event: auth_revoked\ndata: null\n\n"])
def test_a_stream_that_ends_is_opened_again(last_line: bytes) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        script: list[list[Line]] = [[updates(1), pause(1), updates(2), last_line, SILENCE], [updates(3), SILENCE]]
        listener, transport = await listen(rig, script, seconds=30)
        assert len(transport.connected_s) == 2
        assert listener.loop.state().reconnects == 1
        assert await waiting_items(rig.store) == [1, 2, 3]

    in_virtual_time(main)


def test_fifty_disconnects_grow_the_back_off_to_its_cap_and_keep_the_request_budget() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        _, transport = await listen(rig, [[]] * 50, seconds=300)
        gaps = [round(later - earlier, 3) for earlier, later in pairwise(transport.connected_s)]
        # Beside the back-off each connect waits for its turn in the gate.
        assert all(gap >= least for gap, least in zip(gaps, [0.5, 1, 2, 4, 8, 16, *[30] * 50], strict=False))
        # A repair asks for the newest id once per connection, through the gate like everything else.
        assert len(rig.provider.arrivals) <= len(transport.connected_s) + 1
        assert worst_window(rig.provider.arrivals.times_ns, rig.ceiling_ns, burst_allowance(rig.ceiling_ns)).excess <= 0

    in_virtual_time(main)


def test_a_keep_alive_or_the_opening_snapshot_alone_does_not_reset_the_back_off() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        _, transport = await listen(rig, [[updates(1), KEEP_ALIVE]] * 5, seconds=60)
        gaps = [round(later - earlier, 3) for earlier, later in pairwise(transport.connected_s)]
        assert all(gap >= least for gap, least in zip(gaps, [0.5, 1, 2, 4], strict=False))

    in_virtual_time(main)


def test_a_real_event_resets_the_back_off() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        script: list[list[Line]] = [[], [], [], [updates(1), updates(2)], []]
        _, transport = await listen(rig, script, seconds=60)
        gaps = [round(later - earlier, 3) for earlier, later in pairwise(transport.connected_s)]
        # Without the event they would be 4, 8 and 16 s; the gate may add a turn of its own to each.
        assert sum(gaps[3:6]) < 10

    in_virtual_time(main)


@pytest.mark.slow
def test_a_stream_that_tells_something_and_breaks_again_and_again_is_not_opened_more_than_twice_a_second() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        _, transport = await listen(rig, [[updates(1), updates(2)]] * 500, seconds=60)
        assert 100 <= len(transport.connected_s) <= 121

    in_virtual_time(main)


def test_a_provider_that_asks_to_wait_before_a_reconnect_is_heeded() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        script: list[list[Line]] = [[b"retry: 7000\n" + updates(1), updates(2)], [SILENCE]]
        _, transport = await listen(rig, script, seconds=60)
        assert 7 <= transport.connected_s[1] - transport.connected_s[0] < 9

    in_virtual_time(main)


def test_a_provider_that_refuses_the_stream_and_names_a_time_is_left_alone_until_then() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        _, transport = await listen(rig, [[StreamBroken("status_429", wait_ns=600 * SECOND_NS)]], seconds=700)
        first_s, second_s = transport.connected_s[:2]
        assert 600 <= second_s - first_s < 602

    in_virtual_time(main)


def test_a_stream_without_a_byte_for_a_minute_is_left_even_if_the_transport_does_not_notice() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        script: list[list[Line]] = [[updates(1), updates(2), pause(50), KEEP_ALIVE, SILENCE], [SILENCE]]
        _, transport = await listen(rig, script, seconds=120)
        first_s, second_s = transport.connected_s
        assert 110.5 <= second_s - first_s < 112

    in_virtual_time(main)


def test_the_two_clocks_tell_bytes_from_events() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        start_ns = clock.wall_ns()
        script: list[list[Line]] = [[updates(1), pause(30), KEEP_ALIVE, SILENCE]]
        listener, _ = await listen(rig, script, seconds=40)
        state = listener.loop.state()
        assert state.last_event_at_ns is not None
        assert start_ns <= state.last_event_at_ns < start_ns + 5 * SECOND_NS
        assert state.last_byte_at_ns == state.last_event_at_ns + 30 * SECOND_NS

    in_virtual_time(main)


@pytest.mark.parametrize("sign_of_life", [KEEP_ALIVE, b"event: put\ndata: {}\n\n"], ids=["keep-alive", "nothing there"])
def test_a_stream_that_lives_but_announces_nothing_while_ids_are_handed_out_is_left(sign_of_life: bytes) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        alive: list[Line] = [pause(30), sign_of_life]
        script: list[list[Line]] = [[updates(1), *alive * 20], [KEEP_ALIVE, SILENCE]]
        transport = Scripted(SimTransport(rig.provider, clock), clock, script)
        async with rig.process(transport=transport) as process:
            process.collector.newest_id = 1_000
            listener = Listener(process)
            asyncio.get_running_loop().call_later(200, lambda: setattr(process.collector, "newest_id", 1_050))
            await listener.listen_for(400)
        assert 300.5 <= transport.connected_s[1] - transport.connected_s[0] < 302
        assert listener.rescans == 1

    in_virtual_time(main)


def quiet_after_one_event(clock: SimClock) -> tuple[Rig, Scripted]:
    """A stream that announces one change and then only keeps alive, however often it is opened."""
    rig = Rig.make(clock, world=WorldSettings(items=900, new_per_day=0.01))
    alive: list[Line] = [pause(30), KEEP_ALIVE] * 500
    return rig, Scripted(SimTransport(rig.provider, clock), clock, [[updates(1), *alive], *[alive] * 500])


def test_quiet_hours_after_a_newest_id_that_was_too_high_do_not_cause_one_rescan_after_the_other() -> None:
    async def main(clock: SimClock) -> None:
        rig, transport = quiet_after_one_event(clock)
        async with rig.process(transport=transport) as process:
            process.collector.newest_id = 1_000
            listener = Listener(process)
            asyncio.get_running_loop().call_later(200, lambda: setattr(process.collector, "newest_id", 1_040))
            await listener.listen_for(2 * 3_600)
        assert listener.rescans == 1
        assert len(transport.connected_s) == 2

    in_virtual_time(main)


def test_a_stream_that_stays_deaf_while_ids_are_handed_out_is_left_at_most_every_five_minutes() -> None:
    async def main(clock: SimClock) -> None:
        rig, transport = quiet_after_one_event(clock)
        async with rig.process(transport=transport) as process:
            process.collector.newest_id = 1_000
            listener = Listener(process)
            for minute in range(60):
                newest_id = 1_000 + 20 * minute
                asyncio.get_running_loop().call_later(60 * minute, setattr, process.collector, "newest_id", newest_id)
            await listener.listen_for(3_600)
        assert 2 <= listener.rescans <= 12

    in_virtual_time(main)


def test_ids_created_while_blind_go_to_the_inbox_counted_from_the_last_event() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=1_000, new_per_day=86_400))
        script: list[list[Line]] = [[updates(1), pause(30), KEEP_ALIVE], [KEEP_ALIVE, SILENCE]]
        listener, _ = await listen(rig, script, seconds=40, newest_id=1_000)
        waiting = await waiting_items(rig.store)
        assert waiting[0] == 1
        assert waiting[1:] == list(range(1_001, waiting[-1] + 1))
        assert 1_030 <= waiting[-1] <= 1_032
        assert listener.rescans == 0

    in_virtual_time(main)


def test_many_ids_become_segments_and_a_long_blind_time_wants_a_rescan_also_after_a_restart() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock, world=WorldSettings(items=5_000))
        past_ns = clock.wall_ns() - HOUR_NS
        note = last_event_to_json(LastEvent(past_ns, 1_000, past_ns))
        await rig.store.keep_note(NAME, LAST_EVENT_NOTE, {**note})
        listener, _ = await listen(rig, [[KEEP_ALIVE, SILENCE]], seconds=10)
        assert (await rig.store.open_segments(NAME))[SegmentKind.BLIND_WINDOW] == len(IdRange(1_001, 5_000))
        assert await waiting_items(rig.store) == []
        assert listener.rescans == 1

    in_virtual_time(main)


def test_the_durable_last_event_waits_for_the_repair() -> None:
    async def main(clock: SimClock) -> None:
        out = Faults(outages=(Outage(0, 120, "requests"),))
        rig = Rig.make(clock, world=WorldSettings(items=2_000), faults=out)
        past_ns = clock.wall_ns() - MINUTE_NS
        note = last_event_to_json(LastEvent(past_ns, 1_990, past_ns))
        await rig.store.keep_note(NAME, LAST_EVENT_NOTE, {**note})
        script: list[list[Line]] = [[updates(1), pause(20), updates(2), pause(20), updates(3), SILENCE]]
        await listen(rig, script, seconds=60)
        assert (await last_event(rig.store)).newest_id == 1_990, "a kill now must repair from there"
        await listen(rig, [[KEEP_ALIVE, pause(30), updates(4), pause(30), KEEP_ALIVE] * 5], seconds=250)
        assert set(range(1_991, 2_001)) <= set(await waiting_items(rig.store))
        assert ((await last_event(rig.store)).newest_id or 0) > 2_000

    in_virtual_time(main)


def test_an_id_above_the_newest_is_asked_about_and_not_believed() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        listener, _ = await listen(rig, [[updates(999_999), SILENCE]], seconds=5)
        assert listener.looks == 1
        assert await waiting_items(rig.store) == [999_999]

    in_virtual_time(main)


def test_an_event_too_long_to_read_wants_a_rescan() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        listener, _ = await listen(rig, [[b"data: " + b"x" * 2_000_000 + b"\n\n", SILENCE]], seconds=5)
        assert listener.rescans == 1

    in_virtual_time(main)


def test_a_stream_that_cannot_be_opened_leaves_the_loop_running_and_not_connected() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        listener, transport = await listen(rig, [], seconds=600)
        assert len(transport.connected_s) > 20
        assert listener.loop.state().connected is False
        assert listener.loop.state().last_event_at_ns is None, "where a blind time would begin is no event"

    in_virtual_time(main)


NOISE = {
    "not JSON": b"event: put\ndata: {]\n\n",
    "no path": b'event: put\ndata: {"items":[1]}\n\n',
    "a million ids": b'event: put\ndata: {"path":"/items","data":[' + b"1234567," * 1_000_000 + b"1]}\n\n",
}


@pytest.mark.parametrize("noise", list(NOISE))
def test_an_event_that_cannot_be_read_is_counted_and_its_window_is_repaired(noise: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        script: list[list[Line]] = [[updates(1), pause(40), NOISE[noise], NOISE[noise], pause(5), updates(2), SILENCE]]
        listener, _ = await listen(rig, script, seconds=90)
        assert listener.loop.state().unread_events == 2
        assert listener.rescans == 1
        newest = rig.world.max_id(clock.true_ns() - 55 * SECOND_NS)
        waiting = await waiting_items(rig.store)
        assert set(range(1_001, newest + 1)) <= set(waiting)

    in_virtual_time(main)


@pytest.mark.slow
def test_a_stream_of_nothing_but_noise_does_not_cause_one_rescan_after_the_other() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        noise: list[Line] = [NOISE["not JSON"], pause(30)] * 400
        listener, _ = await listen(rig, [[updates(1), *noise, SILENCE]], seconds=3.5 * 3_600)
        assert listener.loop.state().unread_events >= 100
        assert 1 <= listener.rescans <= 8

    in_virtual_time(main)


def test_values_that_cannot_be_a_key_are_counted() -> None:
    async def main(clock: SimClock) -> None:
        rig = Rig.make(clock)
        odd = b'event: put\ndata: {"path":"/items","data":[5,"x",-1]}\n\n'
        listener, _ = await listen(rig, [[odd, SILENCE]], seconds=10)
        assert listener.loop.state().dropped_keys == 2

    in_virtual_time(main)
