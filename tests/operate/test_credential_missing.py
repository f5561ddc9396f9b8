"""What if a secret cannot be read? Nothing is sent without it, and whoever runs Remora is told why."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from remora.collect import Collector
from remora.core.errors import RemoraError
from remora.core.lanes import Lane
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.run import StoppedBy
from remora.core.status.model import Attention, SourceStatus, Standing, YesNo
from remora.core.units import MINUTE_NS, SECOND_NS
from remora.gate.governor import Governor, Limits
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings
from remora.operate.jobs.app import serve
from remora.operate.jobs.opened_store import opened_store
from remora.operate.jobs.progress import SilentView
from remora.operate.observe.read_status import read_status
from remora.sim.clock import SimClock
from remora.sim.meter import CountingMeter
from remora.sources.auth import Credential, Issued, Way
from remora.stores import open_store
from tests.counting_server import CountingServer, Wire, WireRequest
from tests.gate.numbers import Numbers, process
from tests.gate.rig import simulated
from tests.loops.listed_rig import ListedRig
from tests.operate.command_line import CommandLine
from tests.operate.test_credentials import Guarded, Issuing

TOKEN = "canary-51bd"
COMMANDS = [("run", "chats"), ("verify", "--source", "chats"), ("try", "chats"), ("check",)]


def test_nothing_is_sent_before_the_secret_was_read_once() -> None:
    async def main(clock: SimClock) -> None:
        archive, origin = Guarded(), Issuing(["one"], is_broken=True)
        credential = Credential(Way.BEARER, origin, clock=clock, account="chats")
        rig = ListedRig(clock, archive, credential=credential)
        with capture_logs() as logs:
            running = asyncio.get_running_loop().create_task(rig.run())
            await rig.wait(MINUTE_NS)
        assert not running.done()
        assert archive.refused == 0
        said = [credential.missing]
        assert "credential_unreadable" in {event["event"] for event in logs}
        origin.is_broken = False
        assert (await running).stopped_by is StoppedBy.COMPLETE
        said.append(credential.missing)
        assert said == ["the origin cannot be read", None]
        assert archive.refused == 0

    simulated(main)


def test_a_request_without_its_secret_is_our_own_mistake() -> None:
    async def main(clock: SimClock) -> None:
        credential = Credential(Way.BEARER, Issuing([]), clock=clock)
        with pytest.raises(AssertionError):
            credential.sign("https://api.example/list", None)

    simulated(main)


@dataclass
class ThroughTheGate(Issuing):
    """An origin that needs a turn of its own, as a token endpoint does."""

    governor: Governor | None = None

    async def read(self) -> Issued:
        assert self.governor is not None
        async with self.governor.admit(Lane.LIVE) as permit:
            await permit.depart()
        return await super().read()


def test_a_batch_in_which_a_token_expires_does_not_wait_for_itself() -> None:
    async def main(clock: SimClock) -> None:
        origin, source = ThroughTheGate(["one"], expires_in_ns=SECOND_NS), Numbers(clock)
        async with process(clock, source, limits=Limits(SECOND_NS // 10, in_flight=1)) as life:
            origin.governor = life.governor
            credential = Credential(Way.BEARER, origin, clock=clock)
            meter = CountingMeter()
            collector = Collector(source, life.store, life.governor, clock=clock, meter=meter, credential=credential)
            for first in (1, 21):
                wanted = [Discovery.item(item_id, via=Lane.BACKFILL) for item_id in range(first, first + 20)]
                await collector.collect_many(wanted, durable)
        assert sorted(source.ids) == [*range(1, 41)]
        assert origin.reads == 2

    async def durable(_: object) -> None:
        pass

    simulated(main)


# -- a command ends, and says why ----------------------------------------------------------------------------------------


async def half_open(request: WireRequest, wire: Wire) -> None:
    """A provider that shows everybody an empty list, and one document to those who have the token."""
    entries = [{"id": "private", "update_time": 1}]
    if request.target.startswith("/token"):
        await wire.answer(b"no such page", status="404 Not Found")
    elif request.headers.get("authorization") != f"Bearer {TOKEN}":
        await wire.answer(b'{"items": []}')
    elif "/detail/" in request.target:
        await wire.answer(b'{"id": "private"}')
    else:
        await wire.answer(json.dumps({"items": entries if "offset=0" in request.target else []}).encode())


async def remora_in(folder: Path, *words: str) -> tuple[int | None, str]:
    """`remora` in a process of its own: its exit code, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "remora", *words),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def declare(folder: Path, url: str, auth: str) -> None:
    (folder / "remora.toml").write_text(
        f'[sources.chats]\nkind = "listed"\nurl = "{url}"\nceiling = "50/s"\nlist = {{ page_size = 1 }}\n{auth}\n'
    )


def declare_numbered(folder: Path, url: str, auth: str) -> None:
    (folder / "remora.toml").write_text(
        f'[sources.chats]\nkind = "numbered"\nurl = "{url}"\nceiling = "50/s"\n'
        f'newest = {{ path = "/newest" }}\nitem = {{ path = "/item/{{id}}" }}\n{auth}\n'
    )


def printing(folder: Path) -> str:
    """A command that prints the token for as long as there is a file `vault`."""
    script = folder / "print-token"
    script.write_text(f"#!/bin/sh\ncat {folder}/vault\n")
    script.chmod(0o755)
    return f'token_command = "{script}"'


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_that_prints_no_token_is_told_and_nothing_is_sent(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    async with CountingServer(half_open) as server:
        declare(tmp_path, server.url(""), printing(tmp_path))
        exit_code, said = await remora_in(tmp_path, *command)
        assert server.requests == []
    assert exit_code == (1 if command[0] in {"try", "check"} else 2), said
    assert "sources.chats.token_command ended with code 1" in said
    assert "Traceback" not in said
    assert files_in(tmp_path) == ["print-token", "remora.toml"]


@pytest.mark.slow
async def test_a_document_is_not_gone_because_the_token_could_not_be_read(tmp_path: Path) -> None:
    async with CountingServer(half_open) as server:
        declare(tmp_path, server.url(""), printing(tmp_path))
        (tmp_path / "vault").write_text(TOKEN)
        assert (await remora_in(tmp_path, "run", "chats"))[0] == 0
        sent = len(server.requests)
        (tmp_path / "vault").unlink()
        assert (await remora_in(tmp_path, "run", "chats"))[0] == 2
        assert len(server.requests) == sent
    store = open_store(f"sqlite:///{tmp_path}/remora.db", read_only=True)
    await store.open()
    assert [held.vanished_ns async for held in store.documents("chats")] == [None]
    assert not await store.gap_counts("chats")
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_token_endpoint_that_gives_no_token_is_told_and_nothing_else_is_asked(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S", TOKEN)
    async with CountingServer(half_open) as server:
        url = server.url("")
        auth = f'auth = {{ oauth_url = "{url}/token", client_id = "me", client_secret_env = "S" }}'
        declare(tmp_path, url, auth)
        if command[0] == "verify":  # it works on a mirror that is there
            store = open_store(f"sqlite:///{tmp_path}/remora.db")
            await store.open()
            await store.close()
        exit_code, said = await remora_in(tmp_path, *command)
        assert [request.target for request in server.requests] == ["/token"]
    assert exit_code == (1 if command[0] in {"try", "check"} else 2), said
    assert "sources.chats.auth.oauth_url: the token endpoint gives no token (HTTP 404)" in said
    assert TOKEN not in said


@pytest.mark.slow
def test_check_runs_the_command_that_prints_the_token(remora: CommandLine) -> None:
    declare(remora.folder, "http://127.0.0.1:9", 'token_command = "/nonexistent/prog"')
    result = remora("check", "--offline")
    assert result.exit_code == 1
    assert "sources.chats.token_command cannot be run (No such file or directory)" in result.stdout
    declare(remora.folder, "http://127.0.0.1:9", f'token_command = "echo {TOKEN}"')
    result = remora("check", "--offline")
    assert result.exit_code == 0, result.output
    assert "can be read" in result.stdout
    assert TOKEN not in result.output


# -- the service waits, and says why -------------------------------------------------------------------------------------


@asynccontextmanager
async def service(settings: Settings) -> AsyncIterator[None]:
    job = serve(settings, demo=False, catchup=True, view=SilentView())
    running = asyncio.get_running_loop().create_task(job)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def status_once_known(settings: Settings) -> SourceStatus:
    """The status, from the first heartbeat on that says something about the source."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with opened_store(settings, read_only=True) as store:
                    status = (await read_status(store, settings, now_ns=time.time_ns())).sources["chats"]
            except RemoraError:
                status = None
            if status is not None and status.answers.working.answer is not YesNo.UNKNOWN:
                return status
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["listed", "numbered"])
async def test_a_service_without_its_token_sends_nothing_and_its_status_says_why(tmp_path: Path, kind: str) -> None:
    async with CountingServer(half_open) as server:
        declare(tmp_path, server.url(""), printing(tmp_path))
        if kind == "numbered":
            declare_numbered(tmp_path, server.url(""), printing(tmp_path))
        settings = load(Flags(listen="127.0.0.1:0", store=f"sqlite:///{tmp_path}/remora.db"), {}, directory=tmp_path)
        async with service(settings):
            status = await status_once_known(settings)
        assert server.requests == []
    assert status.headline.standing is Standing.ATTENTION
    assert status.answers.working.attention is Attention.ACT
    why = "nothing is sent until the credential can be read: sources.chats.token_command ended with code 1"
    assert status.answers.working.reason == why
    assert status.headline.text == f"Needs attention: not working: {why}"
