"""Does `verify` tell the truth? A sample is read again, and every finding is compared with what the provider sent."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from remora.core.errors import ConfigurationError
from remora.core.ledger.discovery import Discovery
from remora.core.ledger.sampling import draw_ids
from remora.core.units import DAY_NS, HOUR_NS
from remora.loops.verify import Finding, Verify, document_again, item_again
from remora.sim.fuzz.forms import Details, truth
from remora.sim.fuzz.judge import NAME
from remora.sim.fuzz.lives import Home, Running

SAMPLE: Final = 12
IDLE_NS: Final = 3 * HOUR_NS
LIST_IDLE_NS: Final = 2 * DAY_NS


async def verify_some(home: Home, running: Running) -> None:
    """Read some things again, one after the other, after a while in which nothing was collected and the world went on."""
    chance, store = Random(f"verified/{home.scenario.seed}"), running.given.store
    is_numbered = home.scenario.shape.paging is None
    await home.clock.sleep_until(home.clock.monotonic_ns() + (IDLE_NS if is_numbered else LIST_IDLE_NS))
    if is_numbered:
        for item_id in draw_ids(await store.coverage(NAME), SAMPLE, below=chance.randrange):
            await _verify_item(home, running, item_id)
        return
    keys = [document.key async for document in store.documents(NAME)]
    if home.scenario.form.details is Details.INLINE:
        await _be_refused(home, running, keys)
        return
    for key in chance.sample(keys, k=min(SAMPLE, len(keys))):
        await _verify_document(home, running, key)


async def _be_refused(home: Home, running: Running, keys: Sequence[str]) -> None:
    """Documents that only their list holds have no address: to ask for one would make it look deleted."""
    requests = home.stage.requests
    with suppress(ConfigurationError):
        await Verify(NAME, running.collector, running.given.store, width=1).run(map(document_again, keys[:1]))
    if home.stage.requests > requests:
        home.judge.fail("verify asks for a document that only its list holds")


async def _find_out(running: Running, discovery: Discovery) -> Finding:
    (finding,) = await Verify(NAME, running.collector, running.given.store, width=1).run([discovery])
    return finding


async def _verify_item(home: Home, running: Running, item_id: int) -> None:
    stage, store, began_ns = home.stage, running.given.store, home.clock.true_ns()
    before, absences = await store.item(NAME, item_id), stage.absences[item_id]
    finding = await _find_out(running, item_again(item_id))
    sent_ns, body = stage.latest.get(item_id, (-1, b""))
    if sent_ns >= began_ns:
        held = None if before is None else before.body
        _compare(home, finding, _expected(home, item_id, held, body), f"item {item_id}")
        after = await store.item(NAME, item_id)
        if after is None or after.body != body:
            home.judge.fail(f"verify read item {item_id}, said {finding}, and did not store it")
    elif stage.absences[item_id] > absences:
        _compare(home, finding, Finding.SAME if before is None else Finding.GONE, f"item {item_id}")
    else:
        _compare(home, finding, Finding.UNANSWERED, f"item {item_id}")


def _expected(home: Home, item_id: int, held: bytes | None, body: bytes) -> Finding:
    if held is None or held == body:
        return Finding.MISSING if held is None else Finding.SAME
    content = home.judge.content_of
    return Finding.COUNTS if content(item_id, held) == content(item_id, body) else Finding.STALE


async def _verify_document(home: Home, running: Running, key: str) -> None:
    archive, store = home.stage.provider.archive, running.given.store
    assert archive is not None
    form, before = home.scenario.form, await store.document(NAME, key)
    assert before is not None, "it was listed a moment ago"
    body = truth(form, archive, home.clock.true_ns()).get(key)
    finding = await _find_out(running, document_again(key))
    if truth(form, archive, home.clock.true_ns()).get(key) != body or finding is Finding.UNANSWERED:
        return  # it changed meanwhile, or the hidden limit refused it
    if body is None:
        _compare(home, finding, Finding.GONE, key)
        return
    _compare(home, finding, Finding.SAME if body == before.body else Finding.STALE, key)
    after = await store.document(NAME, key)
    if after is None or after.body != body:
        home.judge.fail(f"verify read {key}, said {finding}, and did not store it")


def _compare(home: Home, finding: Finding, expected: Finding, what: str) -> None:
    if finding is not expected:
        home.judge.fail(f"verify calls {what} {finding}, and it is {expected}")
