"""Has the list of each entry of another source a watermark of its own, so that none is ended by what another one showed?"""

import json
from collections.abc import Mapping
from random import Random
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from remora.core.item import Order
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.entry_marks import kept_mark
from remora.loops.listed.run import RunOptions
from remora.sim.clock import START_WALL_NS, SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sources.list_scope import Form, SinceSettings, WindowSettings
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, ListedRig
from tests.loops.test_listed_each import DETAIL, WAYS, Workspace, know, rig_of
from tests.loops.test_listed_kills import killed

START_S = START_WALL_NS // SECOND_NS - 600
SINCE = SinceSettings(param="oldest", overlap_ns=2 * SECOND_NS)
WINDOW = WindowSettings(
    begin=str(START_S - 9 * DAY_NS // SECOND_NS), form=Form.SECONDS, length_ns=DAY_NS, overlap_ns=2 * SECOND_NS
)
PATH = "/history?channel={entry.id}"
SHAPES = {
    "since": ListSettings(path=PATH, paging=Paging.CURSOR, page_size=5, updated="ts", key="ts", since=SINCE),
    "window": ListSettings(path=PATH, page_size=5, updated="ts", key="ts", order=Order.OLDEST, window=WINDOW),
}
BATCH = DetailSettings(path="/many?channel={entry.id}&ts={keys}", batch=4, key="ts", updated="edited")


class Desk(Workspace):
    """A workspace whose lists can be asked for what is newer than a moment, and its messages several at a time."""

    first = START_S

    def past(self, messages: int) -> dict[int, int]:
        return {moment: moment for moment in range(self.first + 1, self.first + messages + 1)}

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        channel = unquote(query["channel"])
        messages = self.messages.get(channel, {})
        if parts.path == "/many":
            self.asked.append(f"many {channel}")
            bodies = [self.message(channel, int(ts)) for ts in query["ts"].split(",") if int(ts) in messages]
            return ok(b'{"items": [' + b", ".join(bodies) + b"]}")
        if "oldest" not in query and "until" not in query:
            return super().respond(target, headers, body)
        self.asked.append(f"history {channel}")
        if (answer := self.hook(self.asked[-1])) is not None:
            return answer
        oldest, until = int(query.get("oldest", query.get("from", 0))), int(query.get("until", 99_999_9_999_999_999))
        size, below = int(query["limit"]), int(query.get("cursor", 9_999_999_999))
        shown = sorted((ts for ts in messages if oldest <= ts < until), reverse="until" not in query)
        rest = [ts for ts in shown if ts < below][int(query.get("offset", 0)) :]
        lines = [{"ts": ts} for ts in rest[:size]]
        told = {"items": lines, "next_cursor": rest[size - 1] if len(rest) > size else None}
        return ok(json.dumps(told).encode()) if channel in self.messages else NOT_FOUND


async def desk_of(
    clock: SimClock, shape: str, *, detail: DetailSettings = DETAIL, messages: int = 13
) -> tuple[ListedRig, Desk]:
    desk = Desk(3, messages)
    rig = ListedRig(
        clock, desk, settings={**WAYS, **SHAPES}[shape], detail=detail, ceiling_ns=SECOND_NS // 50, each="channels"
    )
    bodies = {channel: json.dumps({"id": channel}).encode() for channel in desk.messages}
    await know(rig.store, bodies, now_ns=clock.wall_ns())
    return rig, desk


@pytest.mark.parametrize("way", WAYS)
def test_the_past_of_a_new_channel_is_read_whole_although_the_run_ends_inside_it(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, way, channels=2, messages=30)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        workspace.messages["D/9"] = {moment: moment for moment in range(1, 26)}
        await know(rig.store, {"D/9": b'{"id": "D/9"}'}, now_ns=clock.wall_ns())
        for max_fetches in (6, 8):
            await rig.run(RunOptions(force=True, max_fetches=max_fetches))
            await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == workspace.documents()

    run(main)


def test_what_a_channel_says_while_another_is_read_is_not_older_than_what_is_known() -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor", channels=2, messages=12)
        said = False

        def hook(asked: str) -> Response | None:
            nonlocal said
            if asked == "history C/1" and not said:
                said = True
                for _ in range(12):
                    workspace.say("C/0")
                workspace.say("C/1")  # newer than everything in the other channel
            return None

        workspace.hook = hook
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        await rig.wait(HOUR_NS)
        await killed(rig, Generation(die_at_call=60))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == workspace.documents()

    run(main)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_channel_is_asked_only_for_what_is_newer_than_its_own_watermark(shape: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, desk = await desk_of(clock, shape, messages=16)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == desk.documents()
        whole = desk.requests("history")
        desk.say("C/1")
        desk.messages["D/9"] = desk.past(25)
        await know(rig.store, {"D/9": b'{"id": "D/9"}'}, now_ns=clock.wall_ns())
        desk.asked.clear()
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == desk.documents()
        asked = desk.requests("history")
        assert all(asked[channel] < whole[channel] / 2 for channel in ("C/0", "C/1", "C/2")), (asked, whole)
        assert asked["D/9"] > asked["C/0"], "it has no watermark yet"

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_faults_kills_and_new_channels_lose_nothing_although_only_news_is_asked_for(shape: str, seed: int) -> None:
    async def main(clock: SimClock) -> None:
        (rig, desk), chance = await desk_of(clock, shape), Random(seed)

        def hook(_asked: str) -> Response | None:
            return chance.choice([Answer(500, b"{}"), Answer(429, b"{}")]) if chance.random() < 0.1 else None

        desk.hook = hook
        for turn in range(4):
            await killed(rig, Generation(die_at_call=chance.randrange(20, 400)))
            new = f"B/{turn}"
            desk.messages[new] = desk.past(11)
            desk.say(new, *chance.sample(sorted(desk.messages), 2))
            await know(rig.store, {new: json.dumps({"id": new}).encode()}, now_ns=clock.wall_ns())
            await rig.wait(HOUR_NS)
        desk.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        await rig.run(RunOptions(force=True))
        await rig.wait(DAY_NS)
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == desk.documents()

    run(main)


def test_one_request_asks_for_several_messages_of_one_channel() -> None:
    async def main(clock: SimClock) -> None:
        rig, desk = await desk_of(clock, "cursor", detail=BATCH, messages=9)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == desk.documents(), "messages of the same moment in two channels are told apart"
        assert desk.requests("many") == {"C/0": 3, "C/1": 3, "C/2": 3}

    run(main)


def test_a_channel_whose_messages_share_a_key_keeps_no_watermark_and_its_neighbours_do() -> None:
    async def main(clock: SimClock) -> None:
        rig, desk = await desk_of(clock, "since", detail=DetailSettings(inline=True))
        channel, *others = desk.messages
        clashing = json.dumps({"items": [{"ts": START_S + 1, "text": text} for text in ("one", "two")]}).encode()
        desk.hook = lambda asked: ok(clashing) if asked == f"history {channel}" else None
        assert (await rig.run()).stopped_by is StoppedBy.LIST_CONTRADICTS
        assert await kept_mark(rig.store, NAME, channel) is None
        assert all([await kept_mark(rig.store, NAME, other) is not None for other in others])

    run(main)
