"""Two maps of one machine, or of two that should be alike: what differs.

GPUs are told apart by UUID where the maps share any, so that one in another slot has moved; else by address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import msgspec

from numalign.machine import Gpu, Machine, Nic
from numalign.words import count, nic_name, numa_nodes, short_model, size

__all__ = ["Difference", "Kind", "differences"]

Kind = Literal[
    "cpu-model",
    "cpus",
    "cpus-isolated",
    "cpus-offline",
    "device-driver",
    "driver",
    "gpu-gone",
    "gpu-moved",
    "gpu-new",
    "gpu-replaced",
    "huge-pages",
    "l3",
    "link",
    "memory",
    "mig",
    "model",
    "nic-gone",
    "nic-new",
    "numa-distances",
    "numa-layout",
    "numa-node",
]

_MEMORY_TOLERANCE = 0.01
"""Share of a NUMA node's memory that firmware and kernel may keep more or less of, from one boot or version to the
next."""

_REDACTED = "GPU-00000000-0000-0000-0000-"
"""How the stand-ins for UUIDs in redacted snapshots begin."""

T = TypeVar("T", Gpu, Nic)


class Difference(msgspec.Struct, frozen=True):
    """Something that is not as it was: `subject` is the device or NUMA node, `before` and `now` what each map says."""

    kind: Kind
    subject: str
    before: str
    now: str


def differences(before: Machine, now: Machine) -> tuple[Difference, ...]:
    """Everything in `now` that is not as it is in `before`; in the order of CPUs, NUMA nodes, GPUs, NICs, driver.

    What one of the maps does not know is no difference. A machine's name and kernel are not compared.
    """
    return tuple(difference for compare in _PARTS for difference in compare(before, now))


def _cpus(before: Machine, now: Machine) -> Iterator[Difference]:
    if before.cpu_model and now.cpu_model and before.cpu_model != now.cpu_model:
        yield Difference("cpu-model", "CPU", before.cpu_model, now.cpu_model)
    offline = now.offline_cpus - before.offline_cpus
    if offline:
        yield Difference("cpus-offline", "CPUs", f"{before.online_cpus} online", f"{offline} offline")
    was, has = before.online_cpus | before.offline_cpus, now.online_cpus | now.offline_cpus
    online = before.offline_cpus & now.online_cpus
    if was != has or online:
        yield Difference("cpus", "CPUs", f"{before.online_cpus} online", f"{now.online_cpus} online")
    threads = [len(machine.online_cpus) / max(len(machine.cores), 1) for machine in (before, now)]
    if was == has and not offline and not online and threads[0] != threads[1]:
        yield Difference("cpus", "cores", count(len(before.cores), "core"), count(len(now.cores), "core"))
    if before.isolated_cpus != now.isolated_cpus:
        isolated = [str(machine.isolated_cpus) or "none" for machine in (before, now)]
        yield Difference("cpus-isolated", "isolated CPUs", *isolated)
    if before.online_cpus == now.online_cpus and before.l3_caches and now.l3_caches:
        groups = [{cache.cpus for cache in machine.l3_caches} for machine in (before, now)]
        if groups[0] != groups[1]:
            yield Difference("l3", "L3 caches", *(_l3(machine) for machine in (before, now)))


def _l3(machine: Machine) -> str:
    sizes = sorted({len(cache.cpus) for cache in machine.l3_caches})
    shared = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
    return f"{count(len(machine.l3_caches), 'L3 cache')} of {shared} CPUs"


def _numa_nodes(before: Machine, now: Machine) -> Iterator[Difference]:
    """The division into NUMA nodes, that is SNC and NPS; where it is the same, each one's memory."""
    layout = [
        {node.id: node.cpus & before.online_cpus & now.online_cpus for node in one.numa_nodes} for one in (before, now)
    ]
    if layout[0] != layout[1]:
        yield Difference("numa-layout", "NUMA nodes", _layout(before), _layout(now))
        return
    has = {node.id: node.memory_bytes for node in now.numa_nodes}
    for node in before.numa_nodes:
        bytes = has[node.id]
        if node.memory_bytes is None or bytes is None:
            continue
        if abs(bytes - node.memory_bytes) > _MEMORY_TOLERANCE * node.memory_bytes:
            yield Difference("memory", numa_nodes([node.id]), size(node.memory_bytes), size(bytes))
    distances = [
        {node.id: node.distances for node in machine.numa_nodes if node.distances} for machine in (before, now)
    ]
    if all(distances) and distances[0] != distances[1]:
        yield Difference("numa-distances", "NUMA nodes", *(_distances(machine) for machine in (before, now)))
    yield from _huge_pages(before, now)


def _distances(machine: Machine) -> str:
    values = sorted({distance for node in machine.numa_nodes for distance in node.distances.values()})
    return f"distances {', '.join(map(str, values))}"


def _huge_pages(before: Machine, now: Machine) -> Iterator[Difference]:
    """The pools of huge pages, whose pages are no ordinary memory any more."""
    has = {node.id: node for node in now.numa_nodes}
    for was in before.numa_nodes:
        pools = [{pool.size: pool.total for pool in node.hugepages} for node in (was, has[was.id])]
        for bytes in sorted(pools[0].keys() | pools[1].keys()):
            totals = [pool.get(bytes, 0) for pool in pools]
            if None not in totals and totals[0] != totals[1]:
                words = [f"{total} of {size(bytes)}" for total in totals]
                yield Difference("huge-pages", numa_nodes([was.id]), *words)


def _layout(machine: Machine) -> str:
    """The NUMA nodes in words, with what their number for each socket is called."""
    with_cpus = sum(bool(node.cpus) for node in machine.numa_nodes)
    each = with_cpus // len(machine.sockets) if machine.sockets else 0
    words = f"{count(len(machine.numa_nodes), 'NUMA node')}"
    return f"{words}, {each} a socket" if each > 1 and each * len(machine.sockets) == with_cpus else words


def _gpus(before: Machine, now: Machine) -> Iterator[Difference]:
    uuids = [{gpu.uuid for gpu in machine.gpus if gpu.uuid} for machine in (before, now)]
    shared = uuids[0] & uuids[1]

    def key(gpu: Gpu) -> str:
        return gpu.uuid if shared and gpu.uuid else gpu.bdf

    gone, new, both = _matched(before.gpus, now.gpus, key)
    for gpu in gone:
        yield Difference("gpu-gone", _gpu(gpu), _place(gpu), "it is not there")
    for gpu in new:
        yield Difference("gpu-new", _gpu(gpu), "it was not there", _place(gpu))
    for was, gpu in both:
        if was.bdf != gpu.bdf:
            yield Difference("gpu-moved", _gpu(gpu), _place(was), _place(gpu))
        elif was.uuid and gpu.uuid and was.uuid != gpu.uuid and _REDACTED not in f"{was.uuid} {gpu.uuid}":
            yield Difference("gpu-replaced", f"GPU {gpu.bdf}", was.uuid, gpu.uuid)
        yield from _device(_gpu(gpu), was, gpu)
        slices = [_slices(one) for one in (was, gpu)]
        if slices[0] != slices[1]:
            yield Difference("mig", _gpu(gpu), slices[0], slices[1])


def _gpu(gpu: Gpu) -> str:
    return f"GPU {gpu.uuid or gpu.bdf}"


def _slices(gpu: Gpu) -> str:
    return f"{count(len(gpu.mig_devices), 'MIG device')}" if gpu.mig_enabled else "MIG off"


def _nics(before: Machine, now: Machine) -> Iterator[Difference]:
    """The physical functions: virtual ones come and go."""
    first, second = ([nic for nic in one.nics if nic.physical_function is None] for one in (before, now))
    gone, new, both = _matched(first, second, lambda nic: nic.bdf)
    for nic in gone:
        yield Difference("nic-gone", _nic(nic), _place(nic), "it is not there")
    for nic in new:
        yield Difference("nic-new", _nic(nic), "it was not there", _place(nic))
    for was, nic in both:
        yield from _device(_nic(nic), was, nic)


def _nic(nic: Nic) -> str:
    name = nic_name(nic)
    return f"NIC {name}" if name == nic.bdf else f"NIC {name} ({nic.bdf})"


def _matched(
    before: Iterable[T], now: Iterable[T], key: Callable[[T], str]
) -> tuple[list[T], list[T], list[tuple[T, T]]]:
    """The devices that only the first has, those that only the second has, and the pairs."""
    was, has = {key(one): one for one in before}, {key(one): one for one in now}
    return (
        [one for name, one in was.items() if name not in has],
        [one for name, one in has.items() if name not in was],
        [(one, has[name]) for name, one in was.items() if name in has],
    )


def _place(device: Gpu | Nic) -> str:
    model = f"{short_model(device.model)} at " if device.model else ""
    where = "unknown NUMA node" if device.numa_node is None else f"NUMA node {device.numa_node}"
    return f"{model}{device.bdf}, {where}"


def _model(device: Gpu | Nic) -> str:
    return short_model(device.model) if device.model else f"{device.vendor_id}:{device.device_id}"


def _device(subject: str, was: Gpu | Nic, now: Gpu | Nic) -> Iterator[Difference]:
    """Kind, driver, NUMA node and link. A link's speed falls while it idles, so of that only the highest counts."""
    if (was.vendor_id, was.device_id) != (now.vendor_id, now.device_id):
        yield Difference("model", subject, *(_model(one) for one in (was, now)))
    if was.driver != now.driver:
        yield Difference("device-driver", subject, *(f"driver {one.driver or 'none'}" for one in (was, now)))
    if was.numa_node != now.numa_node:
        nodes = ["unknown" if one.numa_node is None else str(one.numa_node) for one in (was, now)]
        yield Difference("numa-node", subject, f"NUMA node {nodes[0]}", f"NUMA node {nodes[1]}")
    for name, unit in (("width", "lanes"), ("max_width", "lanes at most"), ("max_speed", "GT/s at most")):
        first, second = getattr(was.pcie, name), getattr(now.pcie, name)
        if first is not None and second is not None and first != second:
            yield Difference("link", subject, f"{first:g} {unit}", f"{second:g} {unit}")


def _driver(before: Machine, now: Machine) -> Iterator[Difference]:
    first, second = (one.nvidia_driver.version if one.nvidia_driver else None for one in (before, now))
    if first != second:
        yield Difference("driver", "NVIDIA driver", first or "none", second or "none")


_PARTS = (_cpus, _numa_nodes, _gpus, _nics, _driver)
