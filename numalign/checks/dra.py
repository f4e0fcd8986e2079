"""Checks of DRA drivers: what they hand out, the topology manager does not see.

Source: pkg/kubelet/cm/container_manager_linux.go (the hint providers), pkg/kubelet/pluginmanager/pluginwatcher
(a plugin's socket is plugins_registry/<plugin>[-<anything>].sock), and the drivers' own documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from numalign.checks.finding import Finding, State, Subject

__all__ = ["cpus", "devices", "registered"]

_CPUS = "dra.cpu"
_DEVICES = {
    "gpu.nvidia.com": "GPUs",
    "dra.net": "NICs",
    "sriovnetwork.k8snetworkplumbingwg.io": "NICs",
}


def cpus(subject: Subject) -> Iterator[Finding]:
    """A DRA driver for CPUs beside the static CPU manager: two that hand out the same CPUs."""
    if subject.settings.cpu_policy == "static" and registered(subject.state, _CPUS):
        yield Finding(
            id="dra-cpus",
            severity="error",
            place=subject.document.place("cpuManagerPolicy"),
            message=f"the DRA driver {_CPUS} is registered here: it and the static CPU manager do not know of each "
            "other and give the same CPUs to two containers",
            remedy=f"write cpuManagerPolicy: none, or take the driver {_CPUS} off this node",
        )


def devices(subject: Subject) -> Iterator[Finding]:
    """Devices out of ResourceClaims have no hints: no policy aligns CPUs and memory with them."""
    if subject.settings.topology_policy == "none":
        return
    for driver, what in _DEVICES.items():
        if registered(subject.state, driver):
            yield Finding(
                id="dra-devices",
                severity="warning",
                place=subject.document.place("topologyManagerPolicy"),
                message=f"the DRA driver {driver} is registered here: the topology manager does not see the {what} of "
                "its ResourceClaims, so CPUs and memory are not aligned with them",
                remedy="request what must be aligned through a device plugin, or align it in the claim's constraints",
            )


def registered(state: State, driver: str) -> bool:
    """Whether the driver's socket lies in the directory of plugins."""
    return any(name == f"{driver}.sock" or name.startswith(f"{driver}-") for name in state.plugins)
