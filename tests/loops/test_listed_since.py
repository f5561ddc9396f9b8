"""Is a list that shows what changed since a moment, or a window of time, collected whole and then only its news?"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from urllib.parse import quote

import msgspec
import pytest

from remora.core.errors import ConfigurationError
from remora.core.item import Order
from remora.core.ledger.notes import FULL_WALK_NOTE
from remora.core.ledger.run import StoppedBy
from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.loops.listed.run import RunOptions
from remora.operate.config.reader import read_source
from remora.sim.clock import START_WALL_NS, SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response, ok
from remora.sources.list_scope import Form, SinceSettings, WindowSettings, first_part, since_text
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging
from tests.loops.listed_rig import NAME, ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

STEP_S = 7_200
START_S = START_WALL_NS // SECOND_NS - 100 * STEP_S


class Dated(SmallArchive):
    """An archive whose marks are moments, shown oldest first, since a moment or inside a window."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self._clock = START_S
        self.shuffled = False
        for number in range(entries):
            self.add(f"c{number}")

    def add(self, *keys: str) -> None:
        for key in keys:
            self._clock += STEP_S
            self._marks[key] = self._clock

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        if path not in {"/since", "/window"}:
            return super()._page(path, query)
        least, most = moment(query.get("since", query.get("from", "0"))), moment(query.get("until", "99999999999"))
        rest = sorted((mark, key) for key, mark in self._marks.items() if least <= mark <= most)
        if self.shuffled:
            Random(7).shuffle(rest)
        size, start = int(query["limit"]), int(query.get("offset", "0"))
        if "cursor" in query:  # a place between two entries, which stays where it is
            mark, _, key = query["cursor"].partition(" ")
            start = sum(line <= (int(mark), key) for line in rest)
        lines = [(key, mark) for mark, key in rest[start : start + size]]
        end = start + size >= len(rest)
        after = f"{lines[-1][1]} {lines[-1][0]}" if lines else None
        self.asked[-1] = f"page {len(lines)}"
        at = f"/since?limit={size}&since={least}&cursor={quote(after or '')}"
        return ok(self._lines(lines, after=after, ended=end, next=None if end else at))


def moment(text: str) -> int:
    return int(text) if text.isdigit() else int(datetime.fromisoformat(text).timestamp())


SINCE = SinceSettings(overlap_ns=STEP_S * SECOND_NS)
OLDEST = {"path": "/since", "page_size": 10, "order": Order.OLDEST, "since": SINCE}
WINDOW = WindowSettings(begin=str(START_S - DAY_NS // SECOND_NS), length_ns=2 * DAY_NS, overlap_ns=STEP_S * SECOND_NS)
WAYS = {
    "cursor": ListSettings(paging=Paging.CURSOR, next_cursor="after", end="ended", **OLDEST),  # type: ignore[arg-type]
    "offset": ListSettings(paging=Paging.OFFSET, end="ended", **OLDEST),  # type: ignore[arg-type]
    "next": ListSettings(paging=Paging.NEXT, **OLDEST),  # type: ignore[arg-type]
    "window": ListSettings(path="/window", page_size=10, order=Order.OLDEST, end="ended", window=WINDOW),
}


def rig_of(clock: SimClock, way: str, entries: int = 57) -> ListedRig:
    """A rig whose clock is a few days after the newest entry."""
    return ListedRig(clock, Dated(entries), settings=WAYS[way], ceiling_ns=SECOND_NS // 50)


@pytest.mark.parametrize("way", WAYS)
def test_a_forward_list_is_read_whole_once_and_then_only_from_its_watermark(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        rig.archive.asked.clear()
        rig.archive.add("new", "c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert set(rig.archive.requests("detail")) == {"new", "c3"}
        assert sum(int(shown) * times for shown, times in rig.archive.requests("page").items()) <= 6

    run(main)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_faults_kills_and_changes_lose_nothing(way: str, seed: int) -> None:
    async def main(clock: SimClock) -> None:
        rig, chance = rig_of(clock, way), Random(seed)

        def hook(_asked: str) -> Response | None:
            return chance.choice([Answer(500, b"{}"), Answer(429, b"{}")]) if chance.random() < 0.1 else None

        rig.archive.hook = hook
        for turn in range(6):
            await killed(rig, Generation(die_at_call=chance.randrange(20, 400)))
            rig.archive.add(f"n{turn}", f"c{chance.randrange(57)}")
            await rig.wait(HOUR_NS)
        rig.archive.hook = lambda _asked: None
        await rig.wait(HOUR_NS)
        assert (await rig.run(RunOptions(force=True))).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_what_a_walk_from_the_watermark_does_not_show_has_not_vanished_but_a_full_walk_tells(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        for _ in range(4):
            await rig.run()
            rig.archive.add("c1")
            await rig.wait(HOUR_NS)
        assert [key for key in rig.archive.truth() if await vanished(rig, key)] == []
        rig.archive.remove("c5")
        for _ in range(3):
            await rig.wait(8 * DAY_NS)
            await rig.run()
        assert await vanished(rig, "c5")
        assert [key for key in rig.archive.truth() if await vanished(rig, key)] == []

    run(main)


@pytest.mark.slow
def test_what_is_newer_than_a_clock_that_was_set_back_has_not_vanished() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "window")
        await rig.run()
        clock.step_wall(-6 * DAY_NS)
        for _ in range(3):
            await rig.run(RunOptions(force=True))
            await rig.wait(HOUR_NS)
        assert [key for key in rig.archive.truth() if await vanished(rig, key)] == []
        clock.step_wall(6 * DAY_NS)
        rig.archive.remove("c5", "c56")
        for _ in range(3):
            await rig.wait(8 * DAY_NS)
            await rig.run()
        assert [await vanished(rig, key) for key in ("c5", "c55", "c56")] == [True, False, True]

    run(main)


def test_what_a_full_walk_could_not_reach_while_the_clock_was_behind_has_not_vanished_once_it_is_right_again() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "window")
        await rig.run()
        clock.step_wall(-6 * DAY_NS)
        await rig.run(RunOptions(force=True))
        assert (await rig.store.walk_state(NAME)).full_walk is None, (
            "its last window ended before entries that are known"
        )
        clock.step_wall(6 * DAY_NS)
        for _ in range(3):
            await rig.run(RunOptions(force=True))
            assert [key for key in rig.archive.truth() if await vanished(rig, key)] == []
            await rig.wait(HOUR_NS)

    run(main)


def test_windows_that_begin_earlier_than_before_are_read_by_the_next_run() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "window")
        late = msgspec.structs.replace(WINDOW, begin=str(START_S + 30 * STEP_S))
        rig.settings = msgspec.structs.replace(rig.settings, window=late)
        await rig.run()
        assert not await rig.is_complete()
        rig.settings = WAYS["window"]
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_an_entry_that_moved_behind_the_end_of_the_last_window_has_not_vanished_however_often_it_is_judged() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "window")
        await rig.run()
        rig.archive.place(
            "c5", clock.wall_ns() // SECOND_NS + DAY_NS // SECOND_NS
        )  # our clock is behind, and nothing says so
        for _ in range(3):
            await rig.store.keep_note(NAME, FULL_WALK_NOTE, 0)
            assert (await rig.run(RunOptions(force=True))).counts.vanished == 0
        assert (await rig.mirror())["c5"] == rig.archive.body("c5")

    run(main)


async def vanished(rig: ListedRig, key: str) -> bool:
    held = await rig.store.document(NAME, key)
    assert held is not None
    return held.vanished_ns is not None


def test_an_entry_that_becomes_visible_late_is_found_inside_the_overlap() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "cursor")
        await rig.run()
        rig.archive.place("late", rig.archive.listing()[0][1] - STEP_S)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


@pytest.mark.parametrize("way", WAYS)
def test_an_absurd_mark_does_not_hide_what_changes_after_it(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, way)
        rig.archive.place("absurd", 4_000_000_000)
        await rig.run()
        rig.archive._clock = START_S + 60 * STEP_S
        rig.archive.add("new", "c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        held = await rig.mirror()
        assert {key: held.get(key) for key in ("new", "c3")} == {key: rig.archive.body(key) for key in ("new", "c3")}

    run(main)


def test_a_list_in_no_order_is_read_to_its_end_and_its_marks_tell_what_changed() -> None:
    async def main(clock: SimClock) -> None:
        settings = ListSettings(path="/since", page_size=10, order=Order.NONE)
        archive = Dated(57)
        archive.shuffled = True
        rig = ListedRig(clock, archive, settings=settings, ceiling_ns=SECOND_NS // 50)
        await killed(rig, Generation(die_at_call=40))
        await rig.wait(HOUR_NS)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        rig.archive.asked.clear()
        archive.add("c3")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert set(archive.requests("detail")) == {"c3"}
        assert await rig.is_complete()

    run(main)


def test_an_inline_list_by_windows_holds_its_documents() -> None:
    async def main(clock: SimClock) -> None:
        rig = rig_of(clock, "window")
        rig.detail = DetailSettings(inline=True)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert {key: json.loads(body) for key, body in (await rig.mirror()).items()} == {
            key: {"id": key, "update_time": mark} for key, mark in rig.archive.listing()
        }

    run(main)


class Fractions(Dated):
    """An archive that writes its marks as seconds with a fraction, as Slack does."""

    def _lines(self, lines: Sequence[tuple[str, int]], **more: object) -> bytes:
        shown = [{"id": key, "update_time": f"{mark}.000100"} for key, mark in lines]
        return json.dumps({"items": shown, **more}).encode()


def test_windows_go_on_at_a_watermark_of_seconds_with_a_fraction() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Fractions(57), settings=WAYS["window"], ceiling_ns=SECOND_NS // 50)
        await rig.run()
        first = len(rig.archive.asked) - 57
        rig.archive.asked.clear()
        rig.archive.add("new")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert len(rig.archive.asked) - 1 < first // 2

    run(main)


@pytest.mark.parametrize("form", Form)
def test_a_watermark_in_the_future_is_not_believed_however_it_is_written(form: Form) -> None:
    numbers = ("1990000000", "1990000000.5", "1990000000000.5", "1990000000000000")
    for mark in (*numbers, "2033-01-22T10:13:20Z", "22 Jan 2033 10:13:20 GMT"):
        assert not first_part(SinceSettings(form=form), None, mark, now_s=1_790_000_000).is_rest


@pytest.mark.parametrize("form", Form)
def test_a_long_number_ahead_may_be_an_id_only_where_marks_are_sent_as_they_are(form: Form) -> None:
    part = first_part(SinceSettings(form=form), None, "1990000000000000000", now_s=1_790_000_000)
    assert part.is_rest is (form is Form.MARK)
    window = WindowSettings("2020-01-01")
    assert not first_part(None, window, "1990000000000000000", now_s=1_790_000_000).is_rest


@pytest.mark.parametrize(
    "mark, form, sent",
    [
        ("1700000000", Form.MARK, "1699999940"),
        ("1700000000.5", Form.MARK, "1699999940"),
        ("1700000000000", Form.MARK, "1699999940000"),
        ("1700000000000000", Form.MARK, "1699999940000000"),
        ("1700000000123456789", Form.MARK, "1699999940123456789"),
        ("1767323045123456789", Form.SECONDS, "1767322985"),
        ("1767323045123456", Form.DATE, "2026-01-02T03:03:05Z"),
        ("1767323045", Form.MICROSECONDS, "1767322985000000"),
        ("2026-01-02T03:04:05Z", Form.NANOSECONDS, "1767322985000000000"),
        ("2026-01-02T03:04:05Z", Form.MARK, "2026-01-02T03:03:05Z"),
        ("2026-01-02T03:04:05.123+02:00", Form.MARK, "2026-01-02T01:03:05Z"),
        ("2026-01-02", Form.MARK, "2026-01-01"),
        ("2026-01-02T03:04:05", Form.MARK, "2026-01-02T03:03:05"),
        ("2026-01-02 03:04:05.5", Form.MARK, "2026-01-02 03:03:05"),
        ("2026-1-2 3:04", Form.MARK, "2026-01-02 03:03:00"),
        ("2026-01-02 03:04:05", Form.DATE, "2026-01-02T03:03:05Z"),
        ("2026-01-02T03:04:05Z", Form.SECONDS, "1767322985"),
        ("1767323045", Form.DATE, "2026-01-02T03:03:05Z"),
        ("1767323045", Form.MILLISECONDS, "1767322985000"),
        ("1767323045.678901", Form.SECONDS, "1767322985"),
        ("1767323045.678901", Form.DATE, "2026-01-02T03:03:05Z"),
        ("1767323045000.5", Form.MILLISECONDS, "1767322985000"),
        ("1.767323045E+9", Form.SECONDS, "1767322985"),
        ("02 Jan 2026 03:04:05 GMT", Form.SECONDS, "1767322985"),
        ("v7-abc", Form.MARK, "v7-abc"),
    ],
)
def test_a_watermark_is_sent_less_its_overlap_as_the_provider_reads_it(mark: str, form: Form, sent: str) -> None:
    assert since_text(SinceSettings(form=form), mark) == sent


@pytest.mark.parametrize(
    "table, said, write",
    [
        ({"since": {}, "window": {"begin": "2020-01-01"}}, "both since and window", "write since alone"),
        ({"since": {}, "updated": ""}, "but no marks", 'updated = "updated_at"'),
        ({"window": {"begin": "2020-01-01"}}, 'list.order is "updated"', 'order = "oldest"'),
        ({"window": {"begin": "long ago"}, "order": "none"}, 'begin is "long ago"', '"2005-01-31"'),
        ({"window": {"begin": "2020-01-01", "length": "90s"}, "order": "none"}, "would not move on", 'length = "30d"'),
        ({"window": {"begin": "2020-01-01", "as": "mark"}, "order": "none"}, 'window.as is "mark"', "seconds"),
        ({"window": {"order": "none"}}, "list.window has an unknown key order", "known here"),
        ({"since": {"overlap": "long"}}, 'overlap is "long"', '"500ms"'),
    ],
)
def test_a_wrong_part_is_refused_with_what_to_write(table: dict[str, object], said: str, write: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("cases", {"kind": "listed", "url": "https://a.example", "list": table})
    assert said in str(refused.value).replace("[", "").replace("]", "")
    assert write in (refused.value.hint or "")
