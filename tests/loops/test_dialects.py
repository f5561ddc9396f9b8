"""Is a provider understood that says "too many" in its own words? Simulated ones, each run to its end."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from remora.core.ledger.gap import GapState
from remora.core.ledger.run import StoppedBy
from remora.core.translation import Means
from remora.core.units import DAY_NS, MINUTE_NS, SECOND_NS
from remora.sim.clock import SimClock
from remora.sim.replies import Answer, Response
from remora.sources.paging import Paging
from remora.sources.rules import Rule
from tests.gate.rig import simulated
from tests.loops.listed_rig import NAME, PAGINGS, ListedRig, SmallArchive

PER_MINUTE = 20
ENTRIES = 60


def refusal(status: int, body: object, **headers: str) -> Answer:
    return Answer(status, json.dumps(body).encode(), {name.replace("_", "-"): text for name, text in headers.items()})


GOOGLE = {"error": {"code": 403, "errors": [{"domain": "usageLimits", "reason": "userRateLimitExceeded"}]}}
DIALECTS = {
    "GitHub, primary": refusal(403, {"message": "no"}, x_ratelimit_remaining="0", x_ratelimit_reset="30"),
    "GitHub, secondary": refusal(403, {"message": "You have exceeded a secondary rate limit."}),
    "Gmail": refusal(403, GOOGLE),
    "Slack": refusal(200, {"ok": False, "error": "ratelimited"}, retry_after="30"),
    "Stack Exchange": refusal(400, {"error_id": 502, "error_name": "throttle_violation"}),
    "Wikipedia": refusal(200, {"error": {"code": "maxlag", "info": "Waiting for a server", "lag": 9}}, retry_after="5"),
    "GraphQL, GitHub": refusal(200, {"data": None, "errors": [{"type": "RATE_LIMITED", "message": "no"}]}),
    "GraphQL, Shopify": refusal(200, {"errors": [{"message": "no", "extensions": {"code": "THROTTLED"}}]}),
    "GraphQL, in words": refusal(400, {"errors": [{"message": "Rate limit exceeded", "extensions": {"code": "X"}}]}),
    "Telegram": refusal(429, {"ok": False, "error_code": 429, "parameters": {"retry_after": 30}}),
    "in words": Answer(403, b"<h1>Too many requests</h1>"),
}


@dataclass
class Counting:
    """Lets so many pass in each minute and refuses the rest in one dialect."""

    clock: SimClock
    says: Response
    refused: list[int] = field(default_factory=list)
    passed: dict[int, int] = field(default_factory=dict)

    def __call__(self, _asked: str) -> Response | None:
        now_ns = self.clock.monotonic_ns()
        minute = now_ns // MINUTE_NS
        self.passed[minute] = self.passed.get(minute, 0) + 1
        if self.passed[minute] <= PER_MINUTE:
            return None
        self.refused.append(now_ns)
        return self.says


async def runs(rig: ListedRig, *, at_most: int) -> list[StoppedBy]:
    stopped: list[StoppedBy] = []
    while not stopped or (stopped[-1] is not StoppedBy.COMPLETE and len(stopped) < at_most):
        stopped.append((await rig.run()).stopped_by)
        await rig.wait(10 * MINUTE_NS)
    return stopped


async def dead(rig: ListedRig) -> int:
    return sum(tally.count for tally in await rig.store.gap_counts(NAME) if tally.state is GapState.DEAD)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_too_many_is_understood_in_every_dialect_and_no_item_dies_of_it(dialect: str) -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(ENTRIES)
        provider = archive.hook = Counting(clock, DIALECTS[dialect])
        rig = ListedRig(clock, archive)
        stopped = await runs(rig, at_most=12)
        assert stopped[-1] is StoppedBy.COMPLETE
        assert await rig.is_complete()
        assert await dead(rig) == 0
        # The law heard it: what is refused stays a small part of what is asked.
        assert len(provider.refused) <= 8

    simulated(main)


def test_a_rule_of_the_owner_translates_what_no_default_knows() -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(ENTRIES)
        says = refusal(418, {"mood": "tired", "rest": 45})
        provider = archive.hook = Counting(clock, says)
        rule = Rule("status == `418` && body.mood == 'tired'", Means.PRESSURE, "body.rest")
        rig = ListedRig(clock, archive, rules=[rule])
        assert (await runs(rig, at_most=12))[-1] is StoppedBy.COMPLETE
        assert await rig.is_complete()
        for refused_ns in provider.refused:
            early = [at_ns for at_ns in archive.departures_ns if refused_ns < at_ns < refused_ns + 45 * SECOND_NS]
            assert early == []

    simulated(main)


def test_a_rule_can_say_that_the_list_ends() -> None:
    def end_after(last: int) -> Callable[[str], Response | None]:
        def hook(asked: str) -> Response | None:
            kind, _, where = asked.partition(" ")
            return refusal(400, {"error": "offset too large"}) if kind == "page" and int(where) > last else None

        return hook

    async def main(clock: SimClock) -> None:
        archive = SmallArchive(18)
        archive.hook = end_after(8)
        rule = Rule("body.error == 'offset too large'", Means.END)
        rig = ListedRig(clock, archive, rules=[rule])
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert [asked for asked in archive.asked if asked.startswith("page")][-1] == "page 16"
        assert await rig.is_complete()

    simulated(main)


@pytest.mark.parametrize(
    "answer, told",
    [
        (refusal(403, [{"errorCode": "REQUEST_LIMIT_EXCEEDED"}]), "the provider refuses the list (forbidden)"),
        (refusal(200, {"fault": {"code": "quota"}}), "a part of the list cannot be read (malformed)"),
    ],
)
def test_a_list_that_is_refused_in_unknown_words_is_told_with_the_rule_that_would_say_what_they_mean(
    answer: Response, told: str
) -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(30)
        archive.hook = lambda asked: answer if asked.startswith("page") and archive.asked.count(asked) > 1 else None
        rig = ListedRig(clock, archive)
        await rig.run()
        summary = await rig.run()
        assert told in summary.because
        assert "write a rule" in summary.because

    simulated(main)


class Strict(SmallArchive):
    """Refuses every page behind its last one, as WordPress does."""

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        if (int(query["page"]) - 1) * int(query["limit"]) >= len(self.listing()):
            return refusal(400, {"code": "rest_post_invalid_page_number"})
        return super()._page(path, query)


def test_pages_that_are_refused_behind_others_are_told_with_the_rule_that_would_end_the_list() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Strict(57), settings=PAGINGS[Paging.PAGE])
        summary = await rig.run()
        assert summary.stopped_by is StoppedBy.LIST_REFUSED
        assert "refuses the pages behind those that it showed (forbidden)" in summary.because
        assert 'means = "end"' in summary.because
        assert "token" not in summary.because, "the same token has just read the other pages"

    simulated(main)


class Sized(SmallArchive):
    """Takes pages of ten entries and of no other size."""

    def _page(self, path: str, query: Mapping[str, str]) -> Response:
        return super()._page(path, query) if query["limit"] == "10" else refusal(400, {"error": "limit"})


def test_a_provider_that_takes_only_some_page_sizes_is_told_with_what_to_write_and_is_read_whole_with_it() -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, Sized(57), settings=PAGINGS[Paging.PAGE])
        summary = await rig.run()
        assert 'if it takes only some page sizes, write the size into list.path and size_param = ""' in summary.because
        rig.settings = msgspec.structs.replace(rig.settings, path="/pages?limit=10", size_param="")
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    simulated(main)


def test_a_backoff_inside_a_good_answer_is_kept_and_its_quota_is_spread() -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(3)
        wrapper = {"items": [{"id": f"c{n}", "update_time": n + 1} for n in (2, 1, 0)], "backoff": 10}
        page = refusal(200, {**wrapper, "has_more": False, "quota_max": 300, "quota_remaining": 290})
        archive.hook = lambda asked: page if asked == "page 0" else None
        rig = ListedRig(clock, archive)
        async with rig.process() as process:
            await process.run().run_once()
            quota = process.governor.state().quota
            assert quota is not None
            assert (quota.remaining, quota.limit, quota.until_ns % DAY_NS) == (290, 300, 0)
        page_ns, detail_ns = archive.departures_ns[:2]
        assert detail_ns - page_ns >= 10 * SECOND_NS

    simulated(main)


def test_a_document_that_only_looks_like_a_refusal_is_stored() -> None:
    async def main(clock: SimClock) -> None:
        archive = SmallArchive(1)
        body = {
            "id": "c0",
            "update_time": 1,
            "text": "ratelimited, maxlag, rate limit, Too many requests",
            "backoff": 9,
        }
        archive.spoiled["c0"] = refusal(200, body)
        rig = ListedRig(clock, archive)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert (await rig.mirror())["c0"] == json.dumps(body).encode()
        assert archive.departures_ns[-1] - archive.departures_ns[0] < 5 * SECOND_NS

    simulated(main)
