"""Is the simulated world consistent with itself, and like the real one?"""

import json
from collections import Counter
from typing import Any

import pytest

from remora.core.units import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from remora.sim.bodies import render
from remora.sim.cast import Cast, Role
from remora.sim.feed import Feed
from remora.sim.lives import NEVER_NS, Chances
from remora.sim.world import Look, World, WorldSettings

SETTINGS = WorldSettings(items=12_000, odd_share=0)
START_NS = SETTINGS.start_ns
LATER_NS = START_NS + 30 * DAY_NS


@pytest.fixture(scope="module")
def world() -> World:
    return World(SETTINGS)


@pytest.fixture(scope="module")
def items(world: World) -> dict[int, dict[str, Any]]:
    return {item_id: json.loads(body) for item_id, body in world.dump(START_NS)}


def test_the_same_seed_gives_the_same_world_and_another_seed_another_one() -> None:
    first, second, other = (World(WorldSettings(seed=seed, items=3_000)) for seed in (7, 7, 8))
    ids = [*range(2_900, 2_950), *range(5, 40)]
    bodies = [first.body(item_id, START_NS) for item_id in ids]
    assert bodies == [second.body(item_id, START_NS) for item_id in reversed(ids)][::-1]
    assert bodies != [other.body(item_id, START_NS) for item_id in ids]


def test_bodies_look_like_the_real_ones(world: World, items: dict[int, dict[str, Any]]) -> None:
    bodies = [body for _item_id, body in world.dump(START_NS)]
    assert 430 < sum(map(len, bodies)) / len(bodies) < 475
    types = Counter(item["type"] for item in items.values())
    assert types["comment"] / len(items) > 0.8
    assert {"comment", "story", "job", "poll", "pollopt"} <= set(types)
    for body, item in zip(bodies, items.values(), strict=True):
        assert json.dumps(item, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() == body


def test_shapes_are_those_of_the_provider(items: dict[int, dict[str, Any]]) -> None:
    for item_id, item in items.items():
        assert item["id"] == item_id
        keys = set(item)
        match item["type"]:
            case _ if item.get("deleted"):
                assert keys <= {"deleted", "dead", "id", "parent", "poll", "time", "type"}
            case "comment":
                assert keys <= {"by", "dead", "id", "kids", "parent", "text", "time", "type"}
                assert not item.get("dead") or item["text"] in {"[dead]", "[flagged]"}
            case "story" if item.get("dead"):
                assert not keys & {"title", "url", "descendants"}
            case "story":
                assert keys == {"id", "type"} or keys >= {"by", "descendants", "id", "score", "time", "title", "type"}
            case _:
                assert keys >= {"by", "id", "score", "time", "type"}


def test_parents_and_kids_agree_and_descendants_count_the_thread(items: dict[int, dict[str, Any]]) -> None:
    listed = {kid: item_id for item_id, item in items.items() for kid in item.get("kids", ())}
    sizes: Counter[int] = Counter()
    for item_id, item in items.items():
        if item["type"] != "comment":
            continue
        parent = item["parent"]
        assert parent in items
        assert listed.get(item_id) == parent or items[parent].get("deleted")
        while items[parent]["type"] == "comment":
            parent = items[parent]["parent"]
        sizes[parent] += 1
    for item_id, item in items.items():
        if "descendants" in item:
            assert item["descendants"] == sizes[item_id]
    assert max(sizes.values()) > 20


def test_options_and_polls_name_each_other(items: dict[int, dict[str, Any]]) -> None:
    polls = {item_id: item for item_id, item in items.items() if item["type"] == "poll" and "parts" in item}
    assert polls
    for item_id, poll in polls.items():
        assert all(items[part]["poll"] == item_id for part in poll["parts"] if part in items)


def test_items_change_over_time_in_every_way(world: World, items: dict[int, dict[str, Any]]) -> None:
    after = {item_id: json.loads(body) for item_id, body in world.dump(LATER_NS, last_id=SETTINGS.items)}
    changed = {item_id for item_id in items if items[item_id] != after[item_id]}
    ways = Counter(
        key
        for item_id in changed
        for key in {*items[item_id], *after[item_id]}
        if items[item_id].get(key) != after[item_id].get(key)
    )
    assert {"text", "title", "score", "descendants", "kids", "dead", "deleted", "parent"} <= set(ways)


def test_a_body_stays_the_same_until_the_moment_the_world_says(world: World) -> None:
    for item_id in range(SETTINGS.items - 1_500, SETTINGS.items + 50):
        now_ns = START_NS
        for _change in range(4):
            body, until_ns = world.render(item_id, now_ns)
            if until_ns == NEVER_NS:
                assert world.body(item_id, now_ns + 365 * DAY_NS) == body
                break
            assert world.body(item_id, until_ns - 1) == body
            assert world.body(item_id, (now_ns + until_ns) // 2) == body
            now_ns = until_ns


def test_the_short_way_to_an_uneventful_comment_gives_what_the_long_way_gives(world: World) -> None:
    short = 0
    for item_id in range(SETTINGS.items - 1_200, SETTINGS.items + 10):
        for now_ns in (START_NS - HOUR_NS, START_NS, LATER_NS):
            own = world._cast.own(item_id)
            life = world.life(item_id)
            if world.role(item_id) is Role.COMMENT and world._lives.is_uneventful(own) and life.visible_ns <= now_ns:
                fields, until_ns = world._fields(Look(item_id, Role.COMMENT, own, life, now_ns))
                assert world.render(item_id, now_ns) == (render(fields), until_ns)
                short += 1
    assert short > 1_500


def test_new_items_appear_at_the_rate_asked_for() -> None:
    world = World(WorldSettings(items=100, new_per_day=24_000))
    assert world.max_id(START_NS) == 100
    assert world.max_id(START_NS + HOUR_NS) in (1_099, 1_100)


def test_some_ids_are_null_at_first_and_some_for_ever(world: World) -> None:
    newest = world.max_id(START_NS)
    late = [
        item_id
        for item_id in range(newest - 200, newest + 1)
        if world.body(item_id, START_NS) is None and not world.is_absent(item_id)
    ]
    assert late
    assert all(world.body(item_id, START_NS + 20 * MINUTE_NS) is not None for item_id in late)
    absent = [item_id for item_id in range(1, newest) if world.is_absent(item_id)]
    assert 0 < len(absent) < newest / 100
    assert all(world.body(item_id, LATER_NS) is None for item_id in absent)


def test_some_young_comments_are_placeholders_for_a_while() -> None:
    world = World(WorldSettings(items=2_000, odd_share=0, chances=Chances(delayed=0.5)))
    item_id = next(
        item_id
        for item_id in range(1_900, 2_000)
        if world.role(item_id) is Role.COMMENT and world.life(item_id).undelayed_ns > 0
    )
    life = world.life(item_id)
    assert json.loads(world.body(item_id, life.visible_ns) or b"")["text"] == "[delayed]"
    assert json.loads(world.body(item_id, life.undelayed_ns) or b"")["text"] != "[delayed]"


def test_oddities_of_every_kind_are_valid_json_and_keep_the_id() -> None:
    world = World(WorldSettings(items=2_000, odd_share=1))
    bodies = dict(world.dump(START_NS))
    items = {item_id: json.loads(body) for item_id, body in bodies.items()}
    assert all(item["id"] == item_id for item_id, item in items.items())
    assert any(isinstance(item.get("dead"), list) for item in items.values())
    assert any(isinstance(item.get("kids"), dict) for item in items.values())
    assert any(None in item["kids"] for item in items.values() if isinstance(item.get("kids"), list))
    assert any("time" not in item for item in items.values())
    assert any(item.get("time", 0) > LATER_NS // SECOND_NS for item in items.values())
    assert any(b"\\u0000" in body for body in bodies.values())
    assert any(b"\\ud83d" in body for body in bodies.values())
    assert any("flavour" in item for item in items.values())
    assert all(list(item) == sorted(item) for item in items.values())


def test_a_profile_lists_exactly_what_its_owner_wrote(world: World, items: dict[int, dict[str, Any]]) -> None:
    name = world.author(7_000)
    written = {item_id for item_id, item in items.items() if item.get("by") == name}
    profile = json.loads(world.user(name, START_NS) or b"")
    assert written <= set(profile["submitted"])
    assert all(world.author(item_id) == name for item_id in profile["submitted"])


def test_a_profile_lists_what_can_be_read_at_that_moment_and_nothing_else() -> None:
    world = World(WorldSettings(items=2_000, absent_share=0.3, chances=Chances(late=0.5)))
    for number in range(10):
        name = world.author(1_990 + number)
        submitted = set(json.loads(world.user(name, START_NS) or b"")["submitted"])
        mine = {item_id for item_id in range(1, 2_001) if world.author(item_id) == name}
        readable = {item_id for item_id in mine if world.body(item_id, START_NS) is not None}
        assert submitted == readable
        assert 0 < len(readable) < len(mine)


def test_a_world_of_all_of_history_answers_at_once() -> None:
    world = World(WorldSettings(items=47_000_000))
    assert world.max_id(START_NS) == 47_000_000
    assert sum(1 for _ in world.dump(START_NS, first_id=46_999_000)) > 900
    assert sum(world.body(item_id, START_NS) is not None for item_id in range(1, 47_000_000, 1_000_003)) >= 45
    assert json.loads(world.user(world.author(46_999_999), START_NS) or b"")["submitted"]


def test_who_somebody_is_does_not_depend_on_who_was_asked_for_before() -> None:
    one, other = Cast(1, absent_share=0.1), Cast(1, absent_share=0.1)
    one.replies(3)
    assert [one.role(item_id) for item_id in range(3_072, 4_096)] == [
        other.role(item_id) for item_id in range(3_072, 4_096)
    ]
    absent = {item_id for item_id in range(4_096) if one.role(item_id) is Role.ABSENT}
    assert absent == {item_id for item_id in range(4_096) if other.is_absent(item_id)}


def test_the_feed_announces_nearly_every_change(world: World) -> None:
    feed = Feed(world, since_ns=START_NS, missed_share=0.0)
    position = feed.advance(START_NS)
    end_ns = START_NS + 2 * HOUR_NS
    for step in range(1, 121):
        feed.advance(START_NS + step * MINUTE_NS)
    announced = set(feed.after(position))
    newest = world.max_id(end_ns)
    changed = {
        item_id for item_id in range(1, newest + 1) if world.body(item_id, START_NS) != world.body(item_id, end_ns)
    }
    assert changed
    assert changed <= announced


def test_the_feed_leaves_out_the_share_it_is_told_to(world: World) -> None:
    counts = []
    for missed in (0.0, 0.5):
        feed = Feed(world, since_ns=START_NS, missed_share=missed)
        counts.append(feed.advance(START_NS + 6 * HOUR_NS))
    assert 0.4 < counts[1] / counts[0] < 0.6
