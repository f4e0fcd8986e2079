"""GPUs and NICs as cards, those below one PCIe bridge in its box, with a wire between those that are near."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from numalign.machine import Gpu, Machine, Nic
from numalign.report.picture.cores import colour
from numalign.report.picture.overlay import Overlay
from numalign.report.picture.shapes import GAP, PAD, Box, Label, Wire, column, fitted, label_width, shelves, stacked
from numalign.words import count, device_list, nic_name, pcie_words, printable, short_model

__all__ = ["Cards"]

_CARD = 122.0
_WIRE = 32.0
_CARD_PAD = 6.0
_MOST_NEAR = 2
"""NICs to which a GPU has wires; more are said on its card."""
_DEEPEST = 5
"""Boxes in boxes; what is deeper lies side by side."""
_NEAR = frozenset({"PIX", "PXB", "PHB"})

Branch = dict[str, "Branch"]


class _Fork(NamedTuple):
    """A bridge with what is below it: devices, and bridges with several devices of their own."""

    chain: tuple[str, ...]
    devices: list[Gpu | Nic]
    forks: list[_Fork]


class Cards:
    """How the devices of a machine are drawn."""

    def __init__(self, machine: Machine, overlay: Overlay) -> None:
        self.machine = machine
        self.overlay = overlay
        self.devices = {device.bdf: device for device in machine.devices()}
        self.names = {nic.bdf: nic_name(nic) for nic in machine.nics}
        self.warnings: dict[str | None, list[str]] = {}
        for warning in machine.warnings:
            self.warnings.setdefault(warning.subject, []).append(warning.message)
        self.degraded = {each.subject for each in machine.warnings if each.id.endswith("-link-degraded")}
        self.virtual: dict[str, list[Nic]] = {}
        for nic in machine.nics:
            if nic.physical_function in self.names:
                self.virtual.setdefault(nic.physical_function or "", []).append(nic)
        self.bonds = {bdf: bond.name for bond in machine.bonds for bdf in bond.nics}

    def drawn(self, devices: Iterable[Gpu | Nic]) -> list[Gpu | Nic]:
        """Those that get a card: virtual functions are counted on that of their physical function."""
        return [each for each in devices if not (isinstance(each, Nic) and each.physical_function in self.names)]

    def boxes(self, devices: Iterable[Gpu | Nic], within: float) -> list[Box]:
        """The devices below their bridges: first what has a GPU."""
        whole = _fork((), self._tree(self.drawn(devices)), self.devices, 0)
        boxes = [(not _has_gpu(fork), self._fork_box(fork, within)) for fork in whole.forks]
        cards = _as_high_as_highest([self.card(device) for device in whole.devices])
        boxes += [(isinstance(device, Nic), box) for device, box in zip(whole.devices, cards, strict=True)]
        return [box for _, box in sorted(boxes, key=lambda each: each[0])]

    def _tree(self, devices: Iterable[Gpu | Nic]) -> Branch:
        root: Branch = {}
        for device in devices:
            here = root
            for part in (*device.path[:-1], device.bdf):
                here = here.setdefault(part, {})
        return root

    def _fork_box(self, fork: _Fork, within: float) -> Box:
        """A bridge's box: GPUs beside their NICs where few enough are near to be joined by wires."""
        inner = within - 2 * PAD
        bridge = fork.chain[-1]
        title = f"host bridge {bridge}" if len(fork.chain) == 1 else f"bridge {bridge}"
        labels, y = stacked([(fitted(printable(title), inner, "small muted"), "small muted")], PAD, PAD * 0.5)
        y += PAD * 0.5
        parts, width, bottom = self._paired(fork.devices, y) or self._shelved(fork.devices, inner, y)
        below = [self._fork_box(each, inner) for each in sorted(fork.forks, key=lambda each: not _has_gpu(each))]
        if below:
            placed, wide, bottom = shelves(below, inner, PAD, bottom + GAP if fork.devices else y)
            parts, width = [*parts, *placed], max(width, wide)
        width = max(width, max(label_width(label.text, label.style) for label in labels))
        return Box(width + 2 * PAD, bottom + PAD, "pci", (*labels, *parts), printable(" › ".join(fork.chain)))

    def _shelved(
        self, devices: Sequence[Gpu | Nic], within: float, y: float
    ) -> tuple[list[Box | Label | Wire], float, float]:
        ordered = sorted(devices, key=lambda device: isinstance(device, Nic))
        cards = _as_high_as_highest([self.card(each) for each in ordered])
        placed, width, bottom = shelves(cards, within, PAD, y)
        return [*placed], width, bottom

    def _paired(self, devices: Sequence[Gpu | Nic], y: float) -> tuple[list[Box | Label | Wire], float, float] | None:
        """GPUs on the left, NICs on the right, wires between them; None where there is no pair, or are too many."""
        gpus = [each for each in devices if isinstance(each, Gpu)]
        nics = [each for each in devices if isinstance(each, Nic)]
        here = {nic.bdf for nic in nics}
        near = {gpu.bdf: [bdf for bdf in gpu.nearest_nics.nics if bdf in here] for gpu in gpus if gpu.nearest_nics}
        if not any(near.values()) or any(len(bdfs) > _MOST_NEAR for bdfs in near.values()):
            return None
        both: list[Gpu | Nic] = [*gpus, *nics]
        cards = [self.card(device, wired=bool(near.get(device.bdf))) for device in both]
        cards = _as_high_as_highest(cards)
        left, low = column(cards[: len(gpus)], PAD, y)
        right, lower = column(cards[len(gpus) :], PAD + _CARD + _WIRE, y)
        place = {nic.bdf: box for nic, box in zip(nics, right, strict=True)}
        wires: list[Label | Wire] = []
        for gpu, box in zip(gpus, left, strict=True):
            kind = gpu.nearest_nics.type if gpu.nearest_nics else ""
            if kind not in _NEAR:
                continue
            for bdf in near.get(gpu.bdf, ()):
                there = place[bdf]
                ends = (box.x + box.width, box.y + box.height / 2, there.x, there.y + there.height / 2)
                wires.append(Wire(*ends, f"wire {kind.lower()}"))
            if near.get(gpu.bdf):
                wires.append(Label(box.x + box.width + 3, box.y + box.height / 2 - 4, kind, "cell strong"))
        return [*wires, *left, *right], 2 * _CARD + _WIRE, max(low, lower)

    def card(self, device: Gpu | Nic, *, wired: bool = False) -> Box:
        """A device's card; what wires show it need not say."""
        lines = list(self._gpu_lines(device, wired) if isinstance(device, Gpu) else self._nic_lines(device))
        degraded = device.bdf in self.degraded
        link = _link(device)
        if link:
            lines.append((f"! {link}", "small strong alarm") if degraded else (link, "small"))
        style = "gpu" if isinstance(device, Gpu) else "nic"
        room = _CARD - 2 * _CARD_PAD
        marks = self.overlay.device_holders.get(device.bdf, ())
        chips, taken = self._chips(marks)
        first = (fitted(lines[0][0], room - taken, lines[0][1]), lines[0][1])
        labels, bottom = stacked(
            [first, *((fitted(text, room, name), name) for text, name in lines[1:])], _CARD_PAD, _CARD_PAD * 0.6
        )
        classes = " ".join([style, *(["degraded"] if degraded else []), *(["held"] if marks else [])])
        tip = "\n".join(printable(line) for line in self._tip(device))
        return Box(_CARD, bottom + _CARD_PAD, classes, (*labels, *chips), tip)

    def _chips(self, marks: Sequence[str]) -> tuple[list[Box], float]:
        """The marks of those that hold a device, from the card's right edge; and how much room they take."""
        boxes: list[Box] = []
        x = _CARD - _CARD_PAD
        shown = list(marks[:3])
        for mark in reversed(shown if len(marks) <= len(shown) else [*shown[:-1], "…"]):
            width = label_width(mark, "cell strong") + 8
            x -= width
            number = colour(self.overlay, mark)
            boxes.append(
                Box(width, 14, f"chip taken c{number}", (Label(4, 10.5, mark, "cell strong"),), "", x, _CARD_PAD * 0.6)
            )
            x -= 2
        return boxes, _CARD - _CARD_PAD - x if boxes else 0.0

    def _gpu_lines(self, gpu: Gpu, wired: bool) -> Iterator[tuple[str, str]]:
        yield f"GPU {gpu.index}", "title"
        yield printable(short_model(gpu.model) if gpu.model else f"{gpu.vendor_id}:{gpu.device_id}"), "text"
        yield printable(gpu.bdf), "small"
        if gpu.nearest_nics is not None and not wired:
            yield self._nearest(gpu), "small"
        if gpu.driver != "nvidia":
            yield printable(f"driver {gpu.driver}") if gpu.driver else "no driver", "small strong alarm"
        if gpu.mig_devices:
            yield count(len(gpu.mig_devices), "MIG device"), "small"
        if gpu.memory_numa_node is not None:
            yield f"its memory: NUMA {gpu.memory_numa_node}", "small"

    def _nearest(self, gpu: Gpu) -> str:
        near = gpu.nearest_nics
        assert near is not None
        return printable(f"{device_list(self.names[bdf] for bdf in near.nics if bdf in self.names)} {near.type}")

    def _nic_lines(self, nic: Nic) -> Iterator[tuple[str, str]]:
        yield printable(nic_name(nic)), "title"
        yield printable(short_model(nic.model) if nic.model else f"{nic.vendor_id}:{nic.device_id}"), "text"
        yield printable(nic.bdf), "small"
        rate = f" {nic.rate_gbps:g} Gb/s" if nic.rate_gbps else ""
        if nic.link_layer:
            yield printable(f"{nic.link_layer}{rate}"), "small"
        if nic.state and nic.state.lower() not in ("active", "up"):
            yield printable(nic.state.lower()), "small strong alarm"
        if nic.bdf in self.bonds:
            yield printable(f"in {self.bonds[nic.bdf]}"), "small"
        if nic.bdf in self.virtual:
            yield count(len(self.virtual[nic.bdf]), "virtual function"), "small"
        if nic.physical_function:
            yield "virtual function", "small"

    def _tip(self, device: Gpu | Nic) -> Iterator[str]:
        """Everything about a device, a line each."""
        numa = "not known" if device.numa_node is None else str(device.numa_node)
        if isinstance(device, Gpu):
            yield f"GPU {device.index} {device.model or ''}".rstrip()
            yield from (f"{name} {text}" for name, text in (("UUID", device.uuid), ("driver", device.driver)) if text)
            for mig in device.mig_devices:
                yield f"MIG {mig.name or ''} {mig.uuid or ''}".rstrip()
            if device.nearest_nics is not None:
                yield f"nearest NICs: {self._nearest(device)}"
        else:
            yield f"NIC {nic_name(device)} {device.model or ''}".rstrip()
            names = ", ".join((*device.rdma, *device.netdevs))
            yield from (f"{name} {text}" for name, text in (("names", names), ("driver", device.driver)) if text)
            for virtual in self.virtual.get(device.bdf, ()):
                yield f"virtual function {nic_name(virtual)} {virtual.bdf}"
        yield f"NUMA node {numa}"
        yield f"path {' › '.join(device.path)}"
        yield from self.warnings.get(device.bdf, ())


def _fork(chain: tuple[str, ...], branch: Branch, devices: dict[str, Gpu | Nic], depth: int) -> _Fork:
    """What is below a bridge. Functions of one card are devices of the bridge above it."""
    fork = _Fork(chain, [], [])
    waiting = [((*chain, name), branch[name]) for name in sorted(branch, reverse=True)]
    while waiting:
        here, below = waiting.pop()
        if here[-1] in devices:
            fork.devices.append(devices[here[-1]])
        if here[-1] in devices or len(below) == 1 or depth >= _DEEPEST or _one_card(below, devices):
            waiting += [((*here, name), below[name]) for name in sorted(below, reverse=True)]
        elif below:
            fork.forks.append(_fork(here, below, devices, depth + 1))
    return fork


def _one_card(branch: Branch, devices: dict[str, Gpu | Nic]) -> bool:
    """Whether there is nothing but functions of one card, of the same kind."""
    slots = {name.rpartition(".")[0] for name in branch}
    kinds = {type(devices.get(name)) for name in branch}
    return len(slots) == 1 and kinds <= {Nic, Gpu} and len(kinds) == 1 and not any(branch.values())


def _has_gpu(fork: _Fork) -> bool:
    return any(isinstance(device, Gpu) for device in fork.devices) or any(map(_has_gpu, fork.forks))


def _as_high_as_highest(boxes: Sequence[Box]) -> list[Box]:
    height = max((box.height for box in boxes), default=0.0)
    return [replace(box, height=height) for box in boxes]


def _link(device: Gpu | Nic) -> str:
    """How the PCIe link runs, and at how much it could; empty where nothing is known."""
    link = device.pcie
    slow = isinstance(device, Nic) and link.speed and link.max_speed and link.speed < link.max_speed
    words = pcie_words(link)
    if slow and link.width == link.max_width:
        words = f"{link.speed:g} of {link.max_speed:g} GT/s"
    return "" if words == "–" else words
