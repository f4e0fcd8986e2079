"""The map's warnings: what a person should know about a machine before relying on its alignment.

Each rule is a function from the map to warnings; RULES is the list of them, to be read from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from numalign.machine import Gpu, Machine, Nic, PcieLink, Warning
from numalign.probe.host import Problem
from numalign.probe.kernel import FIRMWARE_WORKAROUND
from numalign.probe.names import is_connectx
from numalign.probe.nvml import NvmlAnswer
from numalign.words import count, few, share, size

__all__ = ["RULES", "Seen", "all_warnings"]

KUBELET_MAX_NUMA_NODES = 8
"""More NUMA nodes than this need a policy option (kubelet: pkg/kubelet/cm/topologymanager/topology_manager.go)."""

_MAX_THREADS_PER_CORE = 8
_MEMORY_SLACK = 50
"""The part of MemTotal by which the sum of the NUMA nodes' may differ."""


class Seen(msgspec.Struct, frozen=True):
    """What the rules look at: the map without warnings, and what reading it met."""

    machine: Machine
    nvml: NvmlAnswer
    nvml_wanted: bool
    problems: tuple[Problem, ...]
    taint: int
    further_problems: int = 0


def all_warnings(seen: Seen) -> tuple[Warning, ...]:
    """What every rule has to say, in the order of RULES."""
    return tuple(warning for rule in RULES for warning in rule(seen))


def _files(seen: Seen) -> Iterator[Warning]:
    for problem in seen.problems:
        yield Warning(
            id=f"file-{problem.kind}",
            subject=f"/{problem.path}",
            message=f"/{problem.path}: {problem.reason}; left out",
        )
    if seen.further_problems:
        yield Warning(id="more-file-problems", message=f"{count(seen.further_problems, 'file')} more of that kind")


def _numa_directory(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    if not machine.numa_nodes:
        sockets = ", ".join(str(socket.id) for socket in machine.sockets) or "none known"
        yield Warning(
            id="no-numa-directory",
            message="there is no /sys/devices/system/node: what is NUMA here is not known; the kubelet takes each "
            f"socket for a NUMA node ({sockets}). In a container, mount the host's /sys",
        )
    elif len(machine.sockets) > 1 and len(machine.numa_nodes) == 1:
        off = "numa=off" in (machine.kernel_command_line or "").split()
        if not off and len(machine.cores) <= len(machine.sockets):
            return  # a guest with a socket for each vCPU, as hypervisors make them: nothing is turned off
        why = "numa=off is on the kernel's command line" if off else "NUMA is off or interleaved in the firmware"
        yield Warning(
            id="numa-off",
            message=f"{len(machine.sockets)} sockets, but one NUMA node: {why}, and alignment policies have no effect",
        )


def _memory_elsewhere(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    known = [node.memory_bytes for node in machine.numa_nodes]
    total, of_nodes = machine.memory_bytes, sum(bytes or 0 for bytes in known)
    if total and known and None not in known and abs(total - of_nodes) > total // _MEMORY_SLACK:
        yield Warning(
            id="memory-not-in-numa-nodes",
            message=f"the machine has {size(total)}, its NUMA nodes {size(of_nodes)} in all: the kubelet counts the "
            "first for pods, and its memory manager the second",
        )


def _many_numa_nodes(seen: Seen) -> Iterator[Warning]:
    nodes = seen.machine.numa_nodes
    if len(nodes) > KUBELET_MAX_NUMA_NODES:
        bare = sum(not node.cpus for node in nodes)
        yield Warning(
            id="many-numa-nodes",
            message=f"{len(nodes)} NUMA nodes ({bare} without CPUs, which count too): with a topology policy the "
            f"kubelet refuses to start on more than {KUBELET_MAX_NUMA_NODES} without max-allowable-numa-nodes",
        )


def _cores(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    told = (
        (core.socket, (core.cpu_core_ids or {}).get(cpu, core.core_id)) for core in machine.cores for cpu in core.cpus
    )
    kubelet_cores = {(socket, core_id) for socket, core_id in told if core_id is not None}
    cpus, cores = len(machine.online_cpus), len(kubelet_cores)
    if cores and cpus > cores * _MAX_THREADS_PER_CORE:
        yield Warning(
            id="core-ids-not-believable",
            message=f"{cpus} CPUs claim to be {cores} {'core' if cores == 1 else 'cores'} by their core ids: the "
            "firmware's topology is broken, and the kubelet, which goes by them, finds no whole core to give out",
        )
    threads = {len(core.cpus) for core in machine.cores}
    if len(threads) > 1:
        odd = [str(core.cpus) for core in machine.cores if len(core.cpus) != max(threads)]
        yield Warning(
            id="threads-per-core-uneven",
            message=f"cores have {_either(sorted(threads))} online CPUs (fewer: {few(odd)}): the kubelet takes "
            f"{cpus} CPUs / {cores} cores = {cpus // cores if cores else 0} for the CPUs of a core everywhere",
        )


def _cpus_without_numa_node(seen: Seen) -> Iterator[Warning]:
    lost = seen.machine.online_cpus
    for node in seen.machine.numa_nodes:
        lost -= node.cpus
    if lost and seen.machine.numa_nodes:
        yield Warning(
            id="cpus-without-numa-node",
            message=f"CPUs {lost} are in no NUMA node: the kubelet, which counts the NUMA nodes' CPUs, "
            "does not see them",
        )


def _devices_unknown(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    for kind, devices in _kinds(machine):
        lost = [device.bdf for device in devices if device.numa_node is None]
        if not lost or len(machine.numa_nodes) == 1:  # on one NUMA node there is nothing to know
            continue
        them = "it" if len(lost) == 1 else "them"
        effect = f"device plugins send the kubelet no topology for {them}, and no policy aligns {them}"
        yield Warning(
            id=f"{kind.lower()}-numa-unknown",
            subject=lost[0] if len(lost) == 1 else None,
            message=f"the kernel knows no NUMA node of {share(len(lost), len(devices), kind)} ({few(lost)}): {effect}",
        )


def _devices_out_of_range(seen: Seen) -> Iterator[Warning]:
    ids = {node.id for node in seen.machine.numa_nodes}
    for kind, devices in _kinds(seen.machine):
        for device in devices:
            if ids and device.numa_node is not None and device.numa_node not in ids:
                yield Warning(
                    id="numa-node-does-not-exist",
                    subject=device.bdf,
                    message=f"{kind} {device.bdf} is on NUMA node {device.numa_node}, which this machine does not "
                    "have: a fault of the firmware",
                )


def _devices_in_one_place(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    nodes = [node for node in machine.numa_nodes if node.cpus]
    gpus = {gpu.numa_node for gpu in machine.gpus}
    if len(nodes) < 2 or len(machine.gpus) < 2 or len(gpus) != 1 or None in gpus:
        return
    (node,) = gpus
    bridges = {gpu.path[0] for gpu in machine.gpus if len(gpu.path) > 1}
    nics = {nic.numa_node for nic in machine.nics}
    doubt = ", as are all NICs: the firmware may not know better" if len(bridges) > 1 and nics == gpus else ""
    yield Warning(
        id="gpus-on-one-numa-node",
        message=f"{share(len(machine.gpus), len(machine.gpus), 'GPU')} are on NUMA node {node}{doubt}; the CPUs of the "
        "others are near no GPU",
    )


def _nvml_disagrees(seen: Seen) -> Iterator[Warning]:
    for gpu in seen.machine.gpus:
        if gpu.nvml_numa_node is not None and gpu.nvml_numa_node != gpu.numa_node:
            known = "does not know" if gpu.numa_node is None else f"says NUMA node {gpu.numa_node}"
            yield Warning(
                id="nvml-disagrees",
                subject=gpu.bdf,
                message=f"GPU {gpu.index} ({gpu.bdf}): NVML places it on NUMA node {gpu.nvml_numa_node}, "
                f"the kernel {known}; device plugin and kubelet go by the kernel",
            )


def _nvml(seen: Seen) -> Iterator[Warning]:
    machine, answer = seen.machine, seen.nvml
    if answer.status not in ("ok", "off") and seen.nvml_wanted:
        yield Warning(id=f"nvml-{answer.status}", message=answer.message or f"NVML: {answer.status}")
    for lost in answer.gpus:
        if lost.error:
            place = f" ({lost.bdf})" if lost.bdf else ""
            yield Warning(
                id="gpu-lost" if "lost" in lost.error.lower() else "gpu-nvml-error",
                subject=lost.bdf,
                message=f"NVML on GPU {lost.index}{place}: {lost.error}",
            )
    on_pci = {gpu.bdf for gpu in machine.gpus}
    for other in answer.gpus:
        if other.bdf and other.bdf not in on_pci:
            yield Warning(
                id="gpu-only-in-nvml",
                subject=other.bdf,
                message=f"NVML has a GPU at {other.bdf}, which is not on this machine's PCI: left out",
            )
    if answer.status == "ok":
        heard = {gpu.bdf for gpu in answer.gpus}
        for gpu in machine.gpus:
            if gpu.bdf not in heard and gpu.driver == "nvidia":
                yield Warning(
                    id="gpu-not-in-nvml",
                    subject=gpu.bdf,
                    message=f"the GPU at {gpu.bdf} is on PCI and has the nvidia driver, but NVML does not list it",
                )


def _gpu_drivers(seen: Seen) -> Iterator[Warning]:
    bare = [gpu.bdf for gpu in seen.machine.gpus if gpu.driver is None]
    if bare:
        yield Warning(
            id="gpu-no-driver",
            subject=bare[0] if len(bare) == 1 else None,
            message=f"{count(len(bare), 'GPU')} on PCI without a driver ({few(bare)}): load the nvidia kernel "
            "module, or bind vfio-pci to pass them through",
        )
    taken = [gpu.bdf for gpu in seen.machine.gpus if gpu.driver not in (None, "nvidia")]
    if taken:
        drivers = ", ".join(sorted({gpu.driver or "" for gpu in seen.machine.gpus if gpu.bdf in taken}))
        yield Warning(
            id="gpu-other-driver",
            subject=taken[0] if len(taken) == 1 else None,
            message=f"{count(len(taken), 'GPU')} bound to {drivers} ({few(taken)}): NVML and the NVIDIA device "
            "plugin do not see them",
        )


def _links_degraded(seen: Seen) -> Iterator[Warning]:
    for gpu in seen.machine.gpus:
        if _narrow(gpu.pcie):
            yield Warning(
                id="gpu-link-degraded",
                subject=gpu.bdf,
                message=f"GPU {gpu.index} ({gpu.bdf}) runs at x{gpu.pcie.width}, its link can do x{gpu.pcie.max_width}",
            )
    for nic in seen.machine.nics:
        link = nic.pcie
        if _narrow(link):
            yield Warning(
                id="nic-link-degraded",
                subject=nic.bdf,
                message=f"NIC {_nic(nic)} runs at x{link.width}, its link can do x{link.max_width}",
            )
        elif link.speed is not None and link.max_speed is not None and link.speed < link.max_speed:
            yield Warning(
                id="nic-link-degraded",
                subject=nic.bdf,
                message=f"NIC {_nic(nic)} runs at {link.speed:g} GT/s, its link can do {link.max_speed:g} GT/s",
            )


def _gpus_without_near_nic(seen: Seen) -> Iterator[Warning]:
    far = [
        gpu
        for gpu in seen.machine.gpus
        if gpu.nearest_nics is not None and gpu.nearest_nics.type == "SYS" and gpu.numa_node is not None
    ]
    if far:
        yield Warning(
            id="gpu-without-near-nic",
            message=f"{count(len(far), 'GPU')} with no NIC on {'its' if len(far) == 1 else 'their'} NUMA node "
            f"({few([gpu.bdf for gpu in far])}): traffic crosses the sockets",
        )


def _nic_oddities(seen: Seen) -> Iterator[Warning]:
    nics = seen.machine.nics
    shared = _rdma_over_bonds(seen.machine)
    for nic in nics:
        bare = not nic.rdma and nic.bdf not in shared
        if is_connectx(nic.vendor_id) and bare and nic.driver == "mlx5_core" and nic.physical_function is None:
            yield Warning(
                id="nic-without-rdma", subject=nic.bdf, message=f"NIC {_nic(nic)} is a ConnectX without an RDMA device"
            )
    cards: dict[str, list[Nic]] = {}
    for nic in nics:
        if nic.system_image_guid and nic.physical_function is None:
            cards.setdefault(nic.system_image_guid, []).append(nic)
    for card in cards.values():
        places = _places(card)
        if len(places) > 1:
            yield Warning(
                id="nic-socket-direct",
                subject=card[0].bdf,
                message=f"one card on NUMA nodes {_either(places, 'and')} (Socket Direct): "
                f"{few([nic.bdf for nic in card])}; use the function on the pod's own NUMA node",
            )
    by_bdf = {nic.bdf: nic for nic in nics}
    for bond in seen.machine.bonds:
        places = _places([by_bdf[bdf] for bdf in bond.nics])
        if len(places) > 1:
            yield Warning(
                id="bond-spans-numa-nodes",
                subject=bond.name,
                message=f"{bond.name} is made of NICs on NUMA nodes {_either(places, 'and')}: traffic over it is "
                "aligned with neither",
            )


def _reader(seen: Seen) -> Iterator[Warning]:
    machine = seen.machine
    confined = machine.confinement
    if confined is not None and confined.cpus is not None:
        where = "a container" if confined.container else "a cpuset"
        yield Warning(
            id="reader-confined",
            message=f"numalign ran in {where} of {len(confined.cpus)} of {len(machine.online_cpus)} CPUs "
            f"({confined.cpus}): what it could not see is missing",
        )
    elif confined is not None and confined.container:
        yield Warning(
            id="reader-in-container",
            message="numalign ran in a container: devices and processes of the host may be missing; "
            "with the host's / mounted, use --root",
        )
    if seen.taint & FIRMWARE_WORKAROUND:
        yield Warning(
            id="kernel-firmware-workaround",
            message="the kernel is tainted by a firmware workaround: a numa_node may have been written by hand, and "
            "is lost at the next boot",
        )


RULES: tuple[Callable[[Seen], Iterator[Warning]], ...] = (
    _reader,
    _numa_directory,
    _memory_elsewhere,
    _many_numa_nodes,
    _cores,
    _cpus_without_numa_node,
    _devices_unknown,
    _devices_out_of_range,
    _devices_in_one_place,
    _nvml,
    _nvml_disagrees,
    _gpu_drivers,
    _links_degraded,
    _gpus_without_near_nic,
    _nic_oddities,
    _files,
)


def _kinds(machine: Machine) -> tuple[tuple[str, Sequence[Gpu | Nic]], ...]:
    return (("GPU", machine.gpus), ("NIC", machine.nics))


def _rdma_over_bonds(machine: Machine) -> set[str]:
    """The NICs in a bond with a port of their own card that has an RDMA device: in a RoCE LAG one is for all ports
    (kernel: drivers/net/ethernet/mellanox/mlx5/core/lag)."""
    rdma = {nic.bdf for nic in machine.nics if nic.rdma}
    ports = [(bdf, other) for bond in machine.bonds for bdf in bond.nics for other in bond.nics if other in rdma]
    return {bdf for bdf, other in ports if bdf.rpartition(".")[0] == other.rpartition(".")[0]}


def _narrow(link: PcieLink) -> bool:
    return link.width is not None and link.max_width is not None and link.width < link.max_width


def _nic(nic: Nic) -> str:
    name = (*nic.rdma, *nic.netdevs)
    return f"{name[0]} ({nic.bdf})" if name else nic.bdf


def _places(nics: Iterable[Nic]) -> list[int]:
    return sorted({nic.numa_node for nic in nics if nic.numa_node is not None})


def _either(numbers: Sequence[int], word: str = "or") -> str:
    return f" {word} ".join(map(str, numbers))
