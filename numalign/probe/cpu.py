"""CPUs: which are online, and how they form cores, dies, sockets and L3 groups.

Source of the files: the kernel's Documentation/ABI/stable/sysfs-devices-system-cpu and admin-guide/cputopology.rst.
"""

from __future__ import annotations

import msgspec

from numalign.cpuset import CpuSet
from numalign.machine import Core, L3Cache, Socket
from numalign.probe.host import Host, numbered, whole_number

__all__ = ["CpuStates", "CpuTopology", "read_states", "read_topology"]

CPU = "sys/devices/system/cpu"

# A group's members: the list file, newest name first, then the hex masks of kernels that have no lists.
_SIBLINGS = ("core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings")
_PACKAGE = ("package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings")
_DIE = ("die_cpus_list", "die_cpus")
_SHARED = ("shared_cpu_list", "shared_cpu_map")

_L3 = 3
_USUAL_L3 = "index3"


class CpuStates(msgspec.Struct, frozen=True):
    """Which CPUs there are; `possible` is None where the kernel does not say."""

    online: CpuSet
    offline: CpuSet
    possible: CpuSet | None
    isolated: CpuSet
    nohz_full: CpuSet


class CpuTopology(msgspec.Struct, frozen=True):
    """How the online CPUs hang together; the cores have no NUMA node yet."""

    sockets: tuple[Socket, ...]
    cores: tuple[Core, ...]
    l3_caches: tuple[L3Cache, ...]


def read_states(host: Host) -> CpuStates:
    """Which CPUs are online, offline, possible, isolated and free of the scheduler's tick."""
    listed = numbered(host.names(CPU), "cpu")
    online = host.cpulist(f"{CPU}/online")
    if not online:
        online = CpuSet(cpu for cpu in listed if _is_online(host, cpu))
    empty = CpuSet()
    possible = host.cpulist(f"{CPU}/possible")
    present = host.cpulist(f"{CPU}/present") or CpuSet(listed)
    return CpuStates(
        online=online,
        offline=present - online,
        possible=possible,
        isolated=host.cpulist(f"{CPU}/isolated") or empty,
        nohz_full=_nohz_full(host),
    )


def read_topology(host: Host, online: CpuSet) -> CpuTopology:
    """Sockets, cores and L3 caches of the online CPUs; one file a group is read where the kernel offers it."""
    packages = _Groups(host, online, "topology", _PACKAGE, "physical_package_id")
    dies = _Groups(host, online, "topology", _DIE, "die_id")
    siblings = _Groups(host, online, "topology", _SIBLINGS, None)
    caches = _L3Caches(host, online)
    cores = []
    for cpu in online:
        members, _ = siblings.of(cpu)
        if members.first() != cpu:
            continue
        told = ((member, host.number(f"{CPU}/cpu{member}/topology/core_id", expected=True)) for member in members)
        core_ids = {member: core_id for member, core_id in told if core_id is not None}
        same = len(core_ids) == len(members) and len(set(core_ids.values())) == 1
        cores.append(
            Core(
                cpus=members,
                socket=packages.of(cpu)[1],
                die=dies.of(cpu)[1],
                numa_node=None,
                l3=caches.of(cpu),
                core_id=core_ids[cpu] if same else None,
                cpu_core_ids=core_ids if core_ids and not same else None,
            )
        )
    sockets: dict[int, int] = {}
    for core in cores:
        if core.socket is not None:
            sockets[core.socket] = sockets.get(core.socket, 0) | core.cpus.bits
    return CpuTopology(
        sockets=tuple(Socket(id=id, cpus=CpuSet.from_mask(bits)) for id, bits in sorted(sockets.items())),
        cores=tuple(cores),
        l3_caches=tuple(caches.found),
    )


class _Groups:
    """The groups that a kind of file sorts the CPUs into; each group is read once, at its first CPU."""

    def __init__(self, host: Host, online: CpuSet, folder: str, files: tuple[str, ...], id_file: str | None) -> None:
        self.host = host
        self.online = online
        self.folder = folder
        self.files = files
        self.id_file = id_file
        self.known: dict[int, tuple[CpuSet, int | None]] = {}
        self.lists: dict[int, CpuSet] | None = None

    def of(self, cpu: int) -> tuple[CpuSet, int | None]:
        """The online CPUs of this CPU's group (itself alone where nothing says more) and the group's id."""
        found = self.known.get(cpu)
        if found is None:
            folder = f"{CPU}/cpu{cpu}/{self.folder}"
            group_id = self.host.number(f"{folder}/{self.id_file}") if self.id_file else None
            if group_id is not None and group_id < 0:
                group_id = None  # -1: the firmware did not say
            found = (self._members(cpu, folder), group_id)
            for member in found[0]:
                self.known[member] = found
        return found

    def _members(self, cpu: int, folder: str) -> CpuSet:
        members = _cpus(self.host, folder, self)
        alone = CpuSet((cpu,))
        if members is None:
            if self.files[0] in _SIBLINGS:
                self.host.expect(f"{folder}/{self.files[0]}")
            members = self._claimed(cpu)
        if members is None:
            return alone
        if cpu not in members:
            self.host.note("malformed", f"{folder}/{self.files[0]}", f"it does not name CPU {cpu} itself")
            return alone
        taken = CpuSet(c for c in members if c in self.known)
        return (members & self.online) - taken | alone

    def _claimed(self, cpu: int) -> CpuSet | None:
        """The group of another CPU that names this one, whose own file is missing."""
        if self.lists is None:
            told = ((other, _cpus(self.host, f"{CPU}/cpu{other}/{self.folder}", self)) for other in self.online)
            self.lists = {member: cpus for _, cpus in told if cpus for member in cpus}
        return self.lists.get(cpu)


class _L3Caches:
    """The L3 caches, each read once, at its first CPU."""

    def __init__(self, host: Host, online: CpuSet) -> None:
        self.host = host
        self.online = online
        self.files = _SHARED
        self.found: list[L3Cache] = []
        self.known: dict[int, int] = {}

    def of(self, cpu: int) -> int | None:
        """The id of the CPU's L3 cache, None where it has none or nothing says."""
        if cpu not in self.known:
            folder = self._folder(cpu)
            shared = _cpus(self.host, folder, self) if folder else None
            if folder is None or shared is None or cpu not in shared:
                return None
            cache = L3Cache(
                id=len(self.found),
                cpus=shared & self.online,
                size_bytes=self.host.value(f"{folder}/size", _size),
                kernel_id=self.host.number(f"{folder}/id"),
            )
            self.found.append(cache)
            for member in cache.cpus:
                self.known.setdefault(member, cache.id)
        return self.known[cpu]

    def _folder(self, cpu: int) -> str | None:
        caches = f"{CPU}/cpu{cpu}/cache"
        if self.host.number(f"{caches}/{_USUAL_L3}/level") == _L3:
            return f"{caches}/{_USUAL_L3}"
        if self.host.real(caches) is None:
            return None
        for name in self.host.names(caches):
            if name.startswith("index") and name != _USUAL_L3 and self.host.number(f"{caches}/{name}/level") == _L3:
                return f"{caches}/{name}"
        return None


def _cpus(host: Host, folder: str, group: _Groups | _L3Caches) -> CpuSet | None:
    """The CPUs that the first readable of the group's files names; that file is tried first from then on."""
    for name in group.files:
        cpus = host.cpulist(f"{folder}/{name}") if name.endswith("_list") else host.mask(f"{folder}/{name}")
        if cpus:
            if name != group.files[0]:
                group.files = (name, *(other for other in group.files if other != name))
            return cpus
    return None


def _is_online(host: Host, cpu: int) -> bool:
    """For kernels without the online list: CPU 0 and CPUs that cannot go offline have no file of their own."""
    if host.text(f"{CPU}/cpu{cpu}/online") == "0":
        return False
    return host.real(f"{CPU}/cpu{cpu}/topology") is not None


def _nohz_full(host: Host) -> CpuSet:
    path = f"{CPU}/nohz_full"
    if host.text(path) in ("(null)", None):  # the kernel's way to print no mask at all
        return CpuSet()
    return host.cpulist(path) or CpuSet()


def _size(text: str) -> int:
    """A cache size such as `32768K`, in bytes."""
    number = whole_number(text[:-1]) * 1024 if text.endswith("K") else whole_number(text)
    if number not in range(1 << 60):
        raise ValueError(f"{text} is no size of a cache")
    return number
