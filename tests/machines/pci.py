"""The PCI tree of a machine: bridges, GPUs, NICs, and what their drivers show."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ruamel.yaml import YAML

from tests.machines.cpus import Layout
from tests.machines.tree import FIXTURES, NVIDIA, MachineError, Tree, parse_list, refuse_unknown

FUNCTION_KEYS = (
    "id sub class rev driver link max "  # vendor:device, subsystem, class, revision; speed x width now and at most
    "numa cpus iommu under "  # numa=absent leaves the file out; under=: what sysfs puts above a host bridge
    "sriov pf "  # numvfs/totalvfs of a physical function; for a virtual function its physical one, as BB:DD.F
    "ib layer state rate guid image board fw "  # the RDMA device; image is its sys_image_guid, rate is in Gb/s
    "net oper via "  # interfaces, operstate, what stands between PCI function and interface (virtio0)
    "model minor uuid vbios mig memnode"  # mig="1/0 2/0": GPU instance/compute instance; NUMA node of memory
)
RATES = {10: "4X SDR", 25: "1X EDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR", 800: "4X XDR"}
PORT_STATES = {
    "DOWN": ("1: DOWN", "3: Disabled"),
    "INIT": ("2: INIT", "5: LinkUp"),
    "ARMED": ("3: ARMED", "5: LinkUp"),
    "ACTIVE": ("4: ACTIVE", "5: LinkUp"),
}


@dataclass(frozen=True)
class Place:
    """A host bridge or a function of the outline; path is its directory, address its full name."""

    address: str
    path: str
    indent: int
    keys: dict[str, str]

    @property
    def domain(self) -> str:
        return self.address.removeprefix("pci").partition(":")[0]

    def key(self, name: str, default: str = "") -> str:
        return self.keys.get(name, default)


def read_outline(text: str, kinds: Mapping[str, dict[str, str]]) -> list[Place]:
    """The functions of a PCI outline, in its order."""
    above: list[Place] = []
    functions: list[Place] = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        indent = len(line) - len(line.lstrip())
        while words and above and above[-1].indent >= indent:
            above.pop()
        while words:
            end = words.index("/") if "/" in words else len(words)
            above.append(_place(words[:end], indent, above[-1] if above else None, kinds))
            functions += above[-1:] if not words[0].startswith("pci") else []
            words = words[end + 1 :]
    return functions


def _place(words: list[str], indent: int, parent: Place | None, kinds: Mapping[str, dict[str, str]]) -> Place:
    inherited = {key: parent.keys[key] for key in ("numa", "cpus") if parent and key in parent.keys}
    if words[0].startswith("pci"):
        keys = inherited | read_keys(words[1:])
        above = parent.path if parent else "/".join(filter(None, ("sys/devices", keys.get("under"))))
        return Place(words[0], f"{above}/{words[0]}", indent, keys)
    kind = "".join(words[1:2])
    if not parent or kind not in kinds:
        raise MachineError(f"pci: {words[0]} {kind}: no host bridge above it, or no such kind")
    address = f"{parent.domain}:{words[0]}"
    return Place(address, f"{parent.path}/{address}", indent, inherited | kinds[kind] | read_keys(words[2:]))


def read_keys(words: Iterable[str]) -> dict[str, str]:
    """key=value words."""
    keys = {key: value for key, _, value in (word.partition("=") for word in words)}
    refuse_unknown(keys, FUNCTION_KEYS, "pci")
    return keys


@cache
def standard_kinds() -> dict[str, dict[str, str]]:
    """The kinds of functions that all machines share."""
    kinds = YAML(typ="safe").load(FIXTURES / "kinds.yaml")
    return {name: read_keys(shlex.split(words)) for name, words in kinds.items()}


def add_pci(tree: Tree, machine: Mapping[str, Any], layout: Layout, name: str) -> None:
    """/sys/bus/pci, the devices, /sys/class/net, /sys/class/infiniband and /proc/driver/nvidia."""
    kinds = {key: read_keys(shlex.split(words)) for key, words in machine.get("kinds", {}).items()}
    functions = read_outline(machine.get("pci", ""), standard_kinds() | kinds)
    tree.directories |= {"sys/bus/pci/devices", "sys/bus/pci/drivers"}
    add_loopback(tree)
    physical = {function.address: function for function in functions}
    for function in functions:
        add_function(tree, function, layout)
        add_link_state(tree, function)
        pf = physical[f"{function.domain}:{function.key('pf')}"] if function.key("pf") else None
        add_sriov(tree, function, pf)
        if function.key("ib"):
            add_rdma(tree, function, pf)
        for at, interface in enumerate(filter(None, function.key("net").split(","))):
            add_netdev(tree, function, interface, at)
        if "nvidia" in machine and function.key("driver") == "nvidia":
            add_gpu(tree, function, name)
    for bond, values in machine.get("bonds", {}).items():
        add_bond(tree, bond, values["slaves"], values["mode"])
    if "nvidia" in machine:
        add_nvidia(tree, machine, functions)


def add_function(tree: Tree, function: Place, layout: Layout) -> None:
    """What every PCI function has, and where it is found."""
    path, numa, driver = function.path, function.key("numa", "-1"), function.key("driver", "none")
    near = layout.online if numa in ("-1", "absent") else layout.nodes.get(int(numa), [])
    cpu_list, mask = layout.texts(parse_list(function.key("cpus")) or near)
    tree.put(path, {"local_cpulist": cpu_list, "local_cpus": mask, "enable": int(driver != "none")})
    if numa != "absent":
        tree.put(path, {"numa_node": numa})
    add_identity(tree, function)
    tree.links |= {f"sys/bus/pci/devices/{function.address}": path, f"{path}/subsystem": "sys/bus/pci"}
    if driver != "none":
        home = f"sys/bus/pci/drivers/{driver}"
        tree.links |= {f"{path}/driver": home, f"{home}/{function.address}": path}
    if group := function.key("iommu"):
        home = f"sys/kernel/iommu_groups/{group}"
        tree.links |= {f"{path}/iommu_group": home, f"{home}/devices/{function.address}": path}


def add_identity(tree: Tree, function: Place) -> None:
    """Ids and class, one file each and together in uevent (drivers/pci/pci-driver.c, pci_uevent) and modalias."""
    ids = [*function.key("id").split(":"), *function.key("sub", "0000:0000").split(":")]
    files = dict(zip(("vendor", "device", "subsystem_vendor", "subsystem_device"), ids, strict=True))
    number = int(function.key("class"), 16)
    files |= {"class": f"{number:06x}", "revision": function.key("rev", "00")}
    tree.put(function.path, {name: f"0x{value}" for name, value in files.items()})
    vendor, device, subvendor, subdevice = map(str.upper, ids)
    alias = f"pci:v0000{vendor}d0000{device}sv0000{subvendor}sd0000{subdevice}"
    alias += f"bc{number >> 16:02X}sc{number >> 8 & 255:02X}i{number & 255:02X}"
    lines = {"DRIVER": function.key("driver", "none"), "PCI_CLASS": f"{number:X}", "PCI_ID": f"{vendor}:{device}"}
    lines |= {"PCI_SUBSYS_ID": f"{subvendor}:{subdevice}", "PCI_SLOT_NAME": function.address, "MODALIAS": alias}
    uevent = "\n".join(f"{key}={value}" for key, value in lines.items() if value != "none")
    tree.put(function.path, {"modalias": alias, "uevent": uevent})


def add_link_state(tree: Tree, function: Place) -> None:
    """PCIe speed and width; link=none where there is no PCIe capability, link=? where the kernel reads zeros (VFs)."""
    now = function.key("link")
    if now == "none":
        return
    for prefix, link in (("current", now), ("max", function.key("max", now))):
        speed, _, width = link.partition("x")
        text = f"{float(speed):.1f} GT/s PCIe" if width else "Unknown"
        tree.put(function.path, {f"{prefix}_link_speed": text, f"{prefix}_link_width": width or 0})


def add_sriov(tree: Tree, function: Place, pf: Place | None) -> None:
    """Counts of a physical function; links between it and its virtual ones, numbered in the outline's order."""
    if sriov := function.key("sriov"):
        configured, _, total = sriov.partition("/")
        tree.put(function.path, {"sriov_numvfs": configured, "sriov_totalvfs": total})
    if pf:
        number = sum(path.startswith(f"{pf.path}/virtfn") for path in tree.links)
        tree.links |= {f"{function.path}/physfn": pf.path, f"{pf.path}/virtfn{number}": function.path}


def octets(function: Place) -> list[int]:
    """Domain, bus, device and function in five bytes: what makes GUIDs and MAC addresses differ."""
    bus, slot, number = re.split("[:.]", function.address)[1:]
    return [*int(function.domain, 16).to_bytes(3, "big"), int(bus, 16), int(slot, 16) << 3 | int(number)]


def guid(function: Place, card: bool = False) -> str:
    """The GUID of a function, or of the card that it is one function of."""
    *low, last = octets(function)
    digits = bytes([2, 0, 0, *low, last & 0xF8 if card else last]).hex()
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def add_rdma(tree: Tree, function: Place, pf: Place | None) -> None:
    """The RDMA device and its one port."""
    name, device = function.key("ib"), function.key("id").partition(":")[2]
    path = f"{function.path}/infiniband/{name}"
    vendor_is_mellanox = function.key("id").startswith("15b3:")
    image = function.key("image") or guid(pf or function, card=True)
    files = {"node_guid": function.key("guid") or guid(function), "sys_image_guid": image, "node_desc": name}
    files |= {"node_type": "1: CA" if vendor_is_mellanox else "7: unspecified", "fw_ver": function.key("fw", "0.0.0")}
    if vendor_is_mellanox:
        files |= {"board_id": function.key("board", "MT_0000000000"), "hca_type": f"MT{int(device, 16)}"}
    tree.put(path, files)
    state, physical = PORT_STATES[function.key("state", "ACTIVE")]
    rate, layer = int(function.key("rate")), function.key("layer")
    port = {"state": state, "phys_state": physical, "link_layer": layer, "rate": f"{rate} Gb/sec ({RATES[rate]})"}
    tree.put(f"{path}/ports/1", port)
    tree.links |= {f"sys/class/infiniband/{name}": path, f"{path}/device": function.path}
    tree.links[f"{path}/subsystem"] = "sys/class/infiniband"


def add_netdev(tree: Tree, function: Place, name: str, number: int) -> None:
    """A network interface of the function, or of what stands between the two."""
    device = "/".join(filter(None, (function.path, function.key("via"))))
    up = function.key("oper", "up" if function.key("state", "ACTIVE") == "ACTIVE" else "down") == "up"
    infiniband = function.key("layer") == "InfiniBand"
    address = ":".join(f"{byte:02x}" for byte in (2, *octets(function)[1:], number))
    if infiniband:
        port_guid = bytes.fromhex(guid(function).replace(":", "")).hex(":")
        address = f"00:00:10:29:fe:80:00:00:00:00:00:00:{port_guid}"
    speed = int(function.key("rate", "0")) * 1000 if up else 0
    files = {"address": address, "type": 32 if infiniband else 1, "mtu": 2044 if infiniband else 1500}
    files |= {"operstate": "up" if up else "down", "carrier": int(up), "speed": speed or -1, "dev_port": number}
    _add_interface(tree, name, f"{device}/net/{name}", files)
    tree.links[f"{device}/net/{name}/device"] = device


def add_loopback(tree: Tree) -> None:
    """lo, which every host has."""
    files = {"address": "00:00:00:00:00:00", "type": 772, "mtu": 65536, "operstate": "unknown", "carrier": 1}
    _add_interface(tree, "lo", "sys/devices/virtual/net/lo", files)


def _add_interface(tree: Tree, name: str, path: str, files: Mapping[str, object]) -> None:
    tree.put(path, {**files, "uevent": f"INTERFACE={name}"})
    tree.links |= {f"sys/class/net/{name}": path, f"{path}/subsystem": "sys/class/net"}


def add_bond(tree: Tree, name: str, slaves: list[str], mode: str) -> None:
    """A bond of interfaces, both ways round, and the plain file that the driver leaves in /sys/class/net."""
    path = f"sys/devices/virtual/net/{name}"
    slave_paths = [tree.links[f"sys/class/net/{slave}"] for slave in slaves]
    files = {"address": tree.files[f"{slave_paths[0]}/address"].strip(), "type": 1, "mtu": 1500, "operstate": "up"}
    _add_interface(tree, name, path, files | {"speed": tree.files[f"{slave_paths[0]}/speed"].strip()})
    tree.put(f"{path}/bonding", {"slaves": " ".join(slaves), "mode": mode, "mii_status": "up"})
    for slave, slave_path in zip(slaves, slave_paths, strict=True):
        tree.links |= {f"{path}/lower_{slave}": slave_path, f"{slave_path}/master": path}
        tree.links[f"{slave_path}/upper_{name}"] = path
        tree.put(f"{slave_path}/bonding_slave", {"state": "active", "mii_status": "up"})
    masters = tree.files.get("sys/class/net/bonding_masters", "").split()
    tree.put("sys/class/net", {"bonding_masters": " ".join([*masters, name])})


def add_gpu(tree: Tree, function: Place, machine: str) -> None:
    """/proc/driver/nvidia/gpus/BDF (kernel-open/nvidia/nv-procfs.c); the UUID is made of machine and address."""
    path, minor = f"{NVIDIA}/gpus/{function.address}", function.key("minor")
    identity = function.key("uuid") or f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{machine}/{function.address}')}"
    tree.files[f"{path}/information"] = (
        f"Model: \t\t {function.key('model')}\nIRQ:   \t\t {200 + int(minor)}\nGPU UUID: \t {identity}\n"
        f"Video BIOS: \t {function.key('vbios', '96.00.74.00.01')}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
        f"DMA Mask: \t 0xfffffffffffff\nBus Location: \t {function.address}\nDevice Minor: \t {minor}\n"
        "GPU Excluded:\t No\n"
    )
    if node := function.key("memnode"):
        tree.files[f"{path}/numa_status"] = f"Node:      {node}\nStatus:    online\n"
    for gpu_instance, _, compute_instance in (instance.partition("/") for instance in function.key("mig").split()):
        capability = f"{NVIDIA}/capabilities/gpu{minor}/mig/gi{gpu_instance}"
        number = mig_minor(int(minor), int(gpu_instance))
        tree.files[f"{capability}/access"] = _capability(number)
        tree.files[f"{capability}/ci{compute_instance}/access"] = _capability(number + 1 + int(compute_instance))


def mig_minor(gpu: int, gpu_instance: int) -> int:
    """The device minor of a GPU instance: 15 to a GPU, each followed by its 8 compute instances, from 3 on."""
    return 3 + (gpu * 15 + gpu_instance) * 9


def _capability(minor: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"


def add_nvidia(tree: Tree, machine: Mapping[str, Any], functions: Iterable[Place]) -> None:
    """The driver's version; its table of MIG capabilities where a GPU is cut up."""
    arch, release = machine["arch"], machine["nvidia"]
    line = f"Open Kernel Module for {arch}  {release}  Release Build"
    if machine.get("nvidia-module") == "proprietary":
        line = f"{arch} Kernel Module  {release}  Sun May 12 19:39:15 UTC 2024"
    tree.put(NVIDIA, {"version": f"NVRM version: NVIDIA UNIX {line}\nGCC version:  gcc version 13.3.0"})
    if not any(function.key("mig") for function in functions):
        return
    lines = ["config 1", "monitor 2"]
    for gpu, instance in ((gpu, instance) for gpu in range(32) for instance in range(15)):
        first, stem = mig_minor(gpu, instance), f"gpu{gpu}/gi{instance}"
        lines.append(f"{stem}/access {first}")
        lines += [f"{stem}/ci{compute}/access {first + 1 + compute}" for compute in range(8)]
    tree.put("proc/driver/nvidia-caps", {"mig-minors": "\n".join(lines)})
    tree.files[f"{NVIDIA}/capabilities/mig/config"] = _capability(1)
    tree.files[f"{NVIDIA}/capabilities/mig/monitor"] = _capability(2)
