"""Which parts of `make prove` ran on this commit already? It takes hours; what was interrupted goes on with the next part."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

PROGRESS: Final = Path("build/prove.json")


class Progress(msgspec.Struct):
    """What ran on one commit, and whether it was well."""

    of: str
    parts: dict[str, bool] = {}


def source_commit() -> str | None:
    """The commit of the package; None if there is none, or if the package was changed since: then nothing is skipped."""
    git = shutil.which("git")
    if git is None or subprocess.run([git, "diff", "--quiet", "HEAD", "--", "src"], check=False).returncode != 0:
        return None
    told = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or None


def run_parts(parts: Mapping[str, Callable[[], bool]], *, of: str | None, tell: Callable[[str], None]) -> bool:
    """Run each part that did not run on this commit yet. Whether all of them were well, the earlier ones too."""
    progress = _read(of)
    for name, run in parts.items():
        if name in progress.parts:
            tell(f"{name}: ran on this commit already, {'well' if progress.parts[name] else 'NOT well'}")
            continue
        progress.parts[name] = run()
        if of is not None:
            PROGRESS.parent.mkdir(exist_ok=True)
            PROGRESS.write_bytes(msgspec.json.encode(progress))
    if all(name in progress.parts for name in parts):
        PROGRESS.unlink(missing_ok=True)  # whole: the next call begins anew
    return all(progress.parts.values())


def _read(of: str | None) -> Progress:
    if of is None or not PROGRESS.exists():
        return Progress(of or "")
    progress = msgspec.json.decode(PROGRESS.read_bytes(), type=Progress)
    return progress if progress.of == of else Progress(of)
