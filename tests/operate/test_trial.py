"""Does `remora try` say what a declaration understands, and what to write where it understands nothing?"""

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import Result

from remora.stores import open_store
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.loops.test_listed_each import know
from tests.operate.command_line import CommandLine

pytestmark = pytest.mark.slow

ENTRIES = [{"id": f"secret-{number}", "title": "hidden", "update_time": number} for number in range(25, 0, -1)]
Answer = tuple[str, object, str]


def declare(remora: CommandLine, url: str, further: str = "") -> None:
    ceiling = "" if "account" in further else 'ceiling = "50/s"'
    kind = "" if "kind" in further.partition("[")[0] else 'kind = "listed"'
    text = f'[sources.chats]\n{kind}\nurl = "{url}"\n{ceiling}\n{further.replace("URL", url)}\n'
    (remora.folder / "remora.toml").write_text(text)


async def tried(
    remora: CommandLine, answer: Callable[[str], Answer], further: str = "", command: tuple[str, ...] = ("try", "chats")
) -> tuple[Result, list[str]]:
    async def behave(request: WireRequest, wire: Wire) -> None:
        status, body, headers = answer(request.target)
        await wire.answer(json.dumps(body).encode(), status=status, headers=headers)

    async with CountingServer(behave) as server:
        declare(remora, server.url("/api"), further)
        result = await asyncio.to_thread(remora, *command)
        return result, [request.target for request in server.requests]


EACH = """
each = "channels"
account = "work"
list = { path = "/rooms/{entry.number}/list" }
detail = { path = "/rooms/{entry.number}/detail/{key}", key = "id" }
[sources.channels]
kind = "listed"
account = "work"
url = "URL"
list = { path = "/rooms", updated = "" }
detail = "inline"
[accounts.work]
ceiling = "50/s"
"""


@pytest.mark.parametrize("rooms", [[{"id": "secret-room", "number": 7}], [{"id": "secret-room"}], []])
async def test_a_list_for_each_entry_is_asked_for_one_entry_of_the_other_source(
    remora: CommandLine, rooms: list[dict[str, object]]
) -> None:
    def answer(target: str) -> Answer:
        return ("200 OK", {"items": rooms}, "") if target.startswith("/api/rooms?") else healthy(target)

    result, asked = await tried(remora, answer, EACH)
    assert "secret" not in result.output
    if asked == ["/api/rooms?offset=0&limit=100"]:
        assert result.exit_code == 1
        lacks = "an entry of channels lacks a field that list.path needs; fields id (text)"
        assert (lacks if rooms else "channels, for whose entries the list is walked, gave none") in result.stdout
        return
    assert result.exit_code == 0, result.output
    assert asked[1:] == ["/api/rooms/7/list?offset=0&limit=100", "/api/rooms/7/detail/secret-25"]
    assert "here for one of them, asked for" in result.stdout
    assert 'names its key at "id"' in result.stdout


async def test_an_entry_of_the_mirror_is_not_asked_for_again(remora: CommandLine) -> None:
    store = open_store("sqlite:///remora.db")
    await store.open()
    await know(store, {"secret-room": b'{"number": 7}'}, now_ns=1)
    await store.close()
    result, asked = await tried(remora, healthy, EACH)
    assert "here for one of them, from the mirror" in result.stdout
    assert asked == ["/api/rooms/7/list?offset=0&limit=100", "/api/rooms/7/detail/secret-25"]


def healthy(target: str) -> Answer:
    if "/detail/" in target:
        return "200 OK", {"id": target.rpartition("/")[2], "messages": []}, ""
    return "200 OK", {"items": ENTRIES}, "Retry-After: 3\r\n"


@pytest.mark.parametrize("command", [("try", "chats"), ("check",)])
async def test_one_page_and_one_detail_tell_what_was_understood(remora: CommandLine, command: tuple[str, ...]) -> None:
    result, targets = await tried(remora, healthy, 'detail = { key = "id" }', command)
    assert result.exit_code == 0, result.output
    assert targets == ["/api/list?offset=0&limit=100", "/api/detail/secret-25"]
    assert "25 entries, 25 keys (texts of 8 to 9 characters), marks from 25 to 1" in result.stdout
    assert "an entry: fields id (text), title (text), update_time (number)" in result.stdout
    assert "there is one (paging by offset)" in result.stdout
    assert "retry-after: 3" in result.stdout
    assert 'names its key at "id"' in result.stdout
    assert "secret" not in result.stdout
    assert "hidden" not in result.stdout


async def test_what_the_token_may_do_is_shown_where_the_provider_tells_it(remora: CommandLine) -> None:
    told = "X-OAuth-Scopes: repo, read:org\r\nPermissions-Policy: camera=()\r\n"
    result, _ = await tried(remora, lambda target: (*healthy(target)[:2], told))
    assert "permissions" in result.stdout
    assert "x-oauth-scopes: repo, read:org" in result.stdout
    assert "camera" not in result.stdout


async def test_a_permission_that_is_missing_is_named(remora: CommandLine) -> None:
    needed = "X-Accepted-GitHub-Permissions: issues=read\r\n"
    result, _ = await tried(remora, lambda _target: ("403 Forbidden", {"message": "no"}, needed))
    assert result.exit_code == 1
    assert "(forbidden); x-accepted-github-permissions: issues=read" in result.stdout
    assert "give the token the permission that is missing" in result.stdout


@pytest.mark.parametrize(
    "further, told",
    [
        ('list = { entries = "data" }', 'no entries at "data", but a list at "items"'),
        ('list = { key = "uid" }', '25 of 25 entries have no key at "uid"'),
        ('list = { updated = "changed" }', '25 of 25 entries have no mark at "changed"'),
        ('list = { order = "oldest" }', 'write order = "updated"'),
        ('detail = { key = "uid" }', "gave no document (malformed)"),
    ],
)
async def test_a_wrong_declaration_is_bad_and_the_fields_are_shown(
    remora: CommandLine, further: str, told: str
) -> None:
    result, _ = await tried(remora, healthy, further)
    assert result.exit_code == 1
    assert told in result.stdout
    assert "secret" not in result.stdout


async def test_a_redirect_is_told_as_one_with_the_address_to_write(remora: CommandLine) -> None:
    headers = "Location: https://user:pass@new.example/v2/list?token=canary\r\n"
    result, targets = await tried(remora, lambda _target: ("301 Moved Permanently", None, headers))
    assert result.exit_code == 1
    assert "/api/list moved to https://new.example/v2/list" in result.stdout
    assert "write this address" in result.stdout
    assert "canary" not in result.stdout
    assert "pass" not in result.stdout
    assert len(targets) == 1


KEYED = 'list = { path = "/list?api_key=canary" }'
CHANGES = """kind = "numbered"
item = { path = "/i/{id}", id = "id", time = "made" }
newest = { path = "/newest" }
updates = { path = "/changes?sort=-seq", entries = "changes", items = "id", updated = "seq" }
"""


@pytest.mark.parametrize(
    "made, listed, code, said",
    [
        (1_700_000_000, {"changes": [{"id": 5, "seq": 2}, {"id": 5, "seq": 1}]}, 0, "ok      chats: changes"),
        (1_700_000_000, {"changes": []}, 0, "the list of changes names 0 items"),
        (
            1_700_000_000,
            {"chnges": [{"id": 5, "seq": 2}]},
            1,
            'no ids and marks at "changes": check updates; fields chnges',
        ),
        (None, {"changes": []}, 0, 'no time can be read at "made"'),
    ],
)
async def test_a_list_of_changes_and_the_time_of_an_item_are_tried_too(
    remora: CommandLine, made: int | None, listed: object, code: int, said: str
) -> None:
    def answer(target: str) -> Answer:
        return "200 OK", {"/api/newest": 9, "/api/i/9": {"id": 9, "made": made}}.get(target, listed), ""

    result, asked = await tried(remora, answer, CHANGES)
    assert (result.exit_code, asked) == (code, ["/api/newest", "/api/i/9", "/api/changes?sort=-seq"]), result.output
    assert said in " ".join(result.stdout.split()) or said in result.stdout


KEYED_NUMBERS = """kind = "numbered"
newest = { path = "/newest?api_key=canary" }
item = { path = "/item/{id}?api_key=canary" }"""


@pytest.mark.parametrize("command", [("try", "chats"), ("check",)])
@pytest.mark.parametrize("further", [KEYED, KEYED_NUMBERS])
@pytest.mark.parametrize(
    "answer, told",
    [
        (("403 Forbidden", None, ""), "(forbidden)"),
        (("200 OK", "odd", ""), "malformed"),
        (("301 Moved Permanently", None, "Location: /v2/list?api_key=canary\r\n"), "moved to /v2/list"),
    ],
)
async def test_the_query_of_an_address_is_never_shown(
    remora: CommandLine, command: tuple[str, ...], further: str, answer: Answer, told: str
) -> None:
    result, targets = await tried(remora, lambda _target: answer, further, command)
    assert result.exit_code == 1, result.output
    assert "canary" in targets[0]
    assert "canary" not in result.output
    assert "?***" in result.stdout
    assert told.removeprefix("malformed") in result.stdout


async def test_an_item_that_cannot_be_had_is_told_without_the_query_of_its_address(remora: CommandLine) -> None:
    def answer(target: str) -> Answer:
        return ("200 OK", 7, "") if "newest" in target else ("403 Forbidden", None, "")

    result, _ = await tried(remora, answer, KEYED_NUMBERS)
    assert "/item/{id}?*** gave no item 7 (forbidden)" in result.stdout
    assert "canary" not in result.output


@pytest.mark.parametrize(
    "further, setting",
    [
        ('token_env = "TRIED"', "sources.chats.token_env"),
        ('token_command = "echo canary"', "sources.chats.token_command"),
        ('auth = { basic_env = "TRIED" }', "sources.chats.auth.basic_env"),
        ("", None),
    ],
)
async def test_a_credential_that_is_refused_is_named_and_not_asked_for(
    remora: CommandLine, monkeypatch: pytest.MonkeyPatch, further: str, setting: str | None
) -> None:
    monkeypatch.setenv("TRIED", "canary")
    result, _ = await tried(remora, lambda _target: ("401 Unauthorized", None, ""), further)
    assert result.exit_code == 1
    assert "(unauthorized)" in result.stdout
    if setting is None:
        assert "it wants a token: write token_env or token_file" in result.stdout
    else:
        assert f"it refuses the secret that {setting} gives: is it the right one, and still valid?" in result.stdout
    assert "canary" not in result.output


async def test_an_empty_list_is_the_end_and_no_detail_is_asked_for(remora: CommandLine) -> None:
    result, targets = await tried(remora, lambda _target: ("200 OK", {"total": 0}, ""))
    assert result.exit_code == 0, result.output
    assert "0 entries" in result.stdout
    assert "none: the list ends here" in result.stdout
    assert len(targets) == 1


def test_a_source_that_is_not_configured_is_refused(remora: CommandLine) -> None:
    declare(remora, "http://127.0.0.1:9/api")
    assert "there is no source other" in remora.refused("try", "other")
    assert "both chats and --source other" in remora.refused("try", "chats", "--source", "other")


async def test_documents_that_share_a_key_make_the_declaration_bad(remora: CommandLine) -> None:
    lines = [{"id": number, "n": at} for at, number in enumerate([*range(29), 5, 6, 7])]
    inline = 'detail = "inline"\nlist = { updated = "" }'
    result, _ = await tried(remora, lambda _target: ("200 OK", {"items": lines}, ""), inline)
    assert result.exit_code == 1
    assert "3 of 32 entries have the key of another entry of the page and another content" in result.stdout
    assert "check list.key: it must differ for each entry" in result.stdout


async def test_a_key_that_cannot_be_used_is_told_with_what_is_wrong_with_it(remora: CommandLine) -> None:
    odd = [{"id": "secret\nkey", "update_time": 0}, {"id": "secret" * 500, "update_time": 0}]
    result, _ = await tried(remora, lambda _target: ("200 OK", {"items": [*ENTRIES[:23], *odd]}, ""))
    assert result.exit_code == 1
    assert '2 of 25 entries have no usable key at "id"' in result.stdout
    assert "1 with a line break or another character that cannot be printed" in result.stdout
    assert "1 longer than 512 characters" in result.stdout
    assert "secret" not in result.stdout


@pytest.mark.parametrize("entries", ["data.rows", "data.rows[?title]", "'data.\"rows\"'"])
async def test_the_fields_of_an_entry_are_shown_wherever_the_entries_are(remora: CommandLine, entries: str) -> None:
    def answer(_target: str) -> Answer:
        return "200 OK", {"data": {"rows": ENTRIES}}, ""

    written = entries if entries.startswith("'") else f'"{entries}"'
    result, _ = await tried(remora, answer, f'list = {{ paging = "cursor", entries = {written} }}')
    assert "an entry: fields id (text), title (text), update_time (number)" in result.stdout


async def test_a_list_that_contradicts_its_declaration_is_not_said_to_end(remora: CommandLine) -> None:
    def answer(_target: str) -> Answer:
        return "200 OK", {"items": ENTRIES, "nextPageToken": "t"}, ""

    result, _ = await tried(remora, answer, 'list = { paging = "cursor" }')
    assert 'but has "nextPageToken"' in result.stdout
    assert "the list ends here" not in result.stdout


@pytest.mark.parametrize(
    "detail, place",
    [({"id": "KEY"}, '"id"'), ({"ok": True, "message": {"ts": "KEY"}}, '"message.ts"'), ({"text": "hidden"}, None)],
)
async def test_a_detail_that_names_its_key_where_nobody_looks_is_told_with_the_place(
    remora: CommandLine, detail: object, place: str | None
) -> None:
    def answer(target: str) -> Answer:
        key = target.rpartition("/")[2]
        return (
            ("200 OK", json.loads(json.dumps(detail).replace("KEY", key)), "")
            if "/detail/" in target
            else healthy(target)
        )

    result, _ = await tried(remora, answer)
    assert result.exit_code == 0
    assert "names no key (detail.key is not declared)" in result.stdout
    assert (f"write detail.key = {place}" in result.stdout) is (place is not None)
    assert ("an error that comes with the status 200 is kept as a document" in result.stdout) is (place is not None)
    assert "secret" not in result.stdout


@pytest.mark.parametrize(
    "detail, is_error",
    [
        ({"error": {"code": 5}}, True),
        ({"errors": ["hidden"], "data": None}, True),
        ({"ok": False}, True),
        ({"success": False, "message": "hidden"}, True),
        ({"error": None, "ok": True, "text": "hidden"}, False),
    ],
)
async def test_a_detail_that_tells_an_error_and_names_no_key_is_a_warning(
    remora: CommandLine, detail: object, is_error: bool
) -> None:
    result, _ = await tried(remora, lambda target: ("200 OK", detail, "") if "/detail/" in target else healthy(target))
    assert result.exit_code == 0
    assert ("it may be an error, and is kept as a document: write a rule" in result.stdout) is is_error
    assert ("warning chats: detail" in result.stdout) is is_error
    assert "hidden" not in result.stdout


async def test_a_full_page_that_names_no_next_one_is_not_said_to_have_one(remora: CommandLine) -> None:
    answer: Answer = "200 OK", {"items": ENTRIES}, ""
    result, _ = await tried(
        remora, lambda _target: answer, 'detail = "inline"\nlist = { paging = "cursor", page_size = 25 }'
    )
    assert result.exit_code == 0, "the list may have exactly as many entries"
    assert "there is one" not in result.stdout
    assert "the page is full and names none" in result.stdout
    assert "check list.next_cursor" in result.stdout


@pytest.mark.parametrize("status", ["400 Bad Request", "405 Method Not Allowed", "422 Unprocessable Entity"])
async def test_a_request_that_the_provider_does_not_take_is_not_told_as_a_closed_door(
    remora: CommandLine, status: str
) -> None:
    result, _ = await tried(remora, lambda _target: (status, {"error": "no such parameter"}, ""))
    assert result.exit_code == 1
    assert (
        f"it answers {status[:3]}: check the path, the names of its parameters, and the method and body"
        in result.stdout
    )
    assert "does not let this machine" not in result.stdout


async def test_the_first_page_is_tried_with_its_first_cursor(remora: CommandLine) -> None:
    def answer(target: str) -> Answer:
        if "cursor=%2A" not in target and "/detail/" not in target:
            return "400 Bad Request", {"message": "no cursor"}, ""
        return "200 OK", {"items": ENTRIES, "next_cursor": "abc"}, ""

    result, asked = await tried(remora, answer, 'list = { paging = "cursor", first_cursor = "*" }')
    assert asked[0] == "/api/list?cursor=%2A&limit=100"
    assert "there is one (paging by cursor)" in result.stdout
