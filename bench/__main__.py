"""Which benches are there, and what do they say? `python -m bench` runs all, `python -m bench NAME…` some of them."""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benches() -> dict[str, str]:
    """Every module and package here that can be run, with the question it answers."""
    found = {}
    for path in sorted([*HERE.glob("*.py"), *HERE.glob("*/__main__.py")]):
        name = path.parent.name if path.name == "__main__.py" else path.stem
        if path.parent == HERE and name in {HERE.name, "__init__"}:
            continue
        source = path.read_text()
        if "def main(" in source or path.name == "__main__.py":
            found[name] = (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]
    return found


def main() -> None:
    """Run each bench as a process of its own, one after the other: they must not disturb each other."""
    known = benches()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*known, []], help="; ".join(known))
    parser.add_argument("--list", action="store_true", help="name the benches and what they answer")
    arguments = parser.parse_args()
    if arguments.list:
        for name, question in known.items():
            print(f"{name:12} {question}")
        return
    failed = []
    for name in arguments.name or known:
        print(f"\n## {name}: {known[name]}\n", flush=True)
        command = [sys.executable, "-m", f"bench.{name}"]
        if subprocess.run(command, check=False, cwd=HERE.parent).returncode:  # noqa: S603 - our own modules
            failed.append(name)
    sys.exit(f"bench: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
