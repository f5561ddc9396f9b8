"""Is a list walked for each entry of another source, and is every one of those lists collected whole?"""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from remora.contracts import Observation, Store
from remora.core.errors import ConfigurationError
from remora.core.item import Document, Entry
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.ledger.list_walk import WalkState
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.core.verdict import Found
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import load, read_source
from remora.operate.config.settings import Flags
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import NOT_FOUND, Answer, Response, ok
from remora.sources.fan_out import compound, split_key
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging
from remora.sources.parts import PartSettings
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

PATH = "/history?channel={entry.id}"
WAYS = {
    "cursor": ListSettings(path=PATH, paging=Paging.CURSOR, page_size=5, updated="ts", key="ts"),
    "offset": ListSettings(path=PATH, page_size=5, updated="ts", key="ts"),
}
DETAIL = DetailSettings(path="/replies?channel={entry.id}&ts={key}", key="ts", updated="edited")


class Workspace(SmallArchive):
    """Channels with messages, newest first. Two channels may have messages of the same moment."""

    first = 0  # every moment is later than this one

    def __init__(self, channels: int, messages: int) -> None:
        super().__init__()
        self.messages: dict[str, dict[int, int]] = {}  # channel, moment, moment of the last edit
        self.now = self.first
        for number in range(channels):
            self.messages[f"C/{number}"] = {}
        for _ in range(messages):
            self.say(*self.messages)

    def say(self, *channels: str) -> None:
        self.now += 1
        for channel in channels:
            self.messages[channel][self.now] = self.now

    def documents(self) -> dict[str, bytes]:
        return {
            compound(channel, str(moment)): self.message(channel, moment)
            for channel, moments in self.messages.items()
            for moment in moments
        }

    def message(self, channel: str, moment: int) -> bytes:
        edited = self.messages[channel][moment]
        return json.dumps(
            {"ts": moment, "edited": edited, "text": f"{moment} in {channel}", "channel": channel}
        ).encode()

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        channel = unquote(query["channel"])
        self.asked.append(f"{parts.path[1:]} {channel}")
        self.departures_ns.append(self.ticks())
        if (answer := self.hook(self.asked[-1])) is not None:
            return answer
        if channel not in self.messages:
            return NOT_FOUND
        if parts.path == "/replies":
            moment = int(query["ts"])
            return ok(self.message(channel, moment)) if moment in self.messages[channel] else NOT_FOUND
        moments = sorted(self.messages[channel], reverse=True)
        size, below = int(query["limit"]), int(query.get("cursor", "9999999999"))
        rest = [moment for moment in moments if moment < below][int(query.get("offset", "0")) :]
        lines = [{"ts": moment} for moment in rest[:size]]
        return ok(json.dumps({"items": lines, "next_cursor": rest[size - 1] if len(rest) > size else None}).encode())


async def know(store: Store, channels: Mapping[str, bytes], *, walk: int = 1, now_ns: int) -> None:
    """What a run over the channels leaves in the store."""
    await store.record_page("channels", [Entry(key, None) for key in channels], WalkState(walk=walk), now_ns=now_ns)
    for key, body in channels.items():
        found = Found(Document(key, body))
        seen = Observation(Discovery(Kind.DOCUMENT, key, Lane.DETAIL), found, now_ns + 1, now_ns + 1)
        await store.record("channels", seen)


async def rig_of(
    clock: SimClock, way: str, channels: int = 4, messages: int = 13, *, store: Store | None = None
) -> tuple[ListedRig, Workspace]:
    workspace = Workspace(channels, messages)
    rig = ListedRig(clock, workspace, settings=WAYS[way], detail=DETAIL, ceiling_ns=SECOND_NS // 50, each="channels")
    rig.store = store or rig.store
    bodies = {channel: json.dumps({"id": channel}).encode() for channel in workspace.messages}
    await know(rig.store, bodies, now_ns=clock.wall_ns())
    return rig, workspace


@pytest.mark.parametrize("way", WAYS)
def test_the_messages_of_every_channel_are_collected_and_then_only_the_top_of_each(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, way)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == workspace.documents()
        workspace.asked.clear()
        workspace.say("C/2")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == workspace.documents()
        asked = workspace.requests("history")
        assert max(asked[channel] for channel in ("C/0", "C/1", "C/3")) <= 2, "a tie is read again"
        assert workspace.requests("replies") == {"C/2": 1}

    run(main)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_faults_kills_and_new_channels_lose_nothing(way: str, seed: int) -> None:
    async def main(clock: SimClock) -> None:
        (rig, workspace), chance = await rig_of(clock, way), Random(seed)

        def hook(_asked: str) -> Response | None:
            return chance.choice([Answer(500, b"{}"), Answer(429, b"{}")]) if chance.random() < 0.1 else None

        workspace.hook = hook
        for turn in range(5):
            await killed(rig, Generation(die_at_call=chance.randrange(20, 500)))
            new = f"B/{turn}"
            workspace.messages[new] = {}
            workspace.say(new, *chance.sample(sorted(workspace.messages), 2))
            await know(rig.store, {new: json.dumps({"id": new}).encode()}, now_ns=clock.wall_ns())
            await rig.wait(HOUR_NS)
        workspace.hook = lambda _asked: None
        ended = []
        for _ in range(2):
            await rig.wait(DAY_NS)
            ended.append((await rig.run(RunOptions(force=True))).stopped_by)
        assert ended[-1] is StoppedBy.COMPLETE
        assert await rig.mirror() == workspace.documents()

    run(main)


@pytest.mark.parametrize("closed", ["C/0", "C/1", "C/3"])
def test_one_channel_that_is_refused_hides_no_other_and_is_named(closed: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor")
        workspace.hook = lambda asked: Answer(403, b"{}") if asked == f"history {closed}" else None
        for _ in range(2):
            summary = await rig.run()
            assert summary.stopped_by is StoppedBy.LIST_TROUBLE
            assert "of channels cannot be read (forbidden)" in summary.because
            assert closed not in summary.because, "a key is nobody's business"
            workspace.say("C/2")
            await rig.wait(DAY_NS)
        await rig.run()
        held, truth = await rig.mirror(), workspace.documents()
        assert held == {key: body for key, body in truth.items() if split_key(key)[0] != closed}
        workspace.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.mirror() == truth

    run(main)


def test_what_is_deleted_in_a_channel_vanishes_and_nothing_else() -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor")
        for _ in range(3):
            await rig.run()
            workspace.say("C/1")
            await rig.wait(HOUR_NS)
        del workspace.messages["C/2"][3]
        for _ in range(3):
            await rig.wait(8 * DAY_NS)
            await rig.run()
        keys = [*workspace.documents(), compound("C/2", "3")]
        gone = [key for key in keys if (held := await rig.store.document(NAME, key)) and held.vanished_ns is not None]
        assert gone == [compound("C/2", "3")]

    run(main)


@pytest.mark.parametrize("answers", [False, True])
def test_the_messages_of_a_channel_that_has_vanished_vanish_with_it_and_are_kept(answers: bool) -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor", channels=3)
        await rig.run()
        collected = workspace.documents()
        await rig.store.record_vanished("channels", ["C/2"], now_ns=clock.wall_ns())
        if not answers:
            del workspace.messages["C/2"]
        for _ in range(2):
            await rig.wait(8 * DAY_NS)
            assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        shown = {key for key in collected if (held := await rig.store.document(NAME, key)) and held.vanished_ns is None}
        assert shown == {key for key in collected if not key.startswith(compound("C/2", ""))}
        assert await rig.mirror() == collected

    run(main)


def test_without_a_known_channel_the_run_says_what_to_run_first() -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor", channels=0)
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_CONTRADICTS
        assert summary.because.endswith("and none is known yet; run channels first")
        await know(rig.store, {"C/9": b'{"name": "x"}'}, now_ns=clock.wall_ns())
        assert "1 entries of channels lack a field" in (await rig.run()).because
        assert workspace.asked == []

    run(main)


def test_when_every_channel_has_vanished_there_is_nothing_to_walk_and_nothing_is_wrong() -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, "cursor", channels=2)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        channels = await rig.store.unlisted("channels", walk=2, limit=9)
        assert await rig.store.record_vanished("channels", channels, now_ns=clock.wall_ns()) == 2
        workspace.asked.clear()
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert workspace.asked == []
        assert await rig.mirror() == workspace.documents(), "what was collected is kept"

    run(main)


def test_a_message_of_a_channel_may_have_parts() -> None:
    async def main(clock: SimClock) -> None:
        rig, _ = await rig_of(clock, "cursor", channels=2, messages=3)
        part = PartSettings(name="again", path="/history?channel={entry.id}&of={key}", page_size=5, key="ts")
        rig.detail = DetailSettings(path="/replies?channel={entry.id}&ts={key}", key="ts", parts=(part,))
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        held = json.loads((await rig.mirror())[compound("C/1", "2")])
        assert held["detail"]["text"] == "2 in C/1"
        assert [line["ts"] for line in held["again"]] == [3, 2, 1]

    run(main)


@pytest.mark.parametrize("way", WAYS)
def test_a_list_that_is_refused_is_one_gap_and_recovery_reads_it_once_it_answers(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig, workspace = await rig_of(clock, way)
        workspace.hook = lambda asked: Answer(403, b"{}") if asked == "history C/1" else None
        for attempts in (1, 3):  # a later run asks for it by recovery and in its walk
            assert (await rig.run()).unread_pages == 1
            (gap,) = await rig.store.gaps(NAME)
            assert (gap.kind, gap.attempts) == (Kind.UNREAD_PAGE, attempts)
            await rig.wait(HOUR_NS)
        workspace.hook = lambda _asked: None
        await rig.wait(DAY_NS)
        assert (await rig.run(RunOptions(recover_only=True))).unread_pages == 0
        assert await rig.mirror() == workspace.documents()

    run(main)


@pytest.mark.parametrize("parent", ["C1", "a/b", "a%2Fb", "ü ?#", "."])
def test_the_key_of_a_document_names_its_entry_and_itself(parent: str) -> None:
    assert split_key(compound(parent, "x/y")) == (parent, "x/y")


@pytest.mark.parametrize(
    "table, said, write",
    [
        ({"each": "channels"}, "list.path holds nothing of an entry", "{entry}"),
        ({"list": {"path": "/h/{entry.id}"}}, "a path holds {entry.id}, but there is no each", 'each = "channels"'),
    ],
)
def test_a_wrong_each_is_refused_with_what_to_write(table: dict[str, object], said: str, write: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("messages", {"kind": "listed", "url": "https://a.example", **table})
    assert said in str(refused.value)
    assert write in (refused.value.hint or "")


@pytest.mark.parametrize("parent", ["messages", "nobody", "rfcs"])
def test_each_names_another_listed_source(parent: str, tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text(
        '[sources.channels]\nkind = "listed"\nurl = "https://a.example"\n'
        '[sources.rfcs]\nkind = "numbered"\nurl = "https://a.example"\n'
        'item = { path = "/{id}" }\nnewest = { path = "/n" }\n'
        f'[sources.messages]\nkind = "listed"\nurl = "https://a.example"\neach = "{parent}"\n'
        'list = { path = "/h/{entry}" }\n'
    )
    with pytest.raises(ConfigurationError) as refused:
        load(Flags(config=str(tmp_path / "remora.toml")), {})
    assert f'sources.messages.each leads to "{parent}"' in str(refused.value)
    assert refused.value.hint == "write the name of one of: channels"
