"""What the image and numalign.pyz are made of: pinned, hashed, listed, and made the same way again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.sbom import SCHEMA, document
from release.wheels import LOCK, PYTHONS, locked
from tests.conftest import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def listed(dist: Path) -> dict[str, Any]:
    """The CycloneDX document of `make build`."""
    found: dict[str, Any] = json.loads((dist / "numalign.cdx.json").read_text())
    return found


def sums_listed(listed: dict[str, Any]) -> dict[str, str]:
    """The sha256 of each wheel that the document lists, by the wheel's name."""
    packages = [listed["metadata"]["component"], *listed["components"]]
    files = [file for package in packages for file in package["components"]]
    return {file["name"]: file["hashes"][0]["content"] for file in files}


def test_the_lock_pins_what_pyproject_asks_for_with_hashes_and_names_no_host() -> None:
    text = LOCK.read_text()
    lines = locked(text)
    assert [str(line.requirement) for line in lines if not line.sums] == []
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for line in lines for digest in line.sums)
    assert "/" not in text
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    for python in PYTHONS:
        pins = {canonicalize_name(line.requirement.name): line for line in lines if line.holds(python, "x86_64")}
        for wanted in map(Requirement, project["dependencies"]):
            assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)].version), wanted


def test_what_builds_the_wheel_of_the_image_is_pinned_too() -> None:
    text = (CHECKOUT / "requirements-build.lock").read_text()
    pins = {canonicalize_name(line.requirement.name): line for line in locked(text)}
    assert [name for name, line in pins.items() if not line.sums] == []
    assert "/" not in text
    for wanted in map(
        Requirement, tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["build-system"]["requires"]
    ):
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)].version), wanted


def test_the_pyz_holds_what_the_lock_pins(listed: dict[str, Any]) -> None:
    pinned = {digest for line in locked(LOCK.read_text()) for digest in line.sums}
    others = {name: digest for name, digest in sums_listed(listed).items() if not name.startswith("numalign-")}
    assert others
    assert {name for name, digest in others.items() if digest not in pinned} == set()


def test_the_document_follows_the_schema_of_cyclonedx(dist: Path) -> None:
    assert JsonStrictValidator(SCHEMA).validate_str((dist / "numalign.cdx.json").read_text()) is None


def test_the_document_lists_every_wheel_with_its_licence(dist: Path, listed: dict[str, Any]) -> None:
    with zipfile.ZipFile(dist / "numalign.pyz") as archive:
        wheels = {name.removeprefix("wheels/"): archive.read(name) for name in archive.namelist() if ".whl" in name}
    assert sums_listed(listed) == {name: sha256(content).hexdigest() for name, content in wheels.items()}
    assert [each["name"] for each in listed["components"] if not each["licenses"]] == []
    assert listed["metadata"]["component"]["name"] == "numalign"
    needs = {each["ref"]: each.get("dependsOn", []) for each in listed["dependencies"]}
    (own,) = (needs[ref] for ref in needs if ref.startswith("numalign=="))
    direct = {canonicalize_name(ref.partition("==")[0]) for ref in own}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert direct == {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}


def test_the_document_is_the_same_each_time(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert document(dist / "numalign.pyz") == (dist / "numalign.cdx.json").read_text()
    assert "timestamp" not in document(dist / "numalign.pyz")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert '"timestamp": "2023-11-14T22:13:20+00:00"' in document(dist / "numalign.pyz")


def test_the_checkout_gives_the_wheel_that_the_source_distribution_gives(dist: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--quiet", "--wheel", "--outdir", str(tmp_path), str(CHECKOUT)]
    subprocess.run(command, check=True, cwd=tmp_path)
    (first,), (second,) = dist.glob("*.whl"), tmp_path.glob("*.whl")
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
