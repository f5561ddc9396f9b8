"""Do the files for containers, systemd and shells name what exists? The same commands, checked without a builder."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from remora.operate.cli.main import main

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "deploy" / "compose" / "compose.yml"
UNITS: Final = ("remora.service", "remora-catchup.service", "remora-catchup.timer")


def lists_after(word: str, text: str) -> list[list[str]]:
    """The JSON lists of a word, as `CMD [...]` or `command: [...]`."""
    return [json.loads(found) for found in re.findall(rf"^\s*{word} (\[.*\])$", text, re.MULTILINE)]


def test_what_the_image_copies_exists() -> None:
    text = (ROOT / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text()
    for words in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        for name in words.split()[:-1]:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name


def test_what_a_container_runs_is_a_command() -> None:
    commands = lists_after("CMD", (ROOT / "Dockerfile").read_text())[-1:] + lists_after("command:", COMPOSE.read_text())
    assert len(commands) == 3
    for words in commands:
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0, words


def test_a_container_without_a_console_is_not_asked_for_its_health() -> None:
    worker = COMPOSE.read_text().partition("\n  worker:\n")[2].partition("\n\n")[0]
    assert "/health" in (ROOT / "Dockerfile").read_text()
    assert "    healthcheck: { disable: true }" in worker


def test_what_compose_mounts_from_the_repository_exists() -> None:
    mounted = re.findall(r"(\.\./[\w./-]+):", COMPOSE.read_text())
    assert len(mounted) == 4
    assert [name for name in mounted if not (COMPOSE.parent / name).exists()] == []


def test_the_linter_finds_nothing_wrong_with_the_image(hadolint_path: Path) -> None:
    done = subprocess.run([hadolint_path, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for name in UNITS:
        text = (ROOT / "deploy" / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/remora/bin/remora", "/bin/true"))
    words = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert f"_REMORA_COMPLETE={shell}_complete" in script.output
