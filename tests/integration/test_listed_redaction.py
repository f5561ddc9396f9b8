"""Does anything leak? Every secret of the archive is a canary, and everything the processes wrote is searched for it."""

import asyncio
import json
import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.integration.listed_server import CANARY, ListedProcess, loopback_archive

pytestmark = pytest.mark.slow

# The mirror itself: bodies and keys, the feed of what changed in it, and where its walk goes on.
MIRROR = frozenset({"documents", "stored_changes", "cursors"})
PAGES = ("/", "/health", "/metrics", "/api/status")
SECRET = CANARY.encode()


def test_no_id_title_token_or_content_appears_in_anything_a_process_wrote(tmp_path: Path) -> None:
    with loopback_archive(14) as archive:
        remora = ListedProcess(tmp_path, archive, port=free_port())
        asyncio.run(remora.warm_up(20))
        keys = archive.keys
        archive.spoiled = {
            keys[0]: (404, f'{{"error":"no {keys[0]}"}}'.encode()),
            keys[1]: (410, f"gone: {keys[1]}".encode()),
            keys[2]: (200, f'{{"id":"{keys[3]}"}}'.encode()),
            keys[3]: (200, b'{"id":"\xff' + CANARY.encode() + b'", cut'),
            keys[5]: (403, f"{CANARY} is not allowed".encode()),
            keys[7]: (200, b'"' + CANARY.encode() + b'"'),
            keys[4]: (413, b"too large, " + CANARY.encode()),
        }
        spoken: dict[str, bytes] = {}

        def say(name: str, *words: str, token: str | None = None) -> None:
            ended = remora(*words) if token is None else remora(*words, token=token)
            spoken[name] = ended.stdout.encode() + ended.stderr.encode()
            assert spoken[name], f"{name} said nothing"

        say("a run", "run", "chats", "--max-seconds", "12")
        say("a refused token", "run", "chats", "--json", "--max-seconds", "3", token=f"{CANARY}-wrong")
        archive.list_answer = (200, json.dumps({"items": [{"title": CANARY}], "total": 1}).encode())
        say("an unreadable list", "run", "chats", "--max-seconds", "3")
        archive.list_answer = (200, f'{{"oops":"{CANARY}"}}'.encode())
        say("no list", "run", "chats", "--max-seconds", "3")
        archive.list_answer = (500, f"{CANARY} stack trace".encode())
        say("a broken list", "run", "chats", "--max-seconds", "3")
        archive.list_answer = (429, f"slow down, {CANARY}".encode())
        say("pressure", "run", "chats", "--max-seconds", "3")
        archive.list_answer = None
        say("status", "status")
        say("status for machines", "status", "--json")
        say("gaps", "gaps")
        say("gaps for machines", "gaps", "--json")
        say("the settings", "check")
        spoken |= console(remora)
        for table in remora.tables():
            if table not in MIRROR:
                spoken[f"table {table}"] = repr(remora.rows(table)).encode()

        assert len(remora.documents()) == 7, "the rest was collected"
        assert b"not_found" in spoken["table gaps"], "the gaps were looked at"
        assert b"chats" in spoken["table heartbeat"], "the heartbeats were looked at"
        assert b"backlog" in spoken["table gaps"] + spoken["table notes"]
        leaks = {name: context(text) for name, text in spoken.items() if SECRET in text}
        assert leaks == {}


def console(remora: ListedProcess) -> dict[str, bytes]:
    """What the service writes and shows while it runs."""
    written = remora.folder / "up.txt"
    process = remora.start("up", into=written)
    try:
        base = f"http://127.0.0.1:{remora.port}"
        wait_until_up(f"{base}/health")
        time.sleep(2)
        shown = {f"GET {path}": fetched(base + path) for path in PAGES}
    finally:
        process.terminate()
        process.wait(timeout=240)
    return shown | {"the service": written.read_bytes()}


def fetched(url: str) -> bytes:
    with urlopen(url, timeout=120) as answer:
        body: bytes = answer.read()
        return body


def wait_until_up(url: str) -> None:
    until = time.monotonic() + 240
    while True:
        try:
            fetched(url)
        except OSError:
            assert time.monotonic() < until, "the service did not come up"
            time.sleep(0.1)
        else:
            return


def context(text: bytes) -> bytes:
    at = text.index(SECRET)
    return text[max(0, at - 120) : at + 60]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
