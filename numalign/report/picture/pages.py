"""The picture as a file: SVG, or an HTML page with the same in words below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from numalign.machine import Gpu, Machine, Nic
from numalign.report.page import fill_page
from numalign.report.picture.machine import draw
from numalign.report.picture.overlay import NOTHING, Overlay
from numalign.words import device_list, nic_name, pcie_words, printable, short_model, size

__all__ = ["Section", "html_page", "in_words", "map_sections", "svg_file"]

_COLUMNS = 110
"""The width of what is text on a page too."""


class Section(NamedTuple):
    """A part of a page: a table, or text as the terminal has it."""

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    text: str = ""


def svg_file(machine: Machine, overlay: Overlay = NOTHING) -> bytes:
    """The picture as one SVG file that needs no other."""
    return fill_page("picture.svg.j2", picture=draw(machine, overlay)).encode()


def html_page(machine: Machine, overlay: Overlay = NOTHING, sections: Sequence[Section] = ()) -> bytes:
    """The picture and sections as one HTML file that needs no other, and no script."""
    title = printable(machine.name or "unnamed host")
    return fill_page("machine.html.j2", picture=draw(machine, overlay), title=title, sections=sections).encode()


def in_words(title: str, draw: Callable[[Any, Any], None], document: Any) -> Section:
    """A section with a document as the terminal shows it."""
    from numalign.report.terminal import drawn

    return Section(title, text=drawn(draw, document, _COLUMNS).strip("\n"))


def map_sections(machine: Machine) -> Iterator[Section]:
    """What the picture shows as tables: NUMA nodes, GPUs, NICs, warnings."""
    if machine.numa_nodes:
        yield Section("NUMA nodes", ("NUMA node", "CPUs", "memory", "distances", "GPUs", "NICs"), _numa_rows(machine))
    if machine.gpus:
        heads = ("GPU", "address", "NUMA node", "model", "PCIe", "nearest NICs", "link", "driver", "UUID")
        yield Section("GPUs", heads, [_gpu_row(machine, gpu) for gpu in machine.gpus])
    if machine.nics:
        heads = ("NIC", "address", "NUMA node", "model", "PCIe", "link layer", "state", "driver", "virtual function of")
        yield Section("NICs", heads, [_nic_row(nic) for nic in machine.nics])
    if machine.warnings:
        rows = [(warning.id, printable(warning.message)) for warning in machine.warnings]
        yield Section("Warnings", ("warning", "what it says"), rows)


def _numa_rows(machine: Machine) -> list[tuple[str, ...]]:
    return [
        (
            str(node.id),
            str(node.cpus).replace(",", ", ") or "none",
            size(node.memory_bytes),
            ", ".join(f"{far} to {id}" for id, far in sorted(node.distances.items())),
            device_list(f"GPU{gpu.index}" for gpu in machine.gpus if gpu.numa_node == node.id),
            printable(device_list(nic_name(nic) for nic in machine.nics if nic.numa_node == node.id)),
        )
        for node in machine.numa_nodes
    ]


def _gpu_row(machine: Machine, gpu: Gpu) -> tuple[str, ...]:
    names = {nic.bdf: nic_name(nic) for nic in machine.nics}
    near = gpu.nearest_nics
    return _safe(
        str(gpu.index),
        gpu.bdf,
        _numa(gpu),
        short_model(gpu.model) if gpu.model else f"{gpu.vendor_id}:{gpu.device_id}",
        pcie_words(gpu.pcie),
        device_list(names[bdf] for bdf in near.nics if bdf in names) if near else "–",
        near.type if near else "–",
        gpu.driver or "none",
        gpu.uuid or "–",
    )


def _nic_row(nic: Nic) -> tuple[str, ...]:
    return _safe(
        ", ".join(dict.fromkeys((*nic.rdma, *nic.netdevs))) or "–",
        nic.bdf,
        _numa(nic),
        short_model(nic.model) if nic.model else f"{nic.vendor_id}:{nic.device_id}",
        pcie_words(nic.pcie),
        f"{nic.link_layer or '–'} {nic.rate_gbps:g} Gb/s" if nic.rate_gbps else nic.link_layer or "–",
        nic.state or "–",
        nic.driver or "none",
        nic.physical_function or "–",
    )


def _numa(device: Gpu | Nic) -> str:
    return "not known" if device.numa_node is None else str(device.numa_node)


def _safe(*cells: str) -> tuple[str, ...]:
    return tuple(map(printable, cells))
