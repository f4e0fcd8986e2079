"""What device plugins offer on a node: NVIDIA's by the map, others as a person says it.

A resource's devices are written as counts on NUMA nodes: `8@0,8@1`; `4@0+1` are four that name both NUMA nodes, `63@-`
devices without topology. `none` is a resource that no plugin offers, `unregistered` one whose plugin has not come back
after the kubelet's start, and `@-` leaves the devices as they are known and takes their topology away.
Source: NVIDIA's k8s-device-plugin (internal/rm, internal/lm: resource names of MIG devices).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec

from numalign.admission.device import Device, Prefer
from numalign.admission.nvidia import aligned, link_scores
from numalign.cpuset import MAX_CPUS
from numalign.errors import CannotRead, WrongUsage
from numalign.kubelet import yaml
from numalign.machine import Gpu, Machine, MigDevice

__all__ = ["GPU", "MIG_STRATEGIES", "Offer", "given_offers", "gpu_offers", "has_profile"]
__all__ += ["preferences", "read_devices", "with_given"]

GPU = "nvidia.com/gpu"
MIG_STRATEGIES = ("none", "single", "mixed")
_MIG_NAME = re.compile(r"(\d+g\.\d+gb(?:\.[a-z0-9]+)?|\d+c\.\d+g\.\d+gb(?:\.[a-z0-9]+)?)")
_RESOURCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PART = re.compile(r"(\d{1,5})@(-|\d{1,5}(?:\+\d{1,5})*)")
_MOST_DEVICES = 10_000
_MOST_PREFERRED = 8
"""GPUs up to which the plugin's preference is worked out: the divisions that it compares grow without bound."""
_HOW = "such as openshift.io/vf=8@0,8@1, rdma/hca=63@- (no topology), nvidia.com/gpu=none or =unregistered"


class Offer(msgspec.Struct, frozen=True):
    """The devices of a resource, and who says so: `machine`, `option` or `state`."""

    resource: str
    devices: tuple[Device, ...]
    said_by: str


def gpu_offers(machine: Machine, strategy: str | None = None) -> list[Offer]:
    """What NVIDIA's plugin offers for the GPUs of a map. Without a MIG strategy `single` is taken where all GPUs are
    cut into devices of one profile, and `mixed` where only some are, or differently."""
    gpus = [gpu for gpu in machine.gpus if gpu.driver == "nvidia"]
    strategy = strategy or _strategy_of(gpus)
    by_name: dict[str, list[Device]] = {}
    for gpu in gpus:
        cut = [mig for mig in gpu.mig_devices if has_profile(mig)]
        numa = (gpu.numa_node,) if gpu.numa_node is not None and gpu.numa_node_from == "numa_node" else None
        if strategy == "none" or not gpu.mig_devices:
            if strategy == "none" or not (strategy == "single" and any(other.mig_devices for other in gpus)):
                by_name.setdefault(GPU, []).append(Device(GPU, gpu.uuid or gpu.bdf, numa))
            continue
        for number, mig in enumerate(cut):
            name = GPU if strategy == "single" else f"nvidia.com/mig-{_profile(mig.name)}"
            by_name.setdefault(name, []).append(Device(name, mig.uuid or f"{gpu.bdf}/{number}", numa))
    return [Offer(name, tuple(devices), "machine") for name, devices in by_name.items()]


def _strategy_of(gpus: Sequence[Gpu]) -> str:
    profiles = {_profile(mig.name) for gpu in gpus for mig in gpu.mig_devices}
    if not profiles:
        return "none"
    return "single" if len(profiles) == 1 and all(gpu.mig_devices for gpu in gpus) else "mixed"


def has_profile(mig: MigDevice) -> bool:
    """Whether the profile of a MIG device is known."""
    return _profile(mig.name) is not None


def _profile(name: str | None) -> str | None:
    found = _MIG_NAME.search((name or "").lower())
    return found[1] if found else None


def preferences(machine: Machine, offers: Iterable[Offer]) -> dict[str, Prefer]:
    """The preferred allocations of NVIDIA's plugin for whole GPUs; of more than 8 that are free any are taken."""
    ids = {gpu.bdf: gpu.uuid or gpu.bdf for gpu in machine.gpus}
    for offer in offers:
        own = {device.id for device in offer.devices}
        if offer.resource == GPU and own <= set(ids.values()):
            return {GPU: _remembered(aligned(link_scores(machine, ids)))}
    return {}


def _remembered(prefer: Prefer) -> Prefer:
    """A preference that is worked out once for the same question, and left open where that takes too long."""

    @cache
    def answer(available: tuple[str, ...], must: tuple[str, ...], size: int) -> Sequence[str]:
        return prefer(available, must, size)

    def ask(available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        return answer(tuple(available), tuple(must), size) if len(available) <= _MOST_PREFERRED else ()

    return ask


def given_offers(words: Iterable[str], table: Mapping[str, str] | None = None) -> dict[str, str]:
    """The specification of each resource: those of a file, and over them those of `--device RESOURCE=SPEC`.

    Raises WrongUsage.
    """
    found = dict(table or {})
    for word in words:
        name, equals, spec = word.partition("=")
        if not equals:
            raise WrongUsage(f"--device {word}: RESOURCE=DEVICES is wanted", hint=_HOW)
        found[name] = spec
    for name in found:
        if not _RESOURCE.fullmatch(name):
            raise WrongUsage(f"--device {name}: no name of a device plugin's resource", hint=_HOW)
    return found


def read_devices(data: bytes, source: str) -> dict[str, str]:
    """The specifications in a file: a mapping of resources to texts as --device takes them. Raises CannotRead."""
    parsed = yaml.read(data, source)
    if not isinstance(parsed.value, dict):
        raise CannotRead(f"{source}: a mapping of resources to devices is wanted", hint="openshift.io/vf: 8@0,8@1")
    for name, spec in parsed.value.items():
        if not isinstance(spec, str):
            line = parsed.places[name,][0]
            raise CannotRead(f"{source}:{line}: {name}: text is wanted, such as 8@0,8@1")
    return dict(parsed.value)


def with_given(offers: Sequence[Offer], specs: Mapping[str, str]) -> list[Offer]:
    """The offers with what a person says of their resources and of others. Devices that the kubelet has registered
    hold, and only lose their topology, or their plugin. Raises WrongUsage."""
    found = {offer.resource: offer for offer in offers}
    for name, spec in specs.items():
        known = found.get(name)
        if spec == "none":
            found.pop(name, None)
        elif spec == "unregistered":
            found[name] = Offer(name, (Device(name, "unregistered", None, healthy=False),), "option")
        elif spec == "@-":
            if known is None:
                raise WrongUsage(f"--device {name}=@-: its devices are not known", hint=f"--device {name}=8@- says 8")
            devices = tuple(msgspec.structs.replace(device, numa=None) for device in known.devices)
            found[name] = Offer(name, devices, "option")
        else:
            devices = _devices(name, spec)
            if known is None or known.said_by != "state":
                found[name] = Offer(name, devices, "option")
    return list(found.values())


def _devices(name: str, spec: str) -> tuple[Device, ...]:
    found: list[Device] = []
    for part in spec.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise WrongUsage(f"--device {name}={spec}: {part.strip() or 'nothing'!r} is no COUNT@NUMA", hint=_HOW)
        number, where = int(match[1]), match[2]
        numa = None if where == "-" else tuple(sorted({int(node) for node in where.split("+")}))
        if numa and numa[-1] >= MAX_CPUS:
            raise WrongUsage(f"--device {name}={spec}: NUMA node {numa[-1]} is beyond any machine's")
        if len(found) + number > _MOST_DEVICES:
            raise WrongUsage(f"--device {name}={spec}: more than {_MOST_DEVICES} devices")
        first = len(found)
        found += [Device(name, f"{name.rpartition('/')[2]}-{first + each}", numa) for each in range(number)]
    return tuple(found)
