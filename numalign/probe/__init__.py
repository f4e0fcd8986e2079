"""Reading a host into a Machine. Nothing after this touches the host."""

from __future__ import annotations

from typing import Literal

import msgspec

from numalign import links
from numalign.errors import CannotRead
from numalign.machine import Core, Machine, NumaNode, NvidiaDriver, PciDevice
from numalign.probe import cpu, gpu, kernel, memory, names, nic, nvml, pci, warn
from numalign.probe.host import Host

__all__ = ["NAMES_RECORD", "NVML_RECORD", "NvmlMode", "probe"]

NvmlMode = Literal["auto", "off", "require"]

NVML_RECORD = "numalign/nvml.json"
"""Where a snapshot keeps NVML's answers."""
NAMES_RECORD = "numalign/names.json"
"""Where a snapshot keeps the hardware database's answers."""


def probe(host: Host, nvml_mode: NvmlMode = "auto") -> Machine:
    """The host's topology map.

    NVML is asked on the live host where NVIDIA devices are (`auto`), never (`off`), or must answer (`require`).
    Raises CannotRead where no CPU is found, or where NVML must answer and does not.
    """
    states = cpu.read_states(host)
    if not states.online:
        raise CannotRead(
            f"no CPUs found below {host.root or '/'}/{cpu.CPU}",
            hint="name a root directory that holds sys/ and proc/, or a snapshot (--machine FILE)",
        )
    topology = cpu.read_topology(host, states.online)
    numa_nodes = memory.read_numa_nodes(host, states.online)
    host.expect(pci.DEVICES)
    functions = pci.read_functions(host, numa_nodes)
    gpu_functions = tuple(
        function
        for function in functions
        if pci.is_gpu(function) and pci.physical_function(host, function.folder) is None
    )
    nic_functions = tuple(function for function in functions if pci.is_nic(function))
    device_names = _device_names(host, (*gpu_functions, *nic_functions))
    driver_version = gpu.driver_version(host)
    answer = _nvml(host, nvml_mode, wanted=bool(gpu_functions or driver_version))
    answer = gpu.at_kernel_addresses(answer, gpu_functions)
    nics = nic.read_nics(host, nic_functions, device_names)
    gpus = gpu.read_gpus(host, gpu_functions, answer, device_names, numa_nodes, nics)
    known = kernel.read_kernel(host)
    places: dict[str, links.Place] = {device.bdf: (device.path, device.numa_node) for device in gpus}
    places.update({device.bdf: (device.path, device.numa_node) for device in nics})
    machine = Machine(
        name=known.name,
        arch=known.arch,
        kernel=known.release,
        kernel_command_line=known.command_line,
        cpu_model=known.cpu_model,
        memory_bytes=memory.memory_total(host),
        online_cpus=states.online,
        offline_cpus=states.offline,
        possible_cpus=states.possible,
        isolated_cpus=states.isolated,
        nohz_full_cpus=states.nohz_full,
        sockets=topology.sockets,
        cores=tuple(_placed(topology.cores, numa_nodes)),
        l3_caches=topology.l3_caches,
        numa_nodes=numa_nodes,
        nvidia_driver=_nvidia_driver(driver_version, answer, bool(gpus)),
        gpus=gpus,
        nics=nics,
        bonds=nic.read_bonds(host, nics),
        links=links.all_links(places, gpu.nvlink_counts(answer)),
        pci_devices=tuple(_other(function) for function in functions if function.bdf not in places),
        confinement=kernel.read_confinement(host, states.online),
        warnings=(),
    )
    seen = warn.Seen(
        machine=machine,
        nvml=answer,
        nvml_wanted=bool(gpus),
        problems=tuple(host.problems[path] for path in sorted(host.problems)),
        further_problems=host.further_problems,
        taint=kernel.tainted(host),
    )
    return msgspec.structs.replace(machine, warnings=warn.all_warnings(seen))


def _placed(cores: tuple[Core, ...], numa_nodes: tuple[NumaNode, ...]) -> list[Core]:
    """The cores with their NUMA node."""
    node_of = {cpu: node.id for node in numa_nodes for cpu in node.cpus}
    return [msgspec.structs.replace(core, numa_node=node_of.get(core.cpus.first())) for core in cores]


def _nvml(host: Host, mode: NvmlMode, *, wanted: bool) -> nvml.NvmlAnswer:
    if mode == "off":
        return nvml.NOT_ASKED
    recorded = None if host.live else host.value(NVML_RECORD, nvml.decode)
    if recorded is not None:
        answer = recorded
    elif mode == "require" and not host.live:
        raise CannotRead(
            f"{host.root} holds no answer of NVML, and this host's is not its",
            hint="--nvml auto goes on without it; numalign snapshot on the host itself keeps the answer",
        )
    elif mode == "require" or (host.live and wanted):
        answer = nvml.query()
        host.remember(NVML_RECORD, msgspec.json.encode(answer))
    else:
        return nvml.NOT_ASKED
    if mode == "require" and answer.status != "ok":
        raise CannotRead(f"NVML: {answer.message or answer.status}", hint="--nvml auto goes on without it")
    return answer


def _nvidia_driver(version: str | None, answer: nvml.NvmlAnswer, gpus: bool) -> NvidiaDriver | None:
    found = answer.driver_version or version
    return NvidiaDriver(version=found, nvml=answer.status) if found or gpus else None


def _device_names(host: Host, functions: tuple[pci.Function, ...]) -> dict[str, str]:
    """The model of each function by its address: the built-in table's name, else the hardware database's."""
    ids = {function.bdf: (function.vendor_id or "", function.device_id or "") for function in functions}
    found: dict[tuple[str, str], str] = dict(names.KNOWN)
    unknown = {pair for pair in ids.values() if pair not in found and all(pair)}
    if unknown and host.live:
        from numalign.probe import udev

        looked_up = udev.lookup(unknown)
        host.remember(NAMES_RECORD, names.encode(looked_up))
        found.update(looked_up)
    elif unknown:
        found.update(host.value(NAMES_RECORD, names.decode) or {})
    return {bdf: found[pair] for bdf, pair in ids.items() if pair in found}


def _other(function: pci.Function) -> PciDevice:
    return PciDevice(
        bdf=function.bdf,
        class_id=function.class_id,
        vendor_id=function.vendor_id,
        device_id=function.device_id,
        driver=function.driver,
        numa_node=function.numa_node,
        parent=function.path[-2] if len(function.path) > 1 else None,
    )
