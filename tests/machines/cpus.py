"""CPUs, NUMA nodes, memory and /proc of a machine, as a kernel shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tests.machines.tree import (
    CPU,
    NODE,
    MachineError,
    Tree,
    format_list,
    format_mask,
    kilobytes,
    parse_list,
    refuse_unknown,
)

NODE_KEYS = "cpus memory movable hugepages"
HUGEPAGES = {"x86_64": (2048, 1048576), "aarch64": (2048, 524288, 16777216), "ppc64le": (2048, 1048576)}
CACHES = {"L1d": (1, "Data"), "L1i": (1, "Instruction"), "L2": (2, "Unified"), "L3": (3, "Unified")}


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
