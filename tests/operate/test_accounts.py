"""Do all sources of one account keep one ceiling together, in one process and in several?"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from remora.contracts import SharedPace
from remora.core.errors import ConfigurationError, StoreUnavailable
from remora.core.item import Newest, Readable
from remora.core.lanes import Lane
from remora.core.rate.pacing import burst_allowance
from remora.core.rate.refusal_limit import RefusalLimit
from remora.core.units import MILLISECOND_NS, SECOND_NS
from remora.core.verdict import Reply, Verdict, classify, has_content
from remora.gate.governor import Governor
from remora.operate.config.reader import load
from remora.operate.config.settings import Flags, Settings, SourceSettings
from remora.operate.jobs.gates import Gates, limits_of
from remora.sim.checks import worst_window
from remora.sim.clock import SimClock
from remora.sim.meter import CountingMeter
from remora.sim.sharing import SimGate, SimNames, SimSharing
from remora.stores.memory import MemoryStore
from tests.gate.rig import simulated

TEN_PER_S_NS = SECOND_NS // 10
SHARED = """
[accounts.github]
ceiling = "10/s"
[sources.issues]
kind = "listed"
url = "https://api.example/issues"
account = "github"
[sources.pulls]
kind = "listed"
url = "https://api.example/pulls"
account = "github"
in_flight = 3
"""
APART = """
[sources.issues]
kind = "listed"
url = "https://api.example/issues"
ceiling = "10/s"
[sources.pulls]
kind = "listed"
url = "https://api.example/pulls"
ceiling = "10/s"
in_flight = 3
"""


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "remora.toml").write_text(text)
    return load(Flags(), {}, directory=tmp_path)


class Departures:
    """A provider that is never displeased, and when each source's requests left."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.at_ns: list[int] = []
        self.of: dict[str, int] = {}

    async def send(self, governor: Governor, source: str, *, status: int = 200, **headers: str) -> Verdict:
        async with governor.admit(Lane.WALK, source) as permit:
            departed_ns = await permit.depart()
            self.at_ns.append(self._clock.true_ns())
            self.of[source] = self.of.get(source, 0) + 1
            await self._clock.sleep_until(departed_ns + 20 * MILLISECOND_NS)
            told = {name.replace("_", "-"): text for name, text in headers.items()}
            reply = Reply(status, b"", departed_ns, self._clock.monotonic_ns(), told)
            decoded = Readable(Newest(1)) if has_content(reply) else None
            verdict = classify(reply, decoded, behind_newest=None, now_wall_ns=self._clock.wall_ns())
            governor.learn(permit, reply, verdict)
            return verdict

    async def keep_sending(self, governor: Governor, source: str, *, until_ns: int) -> None:
        while self._clock.true_ns() < until_ns:
            await self.send(governor, source)

    def excess(self) -> float:
        return worst_window(sorted(self.at_ns), TEN_PER_S_NS, burst_allowance(TEN_PER_S_NS)).excess


def in_simulated_time(main: Callable[[SimClock, Departures], Awaitable[None]]) -> None:
    async def run(clock: SimClock) -> None:
        await main(clock, Departures(clock))

    simulated(run)


def test_two_sources_of_one_account_stay_below_one_ceiling_together(tmp_path: Path) -> None:
    sources = settings(tmp_path, SHARED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gates = Gates(sources, store=MemoryStore(), clock=clock, meter=CountingMeter())
        async with gates.pass_through("issues") as one, gates.pass_through("pulls") as other:
            assert one is other
            until_ns = clock.true_ns() + 60 * SECOND_NS
            await asyncio.gather(*(sent.keep_sending(one, name, until_ns=until_ns) for name in sources))
        assert sent.excess() <= 0
        assert len(sent.at_ns) > 300
        assert min(sent.of.values()) > 100

    in_simulated_time(main)


@pytest.mark.slow
def test_sources_with_accounts_of_their_own_have_a_ceiling_each(tmp_path: Path) -> None:
    sources = settings(tmp_path, APART).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gates = Gates(sources, store=MemoryStore(), clock=clock, meter=CountingMeter())
        async with gates.pass_through("issues") as one, gates.pass_through("pulls") as other:
            until_ns = clock.true_ns() + 60 * SECOND_NS
            await asyncio.gather(
                sent.keep_sending(one, "issues", until_ns=until_ns),
                sent.keep_sending(other, "pulls", until_ns=until_ns),
            )
        assert sent.excess() > 0  # the measure sees two gates

    in_simulated_time(main)


@pytest.mark.slow
def test_two_processes_keep_the_ceiling_of_an_account_whichever_source_each_reads(tmp_path: Path) -> None:
    sources = settings(tmp_path, SHARED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gate_store, names = SimGate(clock), SimNames()
        async with AsyncExitStack() as processes:
            until_ns = clock.true_ns() + 60 * SECOND_NS
            working = []
            for name in sources:
                own = clock.restarted()
                sharing = SimSharing(gate_store, names, own)
                gates = Gates(sources, store=MemoryStore(), clock=own, meter=CountingMeter(), sharing=sharing)
                governor = await processes.enter_async_context(gates.pass_through(name))
                working.append(sent.keep_sending(governor, name, until_ns=until_ns))
            await asyncio.gather(*working)
        assert sent.excess() <= 0
        assert min(sent.of.values()) > 50

    in_simulated_time(main)


def test_a_pause_and_a_quota_that_one_source_is_told_hold_for_the_other(tmp_path: Path) -> None:
    sources = settings(tmp_path, SHARED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        store = MemoryStore()
        meter = CountingMeter()
        gates = Gates(sources, store=store, clock=clock, meter=meter)
        async with gates.pass_through("issues") as one, gates.pass_through("pulls") as other:
            await sent.send(one, "issues", x_ratelimit_remaining="0", x_ratelimit_reset="300")
            await sent.send(other, "pulls")
        assert sent.at_ns[1] - sent.at_ns[0] >= 300 * SECOND_NS
        assert await store.load_pace("github") is not None
        assert await store.load_pace("issues") is None

    in_simulated_time(main)


@pytest.mark.parametrize(
    "text, complaint, hint",
    [
        (SHARED.replace("[accounts.github]", "[accounts.gitlab]"), "there is no [accounts.github]", "gitlab"),
        (SHARED.replace('ceiling = "10/s"', ""), "accounts.github has no ceiling", "ceiling"),
        (SHARED + 'ceiling = "5/s"\n', "sources.pulls has ceiling", "leave it out"),
        (
            SHARED + 'token_env = "T"\n',
            "sources.pulls has token_env",
            "move it to [accounts.github] as auth = { bearer_env = … }",
        ),
        (SHARED.replace("github", "pulls").replace('account = "pulls"\nin', "in"), "name of a source", "account"),
        (SHARED.replace("10/s", "quick"), 'is "quick"', "240/min"),
        (SHARED + 'refusal_limit = "4/min"\n', "sources.pulls has refusal_limit", "[accounts.github]"),
        (
            SHARED.replace('"10/s"', '"10/s"\nrefusal_limit = "four"'),
            "accounts.github.refusal_limit is 'four'",
            "4/min",
        ),
    ],
)
def test_an_account_that_does_not_fit_is_refused_with_what_to_write(
    tmp_path: Path, text: str, complaint: str, hint: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        settings(tmp_path, text)
    assert complaint in refused.value.message
    assert hint in str(refused.value.hint)


def test_the_ceiling_of_a_source_is_the_one_of_its_account(tmp_path: Path) -> None:
    sources = settings(tmp_path, SHARED).sources
    assert {name: source.ceiling_interval_ns for name, source in sources.items()} == {
        "issues": TEN_PER_S_NS,
        "pulls": TEN_PER_S_NS,
    }


LIMITED = SHARED.replace('"10/s"', '"10/s"\nrefusal_limit = "4/min"')


def gates_on(gate: SimGate, sources: Mapping[str, SourceSettings], clock: SimClock) -> Gates:
    sharing = SimSharing(gate, SimNames(), clock)
    return Gates(sources, store=MemoryStore(), clock=clock, meter=CountingMeter(), sharing=sharing)


def test_the_limit_on_refusals_is_one_for_all_sources_of_an_account(tmp_path: Path) -> None:
    sources = settings(tmp_path, LIMITED).sources
    assert limits_of([*sources.values()]).refusal_limit == RefusalLimit(4, 60 * SECOND_NS)


def test_where_refusals_are_limited_on_a_shared_store_nothing_is_sent_without_the_right(tmp_path: Path) -> None:
    sources = settings(tmp_path, LIMITED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gates = gates_on(SimGate(clock), sources, clock)
        with pytest.raises(StoreUnavailable, match="another process may send for github now"):
            async with gates.pass_through("issues"):
                raise AssertionError("never opened")
        right = gates.right("issues")
        assert right is not None
        assert right is gates.right("pulls"), "an account has one"

        async def work() -> None:
            async with gates.pass_through("issues") as governor:
                await sent.send(governor, "issues")

        await right.run(work)
        assert sent.of == {"issues": 1}

    in_simulated_time(main)


def test_any_process_may_send_where_no_limit_is_written_and_where_the_store_is_its_own(tmp_path: Path) -> None:
    limited = settings(tmp_path, LIMITED).sources
    free = settings(tmp_path, SHARED).sources

    async def main(clock: SimClock, _sent: Departures) -> None:
        own = Gates(limited, store=MemoryStore(), clock=clock, meter=CountingMeter())
        assert own.right("issues") is None
        assert gates_on(SimGate(clock), free, clock).right("issues") is None

    in_simulated_time(main)


class SlowGate(SimGate):
    """A shared gate that takes five seconds to say what is known, and does not answer the first time if told so."""

    fails = 0

    async def look(self, source: str) -> SharedPace:
        await asyncio.sleep(5)
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("the store does not answer", hint="wait")
        return await super().look(source)


def test_a_gate_that_could_not_be_opened_is_opened_anew(tmp_path: Path) -> None:
    sources = settings(tmp_path, LIMITED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gate = SlowGate(clock)
        gate.fails = 1
        gates = gates_on(gate, sources, clock)
        right = gates.right("issues")
        assert right is not None

        async def work() -> None:
            with pytest.raises(StoreUnavailable):
                async with gates.pass_through("issues"):
                    raise AssertionError("never opened")
            async with gates.pass_through("issues") as governor:
                await sent.send(governor, "issues")

        await right.run(work)
        assert sent.of == {"issues": 1}

    in_simulated_time(main)


def test_a_gate_whose_opening_was_given_up_is_opened_anew(tmp_path: Path) -> None:
    sources = settings(tmp_path, SHARED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gates = gates_on(SlowGate(clock), sources, clock)

        async def work() -> None:
            async with gates.pass_through("issues") as governor:
                await sent.send(governor, "issues")

        given_up = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert sent.of == {}
        await work()
        assert sent.of == {"issues": 1}

    in_simulated_time(main)


def test_sources_of_an_account_that_are_opened_together_get_a_gate_that_is_open(tmp_path: Path) -> None:
    sources = settings(tmp_path, LIMITED).sources

    async def main(clock: SimClock, sent: Departures) -> None:
        gates = gates_on(SlowGate(clock), sources, clock)
        right = gates.right("issues")
        assert right is not None
        opened: list[Governor] = []

        async def work(name: str) -> None:
            async with gates.pass_through(name) as governor:
                opened.append(governor)
                await sent.send(governor, name)
                await asyncio.sleep(10)

        await asyncio.gather(right.run(lambda: work("issues")), right.run(lambda: work("pulls")))
        assert opened[0] is opened[1]
        assert sent.of == {"issues": 1, "pulls": 1}

    in_simulated_time(main)
