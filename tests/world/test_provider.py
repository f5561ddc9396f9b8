"""Does the simulated provider answer as the real one does, and go wrong only as it is told to?"""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from remora.core.errors import ConfigurationError
from remora.core.units import SECOND_NS
from remora.sim.clock import SimClock, run
from remora.sim.faults import FaultKind, Faults, Outage, every_kind, load_faults, parse_faults
from remora.sim.limits import Limit
from remora.sim.provider import Provider
from remora.sim.replies import Answer, Hang, Reset, Response
from remora.sim.weather import change_weather, weather
from remora.sim.world import World, WorldSettings


class Time:
    """Time that a test moves by hand."""

    def __init__(self) -> None:
        self.ns = 0


SETTINGS = WorldSettings(items=2_000, odd_share=0)


def provider(faults: Faults | None = None, time: Time | None = None) -> Provider:
    moment = time or Time()
    return Provider(
        World(SETTINGS), faults or Faults(), now=lambda: SETTINGS.start_ns + moment.ns, ticks=lambda: moment.ns
    )


def answer(response: Response) -> Answer:
    assert isinstance(response, Answer)
    return response


def test_an_item_is_answered_with_the_body_of_the_world() -> None:
    here = provider()
    body = answer(here.respond("/v0/item/1500.json")).body
    assert body == here.world.body(1500, SETTINGS.start_ns)
    assert json.loads(body)["id"] == 1500


def test_ids_beyond_the_newest_and_absent_ids_are_null_with_status_200() -> None:
    here = provider()
    absent = next(item_id for item_id in range(1, 2_000) if here.world.is_absent(item_id))
    for item_id in (absent, 2_001, 10**12, 0):
        assert answer(here.respond(f"/v0/item/{item_id}.json")) == Answer(200, b"null")


def test_the_newest_id_and_the_list_of_changes_can_be_read() -> None:
    time = Time()
    here = provider(time=time)
    assert answer(here.respond("/v0/maxitem.json")).body == b"2000"
    here.respond("/v0/updates.json")
    time.ns = 600 * SECOND_NS
    assert int(answer(here.respond("/v0/maxitem.json")).body) > 2_000
    updates = json.loads(answer(here.respond("/v0/updates.json")).body)
    assert updates["items"]
    assert updates["profiles"]


def test_a_profile_lists_what_its_owner_wrote_and_strangers_are_null() -> None:
    here = provider()
    body = json.loads(answer(here.respond(f"/v0/user/{here.world.author(1500)}.json")).body)
    assert 1500 in body["submitted"]
    assert answer(here.respond("/v0/user/nobody.json")).body == b"null"


@pytest.mark.parametrize(
    "kind, check",
    [
        (FaultKind.RATE_LIMITED, lambda reply: reply.status == 429),
        (FaultKind.SERVER_ERROR, lambda reply: reply.status == 500),
        (FaultKind.UNAVAILABLE, lambda reply: reply.status == 503),
        (FaultKind.UNAUTHORIZED, lambda reply: reply == Answer(401, b'{"error":"Permission denied"}')),
        (FaultKind.FORBIDDEN, lambda reply: reply.status == 403),
        (FaultKind.NOT_FOUND, lambda reply: reply.status == 404),
        (FaultKind.GONE, lambda reply: reply.status == 410),
        (FaultKind.HANG, lambda reply: reply == Hang()),
        (FaultKind.RESET, lambda reply: reply == Reset()),
        (FaultKind.TRUNCATED, lambda reply: 0 < reply.cut_at < len(reply.body)),
        (FaultKind.CUT_SHORT, lambda reply: reply.body[-1:] != b"}"),
        (FaultKind.GARBLED, lambda reply: b"\xff" in reply.body),
        (FaultKind.WRONG_ID, lambda reply: json.loads(reply.body)["id"] != 7),
        (FaultKind.WRONG_SHAPE, lambda reply: isinstance(json.loads(reply.body), list)),
        (FaultKind.NULL, lambda reply: reply == Answer(200, b"null")),
        (FaultKind.STALE, lambda reply: reply.status == 200),
        (FaultKind.SLOW, lambda reply: reply.delay_ns == 3 * SECOND_NS),
    ],
)
def test_a_fault_of_one_id_has_its_shape_and_heals(kind: FaultKind, check: Callable[[Response], bool]) -> None:
    here = provider(Faults(ids={"7": kind}))
    assert check(here.respond("/v0/item/7.json"))
    assert answer(here.respond("/v0/item/8.json")).status == 200
    here.heal("7")
    assert json.loads(answer(here.respond("/v0/item/7.json")).body)["id"] == 7


def test_every_kind_of_fault_happens_by_chance_at_its_rate_and_always_in_the_same_places() -> None:
    first, second = provider(every_kind(0.34, seed=3)), provider(every_kind(0.34, seed=3))
    targets = [f"/v0/item/{item_id}.json" for item_id in range(1, 2_001)]
    seen = [first.respond(target) for target in targets]
    assert seen == [second.respond(target) for target in reversed(targets)][::-1]
    clean = provider()
    wrong = sum(response != clean.respond(target) for response, target in zip(seen, targets, strict=True))
    assert 0.25 < wrong / len(targets) < 0.42


@pytest.mark.parametrize(
    "limit, at_once, in_ten_seconds",
    [
        (Limit(kind="token_bucket", per_second=10, burst=5), 5, 105),
        (Limit(kind="sliding_window", count=20, window_s=5), 20, 41),
        (Limit(kind="fixed_window", count=20, window_s=5), 20, 41),
        (Limit(kind="none"), 400, 400),
    ],
)
def test_a_hidden_limit_lets_exactly_as_much_through_as_it_says(
    limit: Limit, at_once: int, in_ten_seconds: int
) -> None:
    time = Time()
    here = provider(Faults(limit=limit), time)
    passed = [answer(here.respond("/v0/maxitem.json")).status == 200 for _ in range(200)]
    assert sum(passed) == min(at_once, 200)
    for step in range(200):
        time.ns = (step + 1) * SECOND_NS // 20
        passed.append(answer(here.respond("/v0/maxitem.json")).status == 200)
    assert abs(sum(passed) - in_ten_seconds) <= 1


@pytest.mark.parametrize("tells", [True, False])
def test_a_refusal_says_when_to_come_back_only_if_it_is_told_to(*, tells: bool) -> None:
    here = provider(Faults(limit=Limit(kind="token_bucket", per_second=0.1, burst=1, retry_after=tells)))
    here.respond("/v0/maxitem.json")
    refusal = answer(here.respond("/v0/maxitem.json"))
    assert refusal.status == 429
    assert dict(refusal.headers) == ({"retry-after": "10"} if tells else {})


def test_a_hot_account_stays_refused_until_it_has_cooled() -> None:
    time = Time()
    here = provider(Faults(limit=Limit(kind="heat", count=150, cools_in_s=300)), time)
    statuses = [answer(here.respond("/v0/maxitem.json")).status for _ in range(160)]
    assert statuses.index(429) == 149
    time.ns = 100 * SECOND_NS
    assert answer(here.respond("/v0/maxitem.json")).status == 429
    time.ns = 260 * SECOND_NS
    assert answer(here.respond("/v0/maxitem.json")).status == 200


def test_new_faults_leave_a_limit_that_stays_the_same_as_full_as_it_was() -> None:
    limit = Limit(kind="fixed_window", count=3, window_s=60)
    here = provider(Faults(limit=limit))
    for _ in range(3):
        here.respond("/v0/maxitem.json")
    here.set_faults(Faults(limit=limit, rates={FaultKind.NULL: 0.5}))
    assert answer(here.respond("/v0/maxitem.json")).status == 429
    here.set_faults(Faults())
    assert answer(here.respond("/v0/maxitem.json")).status == 200


def test_weather_changes_and_is_the_same_for_the_same_seed() -> None:
    climate = Faults(ids={"7": FaultKind.HANG}, limit=Limit(kind="token_bucket"))
    days = [weather(1, epoch, climate) for epoch in range(40)]
    assert days == [weather(1, epoch, climate) for epoch in range(40)]
    assert days != [weather(2, epoch, climate) for epoch in range(40)]
    assert {kind for day in days for kind in day.rates} == set(FaultKind)
    assert any(not day.rates for day in days)
    assert all((day.ids, day.limit) == (climate.ids, climate.limit) for day in days)


def test_the_weather_of_a_provider_changes_every_epoch() -> None:
    async def main(clock: SimClock) -> list[Faults]:
        here = Provider(World(SETTINGS), now=clock.true_ns, ticks=clock.monotonic_ns)
        changing = asyncio.create_task(change_weather(here, clock, seed=1, epoch_s=600))
        seen: list[Faults] = []
        for _ in range(20):
            await asyncio.sleep(600)
            seen.append(here.faults)
        changing.cancel()
        return seen

    seen = run(main)
    assert sum(before != after for before, after in pairwise(seen)) > 10


def test_nothing_answers_during_an_outage() -> None:
    time = Time()
    here = provider(Faults(outages=(Outage(from_s=10, to_s=20),)), time)
    time.ns = 15 * SECOND_NS
    assert here.respond("/v0/maxitem.json") == Reset()
    assert here.open_stream("/v0/updates.json") is None
    time.ns = 20 * SECOND_NS
    assert answer(here.respond("/v0/maxitem.json")).status == 200


def test_every_request_is_in_the_log_with_its_time() -> None:
    time = Time()
    here = provider(Faults(ids={"7": FaultKind.RESET}), time)
    here.respond("/v0/item/7.json?print=pretty")
    time.ns = 5
    here.respond("/v0/maxitem.json")
    assert list(here.arrivals.times_ns) == [0, 5]
    assert here.arrivals.paths == ["/v0/item/7.json", "/v0/maxitem.json"]


def test_faults_are_read_from_toml_and_json_files(tmp_path: Path) -> None:
    toml, other = tmp_path / "faults.toml", tmp_path / "faults.json"
    toml.write_text('rates = { server_error = 0.01 }\nids = { 17 = "hang" }\n[limit]\nkind = "token_bucket"\n')
    other.write_text('{"rates":{"server_error":0.01},"ids":{"17":"hang"},"limit":{"kind":"token_bucket"}}')
    assert load_faults(toml) == load_faults(other)
    assert load_faults(toml).ids == {"17": FaultKind.HANG}


@pytest.mark.parametrize("text", ["rates = { bang = 1 }", "rate = 1", "rates = { null = 0.6, hang = 0.6 }", "= ="])
def test_a_mistake_in_the_faults_says_what_to_write_instead(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write for example"):
        parse_faults(text, is_toml=True)


def test_a_missing_faults_file_is_our_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_faults(tmp_path / "none.toml")
