"""Makes numalign.pyz, the single file for nodes that have Python and nothing else.

It holds the very wheels that requirements.lock names, for each Python that it runs on, and release/numalign_pyz, which
unpacks them. The same wheels give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import time
import zipfile
from pathlib import Path

from numalign import __version__
from release.wheels import PYTHONS, fetch

__all__ = ["USUAL", "made", "pack"]

USUAL = "x86_64"
"""The machine of numalign.pyz; the file for another has the machine in its name."""
_STARTER = Path(__file__).parent / "numalign_pyz"
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = """\
from numalign_pyz.start import main

main({pythons!r}, {machine!r}, {version!r}, {build!r})
"""
_OLDEST = 315532800
"""1980-01-01, the first date that a zip file can hold."""
Python = tuple[int, int]
_MAN_PAGE = re.compile(r"^[^/]+\.data/data/share/man/")


def made(dist: Path, machine: str = USUAL, pythons: tuple[Python, ...] = PYTHONS) -> Path:
    """Makes the file in the folder that holds numalign's wheel, and gives its path."""
    own = dist / f"numalign-{__version__}-py3-none-any.whl"
    with tempfile.TemporaryDirectory() as folder:
        wheels = {python: [own, *there] for python, there in fetch(Path(folder), pythons, machine).items()}
        content = pack(wheels, machine)
    target = dist / ("numalign.pyz" if machine == USUAL else f"numalign-{machine}.pyz")
    target.write_bytes(content)
    target.chmod(0o755)
    return target


def pack(wheels: dict[Python, list[Path]], machine: str) -> bytes:
    """The file for these Pythons and their wheels."""
    files = {name: path for paths in wheels.values() for name, path in ((path.name, path) for path in paths)}
    contents = {f"wheels/{name}": path.read_bytes() for name, path in files.items()}
    for python, paths in wheels.items():
        contents["files/cp{}{}".format(*python)] = "".join(map(_manifest, paths)).encode()
    for path in sorted(_STARTER.glob("*.py")):
        contents[f"{_STARTER.name}/{path.name}"] = path.read_bytes()
    build = hashlib.sha256()
    for name in sorted(contents):
        build.update(f"{name} {hashlib.sha256(contents[name]).hexdigest()}\n".encode())
    main = _MAIN.format(
        pythons=tuple(sorted(wheels)), machine=machine, version=__version__, build=build.hexdigest()[:16]
    )
    return _program({"__main__.py": main.encode(), **dict(sorted(contents.items()))})


def _manifest(wheel: Path) -> str:
    """The wheel's name and its files with their sizes, as numalign_pyz.unpack reads them; its man pages stay packed.
    Raises ValueError where the wheel has other files that an installer would put elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir() and not _MAN_PAGE.search(info.filename)]
    for info in infos:
        if ".data/" in info.filename or "\n" in info.filename or {"", "..", "."} & set(info.filename.split("/")):
            raise ValueError(f"{wheel.name}: {info.filename} cannot be unpacked as it is")
    return f"{wheel.name}\n" + "".join(f"{info.file_size} {info.filename}\n" for info in infos)


def _program(contents: dict[str, bytes]) -> bytes:
    """A zip file of these behind a line for the shell; wheels are stored as they are, and can be read in place."""
    moment = time.gmtime(max(_OLDEST, int(os.environ.get("SOURCE_DATE_EPOCH", _OLDEST))))[:6]
    target = io.BytesIO()
    target.write(_SHEBANG)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, moment)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return target.getvalue()
