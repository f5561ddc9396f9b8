"""Does every declaration of the shelf survive `kill -9`? Real processes over loopback, killed three times, then compared.

A table of the seventeen: lines of TOML, whether the runs went through, and how the mirror differs from its fake: things that nobody
knows of (lost), that are known and owed, that have an earlier content (old), and that the fake has deleted and the mirror still
calls listed (extra). The list moves for 25 seconds; 2 % of the requests fail. OAuth is replaced by a fixed token, addresses lead to
the fake, the ceiling is 200/s, pages have ten entries. What changed or was deleted behind a list that is sorted by creation shows
in the weekly full walk only, so the last runs are full walks: the bench deletes the note that says when the last one was.

With `--record` the rows are written to docs/shelf.json, from which `python -m tools.shelf_page` makes the page.
"""

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.fake_server import FakeServer
from remora.sources.shelf import shelf_entry, shelf_names
from remora.testing import TOKEN, Fake, World
from tests.shelf.fakes import FAKES

KILLED_AFTER = (4, 5, 6, 7, 8, 9)  # requests of a process
KILLS = 3
RUNS_MAX = 30
# What failed is owed, and is due a little later. What is due after this long is left as it is.
DUE_MAX_S = 200
RECORD = Path(__file__).resolve().parent.parent / "docs" / "shelf.json"
DUE = "SELECT min(not_before_at) FROM gaps WHERE source = ? AND state = 'owed' AND kind <> 'page'"
NO_FULL_WALK = "DELETE FROM notes WHERE name = 'full_walk'"
LISTED = "SELECT source, key, body FROM documents WHERE vanished_at IS NULL"


def main() -> None:
    print(
        f"{'declaration':<24}{'lines':>6}{'kills':>6}{'runs':>6}{'requests':>9}{'things':>7}{'lost':>6}{'owed':>5}{'old':>5}{'extra':>6}{'s':>7}"
    )
    names = [name for name in sys.argv[1:] if name != "--record"] or shelf_names()
    rows = {name: _one(name) for name in names}
    if "--record" in sys.argv:
        _record(rows)
    sys.exit(0 if all(row["equal"] for row in rows.values()) else "bench: a mirror differs from its fake")


def _record(rows: dict[str, dict[str, Any]]) -> None:
    """Write the rows beside those of other declarations."""
    with RECORD.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        file.truncate(0)
        file.write(json.dumps({**known, **rows}, indent=1, sort_keys=True) + "\n")


def _one(name: str) -> dict[str, Any]:
    start_s = int(time.time())
    fake = FAKES[name](World(things=150, events=60, start_s=start_s, moving_s=25), faults=0.02)
    fake.window.count, fake.pause_s = 10_000, 1
    with tempfile.TemporaryDirectory() as folder, FakeServer(fake) as server:
        began = time.monotonic()
        sources = write_configuration(name, Path(folder), server)
        kills = 0
        for each, after in enumerate(KILLED_AFTER):  # a short run may end before it is killed
            if kills < KILLS:
                kills += kill_one(Path(folder), sources[min(each, len(sources) - 1)], server, after)
        server.wait_until(lambda: fake.now_s > fake.world.quiet_from_s, within_s=60)
        runs = sum(run_to_completion(Path(folder), source) for source in sources)
        with sqlite3.connect(Path(folder) / "mirror.db") as mirror:
            mirror.execute(NO_FULL_WALK)
        runs += sum(run_to_completion(Path(folder), source) for source in sources)
        seconds = time.monotonic() - began
        found = compare(Path(folder), fake, several=len(sources) > 1)
    told = f"{name:<24}{shelf_entry(name).lines:>6}{kills:>6}{runs:>6}{len(fake.requests):>9}{found.things:>7}"
    print(f"{told}{found.lost:>6}{found.owed:>5}{found.old:>5}{found.extra:>6}{seconds:>7.1f}", flush=True)
    is_equal = found.lost == found.owed == found.old == found.extra == 0
    numbers = {"kills": kills, "runs": runs, "requests": len(fake.requests), "refusals": fake.refusals}
    return {**numbers, "things": found.things, "equal": is_equal, "seconds": round(seconds, 1)}


def write_configuration(
    name: str, folder: Path, server: FakeServer, *, ceiling: str = "200/s", page_size: int = 10
) -> list[str]:
    """The declaration as its owner would fill it in, pointed at the fake."""
    written = tomllib.loads(shelf_entry(name).text)
    for account in written.get("accounts", {}).values():
        account["ceiling"] = ceiling
    for source in written["sources"].values():
        path = urlsplit(source["url"]).path
        server.fake.base, source["url"] = path, f"{server.origin}{path}"
        if "account" not in source:
            source["ceiling"] = ceiling
        if "oauth_url" in source.get("auth", {}):
            source["auth"] = {"bearer_env": "TOKEN"}
        source["list"]["page_size"] = page_size
    written["store"] = {"url": "sqlite:///mirror.db"}
    (folder / "remora.toml").write_text("\n".join(_toml(written, ())) + "\n")
    return list(written["sources"])


def _toml(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """A table as TOML; inline where it is inside an array."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"[{'.'.join(path)}]"] if path and plain else []
    lines += [f"{json.dumps(key)} = {_inline(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _toml(value, (*path, key))
    return lines


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def environ() -> dict[str, str]:
    names = (
        "TOKEN GITHUB_TOKEN GITLAB_TOKEN NOTION_TOKEN STRIPE_KEY DISCOURSE_KEY MASTODON_TOKEN STACK_KEY SHOPIFY_TOKEN"
    )
    names += " API_LOGIN CHATGPT_TOKEN CLAUDE_SESSION SLACK_TOKEN"
    return {**os.environ, "ZENDESK_LOGIN": f"a:{TOKEN}", **dict.fromkeys(names.split(), TOKEN)}


def _remora(folder: Path, source: str, told: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "remora", "run", source, "--force", "--json"]
    return subprocess.Popen(command, cwd=folder, env=environ(), stdout=told, stderr=subprocess.DEVNULL)  # noqa: S603


def kill_one(folder: Path, source: str, server: FakeServer, after: int) -> int:
    """Start a run and kill it when so many more requests have arrived; 1 if it was still running."""
    known = len(server.fake.requests)
    process = _remora(folder, source)
    server.wait_until(lambda: len(server.fake.requests) >= known + after or process.poll() is not None, within_s=30)
    if process.poll() is not None:
        return 0
    process.kill()
    process.wait()
    return 1


def run_to_completion(folder: Path, source: str) -> int:
    """Runs until one says that everything that is listed was asked for, and nothing is owed that is due soon."""
    for runs in range(1, RUNS_MAX + 1):
        process = _remora(folder, source, subprocess.PIPE)
        process.communicate()
        with sqlite3.connect(folder / "mirror.db") as mirror:
            due_ms = mirror.execute(DUE, (source,)).fetchone()[0]
        due_in_s = 0 if due_ms is None else due_ms / 1_000 - time.time()
        if process.returncode == 0 and (due_ms is None or due_in_s > DUE_MAX_S):
            return runs
        time.sleep(max(0.5, min(due_in_s, DUE_MAX_S) + 0.5))
    raise SystemExit(f"{source} is not complete after {RUNS_MAX} runs")


def compare(folder: Path, fake: Fake, *, several: bool) -> "Compared":
    """What the mirror lacks of the fake."""
    with sqlite3.connect(folder / "mirror.db") as mirror:
        rows = [(f"{source}/{key}" if several else key, body) for source, key, body in mirror.execute(LISTED)]
    known, truth = dict(rows), fake.truth()
    there = {key: known[key] for key in truth if key in known}
    owed = sum(body is None for body in there.values())
    old = sum(body is not None and json.loads(body) != truth[key] for key, body in there.items())
    extra = sum(key not in truth and body is not None for key, body in known.items())
    return Compared(len(truth) - len(there), owed, old, extra, len(truth))


class Compared(NamedTuple):
    """Things that nobody knows of, that are owed, that have an earlier content, that are gone upstream, and all there are."""

    lost: int
    owed: int
    old: int
    extra: int
    things: int


if __name__ == "__main__":
    main()
