"""Can it be installed from its wheel alone? Built as `pipx` and `uv tool` do, and run without the source folder."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow]


def test_the_wheel_holds_everything_and_answers(tmp_path: Path) -> None:
    build = [sys.executable, "-c", "import hatchling.build as b, sys; print(b.build_wheel(sys.argv[1]))", str(tmp_path)]
    if subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True, check=False).returncode:
        build = ["python3", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
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
