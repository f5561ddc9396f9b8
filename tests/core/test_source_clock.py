"""Is the source's own clock read right, whatever single items claim?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remora.core.ledger.source_clock import BLOCK_ITEMS, Timed, first_id_since, time_of

ABSURD = st.one_of(st.just(0), st.integers(min_value=10**11, max_value=10**15), st.integers(-(10**9), -1))


def block(items: list[Timed], last_id: int) -> list[Timed]:
    return [item for item in reversed(items) if item.item_id <= last_id][:BLOCK_ITEMS]


def search(items: list[Timed], time_s: int) -> tuple[int | None, int]:
    """The answer, and how many blocks were read for it."""
    asking = first_id_since(time_s, newest_id=items[-1].item_id)
    asked, blocks = next(asking), 1
    while True:
        try:
            asked = asking.send(block(items, asked))
        except StopIteration as found:
            answer: int | None = found.value
            return answer, blocks
        blocks += 1


@st.composite
def sane_histories(draw: st.DrawFn, *, least: int = 1) -> list[Timed]:
    steps = draw(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 100)), min_size=least, max_size=least + 60))
    item_id, time_s, items = 0, 1_000_000_000, []
    for id_step, time_step in steps:
        item_id, time_s = item_id + id_step, time_s + time_step
        items.append(Timed(item_id, time_s))
    return items


@given(sane_histories(), st.integers(1_000_000_000 - 50, 1_000_000_000 + 6_000))
def test_where_times_only_grow_the_answer_is_exact(items: list[Timed], time_s: int) -> None:
    expected = min((item.item_id for item in items if item.time_s >= time_s), default=None)
    assert search(items, time_s)[0] == expected


@given(sane_histories(), st.integers(1_000_000_000, 1_000_000_000 + 6_000))
def test_the_search_reads_few_blocks(items: list[Timed], time_s: int) -> None:
    assert search(items, time_s)[1] <= 2 + 2 * (items[-1].item_id + 64).bit_length()


@pytest.mark.slow
@given(
    sane_histories(least=4 * BLOCK_ITEMS),
    st.data(),
    st.integers(1_000_000_000, 1_000_000_000 + 6_000),
)
def test_one_absurd_time_moves_the_answer_by_less_than_a_block(
    items: list[Timed], data: st.DataObject, time_s: int
) -> None:
    position = data.draw(st.integers(0, len(items) - 1))
    spoiled = [*items]
    spoiled[position] = Timed(items[position].item_id, data.draw(ABSURD))
    places = {item.item_id: place for place, item in enumerate(items)}
    before, after = search(items, time_s)[0], search(spoiled, time_s)[0]
    here = len(items) if before is None else places[before]
    there = len(items) if after is None else places[after]
    assert abs(here - there) <= BLOCK_ITEMS


@given(st.lists(st.integers(-100, 100), min_size=8, max_size=15), st.lists(ABSURD, max_size=7))
def test_a_few_absurd_times_never_become_the_time_of_a_place(sane: list[int], absurd: list[int]) -> None:
    times = [1_000_000_000 + offset for offset in sane] + absurd[: len(sane) - 1]
    told = time_of([Timed(place, time_s) for place, time_s in enumerate(times)])
    assert told is not None
    assert 1_000_000_000 - 100 <= told <= 1_000_000_000 + 100


def test_an_empty_place_has_no_time() -> None:
    assert time_of([]) is None
