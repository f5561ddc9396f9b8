"""Are details that are asked for together accounted for one by one?"""

import json
from collections.abc import Mapping
from random import Random
from urllib.parse import unquote, urlsplit

import pytest

from remora.core.errors import ConfigurationError
from remora.core.ledger.discovery import fingerprint
from remora.core.ledger.run import REFUSED_IN_A_ROW_MAX, StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response, ok
from remora.sources.listed import DetailSettings
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

BATCHED = DetailSettings(path="/many/{keys}", key="id", updated="update_time", batch=20, separator=";")


class Questions(SmallArchive):
    """Details are asked for by several ids at once. One poisonous id spoils the whole answer."""

    poison: str | None = None
    spoils = Answer(500, b"{}")

    def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
        path = urlsplit(target).path
        if not path.startswith("/many/"):
            return super().respond(target, headers, body)
        keys = unquote(path.removeprefix("/many/")).split(";")
        self.asked.append(f"detail {len(keys)}")
        self.departures_ns.append(self.ticks())
        if (answer := self.hook(self.asked[-1])) is not None:
            return answer
        if self.poison in keys:
            return self.spoils
        lines = b",".join(self.body(key) for key in keys if key in self._marks)
        return ok(b'{"items": [%s]}' % lines)


def rig_of(clock: SimClock, entries: int = 57) -> tuple[ListedRig, Questions]:
    archive = Questions(entries)
    return ListedRig(clock, archive, detail=BATCHED, ceiling_ns=SECOND_NS // 50), archive


def test_fifty_seven_details_cost_three_requests() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert archive.requests("detail") == {"20": 2, "17": 1}

    run(main)


def test_an_id_that_is_missing_is_owed_alone_and_its_neighbours_are_kept() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock)

        def hook(asked: str) -> Response | None:
            if asked == "detail 20" and "c40" in archive.truth():
                archive.remove("c40")
            return None

        archive.hook = hook
        await rig.run()
        assert await rig.is_complete()
        gaps = {gap.key: str(gap.reason) for gap in await rig.store.gaps(NAME)}
        assert gaps == {fingerprint(NAME, "c40"): "not_found"}

    run(main)


def test_an_id_that_spoils_its_batch_is_found_and_the_others_are_kept() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock)
        archive.poison = "c33"
        await rig.run()
        truth = archive.truth()
        assert await rig.mirror() == {key: body for key, body in truth.items() if key != "c33"}
        assert [gap.key for gap in await rig.store.gaps(NAME)] == [fingerprint(NAME, "c33")]
        archive.poison = None
        await rig.wait(DAY_NS)
        await rig.run()
        assert await rig.is_complete()

    run(main)


def test_the_newest_id_that_is_refused_with_its_batch_does_not_look_like_a_refused_account() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock)
        archive.poison, archive.spoils = "c56", Answer(403, b"{}")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        truth = archive.truth()
        assert await rig.mirror() == {key: body for key, body in truth.items() if key != "c56"}

    run(main)


def test_an_account_that_is_refused_stops_the_run_after_some_single_documents() -> None:
    async def main(clock: SimClock) -> None:
        rig, archive = rig_of(clock)
        archive.hook = lambda asked: Answer(403, b"{}") if asked.startswith("detail") else None
        assert (await rig.run()).stopped_by is StoppedBy.REFUSED
        assert archive.requests("detail")["1"] == REFUSED_IN_A_ROW_MAX
        assert archive.requests("detail").total() < 20

    run(main)


@pytest.mark.parametrize("seed", range(3))
def test_faults_refusals_and_kills_lose_nothing(seed: int) -> None:
    async def main(clock: SimClock) -> None:
        (rig, archive), chance = rig_of(clock), Random(seed)

        def hook(_asked: str) -> Response | None:
            return chance.choice([Answer(500, b"{}"), Answer(429, b"{}")]) if chance.random() < 0.2 else None

        archive.hook = hook
        for turn in range(6):
            await killed(rig, Generation(die_at_call=chance.randrange(20, 300)))
            archive.add(f"n{turn}", f"c{chance.randrange(57)}")
            await rig.wait(HOUR_NS)
        archive.hook = lambda _asked: None
        for _ in range(2):
            await rig.wait(DAY_NS)
            await rig.run(RunOptions(force=True))
        assert await rig.is_complete()
        assert json.loads((await rig.mirror())["c0"])["id"] == "c0"

    run(main)


@pytest.mark.parametrize(
    "detail, said, write",
    [
        ({"path": "/d/{key}", "batch": 10, "key": "id"}, 'detail.path is "/d/{key}"', "write {keys}"),
        ({"path": "/d/{keys}", "batch": 10}, "but not detail.key", 'key = "id"'),
        ({"path": "/d/{keys}", "batch": 10, "key": "id", "entries": "a[?b]"}, "an expression in entries", "leave"),
        ({"path": "/d/{keys}"}, 'detail.path is "/d/{keys}"', "write {key}"),
    ],
)
def test_a_wrong_batch_is_refused_with_what_to_write(detail: dict[str, object], said: str, write: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("questions", {"kind": "listed", "url": "https://a.example", "detail": detail})
    assert said in str(refused.value)
    assert write in (refused.value.hint or "")
