"""Can it be installed from its wheel alone? Built as `pipx` and `uv tool` do, and run without the source folder."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools import setup

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-c", "import hatchling.build as b, sys; print(b.build_wheel(sys.argv[1]))", str(folder)]
    if subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True, check=False).returncode:
        build = ["python3", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_everything_and_answers(wheel: Path, tmp_path: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "remora").rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} - names == set()
    # The dependencies come from this environment, the package itself from the wheel.
    paths = os.pathsep.join((str(wheel), sysconfig.get_paths()["purelib"]))
    words = [sys.executable, "-S", "-c", "import remora; print(remora.__file__)"]
    told = subprocess.run(
        words, cwd=tmp_path, env={"PYTHONPATH": paths}, capture_output=True, text=True, check=True, timeout=60
    )
    assert wheel.name in told.stdout


def test_uvx_runs_the_demo_from_the_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    if not setup.UV.exists():
        pytest.skip("`make setup` could not get uv on this machine")
    empty = tmp_path / "empty"
    empty.mkdir()
    uvx = [str(setup.UV), "tool", "run", "--index-strategy", "unsafe-best-match", "--python", sys.executable]
    words = [*uvx, "--constraints", str(ROOT / "constraints.txt"), "--from", str(wheel), "remora"]
    environment = os.environ | setup.uv_environment() | {"UV_TOOL_DIR": str(tmp_path / "tools")}
    words += ["up", "--demo", "--listen", "127.0.0.1:0"]
    told: list[str] = []
    with subprocess.Popen(words, cwd=empty, env=environment, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            told.append(line)
            if "the console is at" in line:
                demo.send_signal(signal.SIGINT)
    if demo.returncode and ("Failed to fetch" in "".join(told) or "Request failed" in "".join(told)):
        pytest.skip(f"the package registry cannot be reached: {told[-1]}")
    assert "the console is at http://127.0.0.1:" in "".join(told)
    assert "stopped on request" in "".join(told)
    assert demo.returncode == 0
    assert [path.name for path in empty.iterdir()] == ["demo"]
