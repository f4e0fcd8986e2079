"""What the system around the kubelet does with CPUs, swap and cgroups, and whether the kubelet answers: reading only.

Source: cgroups(7), proc_pid_status(5), systemd-system.conf(5), the kernel's core-api/irq/irq-affinity.rst and
admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from numalign.cpuset import CpuSet
from numalign.probe.host import Host, numbered
from numalign.probe.kernel import cpu_list, fields
from numalign.probe.kubelet import Process

__all__ = ["NO_SYSTEM", "Health", "System", "read_health", "read_system"]

_RECORD = "numalign/system.json"
"""Where a snapshot keeps it."""
_HEALTH_RECORD = "numalign/kubelet-health.json"
_UNIFIED = "sys/fs/cgroup/cgroup.controllers"
_CPUSETS = {2: "sys/fs/cgroup/{}/cpuset.cpus.effective", 1: "sys/fs/cgroup/cpuset/{}/cpuset.cpus"}
_PODS = {
    # where the kubelet keeps the pods' cgroups with each cgroup driver, in version 2 and 1
    "systemd": ("sys/fs/cgroup/kubepods.slice", "sys/fs/cgroup/cpu/kubepods.slice"),
    "cgroupfs": ("sys/fs/cgroup/kubepods", "sys/fs/cgroup/cpu/kubepods"),
}
_SLICES = ("init.scope", "system.slice", "user.slice", "runtime.slice")
_RUNTIMES = ("containerd.service", "crio.service", "docker.service")
_MANAGER_FILES = ("etc/systemd/system.conf", "etc/systemd/system.conf.d")
_AFFINITY = re.compile(r"^\s*CPUAffinity\s*=(.*)$", re.MULTILINE)
_MAX_IRQS = 8192
_HEALTH_DEADLINE = 2.0


class System(msgspec.Struct, frozen=True):
    """The system around the kubelet; None where it cannot be seen.

    `swaps` are the names of the swap areas; `slices` the CPUs of cgroups that are not the pods'; `processes` those
    that a process of the system may run on, by its name and number; `affinity` what systemd's CPUAffinity= asks for;
    `irqs` the CPUs that interrupts may go to, each set with how many there are; `pods_driver` the cgroup driver whose
    hierarchy of pods is there.
    """

    cgroup_version: Literal[1, 2] | None = None
    swaps: tuple[str, ...] | None = None
    slices: Mapping[str, CpuSet] = {}
    processes: Mapping[str, CpuSet] = {}
    affinity: CpuSet | None = None
    irqs: Mapping[str, int] = {}
    pods_driver: Literal["systemd", "cgroupfs"] | None = None


NO_SYSTEM = System()


def read_system(host: Host | None, kubelet: Process | None, *, irqs: bool) -> System:
    """The system of a host, with its interrupts (thousands of files) where they are wanted; a snapshot has the
    answer."""
    if host is None:
        return NO_SYSTEM
    recorded = None if host.live else host.value(_RECORD, _decode)
    if recorded is not None or host.packed:
        return recorded or NO_SYSTEM
    found = _read(Host(host.root or "/"), kubelet, irqs)
    host.remember(_RECORD, msgspec.json.encode(found, enc_hook=str, order="sorted"))
    return found


def _decode(text: str) -> System:
    return msgspec.json.decode(text, type=System, dec_hook=lambda kind, value: CpuSet.parse(value))


def _read(host: Host, kubelet: Process | None, irqs: bool) -> System:
    version: Literal[1, 2] | None = None
    if host.real(_UNIFIED) is not None:
        version = 2
    elif host.names("sys/fs/cgroup"):
        version = 1
    drivers: tuple[Literal["systemd", "cgroupfs"], ...] = ("systemd", "cgroupfs")
    return System(
        cgroup_version=version,
        swaps=_swaps(host),
        slices=_slices(host, version),
        processes=dict(_processes(host, kubelet)),
        affinity=_affinity(host),
        irqs=_irqs(host) if irqs else {},
        pods_driver=next((name for name in drivers if any(host.real(path) is not None for path in _PODS[name])), None),
    )


def _swaps(host: Host) -> tuple[str, ...] | None:
    """The areas of /proc/swaps, whose first line is a heading."""
    text = host.text("proc/swaps")
    return None if text is None else tuple(line.split()[0] for line in text.splitlines()[1:] if line.strip())


def _slices(host: Host, version: int | None) -> dict[str, CpuSet]:
    """The CPUs of the system's cgroups; one without a cpuset of its own has those of its parent and says nothing."""
    found = {}
    for name in _SLICES if version else ():
        cpus = host.cpulist(_CPUSETS[version or 2].format(name))
        if cpus:
            found[name] = cpus
    return found


def _processes(host: Host, kubelet: Process | None) -> Iterator[tuple[str, CpuSet]]:
    """The CPUs that the first process, the kubelet and the container runtime may run on."""
    wanted = {"1": "process 1"}
    if kubelet is not None:
        wanted[str(kubelet.pid)] = f"the kubelet (process {kubelet.pid})"
    for service in _RUNTIMES:
        for cgroup in ("sys/fs/cgroup", "sys/fs/cgroup/systemd"):
            pids = (host.text(f"{cgroup}/system.slice/{service}/cgroup.procs") or "").split()
            main = next((pid for pid in pids if pid.isdecimal()), None)
            if main is not None:
                wanted.setdefault(main, f"{service} (process {main})")
    for pid, name in wanted.items():
        cpus = cpu_list(fields(host.text(f"proc/{pid}/status") or "").get("Cpus_allowed_list"))
        if cpus:
            yield name, cpus


def _affinity(host: Host) -> CpuSet | None:
    """systemd's CPUAffinity=: indices and ranges with blanks or commas between; an empty value takes back what stood
    before."""
    file, folder = _MANAGER_FILES
    paths = [file, *(f"{folder}/{name}" for name in host.names(folder) if name.endswith(".conf"))]
    found = CpuSet()
    for path in paths:
        for value in _AFFINITY.findall(host.text(path) or ""):
            words = value.replace(",", " ").split()
            try:
                found = found | CpuSet.parse(",".join(words)) if words else CpuSet()
            except ValueError:  # "numa", or a slip of the hand
                return None
    return found or None


def _irqs(host: Host) -> dict[str, int]:
    """How many interrupts may go to each set of CPUs."""
    found: dict[str, int] = {}
    for number in numbered(host.names("proc/irq"), "")[:_MAX_IRQS]:
        cpus = host.cpulist(f"proc/irq/{number}/smp_affinity_list")
        if cpus:
            found[str(cpus)] = found.get(str(cpus), 0) + 1
    return found


class Health(msgspec.Struct, frozen=True):
    """What the kubelet's /healthz said: `ok`, or what went wrong; not `answered` where nothing did."""

    answered: bool
    text: str


def read_health(host: Host, address: str, port: int) -> Health | None:
    """What http://ADDRESS:PORT/healthz says, with a deadline: it is asked on the live host only, and a snapshot has the
    answer. None where it cannot be asked."""
    if not host.live:
        return host.value(_HEALTH_RECORD, lambda text: msgspec.json.decode(text, type=Health))
    if host.root or not port:
        return None
    answer = _ask(address, port)
    host.remember(_HEALTH_RECORD, msgspec.json.encode(answer))
    return answer


def _ask(address: str, port: int) -> Health:
    import socket  # which only the host's own kubelet needs

    host = f"[{address}]" if ":" in address else address
    try:
        with socket.create_connection((address, port), _HEALTH_DEADLINE) as connection:
            connection.sendall(f"GET /healthz HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
            data, end = b"", time.monotonic() + _HEALTH_DEADLINE
            while len(data) < 4096 and time.monotonic() < end:
                more = connection.recv(4096)
                if not more:
                    break
                data += more
    except (OSError, UnicodeError) as error:
        return Health(answered=False, text=getattr(error, "strerror", None) or str(error))
    head, _, body = data.decode("utf-8", "replace").partition("\r\n\r\n")
    status = head.split(" ", 2)[1:2]
    if not head.startswith("HTTP/") or not status:
        return Health(answered=False, text="what answers speaks no HTTP")
    return Health(answered=True, text="ok" if status == ["200"] else f"{status[0]}: {body.strip()[:200]}")
