"""Checks of device plugins: what they registered against the machine, and the NUMA nodes that they advertise.

Sources: pkg/kubelet/cm/devicemanager (manager.go: what is in the checkpoint, and when), and the plugins' own code for
the ids of their devices: NVIDIA's UUIDs (`::n` behind replicas'), SR-IOV's PCI addresses, KubeVirt's IOMMU groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from numalign.bdf import normalise
from numalign.checks.dra import registered
from numalign.checks.finding import Check, Finding, Gap, Node, Severity
from numalign.checks.gaps import no_folder, unreadable
from numalign.checks.known import known_devices
from numalign.checks.resources import device_state, grouped
from numalign.kubelet.devices import DeviceState
from numalign.kubelet.podresources import Devices
from numalign.machine import Gpu
from numalign.probe.kubelet import DEVICE_PLUGINS, DEVICE_STATE, PLUGINS
from numalign.words import count, few, numa_nodes, printable, share

__all__ = ["DEVICES", "no_allocatable"]

_GPU_DRIVER = "gpu.nvidia.com"
_NIC_DRIVERS = ("dra.net", "sriovnetwork.k8snetworkplumbingwg.io")
_RESTART = "restart the plugin's pod on this node; its log says what it found"


class _Registered(NamedTuple):
    """Devices by resource, and where that is said."""

    place: str
    devices: Mapping[str, tuple[str, ...]]


def _registered(node: Node) -> _Registered | None:
    """The healthy devices by resource: what the kubelet says of them, else what it wrote down last."""
    resources = node.resources
    if resources.allocatable is not None:
        found: dict[str, tuple[str, ...]] = {}
        for group in resources.allocatable.devices:
            found[group.resource] = (*found.get(group.resource, ()), *group.ids)
        return _Registered(resources.socket, found)
    state = device_state(node.state)
    if isinstance(state, DeviceState):
        return _Registered(node.state.place(DEVICE_STATE), state.registered)
    return None


def _gpu_ids(node: Node) -> dict[str, dict[str, None]]:
    """The ids that name GPUs and MIG devices, replicas once, by resource."""
    found = _registered(node)
    known = known_devices(node.machine)
    return {
        resource: dict.fromkeys(names)
        for resource, ids in (found.devices if found else {}).items()
        if (names := [key for key in map(known.key, ids) if key.startswith(("GPU-", "MIG-")) or key in known.gpu_of])
    }


# -- what the plugins left in the kubelet's directory


def _state_unusable(node: Node) -> Iterator[Finding]:
    """A checkpoint that cannot be taken: the kubelet starts all the same, and has forgotten who has which devices."""
    problem = device_state(node.state)
    if isinstance(problem, str):
        yield Finding(
            id="device-state-unusable",
            severity="warning",
            place=node.state.place(DEVICE_STATE),
            message=f"the kubelet cannot take it ({problem}): after a restart it has forgotten which container has "
            "which devices, and gives them out again",
            remedy="drain the node, stop the kubelet, delete the file, start the kubelet",
        )


def _plugin_missing(node: Node) -> Iterator[Finding]:
    """GPUs that nobody hands out."""
    if _has_gpu_plugin(node) or registered(node.state, _GPU_DRIVER):
        return
    gpus = [gpu for gpu in node.machine.gpus if gpu.driver == "nvidia"]
    yield Finding(
        id="device-plugin-missing",
        severity="error",
        place=node.state.place(DEVICE_PLUGINS),
        message=f"a kubelet runs, and neither a device plugin nor a DRA driver hands out the {count(len(gpus), 'GPU')}",
        remedy="install NVIDIA's device plugin, or look into its log: it registers anew when the kubelet was restarted",
    )


def _has_gpu_plugin(node: Node) -> bool:
    return any(map(_is_nvidias, node.state.device_plugins)) or bool(_gpu_ids(node))


def _is_nvidias(socket: str) -> bool:
    return socket.startswith("nvidia")


def _plugin_dead(node: Node) -> Iterator[Finding]:
    """Sockets that a plugin left: its devices are unhealthy, and are taken off the node after five minutes."""
    dead = node.resources.dead_sockets or ()
    living = any(_is_nvidias(name) and printable(name) not in dead for name in node.state.device_plugins)
    for name in dead:
        of_gpus = _is_nvidias(name)
        left_over = of_gpus and living and _all_given_out(node)
        effect = "another hands out the GPUs" if left_over else "the kubelet gives out none of its devices"
        yield Finding(
            id="device-plugin-dead",
            severity="info" if left_over else "error" if of_gpus else "warning",
            place=f"{node.state.place(DEVICE_PLUGINS)}/{name}",
            message=f"nobody listens on this socket of a device plugin: the plugin has ended, and {effect}",
            remedy="delete it" if left_over else _RESTART,
        )


def _all_given_out(node: Node) -> bool:
    """Whether the kubelet itself says that every GPU is healthy: then a plugin serves them all."""
    return node.resources.allocatable is not None and bool(_gpu_ids(node)) and not any(_gpu_not_registered(node))


def _dra_beside(node: Node) -> Iterator[Finding]:
    """Two that hand out the same devices."""
    found = _registered(node)
    nics = {nic.bdf for nic in node.machine.nics}
    devices = found.devices if found else {}
    of_nics = [resource for resource, ids in devices.items() if not nics.isdisjoint(map(normalise, ids))]
    rivals = [(_GPU_DRIVER, "GPUs", list(_gpu_ids(node))), *((driver, "NICs", of_nics) for driver in _NIC_DRIVERS)]
    for driver, what, resources in rivals:
        if resources and registered(node.state, driver):
            yield Finding(
                id="dra-beside-plugin",
                severity="error",
                place=node.state.place(PLUGINS),
                message=f"the DRA driver {driver} is registered, and a device plugin hands out {what} too "
                f"({few(resources)}): neither knows what the other gave, so two pods can get one device",
                remedy=f"take the driver {driver} or the device plugin off this node",
            )


# -- what is registered, against the machine


def _not_there(node: Node) -> Iterator[Finding]:
    """Registered devices that the machine does not have (any more)."""
    found = _registered(node)
    known = known_devices(node.machine)
    for resource, ids in (found.devices if found else {}).items():
        gone = [key for key in dict.fromkeys(map(known.key, ids)) if known.would_have(key) and not known.has(key)]
        if found and gone:
            verb = "is" if len(gone) == 1 else "are"
            yield Finding(
                id="device-not-there",
                severity=_while_running(node),
                place=found.place,
                message=f"{resource}: {few(gone)} {verb} registered, and not on this machine",
                remedy=_RESTART,
            )


def _gpu_not_registered(node: Node) -> Iterator[Finding]:
    """GPUs, and MIG devices, that no plugin hands out."""
    found = _registered(node)
    ids = {id for names in _gpu_ids(node).values() for id in names}
    lost: list[str] = []
    for gpu in _plugin_gpus(node):
        own = {gpu.uuid, gpu.bdf, f"nvidia{gpu.minor}"}
        slices = [device.uuid for device in gpu.mig_devices if device.uuid]
        missing = [uuid for uuid in slices if uuid not in ids]
        if own & ids or (slices and not missing):
            continue
        if slices and len(missing) < len(slices):
            lost.append(f"{len(missing)} of {len(slices)} MIG devices of GPU {gpu.index}")
        elif not gpu.mig_enabled or slices:
            lost.append(f"GPU {gpu.index} ({gpu.bdf}, {gpu.uuid})")
    if found and lost:
        verb = "is" if len(lost) == 1 and lost[0].startswith("GPU") else "are"
        yield Finding(
            id="gpu-not-registered",
            severity=_while_running(node),
            place=found.place,
            message=f"{few(lost)} {verb} not among the healthy devices of {few(list(_gpu_ids(node)))}: no pod gets "
            "them",
            remedy="look into the device plugin's log and the kernel's (dmesg) for Xid errors; " + _RESTART,
        )


def _plugin_gpus(node: Node) -> list[Gpu]:
    """The GPUs that NVIDIA's plugin sees."""
    return [gpu for gpu in node.machine.gpus if gpu.driver == "nvidia"]


def _mig_uneven(node: Node) -> Iterator[Finding]:
    """GPUs that are divided in different ways: under the plugin's strategy `single` they must be alike."""
    layouts: dict[str, list[int]] = {}
    for gpu in _plugin_gpus(node):
        layouts.setdefault(_layout(gpu), []).append(gpu.index)
    if len(layouts) < 2:
        return
    single = [name for name, ids in _gpu_ids(node).items() if "/mig-" not in name and any(map(_is_mig, ids))]
    said = "; ".join(f"GPU {few([str(i) for i in of], 8)}: {layout}" for layout, of in layouts.items())
    more = f", and {few(single)} counts them as if they were alike (strategy single)" if single else ""
    yield Finding(
        id="mig-uneven",
        severity="error" if single else "info",
        place="machine",
        message=f"the GPUs are not divided alike: {said}{more}",
        remedy="divide them alike, or set the device plugin's migStrategy to mixed" if single else None,
    )


def _layout(gpu: Gpu) -> str:
    if not gpu.mig_enabled:
        return "MIG off"
    names = [device.name or "a MIG device" for device in gpu.mig_devices]
    kinds = [f"{names.count(name)} x {name}" for name in sorted(set(names))]
    return ", ".join(kinds) or "MIG on, not divided"


def _is_mig(id: str) -> bool:
    return id.startswith("MIG-")


def _mig_unused(node: Node) -> Iterator[Finding]:
    """GPUs with MIG on that are given out whole, or not at all."""
    ids = {id for names in _gpu_ids(node).values() for id in names}
    for gpu in _plugin_gpus(node):
        if not gpu.mig_enabled:
            continue
        if not gpu.mig_devices:
            said, remedy = "no MIG device on it, so nothing of it can be used", "make MIG devices, or turn MIG off"
        elif gpu.uuid in ids:
            said = "the plugin gives it out whole (strategy none), so a container sees one of its MIG devices at most"
            remedy = "set the device plugin's migStrategy to single or mixed, or turn MIG off"
        else:
            continue
        yield Finding(
            id="mig-unused",
            severity="warning",
            place=gpu.bdf,
            message=f"GPU {gpu.index} has MIG on and {said}",
            remedy=remedy,
        )


# -- the NUMA nodes that the plugins advertise


def _advertised(node: Node) -> tuple[str, tuple[Devices, ...]]:
    """Devices with their NUMA nodes, and where that is said: all, or where the kubelet gave no answer, those in use."""
    resources = node.resources
    if resources.allocatable is not None:
        return resources.socket, resources.allocatable.devices
    state = device_state(node.state)
    place = node.state.place(DEVICE_STATE)
    if not isinstance(state, DeviceState):
        return place, ()
    by_node: dict[str, dict[int, list[str]]] = {}
    for containers in state.entries.values():
        for assigned in containers.values():
            for resource, one in assigned.items():
                for numa_node, ids in one.ids.items():
                    by_node.setdefault(resource, {}).setdefault(numa_node, []).extend(ids)
    return place, tuple(group for resource, ids in by_node.items() for group in grouped(resource, ids))


def _numa_differs(node: Node) -> Iterator[Finding]:
    """Devices that the kubelet aligns with another NUMA node than the kernel has them on."""
    place, devices = _advertised(node)
    known = known_devices(node.machine)
    wrong: dict[tuple[str, tuple[int, ...], int | None], dict[str, None]] = {}
    for group in devices:
        said = group.numa_nodes or ()
        for key in map(known.key, group.ids) if said else ():
            if key in known.numa_node and known.numa_node[key] not in said:
                alike = group.resource, said, known.numa_node[key]
                wrong.setdefault(alike, {})[known.label(key)] = None
    for (resource, said, kernels), labels in wrong.items():
        verb = "is" if len(labels) == 1 else "are"
        them = "it" if len(labels) == 1 else "them"
        truth = f"the kernel knows no NUMA node of {them}" if kernels is None else f"the kernel has {them} on {kernels}"
        yield Finding(
            id="device-numa-differs",
            severity="error",
            place=place,
            message=f"{resource}: {few(list(labels))} {verb} advertised on {numa_nodes(said)}; {truth}: the kubelet "
            "aligns CPUs and memory with the wrong NUMA node",
            remedy="restart the device plugin; where it makes up a NUMA node, use another",
        )


def _without_topology(node: Node) -> Iterator[Finding]:
    """Resources of which the kubelet knows no NUMA node: no policy aligns anything with them."""
    place, devices = _advertised(node)
    known = known_devices(node.machine)
    for resource in dict.fromkeys(group.resource for group in devices):
        groups = [group for group in devices if group.resource == resource]
        ids = [id for group in groups for id in group.ids]
        blind = [known.key(id) for group in groups if not group.numa_nodes for id in group.ids]
        if not blind:
            continue
        placed = any(known.numa_node.get(key) is not None for key in blind)
        hardware = resource.startswith("rdma/") or any(map(known.has, blind)) or known.passed_through >= set(blind)
        severity: Severity = "warning" if hardware else "info"
        yield Finding(
            id="device-without-topology",
            severity=severity,
            place=place,
            message=f"{resource}: {share(len(blind), len(ids), 'device')} advertised without a NUMA node: "
            f"{_effect(len(blind) < len(ids))}",
            remedy=_topology_remedy(resource, placed, hardware),
        )


def _effect(some: bool) -> str:
    if some:
        return "under an alignment policy they are never given to a pod that could be aligned"
    return "no policy aligns CPUs and memory with them"


def _topology_remedy(resource: str, placed: bool, hardware: bool) -> str | None:
    if resource.startswith("rdma/"):
        return "the shared RDMA plugin never sends NUMA nodes: make one resource for each NUMA node, or use SR-IOV"
    if placed:
        return "the kernel knows the NUMA node: take excludeTopology out of the plugin's pool, or update the plugin"
    return "the kernel knows no NUMA node either: correct the firmware's or the hypervisor's" if hardware else None


def _odd(node: Node) -> Iterator[Finding]:
    """What the kubelet said that cannot be, and was left out."""
    for answer in (node.resources.allocatable, node.resources.pods):
        for text in answer.odd if answer else ():
            yield Finding(
                id="pod-resources-odd",
                severity="warning",
                place=node.resources.socket,
                message=printable(text),
                remedy="look which device plugin sends this",
            )


# -- when a check is not made


def _no_checkpoint(node: Node) -> Gap | None:
    gap = no_folder(node.state) or unreadable(node.state, DEVICE_STATE)
    if gap is None and DEVICE_STATE not in node.state.files:
        return Gap("not-applicable", "no kubelet_internal_checkpoint")
    return gap


def _no_registered(node: Node) -> Gap | None:
    if node.resources.allocatable is not None:
        return None
    gap = _no_checkpoint(node)
    if gap is None and isinstance(device_state(node.state), str):
        return Gap("not-looked-at", f"{node.state.place(DEVICE_STATE)} cannot be read")
    return gap


def _no_plugins(node: Node) -> Gap | None:
    if not _plugin_gpus(node):
        return Gap("not-applicable", "no GPUs with NVIDIA's driver")
    gap = no_folder(node.state) or unreadable(node.state, DEVICE_PLUGINS) or unreadable(node.state, PLUGINS)
    if gap is None and not node.resources.running:
        return Gap("not-looked-at", "no running kubelet was found")
    return gap


def _no_sockets(node: Node) -> Gap | None:
    gap = no_folder(node.state) or unreadable(node.state, DEVICE_PLUGINS)
    if gap is None and node.resources.dead_sockets is None:
        why = "sockets are tried on the host itself only" if node.resources.running else "no running kubelet was found"
        return Gap("not-looked-at", why)
    return gap


def _no_drivers(node: Node) -> Gap | None:
    return no_folder(node.state) or unreadable(node.state, PLUGINS) or _no_registered(node)


def _no_gpu_ids(node: Node) -> Gap | None:
    if not _plugin_gpus(node):
        return Gap("not-applicable", "no GPUs with NVIDIA's driver")
    gap = _no_registered(node)
    if gap is None and any(gpu.uuid is None for gpu in _plugin_gpus(node)):
        return Gap("not-looked-at", "the GPUs' UUIDs are not known")
    if gap is None and not _gpu_ids(node):
        gpus_named = "no device plugin registered devices that name GPUs"
        return Gap("not-applicable" if registered(node.state, _GPU_DRIVER) else "not-looked-at", gpus_named)
    return gap


def _no_mig(node: Node) -> Gap | None:
    return None if any(gpu.mig_enabled for gpu in node.machine.gpus) else Gap("not-applicable", "no GPU has MIG on")


def no_allocatable(node: Node) -> Gap | None:
    """Of all devices only the kubelet itself says the NUMA nodes."""
    if node.resources.allocatable is not None:
        return None
    silence = node.resources.silence.get("GetAllocatableResources")
    return no_folder(node.state) or Gap("not-looked-at", silence.reason if silence else "no running kubelet was found")


def _while_running(node: Node) -> Severity:
    """What is wrong while no kubelet runs may right itself when it starts and the plugins register."""
    return "error" if node.resources.running else "warning"


DEVICES: tuple[Check[Node], ...] = (
    Check(("device-state-unusable",), _state_unusable, _no_checkpoint),
    Check(("device-plugin-missing",), _plugin_missing, _no_plugins),
    Check(("device-plugin-dead",), _plugin_dead, _no_sockets),
    Check(("dra-beside-plugin",), _dra_beside, _no_drivers),
    Check(("device-not-there",), _not_there, _no_registered),
    Check(("gpu-not-registered",), _gpu_not_registered, _no_gpu_ids),
    Check(("mig-uneven",), _mig_uneven, _no_mig),
    Check(("mig-unused",), _mig_unused, _no_mig),
    Check(("device-numa-differs",), _numa_differs, _no_registered),
    Check(("device-without-topology",), _without_topology, no_allocatable),
    Check(("pod-resources-odd",), _odd, no_allocatable),
)
"""Checks of what device plugins registered, made whatever the configuration is."""
