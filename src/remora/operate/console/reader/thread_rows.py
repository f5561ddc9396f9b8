"""How is a tree of any depth written as nested HTML? As rows in reading order that say how many levels end before them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from remora.contracts.reader import MirroredItem
from remora.read.safe_html import safe_html
from remora.read.thread import ThreadNode

# Browsers nest at most about 500 elements. Deeper replies follow at this level and name what they answer.
DEPTH_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """One reply of a thread."""

    item: MirroredItem
    html: Markup
    depth: int
    closes: int  # how many open levels end before this row
    below: int  # how many replies are below it
    node: ThreadNode
    answers: int | None  # what it answers, where the nesting does not show it
    was: bool  # its earlier content is in the history

    @property
    def is_broken(self) -> bool:
        """Whether something is wrong with the replies to it."""
        return bool(self.node.missing or self.node.elsewhere or self.node.cycles or self.node.is_cut)


def thread_rows(thread: ThreadNode) -> tuple[Sequence[ThreadRow], int]:
    """Every reply below the root, and how many levels are open at the end."""
    walked = list(thread.walk())
    below = _sizes(walked)
    rows: list[ThreadRow] = []
    open_levels = 0
    for place, (depth, node) in enumerate(walked[1:], start=1):
        level = min(depth, DEPTH_MAX)
        rows.append(
            ThreadRow(
                item=node.item,
                html=Markup(safe_html(node.item.text or "")),  # noqa: S704 - it was just made safe
                depth=level,
                closes=open_levels - level + 1,
                below=below[place],
                node=node,
                answers=node.item.parent if depth > DEPTH_MAX else None,
                was=node.item.revision > 1,
            )
        )
        open_levels = level
    return rows, open_levels


def _sizes(walked: Sequence[tuple[int, ThreadNode]]) -> list[int]:
    """How many nodes are below each one, from the last to the first."""
    sizes = [0] * len(walked)
    waiting: list[tuple[int, int]] = []  # depth and size of subtrees whose parent comes earlier
    for place in range(len(walked) - 1, -1, -1):
        depth = walked[place][0]
        total = 0
        while waiting and waiting[-1][0] > depth:
            total += waiting.pop()[1] + 1
        sizes[place] = total
        waiting.append((depth, total))
    return sizes
