"""Do simulated streams speak the whole grammar, and break in every way that real ones do?"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from remora.contracts import StreamBroken, Transport
from remora.core.units import HOUR_NS, MINUTE_NS, SECOND_NS
from remora.core.verdict import Fault, NoReply, Reply
from remora.sim.clock import SimClock, run
from remora.sim.faults import FaultKind, Faults, Flood, Outage, StreamFaults
from remora.sim.provider import Provider
from remora.sim.transport import TIMEOUT_NS, FreeConnect, FreePermit, SimTransport
from remora.sim.world import World, WorldSettings

BASE = "https://provider.example/v0"
SETTINGS = WorldSettings(items=2_000, new_per_day=100_000)


def connect(
    clock: SimClock, faults: Faults | None = None, settings: WorldSettings = SETTINGS
) -> tuple[Provider, SimTransport]:
    provider = Provider(World(settings), faults or Faults(), now=clock.true_ns, ticks=clock.monotonic_ns)
    return provider, SimTransport(provider, clock)


def parse(chunk: bytes) -> list[tuple[str, object]]:
    events = []
    for block in chunk.decode().strip().split("\n\n") if chunk else ():
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


async def listen(transport: Transport, path: str, clock: SimClock, *, until_ns: int) -> list[tuple[str, object]]:
    heard: list[tuple[str, object]] = []
    stream: AsyncIterator[bytes] = transport.stream(f"{BASE}/{path}", FreeConnect(clock))
    async for chunk in stream:
        heard += parse(chunk)
        if clock.monotonic_ns() >= until_ns:
            break
    return heard


def put(state: object, path: list[str], value: object) -> object:
    """Firebase's semantics: a value replaces what is at its path; null removes; lists are objects with number keys."""
    if not path:
        return dict(enumerate_keys(value)) if isinstance(value, list | dict) else value
    node = dict(state) if isinstance(state, dict) else {}
    child = put(node.get(path[0]), path[1:], value)
    if child is None:
        node.pop(path[0], None)
    else:
        node[path[0]] = child
    return node


def enumerate_keys(value: list[object] | dict[str, object]) -> list[tuple[str, object]]:
    pairs = list(value.items()) if isinstance(value, dict) else [(str(at), one) for at, one in enumerate(value)]
    return [(key, put(None, [], one)) for key, one in pairs if one is not None]


def apply(state: object, name: str, event: object) -> object:
    assert isinstance(event, dict)
    path = [step for step in str(event["path"]).split("/") if step]
    if name == "put":
        return put(state, path, event["data"])
    for key, value in event["data"].items():
        state = put(state, [*path, *key.split("/")], value)
    return state


def test_the_stream_of_changes_uses_every_form_of_the_grammar_and_its_state_stays_that_of_the_list() -> None:
    async def main(clock: SimClock) -> list[tuple[str, object]]:
        _provider, transport = connect(clock, settings=WorldSettings(items=2_000))
        return await listen(transport, "updates.json", clock, until_ns=6 * HOUR_NS)

    heard = run(main)
    assert Counter(name for name, _event in heard).keys() == {"put", "patch", "keep-alive"}
    events = [(name, event) for name, event in heard if isinstance(event, dict)]
    assert {(name, str(event["path"]).rstrip("0123456789")) for name, event in events} >= {
        ("put", "/"), ("put", "/items"), ("put", "/items/"), ("put", "/profiles"), ("patch", "/"), ("patch", "/items"),
    }  # fmt: skip
    state: object = None
    for name, event in events:
        state = apply(state, name, event)
        assert isinstance(state, dict)
        assert set(state) <= {"items", "profiles"}
        slots = [int(slot) for slot in state["items"]]
        assert sorted(slots) == list(range(len(slots)))


def test_everything_that_is_new_is_announced() -> None:
    async def main(clock: SimClock) -> tuple[set[int], set[int]]:
        provider, transport = connect(clock, Faults(stream=StreamFaults(missed_share=0)))
        heard = await listen(transport, "updates.json", clock, until_ns=HOUR_NS)
        announced = {number for _name, event in heard for number in numbers(event)}
        end_ns = clock.true_ns() - 30 * SECOND_NS
        new = range(SETTINGS.items + 10, provider.world.max_id(end_ns) + 1)
        return announced, {item_id for item_id in new if provider.world.body(item_id, end_ns) is not None}

    announced, new = run(main)
    assert len(new) > 3_000
    assert new <= announced


def numbers(value: object) -> list[int]:
    match value:
        case int():
            return [value]
        case list():
            return [number for one in value for number in numbers(one)]
        case dict():
            return [number for one in value.values() for number in numbers(one)]
        case _:
            return []


def test_the_stream_of_newest_ids_follows_the_world() -> None:
    async def main(clock: SimClock) -> tuple[list[int], int]:
        provider, transport = connect(clock)
        heard = await listen(transport, "maxitem.json", clock, until_ns=10 * MINUTE_NS)
        return [number for _name, event in heard for number in numbers(event)], provider.world.max_id(clock.true_ns())

    ids, newest = run(main)
    assert ids == sorted(ids)
    assert ids[-1] == newest


@pytest.mark.parametrize(
    "stream, last_event, reason",
    [
        (StreamFaults(drops_per_hour=60), None, "closed"),
        (StreamFaults(zombies_per_hour=60), None, "silent"),
        (StreamFaults(cancels_per_hour=60), "cancel", "closed"),
        (StreamFaults(revokes_per_hour=60), "auth_revoked", "closed"),
    ],
)
def test_a_stream_ends_in_the_way_it_is_told_to(stream: StreamFaults, last_event: str | None, reason: str) -> None:
    async def main(clock: SimClock) -> list[str]:
        _provider, transport = connect(clock, Faults(stream=stream))
        names: list[str] = []
        with pytest.raises(StreamBroken) as broken:  # noqa: PT012
            async for chunk in transport.stream(f"{BASE}/updates.json", FreeConnect(clock)):
                names += [name for name, _event in parse(chunk)]
        assert broken.value.reason == reason
        return names

    names = run(main, limit_ns=24 * HOUR_NS)
    assert last_event is None or names[-1] == last_event


def test_a_zombie_is_noticed_after_a_minute_without_a_byte() -> None:
    async def main(clock: SimClock) -> int:
        _provider, transport = connect(clock, Faults(stream=StreamFaults(zombies_per_hour=3_600)))
        heard_ns = 0
        with pytest.raises(StreamBroken, match="silent"):  # noqa: PT012
            async for _chunk in transport.stream(f"{BASE}/updates.json", FreeConnect(clock)):
                heard_ns = clock.monotonic_ns()
        return clock.monotonic_ns() - heard_ns

    assert run(main) == 60 * SECOND_NS


def test_an_outage_breaks_open_streams_and_refuses_new_ones() -> None:
    async def main(clock: SimClock) -> tuple[str, str]:
        faults = Faults(outages=(Outage(from_s=60, to_s=120, what="stream"),))
        _provider, transport = connect(clock, faults)
        with pytest.raises(StreamBroken) as broken:
            await listen(transport, "updates.json", clock, until_ns=HOUR_NS)
        assert 60 * SECOND_NS <= clock.monotonic_ns() < 70 * SECOND_NS
        with pytest.raises(StreamBroken) as refused:
            await listen(transport, "updates.json", clock, until_ns=HOUR_NS)
        return broken.value.reason, refused.value.reason

    assert run(main) == ("closed", "refused")


def test_a_flood_announces_old_ids_that_did_not_change() -> None:
    async def main(clock: SimClock) -> int:
        faults = Faults(stream=StreamFaults(floods=(Flood(from_s=0, to_s=600, ids_per_second=50),)))
        _provider, transport = connect(clock, faults)
        heard = await listen(transport, "updates.json", clock, until_ns=5 * MINUTE_NS)
        return sum(len(numbers(event)) for _name, event in heard)

    assert run(main) > 10_000


def test_a_request_takes_its_time_and_leaves_when_its_permit_says() -> None:
    async def main(clock: SimClock) -> int:
        provider, transport = connect(clock)
        await clock.sleep_until(SECOND_NS)
        reply = await transport.get(f"{BASE}/item/1500.json", FreePermit(clock))
        assert isinstance(reply, Reply)
        assert reply.body == provider.body(1500)
        assert reply.departed_at_ns == provider.arrivals.times_ns[0] == SECOND_NS
        assert 0 < reply.answered_at_ns - reply.departed_at_ns < SECOND_NS
        return transport.wire_sends

    assert run(main) == 1


@pytest.mark.parametrize(
    "kind, fault",
    [
        (FaultKind.HANG, Fault.TIMEOUT),
        (FaultKind.RESET, Fault.CONNECTION),
        (FaultKind.TRUNCATED, Fault.CONNECTION),
        (FaultKind.SLOW, Fault.TIMEOUT),
    ],
)
def test_what_breaks_on_the_way_is_a_reason_not_an_exception(kind: FaultKind, fault: Fault) -> None:
    async def main(clock: SimClock) -> NoReply:
        _provider, transport = connect(clock, Faults(ids={"7": kind}, slow_s=100))
        reply = await transport.get(f"{BASE}/item/7.json", FreePermit(clock))
        assert isinstance(reply, NoReply)
        return reply

    reply = run(main)
    assert reply.fault is fault
    assert (reply.answered_at_ns == TIMEOUT_NS) == (fault is Fault.TIMEOUT)


def test_a_body_beyond_the_bound_is_not_taken_in() -> None:
    async def main(clock: SimClock) -> tuple[Reply | NoReply, int]:
        provider, _transport = connect(clock)
        sent: list[None] = []
        transport = SimTransport(provider, clock, body_bytes_max=10, wire_sent=lambda: sent.append(None))
        return await transport.get(f"{BASE}/item/1500.json", FreePermit(clock)), len(sent)

    reply, sent = run(main)
    assert isinstance(reply, NoReply)
    assert (reply.fault, sent) == (Fault.TOO_LARGE, 1)


def test_many_requests_at_once_are_the_same_every_time() -> None:
    async def main(clock: SimClock) -> list[int]:
        _provider, transport = connect(clock)
        replies = await asyncio.gather(
            *(transport.get(f"{BASE}/item/{item_id}.json", FreePermit(clock)) for item_id in range(1, 200))
        )
        return [reply.answered_at_ns for reply in replies]

    assert run(main, seed=3) == run(main, seed=3)
    assert run(main, seed=3) != run(main, seed=4)
