"""The machine's devices by the ids that device plugins give them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from numalign.bdf import normalise
from numalign.machine import Gpu, Machine, Nic
from numalign.words import nic_name

__all__ = ["Known", "known_devices"]

_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Known(msgspec.Struct, frozen=True):
    """Devices by id: a GPU's UUID, MIG devices' UUIDs, `nvidia0` (GKE's plugin), PCI addresses.

    `numa_node` is what a plugin reads: the kernel's numa_node alone, not what follows from local_cpulist. `functions`
    are all PCI functions, `passed_through` the IOMMU groups of GPUs and NICs that vfio-pci has. `gpus_told` and
    `mig_told`: the UUIDs of all of them are known.
    """

    gpu_of: Mapping[str, Gpu]
    nic_of: Mapping[str, Nic]
    numa_node: Mapping[str, int | None]
    functions: frozenset[str]
    passed_through: frozenset[str]
    gpus_told: bool
    mig_told: bool

    def key(self, id: str) -> str:
        """The id in one spelling: without the number of a replica (`GPU-…::3`, of other plugins `GPU-…-3`), addresses
        as the map has them."""
        uuid = _UUID.match(id)
        whole = uuid[0] if uuid else id.partition("::")[0]
        return whole if whole in self.gpu_of else normalise(whole) or whole

    def has(self, key: str) -> bool:
        """Whether the machine has the device."""
        return key in self.gpu_of or key in self.functions

    def would_have(self, key: str) -> bool:
        """Whether the id is one by which a device of the machine would be known, if it were there."""
        if key.startswith("MIG-"):
            return self.mig_told
        if key.startswith("GPU-"):
            return self.gpus_told
        return normalise(key) is not None and bool(self.functions)

    def label(self, key: str) -> str:
        """What a person calls it."""
        if key in self.gpu_of:
            return f"{'a MIG device of ' if key.startswith('MIG-') else ''}GPU {self.gpu_of[key].index}"
        nic = self.nic_of.get(key)
        return f"{nic_name(nic)} ({nic.bdf})" if nic and nic_name(nic) != nic.bdf else key


def known_devices(machine: Machine) -> Known:
    """The machine's devices by id."""
    gpu_of: dict[str, Gpu] = {}
    for gpu in machine.gpus:
        ids = (gpu.uuid, gpu.bdf, None if gpu.minor is None else f"nvidia{gpu.minor}")
        gpu_of.update({id: gpu for id in ids if id})
        gpu_of.update({device.uuid: gpu for device in gpu.mig_devices if device.uuid})
    nic_of = {nic.bdf: nic for nic in machine.nics}
    driven = [gpu for gpu in machine.gpus if gpu.driver == "nvidia"]
    heard = machine.nvidia_driver is not None and machine.nvidia_driver.nvml == "ok"
    return Known(
        gpu_of=gpu_of,
        nic_of=nic_of,
        numa_node={
            **{id: _read_by_plugins(gpu) for id, gpu in gpu_of.items()},
            **{bdf: _read_by_plugins(nic) for bdf, nic in nic_of.items()},
        },
        functions=frozenset((*nic_of, *(gpu.bdf for gpu in machine.gpus), *(d.bdf for d in machine.pci_devices))),
        passed_through=frozenset(
            str(device.iommu_group)
            for device in machine.devices()
            if device.driver == "vfio-pci" and device.iommu_group is not None
        ),
        gpus_told=all(gpu.uuid for gpu in driven),
        mig_told=heard,
    )


def _read_by_plugins(device: Gpu | Nic) -> int | None:
    return device.numa_node if device.numa_node_from == "numa_node" else None
