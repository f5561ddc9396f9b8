"""Do the operator's actions reach the service, only from our own page, and with an answer that says what happens?"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession

from remora.core.errors import ConfigurationError
from remora.core.ledger.discovery import Kind
from remora.core.ledger.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.status.timeline import Event
from remora.core.status.why_not_now import why_not_now
from remora.core.units import HOUR_NS, SECOND_NS
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags
from tests.operate.test_server import OURS, Console

NOW_NS = 1_800_000_000 * SECOND_NS


def gap(state: GapState = GapState.OWED, reason: GapReason = GapReason.TIMEOUT, **changes: int) -> Gap:
    numbers = {"attempts": 2, "null_count": 1, "not_before_ns": NOW_NS + HOUR_NS} | changes
    return Gap(
        kind=Kind.ITEM, key="4711", state=state, reason=reason, near_newest=False,
        first_seen_ns=NOW_NS, last_seen_ns=NOW_NS, **numbers,
    )  # fmt: skip


class Recording:
    """An operator who writes down what was asked."""

    def __init__(self, *, is_public: bool = True) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._is_public = is_public

    async def pause(self, source: str) -> str:
        self.asked.append(("pause", source))
        return "paused"

    async def resume(self, source: str) -> str:
        self.asked.append(("resume", source))
        return "goes on"

    async def run_now(self, source: str) -> str:
        self.asked.append(("run", source))
        return "begins"

    async def lower(self, source: str, ceiling: str, span: str) -> str:
        if ceiling == "900/s":
            raise ConfigurationError("900/s is above the ceiling of 250/s", hint="write a lower rate")
        self.asked.append(("lower", source, ceiling, span))
        return "slower"

    async def restore(self, source: str) -> str:
        self.asked.append(("restore", source))
        return "as before"

    async def send_test_notice(self) -> str:
        return "mail: delivered"

    async def gaps(self, source: str, *, state: GapState | None, reason: GapReason | None, limit: int) -> Sequence[Gap]:
        return [gap(state or GapState.OWED, reason or GapReason.TIMEOUT)]

    def is_public(self, source: str) -> bool:
        return self._is_public

    def timeline(self) -> Mapping[str, tuple[Event, ...]]:
        return {"hackernews": (Event(at_ns=NOW_NS, kind="run", text="it ran"),)}


@asynccontextmanager
async def served(operator: Recording) -> AsyncIterator[ClientSession]:
    console = Console(load(Flags(listen="127.0.0.1:0"), {}))
    server = console.server
    server.obey(operator)
    await server.open()
    async with ClientSession(server.url) as session:
        yield session
    await server.close()


async def test_every_action_reaches_the_service_and_says_what_happens_next() -> None:
    operator = Recording()
    async with served(operator) as session:
        for action in ("pause", "resume", "run", "restore"):
            async with session.post(f"/api/sources/chats/{action}", headers=OURS) as reply:
                assert (reply.status, list(await reply.json())) == (200, ["done"])
        body = {"ceiling": "30/min", "for": "2h"}
        async with session.post("/api/sources/chats/lower", headers=OURS, json=body) as reply:
            assert await reply.json() == {"done": "slower"}
        async with session.post("/api/notify/test", headers=OURS) as reply:
            assert await reply.json() == {"done": "mail: delivered"}
    assert operator.asked == [
        ("pause", "chats"), ("resume", "chats"), ("run", "chats"), ("restore", "chats"),
        ("lower", "chats", "30/min", "2h"),
    ]  # fmt: skip


@pytest.mark.parametrize("headers", [{}, {"X-Remora": "1", "Origin": "https://evil.example"}])
async def test_another_page_cannot_act(headers: dict[str, str]) -> None:
    operator = Recording()
    async with served(operator) as session:
        for path in ("/api/sources/chats/pause", "/api/notify/test"):
            async with session.post(path, headers=headers) as reply:
                assert reply.status == 403
        async with session.get("/api/sources/chats/pause", headers=OURS) as reply:
            assert reply.status in {404, 405}
    assert operator.asked == []


async def test_what_makes_no_sense_is_refused_with_a_hint() -> None:
    async with served(Recording()) as session:
        for action, body, said in (
            ("fly", {}, "there is no action fly"),
            ("lower", {}, "ceiling"),
            ("lower", {"ceiling": "900/s", "for": "1h"}, "above the ceiling"),
        ):
            async with session.post(f"/api/sources/chats/{action}", headers=OURS, json=body) as reply:
                assert reply.status == 400
                assert said in (await reply.json())["error"]
        for asked, said in (
            ({"source": "chats", "state": "odd"}, "there is no state odd"),
            ({"source": "chats", "reason": "odd"}, "there is no reason odd"),
            ({}, "no source is named"),
        ):
            async with session.get("/api/gaps", params=asked) as reply:
                assert reply.status == 400
                assert (await reply.json())["error"] == said


@pytest.mark.parametrize("is_public", [True, False])
async def test_behind_a_count_are_ids_or_fingerprints_with_the_reason_why_not_now(is_public: bool) -> None:
    async with served(Recording(is_public=is_public)) as session:
        async with session.get("/api/gaps", params={"source": "chats", "reason": "timeout"}) as reply:
            (shown,) = (await reply.json())["gaps"]
        async with session.get("/api/timeline") as reply:
            assert (await reply.json())["sources"]["hackernews"][0]["text"] == "it ran"
    assert (shown["key"] == "4711") is is_public
    assert shown["is_fingerprint"] is not is_public
    assert "waits until the provider answers again" in shown["why"]


@pytest.mark.parametrize(
    "one, said",
    [
        (gap(), "waits until the provider answers again; 2 attempts, timeout; next attempt in 60 min"),
        (gap(not_before_ns=NOW_NS), "due now"),
        (gap(GapState.DEAD), "given up for now after 2 attempts, timeout; tried again in 60 min, or at once"),
        (gap(reason=GapReason.NOT_FOUND), "absent, to be confirmed: 1 of 3 answers without it"),
        (gap(reason=GapReason.NOT_YET), "waits until the provider publishes it"),
        (gap(reason=GapReason.RATE_LIMITED), "waits until the provider accepts more"),
        (gap(reason=GapReason.FORBIDDEN), "the provider refuses this one"),
        (gap(reason=GapReason.MAX_FETCHES), "waits for the next run"),
        (gap(GapState.LEASED), "being fetched, or next in line"),
        (gap(GapState.ABSENT), "it has no such item"),
        (gap(GapState.GONE), "the last content is kept"),
    ],
)
def test_every_gap_says_why_it_is_not_here(one: Gap, said: str) -> None:
    assert said in why_not_now(one, now_ns=NOW_NS)
