"""How large is each table, without reading all of it? Random descents through its pages, from the root to a leaf.

A SQLite table or index is a tree of pages, and every leaf is equally deep. The product of the numbers of children along a
random path estimates how many leaves there are (Knuth 1975, "Estimating the efficiency of backtrack programs"). Two hundred
descents are within a few percent, whatever the size of the file. Pages are read from the file itself: what is only in the
write-ahead log is not seen, and a page that is being written is left out. A tree of one page is counted exactly.

A process of its own reads them: closing the file would free the locks that SQLite holds on it in this one (POSIX).
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DESCENTS: Final = 200
DEPTH_MAX: Final = 20
_SEED: Final = 0  # the same file gives the same answer
_HEADER_BYTES: Final = 100
_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE = 2, 5, 10, 13
_KINDS: Final = frozenset({_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE})


@dataclass(frozen=True, slots=True)
class TreeSize:
    """About how many pages a tree has, with those of long values, and how many entries its leaves have."""

    pages: float
    entries: float
    is_leaf: bool = False  # the root is the whole tree: nothing was estimated


class PageSample:
    """The pages of one SQLite file, read one by one."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        header = os.pread(self._file, _HEADER_BYTES, 0)
        size = int.from_bytes(header[16:18], "big")
        self.page_bytes = 65_536 if size == 1 else size
        self._usable = self.page_bytes - header[20]
        self._random = random.Random(_SEED)  # noqa: S311 - a sample, no secret

    def tree(self, root: int) -> TreeSize | None:
        """The size of the tree below a root page; None if it cannot be read now."""
        first = self._descend(root)
        is_leaf = first is not None and first.is_leaf
        found = [first, *(self._descend(root) for _ in range(0 if is_leaf else DESCENTS))]
        read = [each for each in found if each is not None]
        if not read:
            return None
        return TreeSize(sum(each.pages for each in read) / len(read), sum(each.entries for each in read) / len(read))

    def _descend(self, root: int) -> TreeSize | None:
        """What one random path says about the whole tree."""
        number, alike, pages, entries = root, 1.0, 1.0, 0.0  # how many pages are like this one
        for _ in range(DEPTH_MAX):
            page = self._page(number)
            if page is None:
                return None
            start = _HEADER_BYTES if number == 1 else 0
            kind, cells = page[start], _number(page, start + 3, 2)
            if kind != _INTERIOR_TABLE:  # its cells hold no values
                pages += alike * self._overflow_pages(page, start, cells)
                entries += alike * cells
            if kind in {_LEAF_INDEX, _LEAF_TABLE}:
                return TreeSize(pages, entries, is_leaf=number == root)
            child = self._random.randrange(cells + 1)
            place = start + 8 if child == cells else _number(page, start + 12 + 2 * child, 2)
            number = _number(page, place, 4)
            alike *= cells + 1
            pages += alike
        return None

    def _page(self, number: int) -> bytes | None:
        page = os.pread(self._file, self.page_bytes, (number - 1) * self.page_bytes) if number > 0 else b""
        is_whole = len(page) == self.page_bytes and page[_HEADER_BYTES if number == 1 else 0] in _KINDS
        return page if is_whole else None

    def _overflow_pages(self, page: bytes, start: int, cells: int) -> int:
        """How many pages the long values of a page take beside it."""
        kind = page[start]
        array, value = (12, 4) if kind == _INTERIOR_INDEX else (8, 0)  # a child's number comes first
        places = (_number(page, start + array + 2 * cell, 2) + value for cell in range(cells))
        return sum(self._overflow(_varint(page, place), is_table=kind == _LEAF_TABLE) for place in places)

    def _overflow(self, size: int, *, is_table: bool) -> int:
        """The rule of SQLite's file format: how many pages a value of this size takes beside its leaf."""
        usable = self._usable
        local_max = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if size <= local_max:
            return 0
        local_min = (usable - 12) * 32 // 255 - 23
        local = local_min + (size - local_min) % (usable - 4)
        rest = size - (local if local <= local_max else local_min)
        return -(-rest // (usable - 4))


def estimated_sizes(path: Path, trees: Iterable[tuple[str, str, int]]) -> tuple[int, Mapping[str, TreeSize]]:
    """The bytes of a page, and by table its pages with those of its indexes, and its rows.

    Of each tree its name, its table and its root page.
    """
    asked = json.dumps([str(path.absolute()), list(trees)]).encode()
    # This file needs the standard library only, so the other process starts at once.
    done = subprocess.run([sys.executable, "-I", __file__], input=asked, stdout=subprocess.PIPE, check=True)  # noqa: S603
    page_bytes, found = json.loads(done.stdout)
    return page_bytes, {table: TreeSize(pages, rows) for table, (pages, rows) in found.items()}


def _answer(asked: bytes) -> bytes:
    path, trees = json.loads(asked)
    found: dict[str, tuple[float, float]] = {}
    sample = PageSample(path)
    for name, table, root in trees:
        tree = sample.tree(root)
        if tree is not None:
            pages, rows = found.get(table, (0.0, 0.0))
            found[table] = (pages + tree.pages, tree.entries if name == table else rows)
    return json.dumps([sample.page_bytes, found]).encode()


def _number(page: bytes, place: int, size: int) -> int:
    return int.from_bytes(page[place : place + size], "big")


def _varint(page: bytes, place: int) -> int:
    """SQLite's variable-length integer, of at most nine bytes."""
    value = 0
    for byte in page[place : place + 8]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value
    return value << 8 | page[place + 8] if place + 8 < len(page) else value


if __name__ == "__main__":
    sys.stdout.buffer.write(_answer(sys.stdin.buffer.read()))
