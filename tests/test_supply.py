"""Is it known what an installation contains? Pinned with hashes, with licences, and built the same way every time."""

import hashlib
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tools.setup
from tests.docs_reader import ROOT
from tools import sbom

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)(?: ; .*)? \\$", re.MULTILINE)


def hashed() -> dict[str, str]:
    return dict(PINNED.findall((ROOT / "constraints-hashed.txt").read_text()))


def direct() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for extra in sbom.EXTRAS for line in project["optional-dependencies"][extra]]
    return [Requirement(line).name for line in (*project["dependencies"], *extras)]


def test_every_extra_that_an_owner_may_choose_is_accounted_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(sbom.EXTRAS) == set(project["optional-dependencies"]) - {"bench", "dev"}


def test_every_hashed_package_has_the_version_of_the_constraints() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    differing = {name: version for name, version in hashed().items() if pinned.get(name, version) != version}
    assert not differing, "`make sbom` writes constraints-hashed.txt again"
    assert set(direct()) <= set(hashed()), "`make sbom` writes constraints-hashed.txt again"


def test_every_hashed_package_has_a_hash_and_no_address() -> None:
    text = (ROOT / "constraints-hashed.txt").read_text()
    packages = text.split("\n    --hash=sha256:")
    assert text.count("--hash=sha256:") >= len(hashed()) > 0
    assert "://" not in text
    assert all(re.match(r"[0-9a-f]{64}\b", rest) for rest in packages[1:])


def test_every_package_of_an_installation_has_a_known_licence() -> None:
    packages = sbom.installed()
    assert {name.lower() for name in direct()} <= {sbom.normal(one.metadata["Name"]) for one in packages}
    assert [one.metadata["Name"] for one in packages if sbom.licence(one) == "unknown"] == []
    assert (ROOT / "docs/licences.md").read_text() == sbom.licence_page(packages), "`make sbom` writes it again"


def test_the_bill_of_materials_names_every_package_with_its_version() -> None:
    packages = sbom.installed()
    bill = json.loads(json.dumps(sbom.bill(packages)))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [(one["name"], one["version"]) for one in bill["components"]] == [
        (package.metadata["Name"], package.version) for package in packages
    ]
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"])


@pytest.mark.slow
def test_a_wheel_that_is_built_twice_is_the_same_file(tmp_path: Path) -> None:
    hashes = set()
    for number in ("one", "two"):
        command = [str(tools.setup.UV), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path / number), str(ROOT)]
        environment = os.environ | tools.setup.uv_environment()
        built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if built.returncode:
            pytest.skip(f"no wheel can be built here: {built.stderr.strip()[-200:]}")
        (wheel,) = (tmp_path / number).glob("*.whl")
        hashes.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(hashes) == 1
