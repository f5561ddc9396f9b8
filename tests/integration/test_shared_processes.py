"""Do several `remora` processes on one PostgreSQL keep one ceiling, share one queue, and replace each other when killed?"""

import asyncio
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psycopg
import pytest

from remora.core.ledger.coverage import Coverage, IdRange
from remora.core.ledger.notes import STEERING_NOTE
from remora.core.rate.gate_types import RateFacts
from remora.core.rate.law import cold_start
from remora.core.rate.pacing import interval_for
from remora.core.rate.shared_pace import COMMON, Common, to_common
from remora.core.status.snapshot import Orders
from remora.gate.shared import SharedHome
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, default_in_flight
from remora.operate.jobs.app import work
from remora.operate.jobs.clock import SystemClock
from remora.operate.jobs.progress import SilentView
from remora.operate.observe.read_status import read_status
from remora.sim.checks import compare
from remora.stores.postgres import PostgresStore
from remora.stores.postgres.sharing import PostgresSharing
from tests.integration.gate_sender import Sender
from tests.processes import Remora, SimulatedProvider, kill, simulated_provider, too_early_ns

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(1_500),
    pytest.mark.xdist_group("processes"),  # one after another: several of them at once would need a larger machine
]

NAME = "hackernews"
CEILING_PER_S = 400
CEILING_NS = interval_for(CEILING_PER_S)
# As many segments as walkers, so that nobody is idle and what a dead one leaves is noticed.
ITEMS = 8_000
PROCESSES = 4
KILLS = 3
WAIT_S = 300.0  # only guards against processes that hang; simulated time tests the fifteen seconds


def remora_on(url: str, folder: Path, provider: SimulatedProvider, *, ceiling: str = f"{CEILING_PER_S}/s") -> Remora:
    remora = Remora(folder, provider, ceiling=ceiling)
    config = folder / "remora.toml"
    config.write_text(f'[store]\nurl = "{url}"\n\n{config.read_text()}', encoding="utf-8")
    assert remora("store", "migrate").returncode == 0
    return remora


async def know_the_ceiling(url: str) -> None:
    """As a fleet that ran a moment ago: the climb from one request per second is shown elsewhere."""
    clock = SystemClock()
    sharing = PostgresSharing(url, owner="before", clock=clock)
    gate = SharedHome(NAME, sharing.gate_store, ceiling_interval_ns=CEILING_NS, clock=clock)
    sender = Sender(gate, interval_ns=CEILING_NS, clock=clock)
    await sender.send()
    now_ns = clock.monotonic_ns()
    rate_per_s = 1e9 / CEILING_NS
    pace = replace(cold_start(ceiling_interval_ns=CEILING_NS, now_ns=now_ns), rate_per_s=rate_per_s)
    record = {COMMON: to_common(Common(replace(pace, octave_per_s=rate_per_s)), now_ns=now_ns)}
    was_taken, _ = await gate.share(record, interval_ns=CEILING_NS, not_before_in_ns=0, seen_version=0)  # type: ignore[arg-type]
    assert was_taken
    await gate.close()
    await sharing.close()


@dataclass
class Crew:
    """Processes that are replaced when they are killed; whoever is left is killed at the end."""

    remora: Remora
    words: tuple[str, ...]
    living: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    kills: int = 0

    def start(self) -> None:
        self.living.append(self.remora.start(*self.words))

    def replace_one(self, chance: random.Random) -> None:
        victim = self.living.pop(chance.randrange(len(self.living)))
        kill(victim)
        self.kills += 1
        self.start()

    @property
    def is_done(self) -> bool:
        return all(process.poll() is not None for process in self.living)

    def end(self) -> None:
        for process in self.living:
            if process.poll() is None:
                kill(process)


@pytest.fixture
def provider() -> Iterator[SimulatedProvider]:
    with simulated_provider(items=ITEMS) as running:
        yield running


def test_four_processes_one_killed_again_and_again_make_one_complete_mirror_below_one_ceiling(
    provider: SimulatedProvider, postgres_url: str, tmp_path: Path
) -> None:
    remora = remora_on(postgres_url, tmp_path, provider)
    asyncio.run(know_the_ceiling(postgres_url))
    crew, chance = Crew(remora, ("catchup",)), random.Random(4)
    for _ in range(PROCESSES):
        crew.start()
    try:
        while not crew.is_done:
            time.sleep(0.2)
            if crew.kills < KILLS and provider.arrived() > ITEMS * (crew.kills + 1) / (KILLS + 2):
                crew.replace_one(chance)
        assert [process.returncode for process in crew.living] == [0] * PROCESSES
    finally:
        crew.end()
    assert crew.kills == KILLS
    times_ns, paths = provider.arrivals()
    assert too_early_ns(times_ns, CEILING_NS) <= 0
    assert compare(remora.bodies(), provider.dump()) == []
    with psycopg.connect(postgres_url) as connection:
        states = connection.execute("SELECT state, count(*) FROM segments GROUP BY state").fetchall()
        covered = connection.execute("SELECT first_id, last_id FROM coverage").fetchall()
    # What was planned was walked to its end, whoever planned and whoever died; repeats are counted below.
    assert [state for state, _ in states] == ["done"]
    assert Coverage.of(IdRange(*ids) for ids in covered).ranges == (IdRange(1, ITEMS),)
    asked = Counter(path for path in paths if "/item/" in path)
    missing = {f"/v0/item/{gap['key']}.json" for gap in remora.gaps()}
    repeated = sum(count - 1 for path, count in asked.items() if path not in missing)
    print(f"{repeated} of {sum(asked.values())} requests were repeats after {crew.kills} kills")
    assert repeated <= crew.kills * default_in_flight(CEILING_NS)


def watcher(url: str) -> tuple[int, int] | None:
    """The process that watches the source, and the how-many-eth it is."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT owner, fence FROM singletons WHERE name = %s AND lease_until_ns > "
            "(extract(epoch FROM clock_timestamp()) * 1000000000)::bigint",
            (f"watch:{NAME}",),
        ).fetchone()
    return None if row is None else (int(row[0].rpartition(":")[2]), row[1])


def wait_for_watcher(url: str, *, other_than: int, timeout_s: float) -> int:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        found = watcher(url)
        if found is not None and found[0] != other_than:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"nobody took over within {timeout_s} s")


def test_a_standby_takes_over_after_a_kill_and_repairs_what_nobody_saw(postgres_url: str, tmp_path: Path) -> None:
    with simulated_provider(items=400, speed=60) as world:
        remora = remora_on(postgres_url, tmp_path, world)
        asyncio.run(know_the_ceiling(postgres_url))
        services = {}
        for _ in range(2):
            process = remora.start("up", "--listen", "127.0.0.1:0")
            services[process.pid] = process
        try:
            first = wait_for_watcher(postgres_url, other_than=0, timeout_s=WAIT_S)
            wait_until_covered(postgres_url, 400, timeout_s=WAIT_S)
            kill(services.pop(first))
            second = wait_for_watcher(postgres_url, other_than=first, timeout_s=WAIT_S)
            assert second in services
            newest_id = max(item_id for item_id, _ in world.dump())
            wait_until_covered(postgres_url, newest_id, timeout_s=WAIT_S)
        finally:
            for process in services.values():
                kill(process)


def test_where_refusals_are_limited_one_process_sends_and_a_standby_takes_over(
    postgres_url: str, tmp_path: Path
) -> None:
    with simulated_provider(items=400, speed=60) as world:
        remora = remora_on(postgres_url, tmp_path, world)
        with (tmp_path / "remora.toml").open("a", encoding="utf-8") as config:
            config.write('refusal_limit = "4/2s"\n')
        asyncio.run(know_the_ceiling(postgres_url))
        helped = remora("worker")
        assert helped.returncode == 2
        assert "a worker cannot help" in helped.stderr
        services = {}
        try:
            for _ in range(2):
                process = remora.start("up", "--listen", "127.0.0.1:0")
                services[process.pid] = process
            first = wait_for_watcher(postgres_url, other_than=0, timeout_s=WAIT_S)
            wait_until_covered(postgres_url, 400, timeout_s=WAIT_S)
            refused = remora("catchup")
            assert refused.returncode == 1
            assert "another process runs hackernews on this store" in refused.stderr
            states = json.loads(remora("status", "--json").stdout)["runtimes"]
            assert sorted(beat["role"] for beat in states if beat["alive"]) == ["service", "service"]
            kill(services.pop(first))
            assert wait_for_watcher(postgres_url, other_than=first, timeout_s=WAIT_S) in services
            newest_id = max(item_id for item_id, _ in world.dump())
            wait_until_covered(postgres_url, newest_id, timeout_s=WAIT_S)
        finally:
            for process in services.values():
                kill(process)


def wait_until_covered(url: str, last_id: int, *, timeout_s: float) -> None:
    """Until every id up to this one is settled or owed. Read in this process: starting others would slow down all."""
    deadline_s = time.monotonic() + timeout_s
    while asyncio.run(frontier(url)) < last_id:
        assert time.monotonic() < deadline_s, f"{last_id} ids are not covered after {timeout_s} s"
        time.sleep(0.2)


def wait_until_alive(remora: Remora, roles: list[str]) -> None:
    """Until these processes are alive. On a busy machine the first may have done the work before the last has begun."""
    deadline_s = time.monotonic() + WAIT_S
    alive: list[str] = []
    while alive != roles:
        assert time.monotonic() < deadline_s, f"{alive} are alive after {WAIT_S} s"
        shown = remora("status", "--json")
        alive = sorted(each["role"] for each in json.loads(shown.stdout)["runtimes"] if each["alive"])


async def frontier(url: str) -> int:
    store = PostgresStore(url, read_only=True)
    await store.open()
    try:
        return (await store.coverage(NAME)).frontier(first_id=1)
    finally:
        await store.close()


def test_workers_help_a_service_and_refuse_a_file(postgres_url: str, tmp_path: Path) -> None:
    with simulated_provider(items=2_000) as world:
        remora = remora_on(postgres_url, tmp_path, world)
        asyncio.run(know_the_ceiling(postgres_url))
        processes = [remora.start("up", "--listen", "127.0.0.1:0"), remora.start("worker"), remora.start("worker")]
        try:
            wait_until_alive(remora, ["service", "worker", "worker"])
            wait_until_covered(postgres_url, 2_000, timeout_s=WAIT_S)
        finally:
            for process in processes:
                kill(process)
        assert compare(remora.bodies(), world.dump()) == []
        times_ns, _ = world.arrivals()
        assert too_early_ns(times_ns, CEILING_NS) <= 0
        refused = remora("worker", "--store", "sqlite:///alone.db")
        assert refused.returncode == 2
        assert "remora store copy" in refused.stderr
        assert not (tmp_path / "alone.db").exists()


async def test_a_worker_alone_says_that_an_operator_has_paused_its_source(postgres_url: str, tmp_path: Path) -> None:
    settings = load(Flags(store=postgres_url, url="http://127.0.0.1:9/v0"), {}, directory=tmp_path)
    store = PostgresStore(postgres_url)
    await store.open()
    paused = Orders(
        paused_at_ns=time.time_ns(), interval_ns=60_000_000_000, until_ns=time.time_ns() + 3_600_000_000_000
    )
    await store.keep_note(NAME, STEERING_NOTE, msgspec.to_builtins(paused))
    helping = asyncio.ensure_future(work(settings, only=None, view=SilentView()))
    try:
        async with asyncio.timeout(WAIT_S):
            has_beaten = False
            while not has_beaten and not helping.done():
                await asyncio.sleep(0.05)
                has_beaten = bool(await store.heartbeats())
        told = (await read_status(store, settings, now_ns=time.time_ns())).sources[NAME]
    finally:
        helping.cancel()
        await asyncio.gather(helping, return_exceptions=True)
        await store.close()
    assert told.orders == paused
    assert told.headline.text.startswith("Paused by an operator")
    assert isinstance(told.rate, RateFacts)
    assert told.rate.interval_ns == paused.interval_ns


def test_a_mirror_moves_by_one_command_and_no_password_is_printed(postgres_url: str, tmp_path: Path) -> None:
    with simulated_provider(items=500) as world:
        remora = Remora(tmp_path, world, ceiling="2000/s")
        remora.warm_up(2_000)
        assert remora("catchup").returncode == 0
        first = remora("store", "copy", "sqlite:///remora.db", postgres_url)
        assert first.returncode == 0, first.stderr
        assert re.search(r"^items +\d+ rows  [0-9a-f]{32}$", first.stdout, re.MULTILINE)
        assert "the same on both sides" in first.stdout
        again = remora("store", "copy", "sqlite:///remora.db", postgres_url, "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["items"]["rows"] == len(world.dump())
        moved = [(int(json.loads(line)["id"]), line) for line in exported(remora, postgres_url)]
        assert compare(moved, world.dump()) == []
        broken = remora("store", "copy", "sqlite:///remora.db", "postgresql://user:s3cr3t@127.0.0.1:1/nowhere")
        assert broken.returncode == 1
        assert "s3cr3t" not in broken.stdout + broken.stderr


def exported(remora: Remora, url: str) -> list[bytes]:
    out = remora("export", "--format", "ndjson", "--store", url)
    assert out.returncode == 0, out.stderr
    return out.stdout.encode("utf-8", "surrogatepass").splitlines()
