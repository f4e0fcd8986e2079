"""The device manager: hints for the devices of each resource, and which devices a container gets.

Of devices that are equal the kubelet takes any, in the random order of a Go map; here the first in the plugin's order.
Source: pkg/kubelet/cm/devicemanager (topology_hints.go, manager.go), 1.27 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from numalign.admission.hints import Box, Hints, ids, least_size
from numalign.admission.refusal import unexpected
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["Device", "DeviceManager", "Prefer", "Resource", "device_manager"]

_ONLY_ITS_NODES_SINCE = 35

Prefer = Callable[[Sequence[str], Sequence[str], int], Sequence[str]]
"""A plugin's GetPreferredAllocation: of the available devices, with those that must be among them, so many."""


class Device(msgspec.Struct, frozen=True):
    """A device that a plugin offers; `numa` are the NUMA nodes that it names, None where it sends no topology."""

    resource: str
    id: str
    numa: tuple[int, ...] | None = None
    healthy: bool = True


class Resource(msgspec.Struct, frozen=True):
    """The devices of a resource; sets of them are masks of their positions. `homes` are the known NUMA nodes of each
    device, `nodes` those that hints are made of, `plain` says that no device has several."""

    devices: tuple[Device, ...]
    healthy: int
    aligns: bool
    homes: tuple[int, ...]
    nodes: int
    plain: bool
    prefer: Prefer | None
    sizes: dict[int, int]

    def hints(self, available: int, reusable: int, request: int) -> Hints:
        """The hints for so many of the available devices, with those that containers before leave."""
        if (available | reusable).bit_count() < request:
            return Hints((), self._fewest(request))
        must, covers, left = 0, [], request
        for position in ids(reusable):
            if self.devices[position].numa is None:
                continue
            left -= 1
            home = self.homes[position]
            if home.bit_count() == 1:
                must |= home
            else:
                covers.append(((home,), 1))
        box = self._box(available, left)
        box = Box(box.nodes, must, box.sums, (*box.covers, *covers))
        return Hints((box,) if box.nodes and box.holds(box.nodes) else (), self._fewest(request))

    def by_node(self, devices: int) -> tuple[int, ...]:
        """How many of the devices each NUMA node has, by its id; one with several NUMA nodes counts on each."""
        found = [0] * max(self.nodes.bit_length(), *(home.bit_length() for home in self.homes), 0)
        for position in ids(devices):
            for node in ids(self.homes[position]):
                found[node] += 1
        return tuple(found)

    def allocate(self, used: int, reusable: int, request: int, nodes: int | None) -> tuple[int, bool]:
        """The devices that a container gets: those left to it, then those on the hint's NUMA nodes, then others; and
        whether the kubelet could as well take some of other NUMA nodes. Raises Refused."""
        name = self.devices[0].resource
        if not self.healthy:
            raise unexpected(f"no healthy devices present; cannot allocate unhealthy devices {name}")
        taken = _first(reusable, request)
        need = request - taken.bit_count()
        if need == 0:
            return taken, self._open(reusable, taken)
        available = self.healthy & ~used & ~taken
        if available.bit_count() < need:
            have = available.bit_count()
            raise unexpected(
                f"requested number of devices unavailable for {name}. Requested: {need}, Available: {have}"
            )
        aligned, others, rest = self._by_affinity(available, nodes)
        if need < aligned.bit_count():
            preferred = self._preferred(aligned | taken, taken, request) & aligned
            return self._pick(taken, need, preferred, aligned)
        preferred = self._preferred(available | taken, taken | aligned, request) if need > aligned.bit_count() else 0
        return self._pick(taken, need, aligned, preferred & available, others, rest)

    def _pick(self, taken: int, need: int, *sets: int) -> tuple[int, bool]:
        """What is taken, and so many more devices, from each set in turn."""
        free = False
        for some in sets:
            some &= ~taken
            picked = _first(some, need)
            free = free or self._open(some, picked)
            taken, need = taken | picked, need - picked.bit_count()
        return taken, free

    def _open(self, some: int, picked: int) -> bool:
        """Whether other devices of a set than those picked would be on other NUMA nodes."""
        return picked not in (0, some) and len({self.homes[position] for position in ids(some)}) > 1

    def _by_affinity(self, available: int, nodes: int | None) -> tuple[int, int, int]:
        """The devices on the hint's NUMA nodes, those on others, those without topology. Without a hint all are the
        last."""
        if nodes is None or not self.aligns:
            return 0, 0, available
        aligned = others = 0
        for position in ids(available):
            if self.homes[position] & nodes:
                aligned |= 1 << position
            elif self.devices[position].numa:
                others |= 1 << position
        return aligned, others, available & ~aligned & ~others

    def _preferred(self, available: int, must: int, request: int) -> int:
        if self.prefer is None:
            return 0
        position = {device.id: number for number, device in enumerate(self.devices)}
        chosen = self.prefer(
            [self.devices[number].id for number in ids(available)],
            [self.devices[number].id for number in ids(must)],
            request,
        )
        return sum(1 << position[id] for id in dict.fromkeys(chosen) if id in position)

    def _fewest(self, request: int) -> int:
        """The fewest NUMA nodes that have so many devices, usable or not."""
        if request not in self.sizes:
            box = self._box((1 << len(self.devices)) - 1, request)
            self.sizes[request] = least_size(box) or self.nodes.bit_count()
        return self.sizes[request]

    def _box(self, devices: int, request: int) -> Box:
        covers = () if self.plain else ((tuple(self.homes[position] for position in ids(devices)), request),)
        return Box(nodes=self.nodes, sums=((self.by_node(devices), request),), covers=covers)


class DeviceManager(msgspec.Struct, frozen=True):
    """The resources of all plugins, by name."""

    resources: Mapping[str, Resource]

    @property
    def start(self) -> dict[str, int]:
        """The devices in use on an empty node."""
        return dict.fromkeys(self.resources, 0)

    def hints(
        self, used: Mapping[str, int], reusable: Mapping[str, int], wanted: Mapping[str, int]
    ) -> dict[str, Hints | None]:
        """The hints for what is wanted of each resource; None where no device of it has a NUMA node."""
        found: dict[str, Hints | None] = {}
        for name, request in wanted.items():
            resource = self.resources[name]
            available = resource.healthy & ~used[name]
            found[name] = resource.hints(available, reusable.get(name, 0), request) if resource.aligns else None
        return found


def device_manager(
    settings: Settings, view: KubeletView, devices: Iterable[Device], prefer: Mapping[str, Prefer] | None = None
) -> DeviceManager:
    """The device manager with what plugins offer, and the preferences of those that have any, by resource."""
    known = sum(1 << node.id for node in view.nodes)
    by_name: dict[str, list[Device]] = {}
    for device in devices:
        by_name.setdefault(device.resource, []).append(device)
    return DeviceManager(
        {name: _resource(tuple(some), known, settings, (prefer or {}).get(name)) for name, some in by_name.items()}
    )


def _resource(devices: tuple[Device, ...], known: int, settings: Settings, prefer: Prefer | None) -> Resource:
    homes = tuple(sum(1 << node for node in set(device.numa or ()) if known >> node & 1) for device in devices)
    own = 0
    for home in homes:
        own |= home
    return Resource(
        devices=devices,
        healthy=sum(1 << position for position, device in enumerate(devices) if device.healthy),
        aligns=any(device.numa for device in devices),
        homes=homes,
        nodes=own if own and settings.minor >= _ONLY_ITS_NODES_SINCE else known,
        plain=all(home.bit_count() <= 1 for home in homes),
        prefer=prefer,
        sizes={},
    )


def _first(devices: int, number: int) -> int:
    return sum(1 << position for position in ids(devices)[:number])
