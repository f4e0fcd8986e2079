"""The whole picture: what is said of the machine, its NUMA nodes by socket, what lies apart, legend and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from numalign.cpuset import CpuSet
from numalign.links import LINK_TYPES, MEANING
from numalign.machine import Core, Gpu, Machine, Nic, NumaNode
from numalign.report.groups import alike, nvlink_groups
from numalign.report.picture.cores import Cells, colour
from numalign.report.picture.devices import Cards
from numalign.report.picture.overlay import NOTHING, Overlay
from numalign.report.picture.shapes import (
    GAP,
    PAD,
    Box,
    Label,
    fitted,
    folded_to,
    label_width,
    row,
    shelves,
    stacked,
    titled,
)
from numalign.words import count, headline, printable, size, sockets_words

__all__ = ["MARGIN", "Picture", "draw"]

MARGIN = 16.0
_WIDTHS = {1: 640.0, 2: 600.0, 3: 400.0}
"""How wide the content of a NUMA node may be where so many are side by side."""
_NARROW = 300.0
_MOST_ACROSS = 4
_NARROWEST = 560.0
_WIDEST_LINE = 760.0
_MOST_AT_TOP = 12
"""Holders that are named above the NUMA nodes; of more the list is below them."""
_NUMA_TIP = "A container is aligned where its CPUs, memory, GPUs and NICs are of one NUMA node."


class Picture(NamedTuple):
    """A picture: its size in pixels, its parts, and its name for those who cannot see it."""

    width: float
    height: float
    parts: tuple[Box | Label, ...]
    title: str
    description: str


def draw(machine: Machine, overlay: Overlay = NOTHING) -> Picture:
    """The picture of a machine, with what is drawn over it."""
    drawing = _Drawing(machine, overlay)
    body = list(drawing.body())
    width = max([_NARROWEST, *(box.width for box in body)])
    parts: list[Box | Label] = []
    top, y = stacked(drawing.head(width), MARGIN, MARGIN)
    parts += top
    y += GAP
    if overlay.holders and len(overlay.holders) <= _MOST_AT_TOP:
        body.insert(0, drawing.holders(width))
    for box in body:
        parts.append(box.at(MARGIN, y))
        y += box.height + GAP * 1.5
    for box in drawing.foot(width):
        parts.append(box.at(MARGIN, y))
        y += box.height + GAP
    whole = headline(machine)
    return Picture(width + 2 * MARGIN, y + MARGIN - GAP, tuple(parts), whole, drawing.description())


class _Place(NamedTuple):
    """A part of the machine that has cores or devices: a NUMA node, or what has none."""

    title: str
    node: NumaNode | None
    cores: list[Core]
    devices: list[Gpu | Nic]
    known: bool


class _Drawing:
    def __init__(self, machine: Machine, overlay: Overlay) -> None:
        self.machine = machine
        self.overlay = overlay
        self.cells = Cells(machine, overlay)
        self.cards = Cards(machine, overlay)
        self.cores: dict[int | None, list[Core]] = {}
        for core in sorted(machine.cores, key=lambda core: min(core.cpus)):
            self.cores.setdefault(core.numa_node, []).append(core)
        self.homes: dict[int | None, list[Gpu | Nic]] = {}
        for device in self.cards.drawn(machine.devices()):
            self.homes.setdefault(device.numa_node, []).append(device)
        self.known = {node.id for node in machine.numa_nodes}

    def head(self, width: float) -> Iterator[tuple[str, str]]:
        """The machine in a line or two, and the facts of what is drawn over it."""
        name, *rest = headline(self.machine).split(" · ")
        for line in folded_to(name, width, "head"):
            yield line, "head"
        for line in folded_to(" · ".join(rest), width):
            yield line, "text"
        for fact in self.overlay.facts:
            style = {"plain": "text", "good": "text strong good", "bad": "text strong alarm"}[fact.tone]
            for line in folded_to(printable(fact.text), min(width, _WIDEST_LINE), style):
                yield line, style

    def holders(self, width: float) -> Box:
        """Who holds what, each beside its mark."""
        rows = []
        for holder in self.overlay.holders:
            has = f": {', '.join(holder.has)}" if holder.has else ""
            text = fitted(printable(f"{holder.name}{has}"), width - 30)
            mark = Label(11, 10.4, holder.mark, "cell strong", "middle")
            swatch = Box(22, 14, f"cpu taken c{colour(self.overlay, holder.mark)}", (mark,))
            tip = printable(f"{holder.name}{has}")
            rows.append(Box(28 + label_width(text), 14, "rows", (swatch, Label(28, 11, text)), tip))
        placed, wide, bottom = shelves(rows, width)
        return Box(wide, bottom, "rows", tuple(placed))

    def body(self) -> Iterator[Box]:
        """The NUMA nodes by socket, then those with nothing but memory, then what is of none."""
        full = [node for node in self.machine.numa_nodes if self._is_full(node)]
        frames = self._by_socket(full)
        across = max((len(nodes) for _, nodes in frames), default=1)
        framed = (across > 1 and len(frames) > 1) or any(socket is not None for socket, _ in frames)
        if not framed:
            across = len(full) if len(full) <= _MOST_ACROSS else _even(len(full))
        across = min(max(across, 1), _MOST_ACROSS)
        within = _WIDTHS.get(across, _NARROW)
        for socket, nodes in frames if framed else [(None, full)]:
            lines = [self._node_box(self._place_of(node), within, framed) for node in nodes]
            lines = _as_wide_as_widest(lines)
            rows = [row(lines[start : start + across]) for start in range(0, len(lines), across)]
            yield from self._rows_box(socket, rows)
        bare = list(self._bare_boxes(full))
        if bare:
            reach = max(across * (within + 2 * PAD), _NARROWEST)
            yield titled([("NUMA nodes without CPUs or devices", "text strong")], bare, "apart", within=reach)
        for place in self._apart():
            yield self._node_box(place, max(across * within, _NARROWEST - 2 * PAD), framed=False)

    def _rows_box(self, socket: int | None, rows: Sequence[Sequence[Box]]) -> Iterator[Box]:
        """The rows as they are, or in a socket's frame."""
        placed: list[Box] = []
        y = 0.0
        for line in rows:
            placed += [box.at(box.x, y) for box in line]
            y += max(box.height for box in line) + GAP
        if not placed:
            return
        inner = Box(max(box.x + box.width for box in placed), y - GAP, "rows", tuple(placed))
        if socket is None:
            yield inner
            return
        yield titled([(f"socket {socket}", "text strong")], [inner], "socket", within=float("inf"))

    def _is_full(self, node: NumaNode) -> bool:
        return bool(node.cpus) or node.id in self.homes

    def _by_socket(self, nodes: Sequence[NumaNode]) -> list[tuple[int | None, list[NumaNode]]]:
        """The NUMA nodes of each socket; all as one (None) where some have CPUs of several, or none has a neighbour."""
        groups: dict[int | None, list[NumaNode]] = {}
        for node in nodes:
            sockets = {socket.id for socket in self.machine.sockets if socket.cpus & node.cpus}
            if len(sockets) != 1:
                return [(None, list(nodes))]
            groups.setdefault(sockets.pop(), []).append(node)
        if all(len(members) == 1 for members in groups.values()):
            return [(None, list(nodes))]
        return list(groups.items())

    def _place_of(self, node: NumaNode) -> _Place:
        return _Place(
            f"NUMA node {node.id}", node, self.cores.get(node.id, []), self.homes.get(node.id, []), known=True
        )

    def _apart(self) -> Iterator[_Place]:
        """What is of no NUMA node that the machine has."""
        lost = self.homes.get(None, [])
        if lost or self.cores.get(None):
            title = "NUMA node not known" if self.known else "the kernel knows no NUMA nodes"
            yield _Place(title, None, self.cores.get(None, []), lost, known=False)
        for id in sorted({home for home in self.homes if home is not None} - self.known):
            why = "which this machine does not have" if self.known else "known only from its devices"
            yield _Place(f"NUMA node {id}, {why}", None, [], self.homes[id], known=False)

    def _node_box(self, place: _Place, within: float, framed: bool) -> Box:
        """A NUMA node: what it has in words, its cores, its devices."""
        lines = [(line, "title" if i == 0 else "text") for i, line in enumerate(self._words(place, within, framed))]
        labels, y = stacked(lines, PAD, PAD * 0.75)
        parts: list[Box | Label] = [*labels]
        width = max(label_width(*line) for line in lines)
        groups = (
            self.cells.blocks(place.cores, self.machine.l3_caches, within),
            self.cards.boxes(place.devices, within),
        )
        for boxes in groups:
            if boxes:
                placed, wide, y = shelves(boxes, within, PAD, y + GAP)
                parts += placed
                width = max(width, wide)
        tip = _NUMA_TIP
        if place.node is not None and place.node.distances:
            tip += "\ndistances: " + ", ".join(f"{far} to {id}" for id, far in sorted(place.node.distances.items()))
        return Box(width + 2 * PAD, y + PAD, "numa" if place.known else "numa unknown", tuple(parts), tip)

    def _words(self, place: _Place, within: float, framed: bool) -> Iterator[str]:
        node = place.node
        if node is None:
            yield from folded_to(place.title, within, "title")
            return
        sockets = [socket.id for socket in self.machine.sockets if socket.cpus & node.cpus]
        title = place.title
        if sockets and not framed and len(self.machine.sockets) > 1:
            title += f" · {sockets_words(sockets)}"
        if node.memory_bytes is not None:
            title += f" · {size(node.memory_bytes)}"
        yield from folded_to(title, within, "title")
        cpus = f"{count(len(place.cores), 'core')}, CPUs {node.cpus}" if node.cpus else "no CPUs"
        yield from folded_to(cpus.replace(",", ", ").replace(",  ", ", "), within)
        yield from self._memory_words(node, within)

    def _memory_words(self, node: NumaNode, within: float) -> Iterator[str]:
        inside = [gpu.index for gpu in self.machine.gpus if gpu.memory_numa_node == node.id]
        if inside:
            yield f"memory of GPU {CpuSet(inside)}"
        for pages in node.hugepages:
            if pages.total:
                free = f", {pages.free} free" if pages.free is not None else ""
                yield from folded_to(f"huge pages of {size(pages.size)}: {pages.total}{free}", within)

    def _bare_boxes(self, full: Sequence[NumaNode]) -> Iterator[Box]:
        """NUMA nodes without CPUs and devices, neighbours with the same as one."""
        shown = {node.id for node in full}
        for ids, nodes in alike(self.machine):
            first = nodes[0]
            if first.id in shown:
                continue
            each = " each" if len(nodes) > 1 and first.memory_bytes else ""
            memory = f"{size(first.memory_bytes)}{each}" if first.memory_bytes else "no memory"
            lines = [(f"NUMA node{'s' if len(nodes) > 1 else ''} {ids}", "text strong"), (memory, "small")]
            lines += [(line, "small") for line in self._memory_words(first, _NARROW)]
            yield titled(lines, [], "numa", within=_NARROW, tip=_NUMA_TIP)

    def foot(self, width: float) -> Iterator[Box]:
        """Offline CPUs, the legend, what joins GPUs, and the warnings."""
        offline = [self.cells.cell(cpu, offline=True) for cpu in self.machine.offline_cpus]
        if offline:
            yield titled([("offline CPUs", "text strong")], offline, "apart", within=width)
        if len(self.overlay.holders) > _MOST_AT_TOP:
            yield self.holders(width)
        legend = list(self._legend())
        if legend:
            placed, wide, bottom = shelves(legend, width)
            yield Box(wide, bottom, "rows", tuple(placed))
        notes = [(line, "text") for text in self._notes() for line in folded_to(printable(text), width)]
        for warning in self.machine.warnings:
            text = f"! {warning.id}: {warning.message}"
            notes += [(line, "text warning") for line in folded_to(printable(text), width)]
        if notes:
            labels, bottom = stacked(notes)
            yield Box(max(label_width(*line) for line in notes), bottom, "rows", tuple(labels))

    def _legend(self) -> Iterator[Box]:
        """What the marks mean that are in the picture."""
        states = set(self.overlay.cpus.values())
        rows = (
            ("core", "a CPU; the siblings of a core share a box", True),
            ("cpu reserved", "reserved for the system", "reserved" in states),
            ("cpu free", "free: a container can have it exclusively", "free" in states),
            ("cpu shared", "only ever shared by containers", "shared" in states),
            ("cpu isolated", "isolated from the scheduler", bool(self.machine.isolated_cpus)),
            ("cpu offline", "offline", bool(self.machine.offline_cpus)),
            ("gpu", "GPU", bool(self.machine.gpus)),
            ("nic", "NIC", bool(self.machine.nics)),
            ("numa unknown", "NUMA node not known", any(not place.known for place in self._apart())),
        )
        for style, text, there in rows:
            if there:
                swatch = Box(
                    22, 14, style, (Label(11, 10.4, "A", "cell strong", "middle"),) if "taken" in style else ()
                )
                yield Box(28 + label_width(text, "small"), 14, "rows", (swatch, Label(28, 10.5, text, "small")))
        near = {gpu.nearest_nics.type for gpu in self.machine.gpus if gpu.nearest_nics}
        for kind in LINK_TYPES:
            if kind in near:
                text = f"{kind}: {MEANING[kind]}"
                yield Box(label_width(text, "small"), 14, "rows", (Label(0, 10.5, text, "small"),))

    def _notes(self) -> Iterator[str]:
        groups = list(nvlink_groups(self.machine))
        if groups:
            yield "NVLink joins GPUs " + "; ".join(map(str, groups))
        for bond in self.machine.bonds:
            yield f"{bond.name} bonds {', '.join(bond.netdevs)}"

    def description(self) -> str:
        """The picture in words."""
        return ". ".join(
            f"NUMA node {node.id}: CPUs {node.cpus or 'none'}, {size(node.memory_bytes)}, "
            f"{_named(self.homes.get(node.id, []))}"
            for node in self.machine.numa_nodes
        )


def _named(devices: Sequence[Gpu | Nic]) -> str:
    gpus = [device for device in devices if isinstance(device, Gpu)]
    nics = len(devices) - len(gpus)
    return f"{count(len(gpus), 'GPU')}, {count(nics, 'NIC')}"


def _even(number: int) -> int:
    """How many of so many stand side by side."""
    return next((across for across in (4, 3) if number % across == 0), _MOST_ACROSS)


def _as_wide_as_widest(boxes: Sequence[Box]) -> list[Box]:
    widest = max((box.width for box in boxes), default=0.0)
    return [replace(box, width=widest) for box in boxes]
