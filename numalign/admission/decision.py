"""What was decided about a pod, with everything that explains it.

Each round of hints carries the node's state before it, so that what was free then can be told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from numalign.admission.hints import Hint
from numalign.admission.memory import MemoryBlock, MemoryUse
from numalign.admission.topology import ProviderHints
from numalign.cpuset import CpuSet

__all__ = ["ContainerGrant", "Decision", "Held", "Round", "State"]


class Held(msgspec.Struct, frozen=True):
    """What an admitted pod holds until it is removed: a mask of CPUs, blocks of memory, masks of devices by resource;
    and the requests that count against the node."""

    cpus: int
    memory: tuple[MemoryBlock, ...]
    devices: Mapping[str, int]
    requests: Mapping[str, int]


class State(msgspec.Struct, frozen=True):
    """A node's state: the mask of CPUs of the shared pool, memory in use (None without a static memory manager), masks
    of devices in use, and what each pod holds."""

    shared: int
    memory: MemoryUse | None
    devices: Mapping[str, int]
    pods: Mapping[str, Held]


class Round(msgspec.Struct, frozen=True):
    """One question to the providers, about a container or (None) the whole pod: the hints of the device, CPU and memory
    managers by resource, the merged hint, whether the policy took it, and what the pod found before."""

    container: str | None
    devices: ProviderHints
    cpus: ProviderHints
    memory: ProviderHints
    merged: Hint
    admitted: bool
    before: State

    @property
    def combinations(self) -> int:
        """How many combinations of hints the kubelet tries; at 10^8 it takes tens of seconds."""
        lists = [hints for provider in (self.devices, self.cpus, self.memory) for hints in provider.values()]
        return math.prod(max(hints.count(), 1) for hints in lists if hints is not None)


class ContainerGrant(msgspec.Struct, frozen=True):
    """What a container got: exclusive CPUs (None: it runs on the shared pool), devices' ids by resource, blocks of
    memory, and the topology manager's hint (None under policy none). Of the devices of a resource that is `open` the
    kubelet could as well take some of other NUMA nodes: it takes any."""

    name: str
    cpus: CpuSet | None
    devices: Mapping[str, tuple[str, ...]]
    open: tuple[str, ...]
    memory: tuple[MemoryBlock, ...]
    hint: Hint | None


class Decision(msgspec.Struct, frozen=True):
    """The answer for a pod. `reason` and `message` are those of the pod's status (its prefix `Pod was rejected: ` left
    out). `breakdown` says what happens where the kubelet gives no answer: it hangs or panics."""

    pod: str
    admitted: bool
    reason: str
    message: str
    containers: tuple[ContainerGrant, ...]
    rounds: tuple[Round, ...]
    breakdown: str | None = None
