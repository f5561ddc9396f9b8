"""Does PostgreSQL answer every call of a random world as the store did in which the world ran?

Virtual time and a real server do not go together: waiting for it would be a jump. So a world runs in memory, every call of
its processes is recorded, and PostgreSQL is asked the same, in the same order.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import msgspec
import pytest

from remora.core.errors import StoreError
from remora.core.ledger.gap import Gap, GapState
from remora.core.reasons import GapReason
from remora.core.units import MILLISECOND_NS
from remora.sim.fuzz import lives
from remora.sim.fuzz.judge import NAME
from remora.sim.fuzz.scenario import Scenario, draw
from remora.sim.fuzz.world import judge_world
from remora.stores.memory import MemoryStore
from remora.stores.postgres import PostgresStore

# Numbered and listed ones, some with several processes. They are quick; any world with the store "memory" will do.
SEEDS = (3, 42, 50, 53, 66)
COUNTED = {GapState.OWED, GapState.LEASED, GapState.DEAD}


class Call(NamedTuple):
    """One call of a store, and what came of it: a value, or the type of an error."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    came: object


class InMilliseconds(MemoryStore):
    """Leases gaps in the order of the databases: they keep milliseconds, and count turns among the open gaps."""

    async def lease_gaps(
        self, source: str, *, owner: str, limit: int, lease_ns: int, now_ns: int, without: Sequence[GapReason] = ()
    ) -> Sequence[Gap]:
        for row in self._open_gaps(source):
            row.gap = replace(
                row.gap, first_seen_ns=_whole(row.gap.first_seen_ns), not_before_ns=_whole(row.gap.not_before_ns)
            )
        return await super().lease_gaps(
            source, owner=owner, limit=limit, lease_ns=lease_ns, now_ns=_whole(now_ns), without=without
        )

    def count_turns(self, source: str) -> None:
        """Go on counting after the last turn of the gaps that are open."""
        counted = (row.served_turn for row in self._open_gaps(source) if row.gap.state in COUNTED)
        self._tables.turn = max(counted, default=0)


def _whole(time_ns: int) -> int:
    return time_ns // MILLISECOND_NS * MILLISECOND_NS


class Recording:
    """A store in memory that writes down every call."""

    def __init__(self, calls: list[Call]) -> None:
        self._store = InMilliseconds()
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not iscoroutinefunction(value):
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            if args:
                self._store.count_turns(args[0])
            call = Call(name, *deepcopy((args, kwargs)), None)
            try:
                came = await value(*args, **kwargs)
            except StoreError as error:
                self._calls.append(call._replace(came=type(error)))
                raise
            self._calls.append(call._replace(came=deepcopy(came)))
            return came

        return call


def recorded(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[Recording, Sequence[Call]]:
    """The calls of all processes of a world, in their order, and the store that they leave."""
    calls: list[Call] = []
    store = Recording(calls)
    monkeypatch.setattr(lives, "MemoryStore", lambda: store)
    verdict = judge_world(scenario)
    assert not verdict.violations, verdict
    return store, [call for call in calls if call.name not in {"open", "close"}]


def shown(value: Any) -> Any:
    """A value as every store shows it: the databases keep milliseconds, and a sequence may be a list or a tuple."""
    match value:
        case msgspec.Struct():
            return _fields(value, value.__struct_fields__)
        case list() | tuple():
            return [shown(each) for each in value]
        case dict():
            return {key: shown(each) for key, each in value.items()}
        case _ if is_dataclass(value):
            return _fields(value, [field.name for field in fields(value)])
        case _:
            return value


def _fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in names}
    return {
        name: each // MILLISECOND_NS if name.endswith("_ns") and isinstance(each, int) else shown(each)
        for name, each in found.items()
    }


async def differences(url: str, world: Recording, calls: Sequence[Call]) -> list[str]:
    """Where PostgreSQL answers these calls in another way, or holds something else in the end."""
    store, found = PostgresStore(url, callers_clock=True), []
    await store.open()
    try:
        for number, call in enumerate(calls):
            try:
                came = await getattr(store, call.name)(*call.args, **call.kwargs)
            except StoreError as error:
                came = type(error)
            if shown(came) != shown(call.came):
                found.append(f"{number} {call.name}{call.args}{call.kwargs}: {shown(came)}, not {shown(call.came)}")
        for name in ("bodies", "documents"):
            held = [each async for each in getattr(store, name)(NAME)]
            if shown(held) != shown([each async for each in getattr(world, name)(NAME)]):
                found.append(f"{name} differ in the end")
    finally:
        await store.close()
    return found


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_postgresql_answers_the_calls_of_a_world_as_memory_does(
    seed: int, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, calls = recorded(draw(seed), monkeypatch)
    assert len(calls) > 100
    assert asyncio.run(differences(postgres_url, world, calls)) == []
