"""A short name for the configuration that a machine needs: two machines with one fingerprint can have the same one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from numalign.machine import Gpu, Machine, Nic

__all__ = ["fingerprint"]

_FORM = 1
"""What is counted in, and how: another number, where that changes, so that old and new never look alike."""
_DIGITS = 16


def fingerprint(machine: Machine) -> str:
    """The fingerprint, 16 hexadecimal digits.

    It covers what decides about the configuration: CPUs, cores, L3 caches, NUMA nodes with their distances, memory and
    huge pages, isolated CPUs, and how many GPUs and NICs of which kind are on which NUMA node. It does not cover what
    is a host's own (names, addresses, serial numbers, UUIDs), nor versions, nor virtual functions, which come and go.
    Kinds of devices are PCI ids, since names depend on who was asked.
    """
    l3 = {cache.id: str(cache.cpus) for cache in machine.l3_caches}
    physical = [nic for nic in machine.nics if nic.physical_function is None]
    content = [
        _FORM,
        machine.arch,
        str(machine.online_cpus),
        str(machine.isolated_cpus),
        [
            [
                node.id,
                str(node.cpus),
                _installed(node.memory_bytes),
                sorted([pages.size, pages.total or 0] for pages in node.hugepages if pages.total),
                sorted(node.distances.items()),
            ]
            for node in machine.numa_nodes
        ],
        sorted(
            [
                str(core.cpus),
                _text(core.socket),
                _text(core.numa_node),
                l3.get(core.l3, "") if core.l3 is not None else "",
            ]
            for core in machine.cores
        ),
        _kinds(machine.gpus),
        _kinds(physical),
    ]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:_DIGITS]


def _kinds(devices: Iterable[Gpu | Nic]) -> list[Any]:
    """How many devices of each kind are on each NUMA node."""
    counted = Counter((_text(device.numa_node), device.vendor_id, device.device_id) for device in devices)
    return sorted([*kind, number] for kind, number in counted.items())


def _installed(memory_bytes: int | None) -> int | None:
    """The memory that is likely built in: what the kernel shows is a little less, and differs from boot to boot. It is
    rounded up to the next of eight steps between powers of two.

    >>> [_installed(gib << 30) >> 30 for gib in (93, 503, 504, 756, 1008, 1135)]
    [96, 512, 512, 768, 1024, 1152]
    """
    if not memory_bytes:
        return memory_bytes
    step = 1 << max(memory_bytes.bit_length() - 4, 0)
    return -(-memory_bytes // step) * step


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
