"""Is an OAuth access token had through the gate, renewed in time, and is nothing of it ever seen?"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl

import pytest
from structlog.testing import capture_logs

from remora.core.errors import ConfigurationError, RemoraError
from remora.core.item import Page
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery, Kind
from remora.core.units import SECOND_NS
from remora.core.verdict import Fault, Found, NoReply, Reply
from remora.operate.config.credentials import open_credential
from remora.operate.config.reader import read_source
from remora.operate.config.settings import SourceSettings
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.resources import SourceResources
from remora.operate.jobs.runtime import open_listed
from remora.sim.meter import CountingMeter
from remora.sources.oauth import FromTokenEndpoint
from remora.sources.secret import Secret
from remora.stores.memory import MemoryStore

CANARY = "canary-77aa"
OAUTH = {"oauth_url": "https://id.example/token", "client_id": "me", "client_secret_env": "S"}
FILES_ONLY = {"oauth_url": "https://id.example/token", "client_id": "me"}


def source(url: str = "https://api.example", **auth: str) -> SourceSettings:
    return read_source("chats", {"kind": "listed", "url": url, "ceiling": "100/s", "auth": {**OAUTH, **auth}})


@dataclass
class Endpoint:
    """A token endpoint that answers as it is told."""

    answers: list[object]
    status: int = 200
    forms: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, url: str, form: bytes) -> Reply | NoReply:
        assert url == OAUTH["oauth_url"]
        self.forms.append(dict(parse_qsl(form.decode())))
        answer = self.answers[min(len(self.forms), len(self.answers)) - 1]
        if isinstance(answer, Fault):
            return NoReply(answer, None, 0)
        return Reply(self.status, answer if isinstance(answer, bytes) else json.dumps(answer).encode(), 0, 1)


def origin(endpoint: Endpoint, settings: SourceSettings, environ: dict[str, str]) -> FromTokenEndpoint:
    credential = open_credential("chats", settings, environ, clock=SystemClock())
    assert credential is not None
    assert isinstance(credential.origin, FromTokenEndpoint)
    credential.origin.post_form = endpoint
    return credential.origin


async def test_client_credentials_are_exchanged_for_a_token_with_its_life() -> None:
    endpoint = Endpoint([{"access_token": "t1", "expires_in": "3600", "token_type": "Bearer"}])
    issued = await origin(endpoint, source(scope="read"), {"S": CANARY}).read()
    assert (issued.secret.reveal(), issued.expires_in_ns) == ("t1", 3_600 * SECOND_NS)
    assert endpoint.forms == [
        {"grant_type": "client_credentials", "client_id": "me", "client_secret": CANARY, "scope": "read"}
    ]


async def test_a_refresh_token_that_the_provider_replaces_is_kept_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "refresh"
    path.write_text("r1")
    path.chmod(0o600)
    endpoint = Endpoint([{"access_token": "t1", "refresh_token": "r2"}, {"access_token": "t2"}])
    endpoints = origin(endpoint, source(refresh_token_file=str(path)), {"S": CANARY})
    await endpoints.read()
    assert path.read_text() == "r2"
    assert path.stat().st_mode & 0o777 == 0o600
    await endpoints.read()
    assert [(form["grant_type"], form["refresh_token"]) for form in endpoint.forms] == [
        ("refresh_token", "r1"),
        ("refresh_token", "r2"),
    ]


async def test_a_refresh_token_that_cannot_be_kept_is_used_told_and_kept_later(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    path = folder / "refresh"
    path.write_text("r1")
    path.chmod(0o600)
    endpoint = Endpoint([{"access_token": "t1", "refresh_token": CANARY}, {"access_token": "t2"}])
    endpoints = origin(endpoint, source(refresh_token_file=str(path)), {"S": "s"})
    folder.rename(tmp_path / "away")
    with capture_logs() as told:
        assert (await endpoints.read()).secret.reveal() == "t1"
    assert told == [
        {
            "event": "refresh_token_not_kept",
            "log_level": "warning",
            "setting": "sources.chats.auth.refresh_token_file",
            "why": "No such file or directory",
        }
    ]
    (tmp_path / "away").rename(folder)
    assert (await endpoints.read()).secret.reveal() == "t2"
    assert (endpoint.forms[-1]["refresh_token"], path.read_text()) == (CANARY, CANARY)


async def test_a_secret_that_its_owner_replaces_in_its_file_is_the_next_one_to_be_used(tmp_path: Path) -> None:
    client, refresh = tmp_path / "client", tmp_path / "refresh"
    for path, text in ((client, "c1"), (refresh, "r1")):
        path.write_text(text)
        path.chmod(0o600)
    files = {"client_secret_file": str(client), "refresh_token_file": str(refresh)}
    endpoint = Endpoint([{"access_token": "t1", "refresh_token": "r2"}, {"access_token": "t2", "refresh_token": "r4"}])
    settings = read_source("chats", {"kind": "listed", "url": "https://api.example", "auth": {**FILES_ONLY, **files}})
    endpoints = origin(endpoint, settings, {})
    await endpoints.read()
    client.write_text("c2")
    refresh.write_text("r3")
    await endpoints.read()
    assert [(form["client_secret"], form["refresh_token"]) for form in endpoint.forms] == [("c1", "r1"), ("c2", "r3")]
    assert refresh.read_text() == "r4"


@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"two\nlines"])
async def test_a_secret_whose_file_cannot_be_read_any_more_stays_in_use(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "refresh"
    path.write_text("r1")
    path.chmod(0o600)
    endpoint = Endpoint([{"access_token": "t1"}])
    endpoints = origin(endpoint, source(refresh_token_file=str(path)), {"S": "s"})
    path.unlink() if content is None else path.write_bytes(content)
    assert (await endpoints.read()).secret.reveal() == "t1"
    assert endpoint.forms[0]["refresh_token"] == "r1"


async def test_a_refresh_token_that_its_owner_writes_during_a_request_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "refresh"
    path.write_text("r1")
    path.chmod(0o600)
    endpoint = Endpoint([{"access_token": "t1", "refresh_token": "r2"}, {"access_token": "t2"}])
    endpoints = origin(endpoint, source(refresh_token_file=str(path)), {"S": "s"})

    async def replaced_meanwhile(url: str, form: bytes) -> Reply | NoReply:
        path.write_text("r3")
        return await endpoint(url, form)

    endpoints.post_form = replaced_meanwhile
    await endpoints.read()
    await endpoints.read()
    assert [form["refresh_token"] for form in endpoint.forms] == ["r1", "r3"]
    assert path.read_text() == "r3"


@pytest.mark.parametrize(
    "answer, status, why",
    [
        ({"error": "invalid_grant", "was": CANARY}, 400, "HTTP 400"),
        ({"token": CANARY}, 200, "gives no token"),
        (CANARY.encode(), 200, "gives no token"),
        ({"access_token": f"{CANARY}\r\n"}, 200, "gives no token"),
        (Fault.TIMEOUT, 200, "does not answer"),
    ],
)
async def test_an_endpoint_that_gives_no_token_is_told_without_what_it_said(
    answer: object, status: int, why: str
) -> None:
    with pytest.raises(RemoraError) as failed:
        await origin(Endpoint([answer], status), source(), {"S": CANARY}).read()
    assert why in failed.value.message
    assert CANARY not in f"{failed.value.message} {failed.value.hint}"


@pytest.mark.parametrize(
    "status, is_mistake",
    [(400, True), (401, True), (404, True), (408, False), (429, False), (500, False), (503, False)],
)
async def test_an_endpoint_that_is_down_is_not_called_a_mistake_of_the_owner(status: int, is_mistake: bool) -> None:
    endpoint = Endpoint([{"error": CANARY}], status=status)
    with pytest.raises(RemoraError) as told:
        await origin(endpoint, source(), {"S": CANARY}).read()
    assert isinstance(told.value, ConfigurationError) is is_mistake
    assert f"HTTP {status}" in told.value.message


@pytest.mark.parametrize(
    "auth, complaint",
    [
        ({**OAUTH, "bearer_env": "B"}, "two credentials, oauth_url and bearer_env"),
        ({"oauth_url": "https://id.example", "client_id": "me"}, "neither a client secret nor a refresh token"),
        ({"client_id": "me", "client_secret_env": "S"}, "needs an oauth_url"),
        ({**OAUTH, "oauth_url": "http://id.example"}, "begins with https://"),
        ({**OAUTH, "oauth_url": "http://127.0.0.1.id.example/token"}, "begins with https://"),
        ({**OAUTH, "oauth_url": "https://me:canary@id.example/token"}, "begins with https://"),
        ({**OAUTH, "oauth_url": "https://"}, "begins with https://"),
        ({**OAUTH, "name": "X-Token"}, "auth has oauth_url with a name"),
        ({**OAUTH, "client_secret_file": "s"}, "both client_secret_env and client_secret_file"),
    ],
)
def test_an_oauth_declaration_that_cannot_work_is_refused(auth: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_source("chats", {"kind": "listed", "url": "https://api.example", "auth": auth})
    assert complaint in refused.value.message
    assert refused.value.hint


@asynccontextmanager
async def provider(tokens: list[str]) -> AsyncIterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A loopback provider: its token endpoint gives one token after the other, its list answers to the last only."""
    seen: list[tuple[str, str, bytes]] = []
    given: list[str] = []
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, target, _ = head[0].split(" ")
                seen.append((method, target.partition("?")[0], body))
                status, said = "401 No", b"{}"
                if target == "/token":
                    given.append(tokens[min(len(given), len(tokens) - 1)])
                    status, said = "200 OK", json.dumps({"access_token": given[-1], "expires_in": 3_600}).encode()
                elif headers.get("authorization") == f"bearer {tokens[-1]}":
                    status, said = "200 OK", b'{"items": []}'
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
        await asyncio.gather(*served)  # the client has closed its connections


@pytest.mark.slow
async def test_a_token_is_asked_for_through_the_gate_and_again_after_a_401(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S", CANARY)
    async with provider(["t1", "t2"]) as (url, seen):
        settings, meter = source(url, oauth_url=f"{url}/token"), CountingMeter()
        with capture_logs() as logs:
            resources = SourceResources.alone("chats", settings, store=MemoryStore(), clock=SystemClock(), meter=meter)
            async with open_listed("chats", resources) as runtime:
                asked = await runtime.collector.ask(Discovery(Kind.PAGE, "", Lane.WALK))
    assert isinstance(asked.verdict, Found)
    assert isinstance(asked.verdict.thing, Page)
    assert [(method, target) for method, target, _ in seen] == [
        ("POST", "/token"),
        ("GET", "/list"),
        ("POST", "/token"),
        ("GET", "/list"),
    ]
    assert dict(parse_qsl(seen[0][2].decode()))["client_secret"] == CANARY
    assert meter.total_departures("chats") == 4
    assert CANARY not in repr(logs)
    assert repr(Secret(CANARY)) == "***"
