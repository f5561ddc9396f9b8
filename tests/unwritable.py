"""How does a test stand where nothing may be written? In a folder of this kind, as a user whom that stops."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter: pytest's own are private to this user."""
    made = Path(tempfile.mkdtemp(prefix="remora-unwritable-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Nobody may write here while the block runs; root, whom nothing stops, becomes somebody smaller."""
    is_root = os.geteuid() == 0
    folder.chmod(0o555)
    if is_root:
        for file in folder.iterdir():
            file.chmod(0o644)  # what we create is private; its owner lets others read it
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
