"""Is the example of a plug-in whole? It is built, installed into a folder, tested by its own tests, and mirrors over HTTP."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.counting_server import CountingServer, Wire, WireRequest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plug-in"
UV = Path(sys.executable).with_name("uv")
REPORTS = {"zrh": b"dry\nEND\n", "gva": b"wet\nEND\n", "st.gallen": b"snow\nEND\n"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, as an owner's environment would hold it."""
    folder = tmp_path_factory.mktemp("plug-in")
    offline = ("--offline", "--no-build-isolation", "--python", sys.executable)
    build = [str(UV), "build", "--quiet", "--wheel", *offline, "--out-dir", str(folder / "dist"), str(EXAMPLE)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    target = ("--target", str(folder / "installed"))
    install = [
        str(UV),
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        sys.executable,
        *target,
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "installed"


def command(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    arguments = [sys.executable, *words]
    return subprocess.run(arguments, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_its_own_tests_pass_against_the_installed_package(installed: Path) -> None:
    options = ("-q", "-n0", "-p", "no:cacheprovider", "-o", "addopts=")
    finished = command(installed, EXAMPLE, "-m", "pytest", *options, str(EXAMPLE / "tests"))
    assert finished.returncode == 0, finished.stdout
    assert "3 passed" in finished.stdout


async def serve(request: WireRequest, wire: Wire) -> None:
    """The three reports, two stations to a page."""
    path, _, query = request.target.partition("?")
    names = sorted(REPORTS)
    if path == "/stations.txt":
        seen = query.rpartition("after=")[2]
        lines = [f"{name} 2026-01-02T03:04Z\n" for name in names if name > seen][:2]
        await wire.answer("".join(lines).encode() + b"END\n")
    else:
        await wire.answer(REPORTS[path.removeprefix("/reports/").removesuffix(".txt")])


async def test_an_owner_installs_it_and_runs_it(installed: Path, tmp_path: Path) -> None:
    async with CountingServer(serve) as server:
        url = server.url("").rstrip("/")
        (tmp_path / "remora.toml").write_text(f'[sources.weather]\nurl = "{url}"\nceiling = "100/s"\n')
        run = await asyncio.to_thread(command, installed, tmp_path, "-m", "remora", "run", "weather")
        assert run.returncode == 0, run.stderr
        shown = await asyncio.to_thread(command, installed, tmp_path, "-m", "remora", "show", "st.gallen")
        assert "snow" in shown.stdout, shown.stderr
    # An empty page ends the list.
    assert sorted(request.target.rpartition("=")[2] for request in server.requests if "after" in request.target) == [
        "",
        "st.gallen",
        "zrh",
    ]
    assert server.count == 6


def test_without_the_package_the_source_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "remora.toml").write_text('[sources.weather]\npreset = "weather"\n')
    refused = command(tmp_path, tmp_path, "-m", "remora", "check")
    assert refused.returncode == 2
    assert refused.stderr == "remora: sources.weather.preset is 'weather'\n  there are: hackernews\n"
