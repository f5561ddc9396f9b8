"""How is an optional library added to this installation? pipx, uv and pip each have their own command."""

import shlex
import sys
from pathlib import Path


def install_hint(package: str, *, prefix: Path | None = None) -> str:
    """What to type; `prefix` is the environment that Remora runs in."""
    prefix = Path(sys.prefix) if prefix is None else prefix
    quoted = shlex.quote(package)
    if (prefix / "pipx_metadata.json").exists():
        return f"install it with: pipx inject remora {quoted}"
    if (prefix / "uv-receipt.toml").exists():
        return f"install it with: uv tool install --with {quoted} . (in the folder of the source code)"
    return f"install it with: {shlex.quote(str(prefix / 'bin' / 'python'))} -m pip install {quoted}"
