"""In which order do ready requests depart, and how long does a long queue last?"""

import asyncio
from typing import cast

from remora.core.lanes import Lane
from remora.gate.departure_queue import DepartureQueue, ReadyRequest
from remora.gate.permit import Gate, GovernedPermit

READY = 200


def permit(lane: Lane) -> GovernedPermit:
    return GovernedPermit(cast("Gate", None), lane, admitted_at_ns=0, pace_bound=False)


async def test_a_long_queue_that_nothing_holds_back_departs_in_a_few_ticks() -> None:
    queue, departed, ticks = DepartureQueue(), list[ReadyRequest](), 0
    standing = [queue.join(permit(Lane.BACKFILL)) for _ in range(READY)]

    async def depart(mine: ReadyRequest) -> None:
        await queue.until_first(mine)
        departed.append(mine)
        queue.leave(mine)

    tasks = [asyncio.ensure_future(depart(mine)) for mine in reversed(standing)]
    while len(departed) < READY:
        await asyncio.sleep(0)
        ticks += 1
    await asyncio.gather(*tasks)
    assert departed == standing
    assert ticks <= 20


async def test_who_is_woken_before_it_is_first_waits_on() -> None:
    queue, departed = DepartureQueue(), list[str]()
    first, second, third = (queue.join(permit(Lane.BACKFILL)) for _ in range(3))

    async def depart(name: str, mine: ReadyRequest, held: asyncio.Event) -> None:
        await queue.until_first(mine)
        await held.wait()
        departed.append(name)
        queue.leave(mine)

    free, held = asyncio.Event(), asyncio.Event()
    free.set()
    tasks = [asyncio.ensure_future(depart("third", third, free)), asyncio.ensure_future(depart("second", second, held))]
    await asyncio.sleep(0)
    queue.leave(first)
    for _ in range(5):
        await asyncio.sleep(0)
    assert departed == []
    held.set()
    await asyncio.gather(*tasks)
    assert departed == ["second", "third"]
