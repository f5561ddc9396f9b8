"""Is a list that is asked for with a POST collected as any other one?"""

import json
from collections.abc import Mapping

import pytest

from remora.core.errors import ConfigurationError
from remora.core.ledger.run import StoppedBy
from remora.operate.config.reader import read_source
from remora.sim.clock import SimClock, run
from remora.sim.crash import Generation
from remora.sim.replies import Answer, Response
from remora.sources.listed import DetailSettings
from remora.sources.paging import ListSettings, Paging, page_request
from remora.sources.request_body import Method, filled
from tests.loops.listed_rig import ListedRig, SmallArchive
from tests.loops.test_listed_kills import killed

POSTED = DetailSettings(path="/detail", key="id", updated="update_time", method=Method.POST, body={"id": "{key}"})


def posted(path: str, paging: Paging, name: str) -> ListSettings:
    body = {"limit": "{size}", name: f"{{{name}}}"}
    return ListSettings(path=path, paging=paging, page_size=10, method=Method.POST, body=body)


WAYS = {
    "cursor": posted("/cursor", Paging.CURSOR, "cursor"),
    "offset": posted("/list", Paging.OFFSET, "offset"),
    "page": posted("/pages", Paging.PAGE, "page"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_posted_list_and_its_posted_details_are_collected_through_faults_and_a_kill(way: str) -> None:
    async def main(clock: SimClock) -> None:
        rig = ListedRig(clock, SmallArchive(37), settings=WAYS[way], detail=POSTED)
        faults = iter([Answer(500, b"{}"), Answer(429, b"{}"), None, Answer(503, b"")])

        def hook(_asked: str) -> Response | None:
            return next(faults, None)

        rig.archive.hook = hook
        await killed(rig, Generation(die_at_call=60))
        rig.archive.add("new", "c3")
        await rig.wait(3_600 * 10**9)
        assert (await rig.run()).stopped_by is StoppedBy.COMPLETE
        assert await rig.is_complete()

    run(main)


def test_a_field_whose_placeholder_has_no_value_is_left_out() -> None:
    template = {"query": "{ items { id } }", "page": {"after": "{cursor}", "first": "{size}"}, "of": ["{cursor}", 1]}
    first, later = (json.loads(filled(template, {"cursor": cursor, "size": 7})) for cursor in (None, "a"))
    assert first == {"query": "{ items { id } }", "page": {"first": 7}, "of": [1]}
    assert later == {"query": "{ items { id } }", "page": {"after": "a", "first": 7}, "of": ["a", 1]}


def test_a_list_of_which_every_placeholder_has_no_value_is_left_out_too() -> None:
    template = {"size": "{size}", "search_after": ["{cursor}"], "sort": [{"ts": "desc"}], "none": []}
    first, later = (json.loads(filled(template, {"cursor": cursor, "size": 7})) for cursor in (None, "a"))
    assert first == {"size": 7, "sort": [{"ts": "desc"}], "none": []}
    assert later == {"size": 7, "search_after": ["a"], "sort": [{"ts": "desc"}], "none": []}


def test_a_content_type_of_the_owner_replaces_ours_however_it_is_written() -> None:
    class Hearing(SmallArchive):
        heard: Mapping[str, str] = {}

        def respond(self, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Response:
            self.heard = headers or {}
            return super().respond(target, headers, body)

    async def main(clock: SimClock) -> None:
        archive = Hearing(3)
        own = {"content-type": "application/vnd.api+json"}
        await ListedRig(clock, archive, settings=WAYS["cursor"], detail=POSTED, headers=own).run()
        assert dict(archive.heard) == own

    run(main)


def test_the_address_of_a_posted_page_has_no_parameters() -> None:
    request = page_request(WAYS["offset"], "https://a.example", "20-2")
    assert request.url == "https://a.example/list"
    assert json.loads(request.body or b"") == {"limit": 10, "offset": 18}


@pytest.mark.parametrize(
    "table, said, write",
    [
        ({"list": {"method": "POST"}}, "list.method is POST, but there is no list.body", 'offset = "{offset}"'),
        ({"list": {"body": {"a": 1}}}, "list.body is given, but list.method is GET", 'method = "POST"'),
        (
            {"list": {"method": "POST", "paging": "cursor", "body": {"limit": "{size}"}}},
            'list.paging is "cursor", but list.body has no "{cursor}"',
            'body = { cursor = "{cursor}" }',
        ),
        ({"detail": {"method": "POST"}}, "detail.method is POST, but there is no detail.body", 'id = "{key}"'),
        ({"detail": {"path": "/d", "method": "POST", "body": {"a": 1}}}, 'detail.path is "/d"', "write {key}"),
        ({"list": {"method": "PUT"}}, 'list.method is "PUT"', "GET, POST"),
        ({"list": {"method": "POST", "body": "{}"}}, "list.body is not a table", "body = {"),
    ],
)
def test_a_wrong_body_is_refused_with_what_to_write(table: dict[str, object], said: str, write: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("notes", {"kind": "listed", "url": "https://a.example", **table})
    assert said in str(refused.value)
    assert write in (refused.value.hint or "")


def test_settings_that_may_be_empty_are_read_from_the_file() -> None:
    table = {"kind": "listed", "url": "https://a.example", "list": {"updated": "", "size_param": ""}}
    assert (read_source("notes", table).list.updated, read_source("notes", table).list.size_param) == ("", "")
