"""Who is who among the ids? Roles and reply structure, made block by block from the seed, never all at once.

Ids are cut into blocks. A block's draws and roles depend on nothing but the seed and its number. A comment replies
within a thread whose story stands in the same block or in the one before, so everything about a thread is known from
two or three neighbouring blocks, whatever the size of the world.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from hashlib import shake_128
from typing import Final

BLOCK_IDS: Final = 1_024
DRAWS: Final = 16  # numbers of 32 bits for each id
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


_COMMENTS: Final = 0.845
_STORIES: Final = _COMMENTS + 0.148
_JOBS: Final = _STORIES + 0.005
_POLLS: Final = _JOBS + 0.001
_OPTIONS_MIN: Final = 2
_OPTIONS_SPREAD: Final = 4
_MOVES_FROM: Final = DRAW_MAX - DRAW_MAX // 500  # one in five hundred comments
_NO_ID: Final = -1


Draws = Sequence[int]  # the draws of one id


@dataclass(frozen=True, slots=True)
class Block:
    """The roles of one block, independent of every other block."""

    first_id: int
    draws: "array[int]"
    roles: list[Role]
    stories: list[tuple[int, int]]  # what can be commented on (stories and polls), each with its popularity
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
        self.block = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_block)
        self.replies = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_replies)

    def role(self, item_id: int) -> Role:
        return self.block(item_id // BLOCK_IDS).role(item_id)

    def own(self, item_id: int) -> Draws:
        """The draws of one id."""
        return self.block(item_id // BLOCK_IDS).own(item_id)

    def poll_of(self, option_id: int) -> int:
        """The poll an option belongs to."""
        block = self.block(option_id // BLOCK_IDS)
        return next(poll for poll, options in block.options.items() if option_id in options)

    def _make_block(self, number: int) -> Block:
        draws = array("I", shake_128(f"{self._seed}/{number}".encode()).digest(BLOCK_IDS * DRAWS * 4))
        block = Block(number * BLOCK_IDS, draws, [], [], {})
        options_left, poll = 0, 0
        for item_id in range(block.first_id, block.first_id + BLOCK_IDS):
            own = block.own(item_id)
            role = self._role(block, item_id, own, option=options_left > 0)
            block.roles.append(role)
            match role:
                case Role.POLL:
                    poll, options_left = item_id, _OPTIONS_MIN + own[EXTRA] % _OPTIONS_SPREAD
                    block.options[poll] = []
                    block.stories.append((item_id, own[RANK]))
                case Role.POLLOPT:
                    block.options[poll].append(item_id)
                    options_left -= 1
                case Role.STORY:
                    block.stories.append((item_id, own[RANK]))
                case Role.COMMENT | Role.JOB | Role.STUB | Role.ABSENT:
                    pass
        return block

    def _role(self, block: Block, item_id: int, own: Draws, *, option: bool) -> Role:
        if item_id == 0 or own[EXTRA] < self._absent_below:
            return Role.ABSENT
        if option:
            return Role.POLLOPT
        draw = own[ROLE] / DRAW_MAX
        # The first of its block is a story, so that there is always something to comment on.
        if draw < _COMMENTS and block.stories:
            return Role.COMMENT
        if draw < _STORIES:
            return Role.STORY
        if draw < _JOBS:
            return Role.JOB
        return Role.POLL if draw < _POLLS else Role.STUB

    def _make_replies(self, number: int) -> Replies:
        block = self.block(number)
        candidates = list(self.block(number - 1).stories) if number > 0 else []
        coming = iter([*block.stories, (_NO_ID, 0)])
        story = next(coming)
        replies = Replies()
        for item_id, role in enumerate(block.roles, start=block.first_id):
            if item_id == story[0]:
                candidates.append(story)
                story = next(coming)
            elif role is Role.COMMENT:
                _join(replies, item_id, candidates, block.own(item_id))
        return replies


def _join(replies: Replies, comment: int, candidates: list[tuple[int, int]], own: Draws) -> None:
    """Put a comment into a thread: newer stories get more of them, and of two the more popular one does."""
    count, draw = len(candidates), own[THREAD]
    high, low = draw >> 16, draw & 0xFFFF
    first = candidates[count - 1 - (count * high * high >> 32)]
    second = candidates[count - 1 - (count * low * low >> 32)]
    story = first[0] if first[1] >= second[1] else second[0]
    replies.members.setdefault(story, []).append(comment)
    replies.story_of[comment] = story
    if moves(own[FATE]):
        target = candidates[own[EXTRA] % count][0]
        if target != story:
            replies.adopted.setdefault(target, []).append(comment)
            replies.moves_to[comment] = target


def moves(fate_draw: int) -> bool:
    """Whether a comment with this fate will be moved to another thread."""
    return fate_draw >= _MOVES_FROM
