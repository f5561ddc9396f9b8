"""Does the simulated archive behave like an account that somebody else is using at the same time?"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import aiohttp
import pytest

from remora.core.units import DAY_NS, HOUR_NS, SECOND_NS
from remora.sim.faults import FaultKind, Faults
from remora.sim.limits import Limit
from remora.sim.listed import Archive, ArchiveSettings
from remora.sim.provider import Provider
from remora.sim.replies import Answer
from remora.sim.server import serve
from remora.sim.world import World, WorldSettings

QUIET = ArchiveSettings(conversations=250, limit=Limit(), added_per_day=0, removed_share=0)
AUTHORIZED = {"Authorization": f"Bearer {QUIET.token}"}
START_NS = QUIET.start_ns


def ask(archive: Archive, target: str, *, now_ns: int = START_NS, at_ns: int = 0) -> Answer:
    return archive.respond(target, AUTHORIZED, now_ns=now_ns, at_ns=at_ns)


def keys(answer: Answer) -> list[str]:
    return [line["id"] for line in json.loads(answer.body)["items"]]


def by_offset(archive: Archive) -> Iterator[str]:
    offset = 0
    while page := keys(ask(archive, f"/archive/list?offset={offset}&limit=40")):
        yield from page
        offset += len(page)


def by_page(archive: Archive) -> Iterator[str]:
    number = 1
    while page := keys(ask(archive, f"/archive/pages?page={number}&limit=40")):
        yield from page
        number += 1


def by_cursor(archive: Archive) -> Iterator[str]:
    cursor: str | None = ""
    while cursor is not None:
        answer = ask(archive, f"/archive/cursor?limit=40&cursor={cursor}")
        yield from keys(answer)
        cursor = json.loads(answer.body)["next_cursor"]


def by_link(archive: Archive) -> Iterator[str]:
    target: str | None = "/archive/links?limit=40"
    while target is not None:
        answer = ask(archive, target)
        yield from keys(answer)
        link = answer.headers.get("link")
        target = link[1 : link.index(">")] if link else None


def by_header(archive: Archive) -> Iterator[str]:
    cursor = ""
    while True:
        answer = ask(archive, f"/archive/header?limit=40&cursor={cursor}")
        yield from keys(answer)
        if not (cursor := answer.headers["x-next-cursor"]):
            return


def by_next(archive: Archive) -> Iterator[str]:
    target: str | None = "/archive/next?limit=40"
    while target is not None:
        answer = ask(archive, target)
        yield from keys(answer)
        target = json.loads(answer.body)["next"]


def by_last(archive: Archive) -> Iterator[str]:
    last = ""
    while page := keys(ask(archive, f"/archive/last?limit=40&starting_after={last}")):
        yield from page
        last = page[-1]


@pytest.mark.parametrize("walk", [by_offset, by_page, by_cursor, by_link, by_header, by_next, by_last])
def test_every_way_of_paging_gives_the_same_list_newest_first(walk: Callable[[Archive], Iterator[str]]) -> None:
    archive = Archive(QUIET)
    expected = [line.key for line in archive.listing(START_NS)]
    assert list(walk(archive)) == expected
    assert len(expected) == 250
    marks = [line.mark for line in archive.listing(START_NS)]
    assert marks == sorted(marks, reverse=True)


@pytest.mark.parametrize("order, mark", [("oldest", "update_time"), ("created", "create_time")])
def test_a_list_in_another_order_has_the_same_entries(order: str, mark: str) -> None:
    lines: list[dict[str, str]] = []
    target: str | None = f"/archive/next?limit=40&order={order}"
    archive = Archive(QUIET)
    while target is not None:
        page = json.loads(ask(archive, target).body)
        lines, target = lines + page["items"], page["next"]
    assert {line["id"] for line in lines} == {line.key for line in archive.listing(START_NS)}
    assert [line[mark] for line in lines] == sorted((line[mark] for line in lines), reverse=order == "created")


def test_a_part_of_the_list_holds_what_changed_since_a_moment_or_within_a_window() -> None:
    archive = Archive(QUIET)
    marks = {line.key: line.mark for line in archive.listing(START_NS)}
    least, most = sorted(marks.values())[100], sorted(marks.values())[150]
    since = keys(ask(archive, f"/archive/list?limit=100&order=oldest&since={least}"))
    window = keys(ask(archive, f"/archive/list?limit=100&order=oldest&from={least}&until={most}"))
    assert since[0] == window[0]
    assert {marks[key] for key in window} == {mark for mark in marks.values() if least <= mark <= most}


def test_a_conversation_comes_whole_in_parts_with_others_or_by_post() -> None:
    archive = Archive(replace(QUIET, malformed_share=0, gone_share=0))
    key = archive.listing(START_NS)[0].key
    whole = ask(archive, f"/archive/detail/{key}").body
    posted = archive.respond("/archive/detail", AUTHORIZED, b'{"id":"%b"}' % key.encode(), now_ns=START_NS, at_ns=0)
    assert posted.body == whole
    assert whole in ask(archive, "/archive/list?limit=1&whole=1").body
    assert whole in ask(archive, f"/archive/batch?ids={key},nobody").body
    head, messages = json.loads(ask(archive, f"/archive/head/{key}").body), json.loads(whole)["messages"]
    assert head["update_time"] == json.loads(whole)["update_time"]
    pages = [keys(ask(archive, f"/archive/messages/{key}?offset={at}&limit=2")) for at in range(0, len(messages), 2)]
    assert list(chain.from_iterable(pages)) == [message["id"] for message in messages]
    assert json.loads(archive.joined(key, START_NS) or b"") == {"detail": head, "messages": messages}


def test_marks_are_not_unique() -> None:
    marks = [line.mark for line in Archive(QUIET).listing(START_NS)]
    assert len(set(marks)) < len(marks)


def test_an_update_moves_a_conversation_to_the_front_and_changes_its_detail() -> None:
    archive = Archive(QUIET)
    before = {line.key: line.mark for line in archive.listing(START_NS)}
    later = archive.listing(START_NS + HOUR_NS)
    changed = [line.key for line in later if before[line.key] != line.mark]
    assert changed
    assert changed == [line.key for line in later[: len(changed)]]
    assert archive.detail(changed[0], START_NS) != archive.detail(changed[0], START_NS + HOUR_NS)


def test_conversations_come_and_go() -> None:
    archive = Archive(ArchiveSettings(conversations=250, limit=Limit(), added_per_day=40, removed_share=0.3))
    before = {line.key for line in archive.listing(START_NS)}
    after = {line.key for line in archive.listing(START_NS + DAY_NS)}
    assert len(after - before) in range(30, 41)
    assert before - after
    assert ask(archive, f"/archive/detail/{min(before - after)}", now_ns=START_NS + DAY_NS).status == 404


def test_details_may_be_gone_malformed_or_too_large() -> None:
    settings = ArchiveSettings(
        conversations=300, limit=Limit(), gone_share=0.1, malformed_share=0.1, large_share=0.1, large_bytes=10_000
    )
    archive = Archive(settings)
    answers = {line.key: ask(archive, f"/archive/detail/{line.key}") for line in archive.listing(START_NS)}
    statuses = {answer.status for answer in answers.values()}
    assert statuses == {200, 404, 410}
    assert sum(len(answer.body) > 10_000 for answer in answers.values()) > 10
    readable = archive.readable(START_NS)
    assert 180 < len(readable) < 250
    assert all(json.loads(body)["id"] == key for key, body in readable.items())


def test_nothing_is_shown_without_the_token() -> None:
    archive = Archive(QUIET)
    assert archive.respond("/archive/list", {}, now_ns=START_NS, at_ns=0).status == 401
    assert archive.respond("/archive/list", {"authorization": "Bearer x"}, now_ns=START_NS, at_ns=0).status == 401


def test_the_account_heats_up_after_150_requests_and_cools_within_minutes_without_a_hint() -> None:
    archive = Archive(ArchiveSettings(conversations=250))
    answers = [ask(archive, "/archive/list") for _ in range(200)]
    assert [answer.status for answer in answers].index(429) in range(145, 151)
    assert answers[-1].headers == {}
    assert ask(archive, "/archive/list", at_ns=60 * SECOND_NS).status == 429
    assert ask(archive, "/archive/list", at_ns=300 * SECOND_NS).status == 200


def test_the_provider_answers_for_the_archive_and_adds_its_faults() -> None:
    archive = Archive(QUIET)
    key = archive.listing(START_NS)[0].key
    provider = Provider(
        World(WorldSettings(items=10)),
        Faults(ids={key: FaultKind.HANG}),
        now=lambda: START_NS,
        ticks=lambda: 0,
        archive=archive,
    )
    assert not isinstance(provider.respond(f"/archive/detail/{key}", AUTHORIZED), Answer)
    assert isinstance(provider.respond("/archive/list", AUTHORIZED), Answer)
    assert provider.arrivals.paths == [f"/archive/detail/{key}", "/archive/list"]


async def test_the_archive_is_served_over_http() -> None:
    async with (
        await serve(WorldSettings(items=10), speed=0, archive=QUIET) as server,
        aiohttp.ClientSession(headers=AUTHORIZED) as session,
        session.get(f"{server.origin}/archive/links?limit=5") as reply,
    ):
        assert len((await reply.json())["items"]) == 5
        assert str(reply.links["next"]["url"]).startswith(f"{server.origin}/archive/links?limit=5&cursor=")


def test_a_cursor_between_entries_of_one_second_skips_none() -> None:
    busy = ArchiveSettings(conversations=0, limit=Limit(), added_per_day=500_000, removed_share=0)
    archive, now_ns = Archive(busy), START_NS + 30 * SECOND_NS
    listed = [line.key for line in archive.listing(now_ns)]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = ask(archive, f"/archive/cursor?limit=1&cursor={cursor}", now_ns=now_ns)
        seen += keys(answer)
        cursor = json.loads(answer.body)["next_cursor"]
    assert seen == listed
    assert len(listed) > 100
