"""Is a planted bug caught? It is applied to a copy of the package, and the fuzzer tries seeds until a promise breaks."""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import remora
from tests.mutants.table import Mutant

PACKAGE = Path(remora.__file__).parent
ROOT = Path(__file__).resolve().parent.parent.parent
CAUGHT = Path(__file__).with_name("caught.json")
LIMIT_S = 120  # of processor time, which is one minute on two cores: a busy machine changes nothing
WAIT_S = 3_600  # real time, for a bug that makes a world wait for ever
_SEED = re.compile(r"^seed (\d+): .*: violated\n  (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Caught:
    """The world in which a planted bug was seen."""

    seed: int
    seconds: float
    violation: str


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package with the bug in it."""
    shutil.copytree(PACKAGE, folder / "remora", ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in planted(mutant).items():
        (folder / "remora" / file).write_text(text)
    return folder


def planted(mutant: Mutant) -> dict[str, str]:
    """The files with the bug in them."""
    texts: dict[str, str] = {}
    for file, before, after in ((mutant.file, mutant.before, mutant.after), *mutant.also):
        text = texts.get(file) or (PACKAGE / file).read_text()
        assert text.count(before) == 1, f"{file} has changed: {mutant.breaks} cannot be planted"
        texts[file] = text.replace(before, after)
    return texts


def _run(
    words: Sequence[str], package: Path, *, cwd: Path, limit_s: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module with the package of this folder, for at most so many seconds of processor time."""

    def limit() -> None:
        if limit_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 2))

    return subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
        preexec_fn=limit,
    )


def is_seen_by_its_test(mutant: Mutant) -> bool:
    """Whether the test that its row names fails because of it."""
    with tempfile.TemporaryDirectory(prefix="remora-mutant-") as folder:
        words = ["pytest", "-q", "-n0", "-p", "no:cacheprovider", mutant.seen_by]
        done = _run(words, plant(mutant, Path(folder)), cwd=ROOT)
    assert done.returncode in {0, 1}, f"{mutant.seen_by} cannot run: {done.stdout[-500:]}"
    return done.returncode == 1


def known() -> dict[str, Caught]:
    """The world in which each bug was seen last; it is tried first."""
    return msgspec.json.decode(CAUGHT.read_bytes(), type=dict[str, Caught]) if CAUGHT.exists() else {}


def keep_caught(found: Mapping[str, Caught | None]) -> None:
    """Remember the worlds of these bugs, and forget those of bugs that were not seen."""
    kept = {breaks: one for breaks, one in sorted({**known(), **found}.items()) if one is not None}
    CAUGHT.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def catch(mutant: Mutant, *, seed: int | None = None, limit_s: int = LIMIT_S) -> Caught | None:
    """The first world that shows the bug; None when none did in time. Where nobody says, the world that did last time."""
    last = known().get(mutant.breaks)
    seed = (1 if last is None else last.seed) if seed is None else seed
    before_s = _children_s()
    with tempfile.TemporaryDirectory(prefix="remora-mutant-") as folder:
        words = ["remora.sim.fuzz", "--first", "--seed", str(seed), "--worlds", "100000", "--workers", "0"]
        words += ["--where", "size=small", *mutant.where]
        done = _run(words, plant(mutant, Path(folder)), cwd=Path(folder), limit_s=limit_s)
    seen = _SEED.search(done.stdout)
    if seen is None:
        assert done.returncode != 1, f"{mutant.breaks}: no world could run: {done.stderr[-2_000:]}"
        return None
    return Caught(int(seen[1]), round(_children_s() - before_s, 1), seen[2])


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
