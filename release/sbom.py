"""The list of what numalign.pyz holds, as CycloneDX 1.6: each package with its licence, and the sha256 of its wheels.

It is read off the file itself. Nothing in it is of the moment or by chance, unless SOURCE_DATE_EPOCH gives a moment.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
import zipfile
from collections.abc import Iterable
from datetime import datetime, timezone
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["SCHEMA", "document"]

SCHEMA = SchemaVersion.V1_6
_OWN = "numalign"
_CLASSIFIER = "License :: OSI Approved :: "
_LICENCES = {
    # what packages without a licence expression say of themselves -> SPDX
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}


class Wheel(NamedTuple):
    """A wheel: its file's name, the sha256 of its bytes, and its metadata."""

    name: str
    digest: str
    metadata: Message

    @property
    def package(self) -> tuple[str, str]:
        """Its package's name and version."""
        return canonicalize_name(self.metadata["Name"]), self.metadata["Version"]


def document(pyz: Path) -> str:
    """The document on a file that release.pyz made, as JSON."""
    packages: dict[tuple[str, str], list[Wheel]] = {}
    for wheel in _wheels(pyz):
        packages.setdefault(wheel.package, []).append(wheel)
    components = {package: _component(*package, wheels) for package, wheels in packages.items()}
    (own,) = (component for (name, _), component in components.items() if name == _OWN)
    own.type = ComponentType.APPLICATION
    bom = Bom(
        components=[component for component in components.values() if component is not own],
        metadata=BomMetaData(component=own),
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(pyz.read_bytes()).hexdigest()),
    )
    bom.metadata.timestamp = _moment()  # type: ignore[assignment] # left out, it would be now
    for package, component in components.items():
        needed = _needed(packages[package][0].metadata)
        bom.register_dependency(component, [other for (name, _), other in components.items() if name in needed])
    return f"{make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2)}\n"


def _wheels(pyz: Path) -> Iterable[Wheel]:
    with zipfile.ZipFile(pyz) as archive:
        for name in archive.namelist():
            if name.endswith(".whl"):
                content = archive.read(name)
                with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                    (path,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
                    metadata = Parser().parsestr(wheel.read(path).decode())
                yield Wheel(name.rpartition("/")[2], hashlib.sha256(content).hexdigest(), metadata)


def _component(name: str, version: str, wheels: list[Wheel]) -> Component:
    """A package, and the files in which it is packed."""
    files = [
        Component(
            name=wheel.name,
            type=ComponentType.FILE,
            bom_ref=wheel.name,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel.digest)],
        )
        for wheel in wheels
    ]
    return Component(
        name=name,
        version=version,
        bom_ref=f"{name}=={version}",
        description=wheels[0].metadata["Summary"],
        licenses=[LicenseFactory().make_from_string(_licence(wheels[0].metadata))],
        purl=PackageURL("pypi", None, name, version),
        components=files,
    )


def _licence(metadata: Message) -> str:
    """The SPDX expression of the licence. Raises KeyError where the package says none that is known here."""
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    for line in metadata.get_all("Classifier", []):
        if line.startswith(_CLASSIFIER):
            return _LICENCES[line.removeprefix(_CLASSIFIER)]
    raise KeyError(f"{metadata['Name']} says no licence")


def _needed(metadata: Message) -> set[str]:
    """The names of the packages that it requires on its own, without extras."""
    lines = (Requirement(line) for line in metadata.get_all("Requires-Dist", []))
    return {
        canonicalize_name(line.name) for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})
    }


def _moment() -> datetime | None:
    """The moment of the build, where one was given."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return None if epoch is None else datetime.fromtimestamp(int(epoch), timezone.utc)
