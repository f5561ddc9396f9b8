"""How does a file become durable? Written beside its name, synced, renamed, and its folder synced.

A rename is on the disk only when its folder is: without that, a power cut may bring the older file back, or none. A rename
also replaces whatever has the name. So a link is followed first, and what is no regular file is refused.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

# A mirror may hold private documents: only its owner reads what we create. Files that exist keep their mode.
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
USUAL_FILE: Final = 0o666  # what is left of it by the owner's umask

_SORTS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# What a file system says that has no locks, as Lustre or NFS without its lock service.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


class NotAFile(OSError):
    """Something that is there in place of a file. Its `strerror` says what it is."""


def file_to_write(path: Path) -> Path:
    """Where a file of this name belongs: at the end of its links, also if nothing is there yet.

    Raises NotAFile for a folder, pipe, socket or device, and OSError for a link that leads nowhere.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return end_of_links(path)
    _check_regular(mode, path)
    return end_of_links(path)


def stat_of_file(path: Path) -> os.stat_result:
    """Its size and times. Raises NotAFile for a folder, pipe, socket or device: opening a pipe may wait for ever, and none has an end to find."""
    found = path.stat()
    _check_regular(found.st_mode, path)
    return found


def _check_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        raise NotAFile(errno.EEXIST, _SORTS.get(stat.S_IFMT(mode), "not a regular file"), str(path))


def end_of_links(path: Path) -> Path:
    """The name itself, or where its links lead."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def room_for(path: Path) -> int:
    """The free bytes of the disk on which a file lies or would lie, wherever its links lead."""
    disk = os.statvfs(end_of_links(path).parent)
    return disk.f_bavail * disk.f_frsize


def open_alone(path: Path, flags: int) -> int:
    """Open a file or folder that is being written, for one process at a time. Raises BlockingIOError if another has it.

    Closing it lets the next one in. So what is written is given its name, or deleted, before it is closed. On a file
    system without locks nobody is refused.
    """
    while True:
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            _lock(opened)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), path.lstat()):
                    return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)  # another process gave it its name, or deleted it, before we had it


def _lock(opened: int) -> None:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete and on the disk. Only its owner may read it."""
    path = file_to_write(path)
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


def write_new(path: Path, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file that must not exist yet, whole or not at all. Raises FileExistsError if the name is taken."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            sync_file(file)
        sync_path(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


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
