"""How does a machine with only python3 and pip get everything this project needs? By running this file.

It makes `.venv`, puts the pinned packages and Remora itself (editable) into it, and leaves a stamp, so that the next
call returns at once until `pyproject.toml` or `constraints.txt` changes. It needs nothing but the standard library.
"""

import ast
import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
STAMP = VENV / "remora-setup.stamp"
INPUTS = ("pyproject.toml", "constraints.txt", "tools/setup.py")
OLDEST_PYTHON = (3, 11)


def main() -> int:
    """Bring `.venv` up to date; answer 0 when it is, 1 when it cannot be."""
    if sys.version_info < OLDEST_PYTHON:
        say(f"Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer is needed; this is {sys.version.split()[0]}")
        return 1
    # Two calls at once would build the same environment twice, into each other.
    with (ROOT / "pyproject.toml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return bring_up_to_date()


def bring_up_to_date() -> int:
    """Build what the stamp does not vouch for."""
    wanted = fingerprint()
    if VENV_PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return 0
    STAMP.unlink(missing_ok=True)
    make_environment()
    say("installing the pinned packages")
    if not install("--editable", f"{ROOT}[dev]"):
        say("the packages could not be installed; the messages above say why")
        return 1
    STAMP.write_text(wanted)
    say("ready: .venv/bin/remora")
    return 0


def fingerprint() -> str:
    """One value that changes whenever the environment has to be built again."""
    digest = hashlib.sha256(f"{sys.version} {ROOT}".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def make_environment() -> None:
    """Create the virtual environment, without a pip of its own: that is most of the time it takes."""
    if VENV_PYTHON.exists():
        return
    say("creating .venv")
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)], check=True)


def install(*requested: str) -> bool:
    """Install at the pinned versions: with uv, which takes seconds, else with pip, which takes half a minute."""
    pinned = ["--constraint", str(ROOT / "constraints.txt"), *requested]
    if UV.exists() or run(pip("install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), "uv")):
        uv = [str(UV), "pip", "install", "--quiet", "--python", str(VENV_PYTHON)]
        # pip takes the best match of all its indexes; so shall uv.
        if run([*uv, "--index-strategy", "unsafe-best-match", *pinned], extra_environment=uv_environment()):
            return True
    say("uv did not work here, so pip does it")
    return run(pip("install", "--quiet", *pinned))


def pip(*arguments: str) -> list[str]:
    """A command line for the machine's pip that acts on our environment."""
    command = [sys.executable, "-m", "pip", "--python", str(VENV_PYTHON), "--disable-pip-version-check"]
    return [*command, *arguments]


def uv_environment() -> dict[str, str]:
    """The machine's pip settings in uv's words, because uv does not read pip's configuration."""
    settings = pip_settings()
    names = {
        "index-url": ("UV_DEFAULT_INDEX", " "),
        "extra-index-url": ("UV_INDEX", " "),
        "find-links": ("UV_FIND_LINKS", ","),
        "trusted-host": ("UV_INSECURE_HOST", " "),
        "default-timeout": ("UV_HTTP_TIMEOUT", ""),
        "timeout": ("UV_HTTP_TIMEOUT", ""),
        "cert": ("SSL_CERT_FILE", ""),
    }
    return {
        variable: separator.join(settings[name].split())
        for name, (variable, separator) in names.items()
        if name in settings and variable not in os.environ
    } | ({"UV_NO_INDEX": "1"} if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"} else {})


def pip_settings() -> dict[str, str]:
    """The settings pip would use for an install, the strongest of each name."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    strength = {"global": 0, "install": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        key, separator, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if not separator or section not in strength:
            continue
        try:
            text = str(ast.literal_eval(value))
        except (SyntaxError, ValueError):
            continue
        if strength[section] >= found.get(name, (-1, ""))[0]:
            found[name] = (strength[section], text)
    return {name: text for name, (_, text) in found.items()}


def run(command: list[str], *, extra_environment: dict[str, str] | None = None, check: bool = False) -> bool:
    """Run a command with its output on our terminal; answer whether it succeeded."""
    environment = os.environ | (extra_environment or {})
    return subprocess.run(command, env=environment, check=check).returncode == 0


def say(message: str) -> None:
    """One line on the terminal about what is happening."""
    print(f"setup: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
