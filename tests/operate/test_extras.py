"""Does a command that lacks an optional library say what to type, for the way it was installed?"""

import shlex
import sys
from pathlib import Path

import pytest

from remora.contracts.extras import install_hint


@pytest.mark.parametrize(
    "marker, command",
    [
        ("pipx_metadata.json", "pipx inject remora 'psycopg[binary]'"),
        ("uv-receipt.toml", "uv tool install --with 'psycopg[binary]' . (in the folder of the source code)"),
    ],
)
def test_each_installer_has_its_own_command(tmp_path: Path, marker: str, command: str) -> None:
    (tmp_path / marker).touch()
    assert install_hint("psycopg[binary]", prefix=tmp_path) == f"install it with: {command}"


def test_without_one_the_pip_of_this_environment_is_named() -> None:
    words = shlex.split(install_hint("pyarrow").removeprefix("install it with: "))
    assert words[1:] == ["-m", "pip", "install", "pyarrow"]
    assert Path(words[0]).samefile(sys.executable)
