"""How does `remora verify` work? It draws a sample of what should be held, reads it again, and states a bound."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from remora.contracts import Store
from remora.core.errors import RemoraError
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.run import REFUSED_IN_A_ROW_MAX
from remora.core.ledger.sampling import CONFIDENCE, as_percent, draw_ids, share_at_most
from remora.core.units import SECOND_NS
from remora.loops.verify import BAD, Finding, Verify, document_again, item_again
from remora.operate.config.settings import Settings
from remora.operate.jobs.alone import with_right
from remora.operate.jobs.progress import Progress, ProgressView, shown, with_rate
from remora.operate.jobs.resources import Resources, open_resources
from remora.operate.jobs.runtime import OPENERS, ListedRuntime, Numbered, ask_newest, rate_facts

SAMPLE: Final = 10_000


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample says about the mirror of one source."""

    source: str
    what: str  # ids or documents
    population: int
    sample: int  # those that were answered
    findings: dict[str, int]
    at_most: float  # the share that is missing or stale, at most
    seconds: float
    is_refused: bool = False  # it stopped before the end of the sample

    @property
    def bad(self) -> int:
        """How many of the sample were missing or stale. They are healed."""
        return sum(self.findings.get(str(finding), 0) for finding in BAD)

    @property
    def failure(self) -> RemoraError | None:
        """Why the sample says nothing, or less than it should."""
        if self.is_refused:
            return RemoraError(
                f"{self.source}: stopped, {REFUSED_IN_A_ROW_MAX} requests in a row were refused; is the token still good?",
                hint="`remora try` shows what the provider answers",
            )
        if self.population and not self.sample:
            return RemoraError(
                f"{self.source} was not verified: no request was answered",
                hint="`remora gaps` says why; run it again when the source answers",
            )
        return None

    def sentence(self) -> str:
        """The result in one sentence."""
        if self.population == 0:
            return f"the mirror of {self.source} has no {self.what} yet, so there is nothing to verify"
        if self.sample == 0:
            return f"of {self.population:,} {self.what} nothing is known: no request was answered"
        if self.sample == self.population:
            told = f"{self.bad:,} of {self.population:,} {self.what} were missing or stale (all were read)"
        else:
            told = (
                f"of {self.population:,} {self.what} at most {as_percent(self.at_most)} are missing or stale "
                f"({CONFIDENCE:.0%})".replace("%)", " %)")
            )
        return told


async def verify(settings: Settings, *, source: str, sample: int, view: ProgressView) -> Verified:
    """Read a random sample again. Every request passes the gate, and every difference is healed."""
    configured = settings.sources[source]
    async with open_resources(settings, for_sources=(source,), makes_store=False) as resources:

        async def run() -> Verified:
            async with OPENERS[configured.kind](source, resources) as runtime:
                return await _verify(resources, runtime, sample, view)

        return await with_right(resources, source, run)


async def _verify(resources: Resources, runtime: Numbered | ListedRuntime, sample: int, view: ProgressView) -> Verified:
    chance = random.SystemRandom()
    if isinstance(runtime, Numbered):
        await ask_newest(runtime, resources.store, clock=resources.clock)
        covered = await resources.store.coverage(runtime.name)
        ids = draw_ids(covered, sample, below=chance.randrange)
        chance.shuffle(ids)  # an interrupted run has still read a random sample
        return await _verified(resources, runtime, "ids", len(covered), map(item_again, ids), len(ids), view)
    keys, population = await _draw_keys(resources.store, runtime.name, sample, chance)
    return await _verified(resources, runtime, "documents", population, map(document_again, keys), len(keys), view)


async def _draw_keys(store: Store, source: str, sample: int, chance: random.Random) -> tuple[list[str], int]:
    """Every document as likely as any other, in one pass and without holding them all."""
    keys: list[str] = []
    seen = 0
    async for document in store.documents(source):
        seen += 1
        if len(keys) < sample:
            keys.append(document.key)
        elif (place := chance.randrange(seen)) < sample:
            keys[place] = document.key
    chance.shuffle(keys)
    return keys, seen


async def _verified(
    resources: Resources,
    runtime: Numbered | ListedRuntime,
    what: str,
    population: int,
    wanted: Iterable[Discovery],
    count: int,
    view: ProgressView,
) -> Verified:
    began_ns = resources.clock.monotonic_ns()
    findings: Counter[Finding] = Counter()

    def show() -> None:
        progress = Progress(source=runtime.name, done=findings.total(), total=count)
        elapsed_s = (resources.clock.monotonic_ns() - began_ns) / SECOND_NS
        view.show(with_rate(progress, rate_facts(runtime.governor, resources.meter, runtime.name), elapsed_s=elapsed_s))

    view.say(f"{runtime.name}: reading {count:,} of {population:,} {what} again")
    checking = Verify(runtime.name, runtime.collector, resources.store, width=runtime.settings.in_flight)
    async with shown(show):
        await checking.run(wanted, on_finding=lambda finding: findings.update([finding]))
    answered = findings.total() - findings[Finding.UNANSWERED]
    bad = sum(findings[finding] for finding in BAD)
    return Verified(
        source=runtime.name,
        what=what,
        population=population,
        sample=answered,
        findings={str(finding): findings[finding] for finding in Finding if findings[finding]},
        at_most=share_at_most(bad, answered, population=max(population, answered)),
        seconds=round((resources.clock.monotonic_ns() - began_ns) / SECOND_NS, 3),
        is_refused=checking.is_refused,
    )
