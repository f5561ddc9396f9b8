"""Which comments does a thread have, and when? A story or poll, its comments, and those that are moved in and out."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from remora.sim.cast import BLOCK_IDS, DRAW_MAX, PARENT, RANK, Cast
from remora.sim.lives import NEVER_NS, Lives

_TOP_LEVEL: Final = int(0.4 * DRAW_MAX)  # comments that reply to the story itself


class Reply(NamedTuple):
    """A comment in a thread, and from when until when it is there."""

    item_id: int
    from_ns: int
    until_ns: int
    rank: int


@dataclass(frozen=True, slots=True)
class Thread:
    """All replies of one story, by parent, in ranking order."""

    parents: dict[int, int]  # comment -> what it replies to, before any move
    replies: dict[int, list[Reply]]
    moments: list[int]  # when a comment appears in the thread or is moved away, ascending
    settled_ns: int  # from then on nothing changes
    settled_kids: dict[int, list[int]]
    settled_size: int

    def kids(self, parent: int, now_ns: int) -> list[int]:
        """The replies that are visible now, best first."""
        if now_ns >= self.settled_ns:
            return self.settled_kids.get(parent, [])
        return [reply.item_id for reply in self.replies.get(parent, []) if reply.from_ns <= now_ns < reply.until_ns]

    def size(self, now_ns: int) -> int:
        """How many comments the thread holds now."""
        if now_ns >= self.settled_ns:
            return self.settled_size
        return sum(len(self.kids(parent, now_ns)) for parent in self.replies)

    def next_change_ns(self, now_ns: int) -> int:
        """When the thread changes next."""
        at = bisect_right(self.moments, now_ns)
        return self.moments[at] if at < len(self.moments) else NEVER_NS


def build_thread(cast: Cast, lives: Lives, story: int, assigned_ns: Callable[[int], int]) -> Thread:
    """The thread of a story, from the two blocks that can hold its comments."""
    parents: dict[int, int] = {}
    replies: dict[int, list[Reply]] = {}
    earlier: list[int] = []  # comments that can be replied to; never one that will be moved away
    for number in (story // BLOCK_IDS, story // BLOCK_IDS + 1):
        joined, block = cast.replies(number), cast.block(number)
        for comment in joined.members.get(story, ()):
            own, at_ns = block.own(comment), assigned_ns(comment)
            parent = parents[comment] = _parent(story, earlier, own[PARENT])
            until_ns = NEVER_NS
            if comment in joined.moves_to:
                until_ns = lives.moved_ns(own, at_ns)
            else:
                earlier.append(comment)
            reply = Reply(comment, lives.visible_ns(own, at_ns), until_ns, own[RANK])
            replies.setdefault(parent, []).append(reply)
        for comment in joined.adopted.get(story, ()):
            own = block.own(comment)
            arrival = Reply(comment, lives.moved_ns(own, assigned_ns(comment)), NEVER_NS, own[RANK])
            replies.setdefault(story, []).append(arrival)
    for children in replies.values():
        if len(children) > 1:
            children.sort(key=_best_first)
    return _settled(parents, replies)


def _parent(story: int, earlier: list[int], draw: int) -> int:
    """A comment replies to the story or to an earlier comment, preferring recent ones."""
    if draw < _TOP_LEVEL or not earlier:
        return story
    return earlier[len(earlier) - 1 - draw % len(earlier) * (draw & 0xFF) // 256]


def _settled(parents: dict[int, int], replies: dict[int, list[Reply]]) -> Thread:
    every = [reply for children in replies.values() for reply in children]
    moments = sorted({moment for reply in every for moment in (reply.from_ns, reply.until_ns) if moment < NEVER_NS})
    kids = {
        parent: [reply.item_id for reply in children if reply.until_ns == NEVER_NS]
        for parent, children in replies.items()
    }
    return Thread(
        parents=parents,
        replies=replies,
        moments=moments,
        settled_ns=moments[-1] if moments else 0,
        settled_kids=kids,
        settled_size=sum(len(children) for children in kids.values()),
    )


def _best_first(reply: Reply) -> int:
    return -reply.rank
