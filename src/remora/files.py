"""How does a file become durable? Written beside its name, synced, renamed, and its folder synced.

A rename is on the disk only when its folder is: without that, a power cut may bring the older file back, or none.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

# A mirror may hold private documents: only its owner reads what we create. Files that exist keep their mode.
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete and on the disk. Only its owner may read it."""
    part = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as file:
            yield file
            sync_file(file)
        put_in_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, or replace it. A crash leaves the old content or the new one."""
    with whole_file(path) as file:
        file.write(content)


def put_in_place(part: Path, path: Path) -> None:
    """Give a complete file or folder its name, for good."""
    part.replace(path)
    sync_path(path.parent)


def sync_file(file: BinaryIO) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_path(path: Path) -> None:
    """Wait until a closed file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_tree(folder: Path) -> None:
    """Wait until a folder and everything in it is on the disk."""
    for path in folder.rglob("*"):
        sync_path(path)
    sync_path(folder)
