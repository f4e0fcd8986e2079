"""NICs: Ethernet and InfiniBand controllers with their netdevs, RDMA devices, ports, bonds and virtual functions.

Source of the files: the kernel's Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net and
testing/sysfs-bus-pci. A function's own directory comes first: /sys/class/net shows the reader's network namespace only.
"""

from __future__ import annotations

from numalign.machine import Bond, Nic, Sriov
from numalign.probe.host import Host
from numalign.probe.pci import Function, iommu_group, pcie_link, physical_function

__all__ = ["read_bonds", "read_nics"]

_NET = "sys/class/net"

_ARPHRD = {1: "Ethernet", 32: "InfiniBand"}  # linux/if_arp.h


def read_nics(host: Host, functions: tuple[Function, ...], names: dict[str, str]) -> tuple[Nic, ...]:
    """The NICs among `functions`, by address."""
    return tuple(_nic(host, function, names.get(function.bdf)) for function in functions)


def read_bonds(host: Host, nics: tuple[Nic, ...]) -> tuple[Bond, ...]:
    """The bonding netdevs and what they are made of."""
    owner = {netdev: nic.bdf for nic in nics for netdev in nic.netdevs}
    bonds = []
    for name in (host.text(f"{_NET}/bonding_masters") or "").split():
        if "/" in name:
            continue
        members = tuple((host.text(f"{_NET}/{name}/bonding/slaves") or "").split())
        bdfs = dict.fromkeys(owner[member] for member in members if member in owner)
        bonds.append(Bond(name=name, netdevs=members, nics=tuple(bdfs)))
    return tuple(bonds)


def _guid(host: Host, path: str) -> str | None:
    """The GUID of a card; one of zeros was never set."""
    text = host.text(path) or ""
    return text if text.strip("0:") else None


def _nic(host: Host, function: Function, model: str | None) -> Nic:
    folder = function.folder
    inside = host.names(folder)
    nets = _net_folder(host, folder, inside)
    netdevs = tuple(host.names(nets)) if nets else ()
    rdma = tuple(host.names(f"{folder}/infiniband")) if "infiniband" in inside else ()
    link_layer, state, rate = _rdma_port(host, f"{folder}/infiniband/{rdma[0]}") if rdma else (None, None, None)
    if netdevs and nets and not rdma:
        link_layer, state, rate = _netdev(host, f"{nets}/{netdevs[0]}")
    total = host.number(f"{folder}/sriov_totalvfs") if "sriov_totalvfs" in inside else None
    return Nic(
        bdf=function.bdf,
        numa_node=function.numa_node,
        numa_node_from=function.numa_node_from,
        vendor_id=function.vendor_id or "",
        device_id=function.device_id or "",
        model=model,
        driver=function.driver,
        netdevs=netdevs,
        rdma=rdma,
        link_layer=link_layer,
        state=state,
        rate_gbps=rate,
        board_id=(host.text(f"{folder}/infiniband/{rdma[0]}/board_id") or None) if rdma else None,
        system_image_guid=_guid(host, f"{folder}/infiniband/{rdma[0]}/sys_image_guid") if rdma else None,
        sriov=Sriov(total=total, configured=host.number(f"{folder}/sriov_numvfs")) if total else None,
        physical_function=physical_function(host, folder) if "physfn" in inside else None,
        iommu_group=iommu_group(host, folder) if "iommu_group" in inside else None,
        pcie=pcie_link(host, folder),
        path=function.path,
    )


def _net_folder(host: Host, folder: str, inside: list[str]) -> str | None:
    """Where the function's netdevs are: its own `net`, or that of the virtio device below it."""
    if "net" in inside:
        return f"{folder}/net"
    for name in inside:
        if name.startswith("virtio") and host.real(f"{folder}/{name}/net") is not None:
            return f"{folder}/{name}/net"
    return None


def _rdma_port(host: Host, device: str) -> tuple[str | None, str | None, float | None]:
    """Link layer, state (`ACTIVE`, `DOWN` …) and Gb/s of the device's first port."""
    ports = sorted((name for name in host.names(f"{device}/ports") if name.isdecimal()), key=int)
    if not ports:
        return None, None, None
    port = f"{device}/ports/{ports[0]}"
    state = (host.text(f"{port}/state") or "").rpartition(":")[2].strip()
    rate = (host.text(f"{port}/rate") or "").partition(" ")[0]
    return host.text(f"{port}/link_layer") or None, state or None, _gbps(rate)


def _netdev(host: Host, netdev: str) -> tuple[str | None, str | None, float | None]:
    """Link layer, operational state and Gb/s of a netdev; its speed is unreadable while it is down."""
    kind = host.number(f"{netdev}/type")
    state = host.text(f"{netdev}/operstate")
    speed = host.text(f"{netdev}/speed") if state == "up" else None
    megabits = float(speed) if speed and speed.isdecimal() and len(speed) < 9 else None
    return _ARPHRD.get(kind) if kind else None, state.upper() if state else None, megabits / 1000 if megabits else None


def _gbps(text: str) -> float | None:
    return float(text) if text and len(text) < 9 and text.replace(".", "", 1).isdecimal() and float(text) > 0 else None
