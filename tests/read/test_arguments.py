"""Is a wrong argument of the library refused in one sentence, and in the same words whatever the store is?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import remora
from remora.contracts import Store
from remora.core.errors import ConfigurationError
from remora.read.mirror import MirrorReader
from remora.stores import open_store
from tests.contract.answers import ARCHIVE, SOURCE
from tests.read.conftest import fill


class NumberOfNumPy:
    """A whole number that is no `int`, as a column of a DataFrame holds it."""

    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize("wrong", ["1", 1.5, 1.0, None, [1], b"1"])
async def test_an_id_that_is_no_whole_number_is_refused_in_every_store(mirror: MirrorReader, wrong: Any) -> None:
    for read in (mirror.item, mirror.history, mirror.thread):
        with pytest.raises(ConfigurationError, match="item_id is"):
            await read(wrong)
    with pytest.raises(ConfigurationError, match="first_id is"):
        await anext(mirror.items(first_id=wrong))


async def test_whole_numbers_of_other_types_are_ids(mirror: MirrorReader) -> None:
    one: Any = NumberOfNumPy()
    found, thread = await mirror.item(one), await mirror.thread(one)
    assert (found and found.id, thread and thread.item.id) == (1, 1)
    assert [item.id async for item in mirror.items(first_id=one, last_id=one)] == [1]


WRONG: list[tuple[str, Callable[[MirrorReader], Any]]] = [
    ("name is of type int", lambda mirror: mirror.user(5)),  # type: ignore[arg-type]
    ("name holds half of a surrogate pair", lambda mirror: mirror.user("\ud800")),
    ("key is None", lambda mirror: mirror.document(None)),  # type: ignore[arg-type]
    ("source is of type int", lambda mirror: mirror.item(1, source=5)),  # type: ignore[arg-type]
    ("source is of type list", lambda mirror: mirror.item(1, source=["hackernews"])),  # type: ignore[arg-type]
    ("changed_since_ns is of type str", lambda mirror: anext(mirror.items(changed_since_ns="1"))),  # type: ignore[arg-type]
    ("changed_since_ns is of type float", lambda mirror: mirror.table(changed_since_ns=1.5)),  # type: ignore[arg-type]
    ("fetched_since_ns is None", lambda mirror: anext(mirror.documents(fetched_since_ns=None))),  # type: ignore[arg-type]
    ("query is of type bytes", lambda mirror: mirror.search(b"x")),  # type: ignore[arg-type]
    ("limit is None", lambda mirror: mirror.search("x", limit=None)),  # type: ignore[arg-type]
    ("statement is of type int", lambda mirror: mirror.query(5)),  # type: ignore[arg-type]
    ("rows_max is -1", lambda mirror: mirror.query("SELECT 1", rows_max=-1)),
    ("rows_max is of type float", lambda mirror: mirror.query("SELECT 1", rows_max=1.5)),  # type: ignore[arg-type]
    ("seconds_max is nan", lambda mirror: mirror.query("SELECT 1", seconds_max=float("nan"))),
    ("seconds_max is -1", lambda mirror: mirror.query("SELECT 1", seconds_max=-1)),
    ("seconds_max is of type str", lambda mirror: mirror.query("SELECT 1", seconds_max="1")),  # type: ignore[arg-type]
    ("items_max is -1", lambda mirror: mirror.thread(1, items_max=-1)),
    ("since is of type int", lambda mirror: anext(mirror.changes(since=0))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("told, read", WRONG, ids=[told for told, _ in WRONG])
async def test_every_other_wrong_argument_is_refused_in_every_store(
    mirror: MirrorReader, told: str, read: Callable[[MirrorReader], Any]
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        await read(mirror)


async def test_bounds_above_what_a_database_can_count_to_bound_nothing(mirror: MirrorReader) -> None:
    assert (await mirror.query("SELECT 1", rows_max=2**70, seconds_max=float("inf"))).rows == ((1,),)
    assert (await mirror.query("SELECT 1", seconds_max=10**400)).rows == ((1,),)
    assert await mirror.thread(1, items_max=2**70) is not None


async def test_ids_and_moments_beyond_what_a_database_can_count_to_are_before_or_after_everything(
    mirror: MirrorReader,
) -> None:
    ids = [item.id async for item in mirror.items()]
    assert [item.id async for item in mirror.items(first_id=-(2**70), last_id=2**70)] == ids
    assert [item.id async for item in mirror.items(changed_since_ns=-(2**100))] == ids
    assert [item async for item in mirror.items(last_id=-(2**70))] == []
    assert [item async for item in mirror.items(first_id=2**70)] == []
    assert [item async for item in mirror.items(changed_since_ns=2**100)] == []
    assert [document async for document in mirror.documents(fetched_since_ns=2**100)] == []


async def test_a_source_that_the_mirror_does_not_hold_is_refused_with_those_that_it_holds(mirror: MirrorReader) -> None:
    reads = [
        mirror.item(1, source="hackernew"),
        mirror.thread(1, source="hackernew"),
        mirror.user("ada", source="hackernew"),
        mirror.document("chat-1", source="hackernew"),
        mirror.search("fish", source="hackernew"),
        mirror.table(source="hackernew"),
        anext(mirror.items(source="hackernew")),
        anext(mirror.documents(source="hackernew")),
    ]
    for read in reads:
        with pytest.raises(ConfigurationError, match="nothing of a source hackernew") as refused:
            await read
        assert refused.value.hint == f"it holds: {ARCHIVE}, {SOURCE}"


async def test_a_configured_source_that_the_mirror_does_not_hold_yet_is_empty(store: Store, url: str) -> None:
    async with MirrorReader(url, configured=["later"]) as mirror:
        assert await mirror.item(1, source="later") is None
        assert [item async for item in mirror.items(source="later")] == []


async def test_a_mirror_is_opened_by_the_path_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "hn.db"
    store = open_store(f"sqlite:///{path}")
    await store.open()
    await fill(store)
    await store.close()
    async with remora.open(path) as mirror:
        assert await mirror.item(1) is not None
    with remora.open_sync(path) as twin:
        assert twin.item(1) is not None


@pytest.mark.parametrize("wrong", [5, None, b"sqlite:///hn.db"])
def test_what_is_neither_an_address_nor_a_path_is_refused(wrong: Any) -> None:
    for opens in (remora.open, remora.open_sync):
        with pytest.raises(ConfigurationError, match="the store is"):
            opens(wrong)
