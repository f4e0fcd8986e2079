"""Machines as text: turns tests/fixtures/sysfs/NAME.machine into a root directory that looks like that host's.

    python -m tests.machines dgx-h100 /tmp/dgx-h100     then     numalign inspect --root /tmp/dgx-h100

A machine is a YAML document; what a host would not say differently need not be said:

    about, source     what the machine shows; where the facts are published and what of them is inferred
    arch, kernel, hostname, cmdline, tainted        hostname is the file's name unless given
    cpuinfo           the lines of /proc/cpuinfo that all CPUs share; platform: its last lines (POWER)
    numa              {ids: {cpus, memory, movable, hugepages: {2048kB: total/free}}}; a later entry replaces an earlier
                      one; movable memory is not "normal" (a GPU's); `none` holds the CPUs of no NUMA node
    distances         ["0-3 4-7 21", …]: between the nodes of both lists, both ways; 20 where nothing is said
    threads, numbering   siblings of a NUMA node's CPUs: `split` (a first half and a second half) or `adjacent`
    cores             instead of both: "0-15/2 16-31/1", lists cut into cores of so many CPUs
    sockets           {id: cpus}; else one for each NUMA node with CPUs. core-id: a number that all CPUs claim
    caches            {L1d, L1i, L2, L3: "48K per core"}; or per socket, per numa, per 4 cores, per 0-7 8-15
    offline, possible, isolated, nohz-full   CPU lists. confined: {cpus, mems} of /proc/self/status
    nvidia            the driver's version; nvidia-module: open (default) or proprietary
    pci               an outline: host bridges (`pci0000:15 numa=0`), below them `BB:DD.F KIND key=value …`, more
                      indented below their bridge or after ` / ` on its line; numa= and cpus= hold for all below
    kinds             {name: "key=value …"}, beside those of kinds.yaml; the keys are FUNCTION_KEYS
    bonds             {bond0: {slaves: [a, b], mode: 802.3ad 4}}
    files, absent     {path: text} to write as it stands; paths (`*` within a name) to leave out with all below them
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FIXTURES = Path(__file__).parent / "fixtures" / "sysfs"
CPU, NODE, NVIDIA = "sys/devices/system/cpu", "sys/devices/system/node", "proc/driver/nvidia"

MACHINE_KEYS = (
    "about source arch kernel hostname cmdline tainted cpuinfo platform numa distances threads numbering cores sockets "
    "core-id caches offline possible isolated nohz-full confined nvidia nvidia-module pci kinds bonds files absent"
)
NODE_KEYS = "cpus memory movable hugepages"
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
HUGEPAGES = {"x86_64": (2048, 1048576), "aarch64": (2048, 524288, 16777216), "ppc64le": (2048, 1048576)}
CACHES = {"L1d": (1, "Data"), "L1i": (1, "Instruction"), "L2": (2, "Unified"), "L3": (3, "Unified")}
UNITS = {"kB": 1, "MiB": 1024, "GiB": 1024**2}


class MachineError(ValueError):
    """A machine's text says something that the builder does not know."""


def refuse_unknown(keys: Iterable[str], known: str, where: str) -> None:
    """A misspelt key would build a machine that its text does not describe."""
    if unknown := set(keys) - set(known.split()):
        raise MachineError(f"{where}: unknown {', '.join(sorted(unknown))}")


@dataclass
class Tree:
    """Files and links by their path below the root; a link's target is such a path, too."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def put(self, directory: str, files: Mapping[str, object]) -> None:
        """Adds files that end in a newline, as almost all in sysfs do."""
        for name, value in files.items():
            self.files[f"{directory}/{name}"] = f"{value}\n"

    def drop(self, pattern: str) -> None:
        """Takes out what the pattern names, and all below it."""
        matches = re.compile(re.escape(pattern).replace(r"\*", "[^/]*") + "(/|$)").match
        self.files = {path: text for path, text in self.files.items() if not matches(path)}
        self.links = {path: target for path, target in self.links.items() if not matches(path)}
        self.directories = {path for path in self.directories if not matches(path)}

    def write(self, root: Path) -> None:
        """Writes everything below root, which must be empty or new, so that nothing old shines through."""
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise FileExistsError(f"{root} is not empty")
        for directory in sorted(self._with_parents()):
            os.mkdir(f"{root}/{directory}")
        for path, text in self.files.items():
            descriptor = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, text.encode())
            os.close(descriptor)
        for path, target in self.links.items():
            os.symlink(relative(target, path), f"{root}/{path}")

    def _with_parents(self) -> set[str]:
        found = self.directories | {path.rpartition("/")[0] for path in (*self.files, *self.links)}
        for directory in tuple(found):
            while (directory := directory.rpartition("/")[0]) not in found:
                found.add(directory)
        return found - {""}


def relative(target: str, link: str) -> str:
    """The text of a link as the kernel writes it: up to the common ancestor, then down."""
    up, down = link.split("/")[:-1], target.split("/")
    shared = next((at for at, (a, b) in enumerate(zip(up, down, strict=False)) if a != b), min(len(up), len(down)))
    return "/".join([".."] * (len(up) - shared) + down[shared:])


def parse_list(text: object) -> list[int]:
    """The numbers of a kernel list such as 0-3,8; none for None."""
    numbers: list[int] = []
    for part in filter(None, ("" if text is None else str(text)).replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def format_list(numbers: Iterable[int]) -> str:
    """The kernel's list of these numbers."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def format_mask(numbers: Iterable[int], bits: int) -> str:
    """The kernel's hex mask: words of 32 bits, the highest only as wide as needed (lib/vsprintf.c, bitmap_string)."""
    value = sum(1 << number for number in set(numbers))
    words = [f"{value >> low & 0xFFFFFFFF:0{(min(32, bits - low) + 3) // 4}x}" for low in range(0, bits, 32)]
    return ",".join(reversed(words))


@dataclass(frozen=True)
class Layout:
    """Where each CPU sits. All lists hold the CPUs that are present, offline ones too."""

    nodes: dict[int, list[int]]
    homeless: list[int]
    cores: list[list[int]]
    sockets: dict[int, list[int]]
    offline: frozenset[int]
    possible: list[int]

    @property
    def present(self) -> list[int]:
        return sorted(chain(*self.cores))

    @property
    def online(self) -> list[int]:
        return self.running(self.present)

    def running(self, cpus: Iterable[int]) -> list[int]:
        return [cpu for cpu in cpus if cpu not in self.offline]

    def texts(self, cpus: Iterable[int]) -> tuple[str, str]:
        """The online ones among these CPUs as list and as mask."""
        online = self.running(cpus)
        return format_list(online), format_mask(online, self.possible[-1] + 1)

    def socket_cores(self, socket: int) -> list[list[int]]:
        inside = set(self.sockets[socket])
        return [core for core in self.cores if core[0] in inside]

    def groups(self, how: str) -> list[list[int]]:
        """The CPUs that share what is there per `core`, `socket`, `numa`, `4 cores` or list named."""
        words = how.split()
        if how in ("core", "socket", "numa"):
            return {"core": self.cores, "socket": [*self.sockets.values()], "numa": [*self.nodes.values()]}[how]
        if words[-1] != "cores":
            return [parse_list(word) for word in words]
        groups, several = [], int(words[0])
        for node in (*self.nodes.values(), self.homeless):
            cores = [core for core in self.cores if core[0] in node]
            groups += [[*chain(*cores[at : at + several])] for at in range(0, len(cores), several)]
        return groups


def read_layout(machine: Mapping[str, Any]) -> Layout:
    """The CPUs of a machine's text."""
    numa = machine["numa"]
    homeless = parse_list(numa.get("none", {}).get("cpus"))
    nodes = {node: parse_list(numa[key].get("cpus")) for key in numa if key != "none" for node in parse_list(key)}
    cores = list(_cores(machine, (*nodes.values(), homeless)))
    sockets = {key: parse_list(cpus) for key, cpus in machine.get("sockets", {}).items()}
    sockets = sockets or dict(enumerate(cpus for cpus in nodes.values() if cpus))
    possible = parse_list(machine.get("possible")) or sorted(chain(*cores))
    offline = frozenset(parse_list(machine.get("offline")))
    return Layout(dict(sorted(nodes.items())), homeless, cores, sockets, offline, possible)


def _cores(machine: Mapping[str, Any], nodes: Iterable[list[int]]) -> Iterator[list[int]]:
    if "cores" in machine:
        for word in machine["cores"].split():
            cpus, _, width = word.partition("/")
            yield from _cut(parse_list(cpus), int(width), "adjacent")
        return
    for node in nodes:
        yield from _cut(node, machine.get("threads", 1), machine.get("numbering", "split"))


def _cut(cpus: list[int], width: int, numbering: str) -> list[list[int]]:
    count = len(cpus) // width
    if numbering == "adjacent":
        return [cpus[at * width : (at + 1) * width] for at in range(count)]
    return [cpus[at::count] for at in range(count)]


def add_cpus(tree: Tree, machine: Mapping[str, Any], layout: Layout) -> None:
    """/sys/devices/system/cpu."""
    present, online = layout.present, layout.online
    files = {
        "online": online,
        "offline": {*layout.possible} - {*online},
        "present": present,
        "possible": layout.possible,
    }
    tree.put(CPU, {name: format_list(cpus) for name, cpus in files.items()})
    tree.put(
        CPU, {"isolated": machine.get("isolated", ""), "nohz_full": machine.get("nohz-full", ""), "kernel_max": 8191}
    )
    active = any(len(layout.running(core)) > 1 for core in layout.cores)
    control = "on" if any(len(core) > 1 for core in layout.cores) else "notsupported"
    tree.put(f"{CPU}/smt", {"active": int(active), "control": control})
    for cpu in present:
        if cpu or machine["arch"] != "x86_64":  # an x86 kernel cannot take CPU 0 offline
            tree.put(f"{CPU}/cpu{cpu}", {"online": int(cpu not in layout.offline)})
    for socket in layout.sockets:
        add_topology(tree, machine, layout, socket)
    add_caches(tree, machine.get("caches", {}), layout)


def add_topology(tree: Tree, machine: Mapping[str, Any], layout: Layout, socket: int) -> None:
    """cpuN/topology of a socket's CPUs; an offline CPU has none."""
    package = layout.texts(layout.sockets[socket])
    for core_id, core in enumerate(layout.socket_cores(socket)):
        siblings = layout.texts(core)
        groups = {"thread_siblings": siblings, "core_cpus": siblings, "core_siblings": package, "package_cpus": package}
        files = {"core_id": machine.get("core-id", core_id), "physical_package_id": socket}
        if machine["arch"] == "x86_64":
            files["die_id"], groups["die_cpus"] = 0, package
        for name, (cpu_list, mask) in groups.items():
            files |= {name: mask, f"{name}_list": cpu_list}
        for cpu in layout.running(core):
            tree.put(f"{CPU}/cpu{cpu}/topology", files)


def add_caches(tree: Tree, caches: Mapping[str, str], layout: Layout) -> None:
    """cpuN/cache/indexM in the kernel's order; an offline CPU has none."""
    for index, name in enumerate(name for name in CACHES if name in caches):
        (level, kind), (size, how) = CACHES[name], caches[name].split(" per ")
        for identity, group in enumerate(layout.groups(how)):
            cpu_list, mask = layout.texts(group)
            files = {"level": level, "type": kind, "size": size, "id": identity}
            files |= {"shared_cpu_list": cpu_list, "shared_cpu_map": mask}
            for cpu in layout.running(group):
                tree.put(f"{CPU}/cpu{cpu}/cache/index{index}", files)


def add_nodes(tree: Tree, machine: Mapping[str, Any], layout: Layout) -> None:
    """/sys/devices/system/node and the files that sum it up."""
    said = {node: values for key, values in machine["numa"].items() if key != "none" for node in parse_list(key)}
    refuse_unknown(chain(*said.values()), NODE_KEYS, "numa")
    memory = {node: kilobytes(said[node].get("memory", "0 kB")) for node in layout.nodes}
    pages = {node: _hugepages(said[node].get("hugepages", {}), machine["arch"]) for node in layout.nodes}
    with_memory = format_list(node for node in memory if memory[node])
    normal = format_list(node for node in memory if memory[node] and not said[node].get("movable"))
    with_cpus = format_list(node for node, cpus in layout.nodes.items() if layout.running(cpus))
    files = {"online": format_list(layout.nodes), "possible": format_list(layout.nodes), "has_cpu": with_cpus}
    tree.put(NODE, files | {"has_memory": with_memory, "has_normal_memory": normal})
    distances = read_distances(machine.get("distances", ()), layout.nodes)
    for node, cpus in layout.nodes.items():
        path, (cpu_list, mask) = f"{NODE}/node{node}", layout.texts(cpus)
        row = " ".join(str(distances[node, other]) for other in layout.nodes)
        tree.put(path, {"cpulist": cpu_list, "cpumap": mask, "distance": row})
        tree.files[f"{path}/meminfo"] = node_meminfo(node, memory[node], *pages[node][2048])
        _add_hugepages(tree, f"{path}/hugepages", pages[node])
        for cpu in cpus:
            tree.links |= {f"{path}/cpu{cpu}": f"{CPU}/cpu{cpu}", f"{CPU}/cpu{cpu}/node{node}": path}
    total = {
        size: [sum(node[size][at] for node in pages.values()) for at in (0, 1)] for size in HUGEPAGES[machine["arch"]]
    }
    _add_hugepages(tree, "sys/kernel/mm/hugepages", total)
    tree.files["proc/meminfo"] = meminfo(sum(memory.values()), *total[2048])


def kilobytes(text: str) -> int:
    """The kB of "1056964608 kB" or "94.5 GiB"."""
    amount, unit = text.split()
    return int(float(amount) * UNITS[unit])


def _hugepages(said: Mapping[str, object], arch: str) -> dict[int, list[int]]:
    pages = {size: [0, 0] for size in HUGEPAGES[arch]}
    for size, counts in said.items():
        total, _, free = str(counts).partition("/")
        pages[int(size.removesuffix("kB"))] = [int(total), int(free or total)]
    return pages


def _add_hugepages(tree: Tree, directory: str, pages: Mapping[int, list[int]]) -> None:
    for size, (total, free) in pages.items():
        counts = {"nr_hugepages": total, "free_hugepages": free, "surplus_hugepages": 0}
        tree.put(f"{directory}/hugepages-{size}kB", counts)


def read_distances(rules: Iterable[str], nodes: Iterable[int]) -> dict[tuple[int, int], int]:
    """All distances: 10 to itself, 20 to others, except where a rule says otherwise; the last rule wins."""
    found = {(a, b): 10 if a == b else 20 for a in nodes for b in nodes}
    for left, right, distance in map(str.split, rules):
        for a, b in ((a, b) for a in parse_list(left) for b in parse_list(right) if a != b):
            if (a, b) not in found:
                raise MachineError(f"distances: there are no NUMA nodes {a} and {b}")
            found[a, b] = found[b, a] = int(distance)
    return found


def node_meminfo(node: int, total: int, pages: int, free_pages: int) -> str:
    """nodeN/meminfo (drivers/base/node.c): how much there is."""
    free = (total - pages * 2048) * 9 // 10
    sizes = {"MemTotal": total, "MemFree": free, "MemUsed": total - free, "SwapCached": 0}
    counts = {"HugePages_Total": pages, "HugePages_Free": free_pages, "HugePages_Surp": 0}
    lines = [f"Node {node} {name + ':':<15}{size:>9} kB\n" for name, size in sizes.items()]
    return "".join(lines + [f"Node {node} {name + ':':<17}{count:>5}\n" for name, count in counts.items()])


def meminfo(total: int, pages: int, free_pages: int) -> str:
    """/proc/meminfo (fs/proc/meminfo.c): how much there is."""
    free = (total - pages * 2048) * 9 // 10
    sizes = {"MemTotal": total, "MemFree": free, "MemAvailable": free, "SwapTotal": 0, "SwapFree": 0}
    counts = {"HugePages_Total": pages, "HugePages_Free": free_pages, "HugePages_Rsvd": 0, "HugePages_Surp": 0}
    lines = [f"{name + ':':<16}{size:>8} kB\n" for name, size in sizes.items()]
    lines += [f"{name + ':':<16}{count:>7}\n" for name, count in counts.items()]
    return "".join(lines) + "Hugepagesize:       2048 kB\n" + f"Hugetlb:        {pages * 2048:>8} kB\n"


def add_proc(tree: Tree, machine: Mapping[str, Any], layout: Layout, name: str) -> None:
    """/proc, but for memory and GPUs."""
    tree.files["proc/cpuinfo"] = cpuinfo(machine, layout)
    tree.put("proc", {"cmdline": machine.get("cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro")})
    tainted = machine.get("tainted", 12288 if "nvidia" in machine else 0)  # 12288: an out-of-tree, unsigned module
    kernel = {"hostname": machine.get("hostname", name), "osrelease": machine["kernel"], "tainted": tainted}
    tree.put("proc/sys/kernel", kernel)
    tree.put("proc/1", {"comm": "systemd"})
    confined = machine.get("confined", {})
    cpus = parse_list(confined.get("cpus")) or layout.possible
    mems = parse_list(confined.get("mems", tree.files[f"{NODE}/has_memory"].strip()))
    status = {"Name": "cat", "Cpus_allowed": format_mask(cpus, layout.possible[-1] + 1)}
    status |= {"Cpus_allowed_list": format_list(cpus), "Mems_allowed": format_mask(mems, 1024)}
    status["Mems_allowed_list"] = format_list(mems)
    tree.files["proc/self/status"] = "".join(f"{key}:\t{value}\n" for key, value in status.items())


def cpuinfo(machine: Mapping[str, Any], layout: Layout) -> str:
    """/proc/cpuinfo; only x86 says there where a CPU sits."""
    places: dict[int, dict[str, object]] = {cpu: {} for cpu in layout.online}
    for socket, cpus in layout.sockets.items() if machine["arch"] == "x86_64" else ():
        cores = layout.socket_cores(socket)
        place = {"physical id": socket, "siblings": len(layout.running(cpus))}
        for core_id, core in enumerate(cores):
            place |= {"core id": machine.get("core-id", core_id), "cpu cores": len(cores)}
            places |= {cpu: dict(place) for cpu in layout.running(core)}
    blocks = [_columns({"processor": cpu} | machine["cpuinfo"] | places[cpu]) for cpu in layout.online]
    return "\n".join([*blocks, _columns(machine.get("platform", {}))])


def _columns(rows: Mapping[str, object]) -> str:
    tabs = {key: "\t" * ((23 - len(key)) // 8) for key in rows}
    return "".join(f"{key}{tabs[key]}: {value}\n" for key, value in rows.items())


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


def tree_of(text: str, name: str) -> Tree:
    """The files and links of a machine's text."""
    machine = YAML(typ="safe").load(text)
    refuse_unknown(machine, MACHINE_KEYS, name)
    tree, layout = Tree(), read_layout(machine)
    add_cpus(tree, machine, layout)
    add_nodes(tree, machine, layout)
    add_proc(tree, machine, layout, name)
    add_pci(tree, machine, layout, name)
    for pattern in machine.get("absent", ()):
        tree.drop(pattern)
    tree.files |= machine.get("files", {})
    return tree


def names() -> list[str]:
    """The machines there are."""
    return sorted(path.stem for path in FIXTURES.glob("*.machine"))


def path_of(name: str) -> Path:
    """The file of a machine."""
    path = FIXTURES / f"{name}.machine"
    if not path.exists():
        raise MachineError(f"no machine {name}; there are {' '.join(names())}")
    return path


def build(text_or_path: str | Path, root: Path) -> None:
    """Writes a machine's tree below root: a path, the name of one of the machines, or a text of several lines."""
    if isinstance(text_or_path, str) and "\n" in text_or_path:
        tree_of(text_or_path, "machine").write(root)
        return
    path = Path(text_or_path) if Path(text_or_path).is_file() else path_of(str(text_or_path))
    tree_of(path.read_text(encoding="utf-8"), path.stem).write(root)


def main(arguments: list[str]) -> int:
    """`python -m tests.machines NAME DIR`"""
    if len(arguments) != 2:
        print(f"usage: python -m tests.machines NAME DIR\n\nNAME: a file, or {' '.join(names())}", file=sys.stderr)
        return 2
    build(arguments[0], Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
