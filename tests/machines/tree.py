"""Files and links in memory, and the words that machines are written in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures" / "sysfs"
CPU, NODE, NVIDIA = "sys/devices/system/cpu", "sys/devices/system/node", "proc/driver/nvidia"
UNITS = {"kB": 1, "MiB": 1024, "GiB": 1024**2}


class MachineError(ValueError):
    """A machine's text says something that the builder does not know."""


def refuse_unknown(keys: Iterable[str], known: str, where: str) -> None:
    """A misspelt key would build a machine that its text does not describe."""
    if unknown := set(keys) - set(known.split()):
        raise MachineError(f"{where}: unknown {', '.join(sorted(unknown))}")


@dataclass
class Tree:
    """Files and links by their path below the root; a link's target is such a path, too."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def put(self, directory: str, files: Mapping[str, object]) -> None:
        """Adds files that end in a newline, as almost all in sysfs do."""
        for name, value in files.items():
            self.files[f"{directory}/{name}"] = f"{value}\n"

    def drop(self, pattern: str) -> None:
        """Takes out what the pattern names, and all below it."""
        matches = re.compile(re.escape(pattern).replace(r"\*", "[^/]*") + "(/|$)").match
        self.files = {path: text for path, text in self.files.items() if not matches(path)}
        self.links = {path: target for path, target in self.links.items() if not matches(path)}
        self.directories = {path for path in self.directories if not matches(path)}

    def write(self, root: Path) -> None:
        """Writes everything below root, which must be empty or new, so that nothing old shines through."""
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise FileExistsError(f"{root} is not empty")
        for directory in sorted(self._with_parents()):
            os.mkdir(f"{root}/{directory}")
        for path, text in self.files.items():
            descriptor = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, text.encode())
            os.close(descriptor)
        for path, target in self.links.items():
            os.symlink(relative(target, path), f"{root}/{path}")

    def _with_parents(self) -> set[str]:
        found = self.directories | {path.rpartition("/")[0] for path in (*self.files, *self.links)}
        for directory in tuple(found):
            while (directory := directory.rpartition("/")[0]) not in found:
                found.add(directory)
        return found - {""}


def relative(target: str, link: str) -> str:
    """The text of a link as the kernel writes it: up to the common ancestor, then down."""
    up, down = link.split("/")[:-1], target.split("/")
    shared = next((at for at, (a, b) in enumerate(zip(up, down, strict=False)) if a != b), min(len(up), len(down)))
    return "/".join([".."] * (len(up) - shared) + down[shared:])


def parse_list(text: object) -> list[int]:
    """The numbers of a kernel list such as 0-3,8; none for None."""
    numbers: list[int] = []
    for part in filter(None, ("" if text is None else str(text)).replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def format_list(numbers: Iterable[int]) -> str:
    """The kernel's list of these numbers."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def format_mask(numbers: Iterable[int], bits: int) -> str:
    """The kernel's hex mask: words of 32 bits, the highest only as wide as needed (lib/vsprintf.c, bitmap_string)."""
    value = sum(1 << number for number in set(numbers))
    words = [f"{value >> low & 0xFFFFFFFF:0{(min(32, bits - low) + 3) // 4}x}" for low in range(0, bits, 32)]
    return ",".join(reversed(words))


def kilobytes(text: str) -> int:
    """The kB of "1056964608 kB" or "94.5 GiB"."""
    amount, unit = text.split()
    return int(float(amount) * UNITS[unit])
