"""The cores of a NUMA node: a box for each with a cell for each of its CPUs, in the boxes of their L3 caches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from numalign.cpuset import CpuSet
from numalign.machine import Core, L3Cache, Machine
from numalign.report.picture.overlay import Overlay
from numalign.report.picture.shapes import PAD, Box, Label, label_width, titled
from numalign.words import size

__all__ = ["Cells", "colour"]

_COLOURS = 8
"""Colours of holders in the style sheet; their letters tell apart those that share one."""
_CELL_HEIGHT = 14.0
_CORE_PAD = 2.0
_CORE_GAP = 4.0
_CELL_PAD = 6.0
_ROWS = 2
"""CPUs below each other in a core; of more there are columns."""
_STATES = {
    "reserved": "reserved for the system",
    "free": "a container can have it exclusively",
    "shared": "only ever shared",
}


class Cells:
    """How the CPUs of a machine are drawn: all cells are as wide as the widest."""

    def __init__(self, machine: Machine, overlay: Overlay) -> None:
        self.isolated = machine.isolated_cpus
        self.nohz_full = machine.nohz_full_cpus
        self.overlay = overlay
        marks = max((label_width(mark, "cell") for mark in overlay.cpu_holders.values()), default=0.0)
        number = max((*machine.online_cpus, *machine.offline_cpus), default=0)
        self.mark_width = marks + 3 if marks else 0.0
        self.width = label_width("8" * len(str(number)), "cell") + _CELL_PAD + self.mark_width

    def cell(self, cpu: int, x: float = 0.0, y: float = 0.0, *, offline: bool = False) -> Box:
        """A CPU's cell with its number, and the mark of who has it."""
        holder = self.overlay.cpu_holders.get(cpu)
        state = self.overlay.cpus.get(cpu)
        styles = ["cpu"]
        words = [f"CPU {cpu}"]
        if offline:
            styles.append("offline")
            words.append("offline")
        elif holder is not None:
            styles.append(f"taken c{colour(self.overlay, holder)}")
            words.append(f"exclusively of {self.name(holder)}")
        elif state is not None:
            styles.append(state)
            words.append(_STATES[state])
        if cpu in self.isolated:
            styles.append("isolated")
            words.append("isolated from the scheduler (isolcpus)")
        if cpu in self.nohz_full:
            words.append("without timer ticks (nohz_full)")
        labels = [Label(self.width - _CELL_PAD / 2, _CELL_HEIGHT - 3.6, str(cpu), "cell", "end")]
        if holder is not None:
            labels.append(Label(_CELL_PAD / 2, _CELL_HEIGHT - 3.6, holder, "cell strong"))
        return Box(self.width, _CELL_HEIGHT, " ".join(styles), tuple(labels), ", ".join(words), x, y)

    def name(self, mark: str) -> str:
        """The name of the holder with that mark."""
        return next((holder.name for holder in self.overlay.holders if holder.mark == mark), mark)

    def core(self, core: Core) -> Box:
        """A core's box, its siblings below each other."""
        cpus = list(core.cpus)
        columns = ceil(len(cpus) / _ROWS)
        rows = ceil(len(cpus) / columns)
        cells = [
            self.cell(cpu, _CORE_PAD + self.width * (i // rows), _CORE_PAD + _CELL_HEIGHT * (i % rows))
            for i, cpu in enumerate(cpus)
        ]
        width, height = columns * self.width + 2 * _CORE_PAD, rows * _CELL_HEIGHT + 2 * _CORE_PAD
        named = "" if core.core_id is None else f" {core.core_id}"
        return Box(width, height, "core", tuple(cells), f"core{named}: CPUs {core.cpus}")

    def block(self, cores: Sequence[Core], heading: str, tip: str, within: float, style: str) -> Box:
        """Cores in even rows below a heading."""
        boxes = [self.core(core) for core in cores]
        widest = max(box.width for box in boxes)
        most = max(int((within - 2 * PAD + _CORE_GAP) // (widest + _CORE_GAP)), 1)
        across = ceil(len(boxes) / ceil(len(boxes) / most))
        placed, _ = _grid(boxes, across)
        titles = [(heading, "small")] if heading else []
        inner = Box(
            max(box.x + box.width for box in placed), max(box.y + box.height for box in placed), "rows", tuple(placed)
        )
        return titled(titles, [inner], style, within=within, tip=tip)

    def blocks(self, cores: Iterable[Core], caches: Iterable[L3Cache], within: float) -> list[Box]:
        """The cores in the order of their CPUs, those that share an L3 cache together."""
        groups: dict[int | None, list[Core]] = {}
        for core in cores:
            groups.setdefault(core.l3, []).append(core)
        known = {cache.id: cache for cache in caches}
        boxes = []
        for id, members in groups.items():
            cache = known.get(id) if id is not None else None
            heading, tip = "", f"cores of CPUs {CpuSet(cpu for core in members for cpu in core.cpus)}"
            if cache is not None:
                heading = f"L3 {size(cache.size_bytes)}" if cache.size_bytes else "L3"
                tip = f"L3 cache of CPUs {cache.cpus}"
            boxes.append(self.block(members, heading, tip, within, "l3" if cache is not None else "cores"))
        return boxes


def colour(overlay: Overlay, mark: str) -> int:
    """The number of a holder's colour."""
    return next((i for i, holder in enumerate(overlay.holders) if holder.mark == mark), 0) % _COLOURS


def _grid(boxes: Sequence[Box], across: int) -> tuple[list[Box], float]:
    """Boxes in rows of so many; with how far down they reach."""
    placed: list[Box] = []
    y = 0.0
    for start in range(0, len(boxes), across):
        line = boxes[start : start + across]
        x = 0.0
        for box in line:
            placed.append(box.at(x, y))
            x += box.width + _CORE_GAP
        y += max(box.height for box in line) + _CORE_GAP
    return placed, y - _CORE_GAP
