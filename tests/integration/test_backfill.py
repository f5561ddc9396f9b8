"""Does `remora catchup` mirror a faulty provider completely, survive any kill, and stay below the ceiling?"""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from remora.core.ledger.segment import BATCH_MAX
from remora.loops.numbered.backfill import WALKERS
from remora.sim.checks import compare
from remora.sim.faults import FaultKind
from tests.processes import Remora, SimulatedProvider, kill, simulated_provider, too_early_ns

CEILING_PER_S = 2_000
CEILING_INTERVAL_NS = 1_000_000_000 // CEILING_PER_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200), pytest.mark.xdist_group("processes")]


@pytest.fixture
def provider() -> Iterator[SimulatedProvider]:
    with simulated_provider(items=6_000) as running:
        yield running


@pytest.fixture
def small_provider() -> Iterator[SimulatedProvider]:
    with simulated_provider(items=300) as running:
        yield running


def assert_never_above_the_ceiling(provider: SimulatedProvider) -> None:
    times_ns, _ = provider.arrivals()
    assert too_early_ns(times_ns, CEILING_INTERVAL_NS) <= 0


def assert_adds_up(remora: Remora) -> None:
    covered = remora.coverage()
    parts = ("settled", "pending", "owed", "absent", "dead")
    assert sum(covered[part] for part in parts) == covered["max_id"] - covered["first_id"] + 1
    assert covered["pending"] == 0
    assert covered["frontier"] == covered["max_id"]


def test_6_000_items_with_faults_of_every_kind_equal_the_worlds_own_dump(
    provider: SimulatedProvider, tmp_path: Path
) -> None:
    # A stale replica's body is a true body of another moment: no single look can tell, the rescan does.
    kinds = [kind for kind in FaultKind if kind is not FaultKind.STALE]
    provider.set_faults({"rates": dict.fromkeys(kinds, 0.02 / len(kinds)), "slow_s": 0.3})
    # Items that hang hold their walkers up for as long as this; the slow ones come before it.
    remora = Remora(tmp_path, provider, ceiling=f"{CEILING_PER_S}/s", timeout="700ms")
    remora.warm_up(CEILING_PER_S)
    first = remora("catchup", "--json")
    assert first.returncode == 0, first.stderr
    assert_adds_up(remora)
    assert_never_above_the_ceiling(provider)
    truth = dict(provider.dump())
    owed = {int(gap["key"]) for gap in remora.gaps()}
    held = remora.bodies()
    assert compare(held, [(item_id, truth[item_id]) for item_id, _ in held if item_id in truth]) == []
    assert truth.keys() - {item_id for item_id, _ in held} <= owed

    provider.heal()
    assert remora("gaps", "replay", "--all").returncode == 0
    assert remora("catchup").returncode == 0
    assert compare(remora.bodies(), sorted(truth.items())) == []


def test_20_kills_at_random_moments_end_in_the_same_mirror_and_repeat_at_most_a_batch_per_worker(
    provider: SimulatedProvider, tmp_path: Path
) -> None:
    remora = Remora(tmp_path, provider, ceiling=f"{CEILING_PER_S}/s")
    remora.warm_up(CEILING_PER_S / 32)
    chance = random.Random(20)
    kills = 0
    while kills < 20:
        arrived = provider.arrived()
        process = remora.start("catchup")
        # Killed somewhere in its first items: early ones while it learns the pace, later ones at full speed.
        goal = arrived + chance.randrange(1, 250)
        while provider.arrived() < goal and process.poll() is None:
            time.sleep(0.02)
        kill(process)
        kills += 1
    assert remora("catchup").returncode == 0
    assert_adds_up(remora)
    assert_never_above_the_ceiling(provider)
    assert compare(remora.bodies(), provider.dump()) == []
    _, paths = provider.arrivals()
    asked = Counter(path for path in paths if "/item/" in path)
    missing = {f"/v0/item/{gap['key']}.json" for gap in remora.gaps()}
    repeated = sum(count - 1 for path, count in asked.items() if path not in missing)
    assert repeated <= kills * WALKERS * BATCH_MAX


def test_a_poison_id_a_hanging_one_a_cut_body_and_a_wrong_one_are_gaps_and_heal_by_replay(
    small_provider: SimulatedProvider, tmp_path: Path
) -> None:
    poison = {"17": "unauthorized", "33": "hang", "50": "truncated", "77": "wrong_id"}
    small_provider.set_faults({"ids": poison})
    remora = Remora(tmp_path, small_provider, ceiling=f"{CEILING_PER_S}/s", timeout="3s")
    remora.warm_up(CEILING_PER_S)
    assert remora("catchup", "--end-id", "200").returncode == 0
    reasons = {gap["key"]: gap["reason"] for gap in remora.gaps() if gap["key"] in poison}
    assert reasons == {"17": "unauthorized", "33": "timeout", "50": "connection", "77": "malformed"}
    listed = remora("gaps").stdout
    assert all(key in listed for key in poison)
    truth = [(item_id, body) for item_id, body in small_provider.dump(last_id=200) if str(item_id) not in poison]
    assert compare(remora.bodies(), truth) == []

    small_provider.heal()
    assert remora("gaps", "replay", "--all").returncode == 0
    assert remora("catchup", "--end-id", "200").returncode == 0
    assert compare(remora.bodies(), small_provider.dump(last_id=200)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_releases_the_leases_and_ends_with_0(
    provider: SimulatedProvider, tmp_path: Path, number: signal.Signals
) -> None:
    remora = Remora(tmp_path, provider, ceiling=f"{CEILING_PER_S}/s")
    remora.warm_up(20)
    process = remora.start("catchup")
    while provider.arrived() < 20 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(timeout=240) == 0
    status = json.loads(remora("status", "--json").stdout)
    assert status["sources"]["hackernews"]["coverage"]["settled"] > 0
