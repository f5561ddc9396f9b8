"""What does an installation contain, and under which licences? `make sbom` writes a CycloneDX file and two lists.

build/remora.cdx.json      the bill of materials in CycloneDX 1.6, for scanners
docs/licences.md           every package of an installation, with version and licence
constraints-hashed.txt     the same packages with the hashes of their files, for `pip install --require-hashes`

It reads the metadata of the installed packages, so it needs no further tool. The hashes come from the package index.
"""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import tools.setup

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("postgres", "export", "mcp")  # what somebody who runs Remora may choose; not what its developers need
BILL = ROOT / "build" / "remora.cdx.json"
LICENCES = ROOT / "docs" / "licences.md"
HASHED = ROOT / "constraints-hashed.txt"
_CLASSIFIER = re.compile(r"License :: OSI Approved :: (.+)")
_LICENCE_MAX = 60  # longer: it is the text of the licence instead of its name


def main() -> int:
    """Write all three files; 1 if the hashes could not be had."""
    packages = installed()
    BILL.parent.mkdir(exist_ok=True)
    BILL.write_text(json.dumps(bill(packages), indent=1) + "\n")
    LICENCES.write_text(licence_page(packages))
    print(f"sbom: {len(packages)} packages; {BILL.relative_to(ROOT)} and {LICENCES.relative_to(ROOT)} are written")
    if not write_hashes():
        print("sbom: the package index gave no hashes; constraints-hashed.txt is unchanged", file=sys.stderr)
        return 1
    print(f"sbom: {HASHED.relative_to(ROOT)} is written")
    return 0


def installed() -> list[Distribution]:
    """Remora's own requirements and theirs, by name."""
    found: dict[str, Distribution] = {}
    waiting = [("remora", frozenset(EXTRAS))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        package = distribution(name)
        if name != "remora":
            found[normal(name)] = package
        for text in package.requires or ():
            requirement = Requirement(text)
            if _is_wanted(requirement, extras):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return [found[name] for name in sorted(found)]


def _is_wanted(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def licence(package: Distribution) -> str:
    """The name of its licence, from the newest field of its metadata that has one."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    told = [match[1] for line in metadata.get_all("Classifier", []) if (match := _CLASSIFIER.match(line))]
    if told:
        return " or ".join(told)
    text = metadata["License"].strip() if "License" in metadata else ""
    text = text or "unknown"
    return text if len(text) <= _LICENCE_MAX else "see its files"


def bill(packages: list[Distribution]) -> dict[str, object]:
    """The bill of materials. It has no date and no random number: the same packages give the same file."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "remora",
                "version": distribution("remora").version,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [
            {
                "type": "library",
                "name": package.metadata["Name"],
                "version": package.version,
                "purl": f"pkg:pypi/{normal(package.metadata['Name'])}@{package.version}",
                "licenses": [{"license": {"name": licence(package)}}],
            }
            for package in packages
        ],
    }


def licence_page(packages: list[Distribution]) -> str:
    """The list for people."""
    rows = [f"| {package.metadata['Name']} | {package.version} | {licence(package)} |" for package in packages]
    extras = ", ".join(f"`{extra}`" for extra in EXTRAS)
    return "\n".join(
        [
            "# Licences",
            "",
            f"What an installation of Remora with the extras {extras} contains.",
            "Written by `make sbom` from the metadata of the packages; do not edit. Remora itself is under the Apache License 2.0.",
            "",
            "| package | version | licence |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def write_hashes() -> bool:
    """The same versions as in constraints.txt, with the hash of every file of theirs."""
    command = [str(tools.setup.UV), "pip", "compile", "--quiet", "pyproject.toml", "--constraint", "constraints.txt"]
    command += [part for extra in EXTRAS for part in ("--extra", extra)]
    command += ["--universal", "--generate-hashes", "--no-annotate", "--no-header", "--output-file", str(HASHED)]
    environment = os.environ | tools.setup.uv_environment()
    command += ["--index-strategy", "unsafe-best-match", "--upgrade"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL).returncode == 0


def normal(name: str) -> str:
    """The name as the package index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
