"""Do two numbered and two listed sources share one store, killed and resumed, and each equal its own world at the end?"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from remora.stores import open_store
from tests.integration.listed_server import TOKEN, LoopbackArchive, loopback_archive
from tests.integration.test_listed_postgres import let_the_right_end
from tests.processes import SimulatedProvider, kill, simulated_provider
from tests.warm_start import learned_pace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]

ITEMS = 300
ENTRIES = 40
NUMBERED_PER_S = 400
LISTED_PER_S = 40


@dataclass(frozen=True)
class Worlds:
    """Four sources with the same ids and the same keys, and other bodies."""

    numbered: Mapping[str, SimulatedProvider]
    listed: Mapping[str, LoopbackArchive]

    def config(self) -> str:
        parts = [
            f'[sources.{name}]\npreset = "hackernews"\nurl = "{provider.url}"\nceiling = "{NUMBERED_PER_S}/s"\ntimeout = "2s"\n'
            for name, provider in self.numbered.items()
        ]
        parts += [
            f'[sources.{name}]\nkind = "listed"\nurl = "{archive.url}"\nceiling = "{LISTED_PER_S}/s"\n'
            'token_env = "CHATS_TOKEN"\ntimeout = "2s"\n'
            'list = { page_size = 10, total = "total" }\ndetail = { key = "id" }\n'
            for name, archive in self.listed.items()
        ]
        return "\n".join(parts)

    def jobs(self) -> Iterator[tuple[tuple[str, ...], Callable[[], int]]]:
        """The command that completes each source, and how many requests its world has seen."""
        for name, provider in self.numbered.items():
            yield ("catchup", "--source", name), provider.arrived
        for name, archive in self.listed.items():
            yield ("run", name), lambda archive=archive: len(archive.asked)  # type: ignore[misc]


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    with ExitStack() as stack:
        numbered = {
            name: stack.enter_context(simulated_provider(items=ITEMS, seed=seed))
            for seed, name in enumerate(("left", "right"), 1)
        }
        listed = {name: stack.enter_context(loopback_archive(ENTRIES, about=name)) for name in ("letters", "papers")}
        yield Worlds(numbered, listed)


class Remora:
    """`remora` as real processes in one folder, over all four sources and one store."""

    def __init__(self, folder: Path, url: str, worlds: Worlds) -> None:
        self.folder = folder
        config = f'[store]\nurl = "{url}"\n\n{worlds.config()}'
        (folder / "remora.toml").write_text(config, encoding="utf-8")

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "out.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "remora", *words],
                cwd=self.folder,
                env={"CHATS_TOKEN": TOKEN, "PATH": ""},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def finish(self, *words: str) -> None:
        process = self.start(*words)
        assert process.wait(timeout=120) == 0, (self.folder / "out.txt").read_text()[-2_000:]

    def exported(self, source: str) -> list[bytes]:
        out = self.folder / f"{source}.ndjson"
        self.finish("export", "--source", source, "--format", "ndjson", "--out", str(out))
        return out.read_bytes().splitlines()


async def know_the_paces(url: str, worlds: Worlds) -> None:
    """As if earlier processes had learned them a moment ago: a cold start takes its time."""
    store = open_store(url)
    await store.open()
    for name in worlds.numbered:
        await store.save_pace(name, learned_pace(NUMBERED_PER_S))
    for name in worlds.listed:
        await store.save_pace(name, learned_pace(LISTED_PER_S))
    await store.close()


def kill_in_the_middle(remora: Remora, words: tuple[str, ...], requests: Callable[[], int]) -> None:
    """Start a command, and kill it once its world has seen ten requests more."""
    goal = requests() + 10
    process = remora.start(*words)
    until = time.monotonic() + 60
    while requests() < goal and process.poll() is None:
        assert time.monotonic() < until, "no request came"
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it could be killed"
    kill(process)


def assert_each_source_equals_its_own_world(remora: Remora, worlds: Worlds) -> None:
    for name, provider in worlds.numbered.items():
        assert remora.exported(name) == [body for _, body in provider.dump()]
    for name, archive in worlds.listed.items():
        assert remora.exported(name) == [archive.body(key) for key in sorted(archive.keys)]
        assert all(json.loads(line)["text"].startswith(f"canary {name}") for line in remora.exported(name))
    assert remora.exported("left") != remora.exported("right")


def test_four_sources_in_one_sqlite_file_are_killed_and_resumed(worlds: Worlds, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/remora.db"
    remora = Remora(tmp_path, url, worlds)
    asyncio.run(know_the_paces(url, worlds))
    for _ in range(2):
        for words, requests in worlds.jobs():
            kill_in_the_middle(remora, words, requests)
    for words, _ in worlds.jobs():
        remora.finish(*words)
    assert_each_source_equals_its_own_world(remora, worlds)


@pytest.mark.postgres
def test_four_sources_in_one_postgresql_are_killed_and_resumed(
    worlds: Worlds, postgres_url: str, tmp_path: Path
) -> None:
    remora = Remora(tmp_path, postgres_url, worlds)
    remora.finish("store", "migrate")
    asyncio.run(know_the_paces(postgres_url, worlds))
    for words, requests in worlds.jobs():
        kill_in_the_middle(remora, words, requests)
    let_the_right_end(postgres_url)
    # All at once: the four write into the same tables in the same moments.
    running = [remora.start(*words) for words, _ in worlds.jobs()]
    assert [process.wait(timeout=200) for process in running] == [0] * 4, (tmp_path / "out.txt").read_text()[-2_000:]
    assert_each_source_equals_its_own_world(remora, worlds)
