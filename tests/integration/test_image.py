"""Does the image work? Built where a builder is, otherwise its own steps are run outside of a container."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import simulated_provider

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE = ROOT / "deploy" / "compose" / "compose.yml"
POLL_S = 0.2
WAIT_S = 600  # only guards against a process that hangs
UNREACHABLE = ("Could not find a version", "No matching distribution", "Connection", "Failed to establish")
pytestmark = [pytest.mark.slow]


def step(word: str, start: str = "") -> str:
    """The arguments of the Dockerfile's instruction that begins like this, without its own options."""
    (found,) = re.findall(rf"^\s*{word} (?:--\S+ +)*({start}.*)$", DOCKERFILE, re.MULTILINE)
    return str(found).strip()


def environment(folder: Path, *options: str) -> Path:
    """A fresh Python, as that of the base image; its programs are in the folder that is returned."""
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True, timeout=WAIT_S)
    return folder / "bin"


def pip(pip_of: Path, line: str, wheels: Path, *, into: Path) -> None:
    """Run a step that calls pip, with the wheels in another folder than the image's."""
    name, *words = shlex.split(line.replace("/wheels", str(wheels)))
    assert name == "pip"
    command = [str(pip_of / "python"), "-m", "pip", "--python", str(into / "python"), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr


@contextmanager
def container(programs: Path, folder: Path, words: list[str]) -> Iterator[str]:
    """What the image runs, in its folder for data; gives the port of the console."""
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = [str(programs / step("ENTRYPOINT").strip('[]"')), *words]
    with subprocess.Popen(command, cwd=folder, env=path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            told = next(line for line in process.stderr if "console_listening" in line)
            yield json.loads(told)["url"].rpartition(":")[2]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    assert process.returncode == 0


def becomes_healthy(command: list[str]) -> bool:
    """Whether the health check succeeds within its start period. The first answers may be 503: nothing was read yet."""
    (start_period_s,) = re.findall(r"--start-period=(\d+)s", DOCKERFILE)
    end_s = time.monotonic() + int(start_period_s)
    while time.monotonic() < end_s:
        if subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False).returncode == 0:
            return True
        time.sleep(POLL_S)
    return False


def has_builder() -> bool:
    """Whether there is Docker and its service runs: the program alone builds nothing."""
    return shutil.which("docker") is not None and subprocess.run(["docker", "info"], check=False).returncode == 0


def build() -> None:
    """Let a builder build the image and read the compose file."""
    compose = ["docker", "compose", "-f", str(COMPOSE), "--profile", "postgres", "--profile", "watch", "config", "-q"]
    for words in (["docker", "build", "-q", str(ROOT)], compose):
        assert subprocess.run(words, timeout=WAIT_S, check=False).returncode == 0, words


def test_the_image_is_built_where_a_builder_is_and_its_steps_install_a_healthy_service(tmp_path: Path) -> None:
    if has_builder():
        build()
    wheels = tmp_path / "wheels"
    first_stage, second_stage = environment(tmp_path / "build"), environment(tmp_path / "final", "--without-pip")
    pip(first_stage, step("RUN", "pip wheel"), wheels, into=first_stage)
    pip(first_stage, step("RUN", "pip install").partition("&&")[0], wheels, into=second_stage)
    data = tmp_path / "data"
    data.mkdir()
    with simulated_provider(items=20) as provider:
        (data / "remora.toml").write_text(f'[sources.hackernews]\nurl = "{provider.url}"\n', "utf-8")
        listening = json.loads(re.findall(r'^CMD (\["up".*\])$', DOCKERFILE, re.MULTILINE)[0])
        words = [word.replace(":8611", ":0") for word in listening]
        assert words != listening
        with container(second_stage, data, words) as port:
            (healthy,) = re.findall(r'CMD (\["python".*\])$', DOCKERFILE, re.MULTILINE)
            probe = [word.replace(":8611", f":{port}") for word in json.loads(healthy)]
            assert probe[-1] != json.loads(healthy)[-1]
            assert becomes_healthy([str(second_stage / probe[0]), *probe[1:]])
    assert (data / "remora.db.token").exists()
