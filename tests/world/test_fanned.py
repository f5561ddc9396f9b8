"""Does a simulated workspace behave like one? Its channels come and go, and each has a list of its own."""

import json
from collections.abc import Iterator

from remora.core.units import DAY_NS, HOUR_NS
from remora.sim.fanned import Channels, Fanned
from remora.sim.limits import Limit
from remora.sim.listed import ArchiveSettings, is_detail
from remora.sim.replies import Answer

SETTINGS = ArchiveSettings(conversations=90, limit=Limit(), added_per_day=0, removed_share=0)
START_NS = SETTINGS.start_ns
OPEN = Channels(at_start=4, added_per_day=0.0, removed_share=0.0, refused_share=0.0)


def ask(fanned: Fanned, target: str, *, now_ns: int = START_NS, at_ns: int = 0) -> Answer:
    return fanned.respond(target, {"Authorization": f"Bearer {SETTINGS.token}"}, now_ns=now_ns, at_ns=at_ns)


def keys(answer: Answer) -> list[str]:
    return [line["id"] for line in json.loads(answer.body)["items"]]


def channels(fanned: Fanned, *, now_ns: int = START_NS) -> list[str]:
    return keys(ask(fanned, "/archive/channels/list?limit=100", now_ns=now_ns))


def by_address(fanned: Fanned, channel: str) -> Iterator[str]:
    target: str | None = f"/archive/in/{channel}/next?limit=7"
    while target is not None:
        answer = ask(fanned, target)
        yield from keys(answer)
        target = json.loads(answer.body)["next"]


def test_the_lists_of_all_channels_show_every_document_once() -> None:
    fanned = Fanned(SETTINGS, OPEN)
    shown = [f"{channel}/{key}" for channel in channels(fanned) for key in by_address(fanned, channel)]
    assert sorted(shown) == sorted(line.key for line in fanned.listing(START_NS))
    assert len(shown) > len(fanned.readable(START_NS)) > 40


def test_the_details_of_a_channel_are_what_its_truth_says() -> None:
    fanned = Fanned(SETTINGS, OPEN)
    for key, body in fanned.readable(START_NS).items():
        channel, _, own = key.partition("/")
        assert ask(fanned, f"/archive/in/{channel}/detail/{own}").body == body == fanned.detail(key, START_NS)


def test_channels_appear_with_documents_that_are_older_and_vanish_with_all_of_them() -> None:
    fanned = Fanned(SETTINGS, Channels(at_start=6, added_per_day=4.0, removed_share=1.0, refused_share=0.0))
    then_ns = START_NS + 3 * DAY_NS
    before, after = set(channels(fanned)), set(channels(fanned, now_ns=then_ns))
    assert after - before
    assert before - after
    assert ask(fanned, f"/archive/in/{min(before - after)}/list", now_ns=then_ns).status == 404
    born = {line.key: line.created for line in fanned.channels.listing(then_ns)}
    assert any(line.created < born[line.key.partition("/")[0]] for line in fanned.listing(then_ns))


def test_a_channel_is_refused_for_a_while_until_all_can_be_read() -> None:
    fanned = Fanned(SETTINGS, Channels(at_start=4, added_per_day=0.0, removed_share=0.0, refused_share=1.0))
    channel = channels(fanned)[0]
    hours = [START_NS + hour * HOUR_NS for hour in range(8)]
    told = [ask(fanned, f"/archive/in/{channel}/list", now_ns=now_ns).status for now_ns in hours]
    assert sorted(set(told)) in ([200, 403], [200, 500])
    fanned.refuses = False
    assert {ask(fanned, f"/archive/in/{channel}/list", now_ns=now_ns).status for now_ns in hours} == {200}


def test_one_limit_counts_the_requests_of_all_channels() -> None:
    limited = ArchiveSettings(conversations=9, limit=Limit(kind="token_bucket", per_second=0.01, burst=3))
    fanned = Fanned(limited, OPEN)
    names = [line.key for line in fanned.channels.listing(START_NS)]
    targets = ["/archive/channels/list", *(f"/archive/in/{name}/list" for name in names[:3])]
    assert [ask(fanned, target).status for target in targets] == [200, 200, 200, 429]


def test_a_detail_is_told_from_a_page_wherever_it_is() -> None:
    pages = ["/archive/list?offset=3", "/archive/channels/list", "/archive/in/c-1/pages?page=2"]
    details = [
        "/archive/detail",
        "/archive/in/c-1/detail/c-2",
        "/archive/channels/detail/c-1",
        "/archive/batch?ids=c-1",
    ]
    assert [is_detail(target) for target in (*pages, *details)] == [False] * 3 + [True] * 4
