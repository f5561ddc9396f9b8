"""What does a whole thread look like? An item with all replies below it, and every place where the tree is broken."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from remora.contracts.reader import MirroredItem, Reader

THREAD_ITEMS_MAX: Final = 10_000
# Parents asked for at once: the largest level of a real thread has about a thousand.
_PARENTS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ThreadNode:
    """One item of a thread with its replies, in the provider's order. Breaks name ids that are not shown here."""

    item: MirroredItem
    replies: tuple["ThreadNode", ...] = ()
    missing: tuple[int, ...] = ()  # named as replies, but the mirror does not hold them
    elsewhere: tuple[int, ...] = ()  # named as replies, but they name another parent
    cycles: tuple[int, ...] = ()  # name this one as their parent, but are above it
    is_cut: bool = False  # more replies may follow: the thread has more items than were asked for

    def walk(self) -> Iterator[tuple[int, "ThreadNode"]]:
        """This node and all below it, each with its depth, in reading order."""
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting.extend((depth + 1, reply) for reply in reversed(node.replies))

    @property
    def size(self) -> int:
        """How many items the thread has."""
        return sum(1 for _ in self.walk())


@dataclass(slots=True)
class _Found:
    """What is known while the tree is collected."""

    items: dict[int, MirroredItem]
    replies: dict[int, list[int]] = field(default_factory=dict)
    cycles: dict[int, list[int]] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    kids: dict[int, tuple[int, ...]] = field(default_factory=dict)


async def read_thread(reader: Reader, root: MirroredItem, *, items_max: int = THREAD_ITEMS_MAX) -> ThreadNode:
    """The item and everything below it, level by level, at most `items_max` items."""
    found = _Found({root.id: root})
    level = [root.id]
    while level:
        level = await _next_level(reader, root.source, level, found, items_max)
    found.kids.update((item.id, item.kids) for item in found.items.values())  # each body is parsed once
    named = {kid for kids in found.kids.values() for kid in kids if kid not in found.items}
    strays = await _held(reader, root.source, sorted(named))
    return _tree(root.id, found, strays)


async def _next_level(reader: Reader, source: str, level: list[int], found: _Found, items_max: int) -> list[int]:
    """Adds the replies to one level; returns their ids."""
    below: list[int] = []
    for start in range(0, len(level), _PARENTS_AT_ONCE):
        parents = level[start : start + _PARENTS_AT_ONCE]
        room = items_max - len(found.items)
        replies = await reader.replies(source, parents, limit=room + 1)
        if len(replies) > room:
            found.cut.update(parents)
        for item in replies[:room]:
            assert item.parent is not None, "it was found by its parent"
            if item.id in found.items:
                found.cycles.setdefault(item.parent, []).append(item.id)
                continue
            found.items[item.id] = item
            found.replies.setdefault(item.parent, []).append(item.id)
            below.append(item.id)
    return below


async def _held(reader: Reader, source: str, ids: Sequence[int]) -> frozenset[int]:
    held: set[int] = set()
    for start in range(0, len(ids), _PARENTS_AT_ONCE):
        held.update(item.id for item in await reader.items(source, ids[start : start + _PARENTS_AT_ONCE]))
    return frozenset(held)


def _tree(root_id: int, found: _Found, strays: frozenset[int]) -> ThreadNode:
    """Built from the leaves up, without recursion: a thread may be deeper than Python's stack."""
    order, waiting = list[int](), [root_id]
    while waiting:
        item_id = waiting.pop()
        order.append(item_id)
        waiting.extend(found.replies.get(item_id, ()))
    nodes: dict[int, ThreadNode] = {}
    for item_id in reversed(order):
        nodes[item_id] = _node(found.items[item_id], found, strays, nodes)
    return nodes[root_id]


def _node(item: MirroredItem, found: _Found, strays: frozenset[int], nodes: Mapping[int, ThreadNode]) -> ThreadNode:
    kids = found.kids[item.id]
    places = {kid: place for place, kid in enumerate(kids)}
    mine = sorted(found.replies.get(item.id, ()), key=lambda reply: (places.get(reply, len(kids)), reply))
    is_cut = item.id in found.cut
    shown = set(mine)
    others = [kid for kid in places if kid not in shown]
    here = {kid for kid in others if kid in found.items or kid in strays}
    cycles = found.cycles.get(item.id, [])
    return ThreadNode(
        item,
        replies=tuple(nodes[reply] for reply in mine),
        missing=tuple(kid for kid in others if kid not in here),
        elsewhere=() if is_cut else tuple(kid for kid in others if kid in here and kid not in cycles),
        cycles=tuple(cycles),
        is_cut=is_cut,
    )
