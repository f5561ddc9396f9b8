"""What is each id, and what does it reply to? Roles and threads, made from the seed one block at a time.

Ids are divided into blocks. A block's draws and roles depend only on the seed and the block's number. The story of a
comment is in the same block or in the one before, so two or three neighbouring blocks tell everything about a thread,
whatever the size of the world.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from hashlib import shake_128
from itertools import accumulate, count, islice
from typing import Final

BLOCK_IDS: Final = 1_024
DRAWS: Final = 16  # 32-bit numbers for each id
DRAW_MAX: Final = 1 << 32
_BLOCKS_KEPT: Final = 64

# What each of an id's draws decides.
ROLE, THREAD, PARENT, VISIBILITY, LATENESS, TEXT, LENGTH, FATE = range(8)
FATE_AGE, SCORE, RANK, ODD, ODD_KIND, REVIVAL, TITLE, EXTRA = range(8, 16)


class Role(IntEnum):
    """What an id is."""

    COMMENT = 0
    STORY = 1
    JOB = 2
    POLL = 3
    POLLOPT = 4
    STUB = 5
    ABSENT = 6  # null for ever


_SHARES: Final = (0.845, 0.148, 0.005, 0.001)  # comments, stories, jobs, polls; the rest are stubs
_EDGES: Final = tuple(edge * DRAW_MAX for edge in accumulate(_SHARES))
_BY_SHARE: Final = (Role.COMMENT, Role.STORY, Role.JOB, Role.POLL, Role.STUB)
_OPTIONS_MIN: Final = 2
_OPTIONS_SPREAD: Final = 4
_MOVES_FROM: Final = DRAW_MAX - DRAW_MAX // 500  # one in five hundred comments
_COMMENTED: Final = (Role.STORY, Role.POLL)
_NO_ID: Final = -1


Draws = Sequence[int]  # the draws of one id


@dataclass(frozen=True, slots=True)
class Block:
    """The roles of one block, independent of every other block."""

    first_id: int
    draws: "array[int]"
    roles: list[Role]
    stories: list[tuple[int, int]]  # stories and polls, each with its popularity; comments reply to these
    options: dict[int, list[int]]  # poll -> its options

    def role(self, item_id: int) -> Role:
        return self.roles[item_id - self.first_id]

    def own(self, item_id: int) -> Draws:
        """The draws of one id."""
        at = (item_id - self.first_id) * DRAWS
        return self.draws[at : at + DRAWS]


@dataclass(frozen=True, slots=True)
class Replies:
    """Which comments of one block belong to which story, in id order."""

    members: dict[int, list[int]] = field(default_factory=dict)
    adopted: dict[int, list[int]] = field(default_factory=dict)  # story -> comments that will be moved under it
    story_of: dict[int, int] = field(default_factory=dict)
    moves_to: dict[int, int] = field(default_factory=dict)


class Cast:
    """Roles and threads by id."""

    def __init__(self, seed: int, *, absent_share: float) -> None:
        self._seed = seed
        self._absent_below = int(absent_share * DRAW_MAX)
        self.draws = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_draws)
        self.block = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_block)
        self.replies = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_replies)

    def role(self, item_id: int) -> Role:
        return self.block(item_id // BLOCK_IDS).role(item_id)

    def own(self, item_id: int) -> Draws:
        """The draws of one id, without making the roles of its block."""
        at = item_id % BLOCK_IDS * DRAWS
        return self.draws(item_id // BLOCK_IDS)[at : at + DRAWS]

    def is_absent(self, item_id: int) -> bool:
        """Whether this id has no item."""
        return item_id < 1 or self.own(item_id)[EXTRA] < self._absent_below

    def poll_of(self, option_id: int) -> int:
        """The poll an option belongs to."""
        block = self.block(option_id // BLOCK_IDS)
        return next(poll for poll, options in block.options.items() if option_id in options)

    def _make_draws(self, number: int) -> "array[int]":
        return array("I", shake_128(f"{self._seed}/{number}".encode()).digest(BLOCK_IDS * DRAWS * 4))

    def _make_block(self, number: int) -> Block:
        """Looking at one id makes its whole block, so the common work is done in bulk."""
        draws = self.draws(number)
        extras = draws[EXTRA::DRAWS]
        roles = [_BY_SHARE[bisect_right(_EDGES, draw)] for draw in draws[ROLE::DRAWS]]
        for at in [at for at, extra in enumerate(extras) if extra < self._absent_below]:
            roles[at] = Role.ABSENT
        first_id = number * BLOCK_IDS
        if first_id == 0:
            roles[0] = Role.ABSENT
        _let_a_story_be_first(roles)
        options = {
            first_id + poll: [first_id + at for at in parts] for poll, parts in _lay_out_polls(roles, extras).items()
        }
        ranks = draws[RANK::DRAWS]
        stories = [(first_id + at, ranks[at]) for at, role in enumerate(roles) if role in _COMMENTED]
        return Block(first_id, draws, roles, stories, options)

    def _make_replies(self, number: int) -> Replies:
        """Put every comment into a thread: draw two stories, newer ones more often; the more popular one gets it."""
        block = self.block(number)
        candidates = list(self.block(number - 1).stories) if number > 0 else []
        coming = iter([*block.stories, (_NO_ID, 0)])
        story = next(coming)
        replies = Replies()
        members, story_of = defaultdict[int, list[int]](list), replies.story_of
        picks, fates = block.draws[THREAD::DRAWS], block.draws[FATE::DRAWS]
        for item_id, role, draw, fate in zip(count(block.first_id), block.roles, picks, fates, strict=False):
            if item_id == story[0]:
                candidates.append(story)
                story = next(coming)
            elif role is Role.COMMENT:
                high, low, size = draw >> 16, draw & 0xFFFF, len(candidates)
                first = candidates[size - 1 - (size * high * high >> 32)]
                second = candidates[size - 1 - (size * low * low >> 32)]
                chosen = first[0] if first[1] >= second[1] else second[0]
                members[chosen].append(item_id)
                story_of[item_id] = chosen
                if fate >= _MOVES_FROM:
                    _let_move(replies, item_id, candidates[block.own(item_id)[EXTRA] % size][0])
        replies.members.update(members)
        return replies


def _let_a_story_be_first(roles: list[Role]) -> None:
    """Make the first comment a story if no story or poll comes before it: comments need something to reply to."""
    for at, role in enumerate(roles):
        if role is Role.COMMENT:
            roles[at] = Role.STORY
        if role in (Role.COMMENT, *_COMMENTED):
            return


def _lay_out_polls(roles: list[Role], extras: "array[int]") -> dict[int, list[int]]:
    """Turn the ids after a poll into its options, whatever their role was; only absent ids stay absent."""
    polls: dict[int, list[int]] = {}
    for poll in [at for at, role in enumerate(roles) if role is Role.POLL]:
        if roles[poll] is Role.POLL:  # not turned into an option of an earlier poll
            wanted = _OPTIONS_MIN + extras[poll] % _OPTIONS_SPREAD
            polls[poll] = list(
                islice((at for at in range(poll + 1, BLOCK_IDS) if roles[at] is not Role.ABSENT), wanted)
            )
            for at in polls[poll]:
                roles[at] = Role.POLLOPT
    return polls


def _let_move(replies: Replies, comment: int, target: int) -> None:
    """Plan to move the comment under another story."""
    if target != replies.story_of[comment]:
        replies.adopted.setdefault(target, []).append(comment)
        replies.moves_to[comment] = target


def moves(fate_draw: int) -> bool:
    """Whether a comment with this fate will be moved to another thread."""
    return fate_draw >= _MOVES_FROM
