"""What does a real `remora run` talk to in a test? A small archive on loopback whose every secret is a canary."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.warm_start import warm_up

CANARY = "canary"
TOKEN = f"{CANARY}-token-1f6b"
START_S = 240.0


class LoopbackArchive:
    """A list of entries and their details. What a test puts into `spoiled` is answered instead of the detail."""

    def __init__(self, entries: int, *, about: str = "content") -> None:
        self.about = about
        self.keys = [f"{CANARY}-id-{number:04}" for number in range(entries)]
        self.spoiled: dict[str, tuple[int, bytes]] = {}
        self.list_answer: tuple[int, bytes] | None = None
        self.asked: list[str] = []
        self.asked_ns: list[int] = []  # when, monotonic
        self.url = ""

    def requests(self, kind: str) -> Counter[str]:
        """How often each page or detail was asked for."""
        return Counter(asked.partition(" ")[2] for asked in self.asked if asked.startswith(kind))

    def body(self, key: str) -> bytes:
        document = {"id": key, "title": f"{CANARY} title", "text": f"{CANARY} {self.about} of {key}"}
        return json.dumps(document).encode()

    def answer(self, target: str, authorization: str | None) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        key = unquote(parts.path.removeprefix("/api/detail/"))
        is_detail = parts.path.startswith("/api/detail/")
        self.asked_ns.append(time.monotonic_ns())
        self.asked.append(f"detail {key}" if is_detail else f"page {query.get('offset', '')}")
        if authorization != f"Bearer {TOKEN}":
            return 401, b'{"error":"who are you, ' + CANARY.encode() + b'?"}'
        if is_detail:
            return self.spoiled.get(key, (200, self.body(key) if key in self.keys else b"null"))
        if self.list_answer is not None:
            return self.list_answer
        start, size = int(query["offset"]), int(query["limit"])
        newest_first = list(enumerate(self.keys))[::-1]
        lines = [
            {"id": key, "title": f"{CANARY} title", "update_time": number}
            for number, key in newest_first[start : start + size]
        ]
        return 200, json.dumps({"items": lines, "total": len(self.keys)}).encode()


@contextmanager
def loopback_archive(entries: int, *, about: str = "content") -> Iterator[LoopbackArchive]:
    """The archive, served until the block ends."""
    archive = LoopbackArchive(entries, about=about)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = archive.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    archive.url = f"http://127.0.0.1:{server.server_port}/api"
    try:
        yield archive
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


class ListedProcess:
    """`remora` as real processes in one folder, over one archive."""

    def __init__(self, folder: Path, archive: LoopbackArchive, *, ceiling: str = "20/s", port: int = 0) -> None:
        self.folder = folder
        self.store = folder / "remora.db"
        self.port = port
        config = (
            f'[console]\nlisten = "127.0.0.1:{port or 8611}"\n'
            f'[sources.chats]\nkind = "listed"\nurl = "{archive.url}"\nceiling = "{ceiling}"\ntoken_env = "CHATS_TOKEN"\n'
            'timeout = "2s"\nlist = { page_size = 10, total = "total" }\ndetail = { key = "id" }\n'
        )
        (folder / "remora.toml").write_text(config, encoding="utf-8")

    async def warm_up(self, rate_per_s: float) -> None:
        """As if an earlier run had learned this pace a moment ago: a cold start takes its time."""
        await warm_up(self.store, "chats", rate_per_s)

    def __call__(self, *words: str, token: str = TOKEN, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "remora", *words],
            cwd=self.folder,
            env={"CHATS_TOKEN": token, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *words: str, into: Path) -> "subprocess.Popen[bytes]":
        """Start a command whose output goes to a file; the caller ends it."""
        with into.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "remora", *words],
                cwd=self.folder,
                env={"CHATS_TOKEN": TOKEN, "PATH": ""},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Everything in one table."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as connection:
            return connection.execute(f'SELECT * FROM "{table}"').fetchall()

    def tables(self) -> list[str]:
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as connection:
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return [name for (name,) in names if not name.startswith("sqlite_")]

    def documents(self) -> dict[str, bytes]:
        """What the mirror holds, by key."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as connection:
            held = connection.execute("SELECT key, CAST(body AS BLOB) FROM documents WHERE body IS NOT NULL")
            return {key: bytes(body) for key, body in held}
