"""Names of PCI devices: a small table of what GPU nodes have, for hosts without the hardware database.

Source of the ids: the PCI ID repository (pci-ids.ucw.cz), short names as the vendors use them.
"""

from __future__ import annotations

import msgspec

__all__ = ["KNOWN", "decode", "encode", "is_connectx"]

KNOWN: dict[tuple[str, str], str] = {
    # NVIDIA GPUs
    ("10de", "1db1"): "V100-SXM2-16GB",
    ("10de", "1db5"): "V100-SXM2-32GB",
    ("10de", "1db4"): "V100-PCIE-16GB",
    ("10de", "1db6"): "V100-PCIE-32GB",
    ("10de", "1eb8"): "Tesla T4",
    ("10de", "20b0"): "A100-SXM4-40GB",
    ("10de", "20b2"): "A100-SXM4-80GB",
    ("10de", "20f1"): "A100-PCIE-40GB",
    ("10de", "20b5"): "A100-PCIE-80GB",
    ("10de", "20b7"): "A30",
    ("10de", "2235"): "A40",
    ("10de", "2236"): "A10",
    ("10de", "2237"): "A10G",
    ("10de", "26b5"): "L40",
    ("10de", "26b9"): "L40S",
    ("10de", "27b8"): "L4",
    ("10de", "2330"): "H100 SXM5 80GB",
    ("10de", "2331"): "H100 PCIe",
    ("10de", "2321"): "H100 NVL",
    ("10de", "2335"): "H200 SXM 141GB",
    ("10de", "233b"): "H200 NVL",
    ("10de", "2342"): "GH200 480GB",
    ("10de", "2348"): "GH200 144G HBM3e",
    ("10de", "2901"): "B200",
    ("10de", "2941"): "GB200",
    ("10de", "3182"): "B300",
    ("10de", "31c2"): "GB300",
    ("10de", "2bb5"): "RTX PRO 6000 Blackwell Server Edition",
    ("10de", "2684"): "GeForce RTX 4090",
    ("10de", "2685"): "GeForce RTX 4090 D",
    ("10de", "22a3"): "NVSwitch (Hopper)",
    ("10de", "1af1"): "NVSwitch (Ampere)",
    # NVIDIA (Mellanox) NICs and DPUs
    ("15b3", "1013"): "ConnectX-4",
    ("15b3", "1014"): "ConnectX-4 VF",
    ("15b3", "1015"): "ConnectX-4 Lx",
    ("15b3", "1016"): "ConnectX-4 Lx VF",
    ("15b3", "1017"): "ConnectX-5",
    ("15b3", "1018"): "ConnectX-5 VF",
    ("15b3", "1019"): "ConnectX-5 Ex",
    ("15b3", "101a"): "ConnectX-5 Ex VF",
    ("15b3", "101b"): "ConnectX-6",
    ("15b3", "101c"): "ConnectX-6 VF",
    ("15b3", "101d"): "ConnectX-6 Dx",
    ("15b3", "101e"): "ConnectX VF",
    ("15b3", "101f"): "ConnectX-6 Lx",
    ("15b3", "1021"): "ConnectX-7",
    ("15b3", "1023"): "ConnectX-8",
    ("15b3", "1025"): "ConnectX-9",
    ("15b3", "1003"): "ConnectX-3",
    ("15b3", "1007"): "ConnectX-3 Pro",
    ("15b3", "a2d2"): "BlueField",
    ("15b3", "a2d3"): "BlueField VF",
    ("15b3", "a2d6"): "BlueField-2",
    ("15b3", "a2dc"): "BlueField-3",
    ("15b3", "a2df"): "BlueField-4",
    # NICs of cloud guests
    ("1d0f", "ec20"): "Elastic Network Adapter",
    ("1d0f", "efa0"): "Elastic Fabric Adapter",
    ("1d0f", "efa1"): "Elastic Fabric Adapter",
    ("1d0f", "efa2"): "Elastic Fabric Adapter",
    ("1d0f", "efa3"): "Elastic Fabric Adapter",
    ("1ae0", "0042"): "Google Virtual Ethernet",
    ("1414", "00ba"): "Microsoft Azure Network Adapter VF",
    ("1af4", "1000"): "Virtio network device",
    ("1af4", "1041"): "Virtio network device",
    # other NICs that servers have
    ("8086", "1521"): "I350 Gigabit",
    ("8086", "1528"): "X540-AT2",
    ("8086", "10fb"): "82599ES 10-Gigabit",
    ("8086", "1563"): "X550",
    ("8086", "1572"): "X710 10GbE SFP+",
    ("8086", "1583"): "XL710 40GbE QSFP+",
    ("8086", "158b"): "XXV710 25GbE SFP28",
    ("8086", "37d0"): "X722 10GbE SFP+",
    ("8086", "37d2"): "X722 10GBASE-T",
    ("8086", "1592"): "E810-C QSFP",
    ("8086", "1593"): "E810-C SFP",
    ("8086", "159b"): "E810-XXV SFP",
    ("14e4", "16d7"): "BCM57414 25Gb",
    ("14e4", "16d8"): "BCM57416 10GBASE-T",
    ("14e4", "1750"): "BCM57508 100Gb",
    ("14e4", "1760"): "BCM57608 400Gb",
    ("14e4", "1657"): "BCM5719 Gigabit",
    ("14e4", "165f"): "BCM5720 Gigabit",
}


def is_connectx(vendor_id: str | None) -> bool:
    """Whether the NIC is a ConnectX or BlueField: those are expected to have an RDMA device."""
    return vendor_id == "15b3"


def encode(names: dict[tuple[str, str], str]) -> bytes:
    """The names as a snapshot records them."""
    return msgspec.json.encode({f"{vendor}:{device}": name for (vendor, device), name in names.items()}, order="sorted")


def decode(text: str) -> dict[tuple[str, str], str]:
    """The names that a snapshot recorded (`{"8086:1521": "…"}`); raises ValueError."""
    recorded = msgspec.json.decode(text, type=dict[str, str])
    return {(vendor, device): name for key, name in recorded.items() for vendor, _, device in [key.partition(":")]}
