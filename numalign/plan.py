"""From a machine and wishes to a plan: the kubelet's fields that decide about alignment, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold, NumalignError, WrongUsage
from numalign.kubelet.document import typed
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import BOOLEANS, settings
from numalign.kubelet.startup import EXCLUSIVE_OPTIONS, MAX_NUMA_NODES, SLOW_MEMORY_NODES
from numalign.kubelet.versions import (
    CPU_OPTIONS,
    DEFAULT,
    GROUP_GATES,
    NEWEST,
    OLDEST,
    TOPOLOGY_OPTIONS,
    gates,
    options,
)
from numalign.kubelet.view import KubeletView, kubelet_view
from numalign.machine import API_VERSION, Machine
from numalign.reserve import Choice, Wishes, choose, gpus_on, known_cpus, places
from numalign.reserve_memory import MemoryReservation, MemoryWishes, reserve_memory
from numalign.shares import ShareTable, share_table
from numalign.words import count, numa_nodes, share

__all__ = ["Decision", "NodePlan", "Plan", "PlanWishes", "make_plan"]

_CLOSEST_MATTERS = 3
"""NUMA nodes from which some are nearer to each other than others."""


class PlanWishes(msgspec.Struct, frozen=True):
    """What a person asks for. None and empty: what suits the machine. `options` are policy options, of the CPU and of
    the topology manager, by name; `kept` are those that stand in a document already, which come second. `minor` is the
    minor version of Kubernetes 1."""

    reserved: Wishes = Wishes()
    policy: str | None = None
    scope: str | None = None
    options: Mapping[str, str] = {}
    kept: Mapping[str, str] = {}
    static_memory: bool = False
    memory: MemoryWishes = MemoryWishes()
    minor: int = DEFAULT


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """A field of the configuration (`cpuManagerPolicyOptions.full-pcpus-only`), its value, null where it is left out,
    and why."""

    field: str
    value: str | None
    reason: str


class NodePlan(msgspec.Struct, frozen=True, rename="camel"):
    """A NUMA node's CPUs as the plan divides them (a socket's where the kernel knows no NUMA nodes), the indices of
    its GPUs, and the memory in bytes that is reserved on it (null without a static memory manager)."""

    numa_node: int
    reserved: CpuSet = msgspec.field(name="reservedCPUs")
    exclusive: CpuSet = msgspec.field(name="exclusiveCPUs")
    gpus: CpuSet
    reserved_memory_bytes: int | None


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """A kubelet's configuration for one machine: the fields as a document holds them, in their order, and the decision
    behind each."""

    api_version: str
    kind: Literal["Plan"]
    machine: str | None
    kubernetes_version: str
    configuration: dict[str, Any]
    decisions: tuple[Decision, ...]
    numa_nodes: tuple[NodePlan, ...]
    shares: ShareTable

    @property
    def exclusive_cpus(self) -> CpuSet:
        """The CPUs that containers can have exclusively."""
        return CpuSet.from_mask(sum(node.exclusive.bits for node in self.numa_nodes))  # NUMA nodes share none

    @property
    def reserved_cpus(self) -> CpuSet:
        """The CPUs that are kept for the system."""
        return CpuSet.parse(self.configuration["reservedSystemCPUs"])

    @property
    def policies(self) -> str:
        """The policies, their options that are on, and the version, for people."""
        configuration = self.configuration
        options = [name for name, value in configuration["cpuManagerPolicyOptions"].items() if value == "true"]
        return (
            f"{', '.join(['static', *options])}; {configuration['topologyManagerPolicy']}, scope "
            f"{configuration['topologyManagerScope']}; Kubernetes {self.kubernetes_version}"
        )

    def reason(self, field: str) -> str:
        """Why a field is as it is; empty where nothing was decided about it."""
        return next((decision.reason for decision in self.decisions if decision.field == field), "")


def make_plan(machine: Machine, wishes: PlanWishes | None = None) -> Plan:
    """The plan for a machine.

    Raises WrongUsage where there is no such option, and DoesNotHold where a wish cannot be met on this machine or in
    this version, or where the kubelet would not start on what was asked for.
    """
    wishes = wishes or PlanWishes()
    try:
        return _made(machine, wishes)
    except _WouldNotStart as refused:
        raise DoesNotHold(refused.message, hint=_better(machine, wishes)) from refused


def _made(machine: Machine, wishes: PlanWishes) -> Plan:
    """The plan, and _WouldNotStart where the kubelet refuses it."""
    view = kubelet_view(machine)
    draft = _Draft(machine, view, wishes)
    policy = draft.topology_policy()
    cpu_options = draft.cpu_options()
    split = not _on(cpu_options.get(_FULL))
    choice = choose(machine, wishes.reserved, keep_l3=cpu_options.get(_L3) == "true", split=split)
    if not split and _FULL not in draft.asked[CPU_OPTIONS] and _full_cores_give_none(machine, view, choice.cpus):
        cpu_options[_FULL] = "false"
    memory = None
    if wishes.static_memory:
        _refuse_slow_memory(len(view.nodes))
        memory = reserve_memory(machine, choice.cpus, wishes.memory)
    draft.write_cpus(choice, cpu_options)
    draft.write_topology(policy)
    draft.write_memory(memory)
    draft.write_gates()
    _refuse_problems(draft.configuration, view, wishes.minor)
    return Plan(
        api_version=API_VERSION,
        kind="Plan",
        machine=machine.name,
        kubernetes_version=f"1.{wishes.minor}",
        configuration=draft.configuration,
        decisions=tuple(draft.decisions),
        numa_nodes=_node_plans(machine, choice.cpus, memory),
        shares=share_table(
            machine, choice.cpus, memory, policy, step=_step(view) if _on(cpu_options.get(_FULL)) else 1
        ),
    )


_FULL = "full-pcpus-only"
_L3 = "prefer-align-cpus-by-uncorecache"
_STRICT = "strict-cpu-reservation"
_MAX_NODES = "max-allowable-numa-nodes"
_CLOSEST = "prefer-closest-numa-nodes"


def _on(value: str | None) -> bool:
    """Whether an option is turned on, as the kubelet reads booleans."""
    return BOOLEANS.get(value or "false", False)


def _step(view: KubeletView) -> int:
    """The number of CPUs in whose multiples full-pcpus-only gives them out."""
    return max(view.cpus_per_core, 1)


def _full_cores_give_none(machine: Machine, view: KubeletView, reserved: CpuSet) -> bool:
    """Whether under full-pcpus-only no NUMA node has enough CPUs for a container: cores are not alike, or the kubelet
    takes other CPUs for siblings than the kernel."""
    return all(len(cpus - reserved) < _step(view) for cpus in places(machine).values())


class _Draft:
    """A configuration that is being written, with the decisions behind it."""

    def __init__(self, machine: Machine, view: KubeletView, wishes: PlanWishes) -> None:
        self.machine = machine
        self.view = view
        self.wishes = wishes
        self.configuration: dict[str, Any] = {}
        self.decisions: list[Decision] = []
        self.gates: dict[str, str] = {}
        self.gave_way: dict[str, str] = {}
        self.asked = {field: self._asked(field) for field in (CPU_OPTIONS, TOPOLOGY_OPTIONS)}
        for name in set(wishes.options) - {*self.asked[CPU_OPTIONS], *self.asked[TOPOLOGY_OPTIONS]}:
            raise _unknown_option(name, wishes.options[name], wishes.minor)

    def _asked(self, field: str) -> dict[str, str]:
        """The options that were asked for over those that are kept; of these, what the first exclude is turned off."""
        known, wishes = options(field, self.wishes.minor), self.wishes
        kept = {name: value for name, value in wishes.kept.items() if name in known and self._can_stay(name, value)}
        asked = {name: value for name, value in wishes.options.items() if name in known}
        for name in kept.keys() - asked.keys():
            excluding = self._excluding(name, asked) if _on(kept[name]) else None
            if excluding is not None:
                kept[name], self.gave_way[name] = "false", f"{excluding} excludes it"
        return {**kept, **asked}

    def _can_stay(self, name: str, value: str) -> bool:
        """Whether a value of a document may stay: not a limit below this machine's number of NUMA nodes."""
        enough = value.isascii() and value.isdecimal() and int(value) >= len(self.view.nodes)
        return name != _MAX_NODES or enough

    def _has(self, field: str, name: str) -> bool:
        """Whether the version has an option that needs no feature gate turned on."""
        return name in options(field, self.wishes.minor) and not self._needed_gates(field, name)

    def _needed_gates(self, field: str, name: str) -> list[str]:
        """The feature gates that have to be turned on for an option of the version."""
        minor = self.wishes.minor
        needed = ["TopologyManagerPolicyOptions"] if field == TOPOLOGY_OPTIONS else []
        group = GROUP_GATES[field].get(options(field, minor)[name])
        needed += [group] if group else []
        return [gate for gate in needed if not gates(minor)[gate].default]

    def _decide(self, field: str, value: str | None, reason: str) -> None:
        self.decisions.append(Decision(field=field, value=value, reason=reason))

    # -- the topology manager

    def topology_policy(self) -> str:
        """The policy: the one asked for, else single-numa-node, where the version can have it on this machine."""
        nodes = len(self.view.nodes)
        if self.wishes.policy is not None:
            return self.wishes.policy
        allowed = _MAX_NODES in options(TOPOLOGY_OPTIONS, self.wishes.minor)
        return "none" if nodes > MAX_NUMA_NODES and not allowed else "single-numa-node"

    def write_topology(self, policy: str) -> None:
        """The topology manager's policy, scope and options."""
        field = "topologyManagerPolicy"
        self.configuration[field] = policy
        self._decide(field, policy, self._policy_reason(policy))
        scope = self.wishes.scope or "container"
        self.configuration["topologyManagerScope"] = scope
        what = "each container is aligned for itself" if scope == "container" else "all of a pod is aligned together"
        self._decide("topologyManagerScope", scope, what)
        chosen = self._topology_options(policy)
        if chosen:
            self.configuration[TOPOLOGY_OPTIONS] = chosen

    def _policy_reason(self, policy: str) -> str:
        gpus, nodes = self.machine.gpus, len(self.view.nodes)
        unknown = sum(gpu.numa_node is None for gpu in gpus)
        most = max((len(gpus_on(self.machine, id)) for id in places(self.machine)), default=0)
        if policy == "none" and self.wishes.policy is None:
            return (
                f"nothing is aligned: this machine has {nodes} NUMA nodes, and Kubernetes 1.{self.wishes.minor} starts "
                f"with a policy on at most {MAX_NUMA_NODES}; 1.31 and newer have {_MAX_NODES}"
            )
        reason = {
            "none": "nothing is aligned",
            "best-effort": "a container is aligned where that can be, and admitted all the same where not",
            "restricted": "a container comes from as few NUMA nodes as could hold it, or it is refused",
        }.get(policy, "a container's CPUs and devices come from one NUMA node, or it is refused")
        if policy != "none" and unknown and most < len(gpus):
            lost = share(unknown, len(gpus), "GPU")
            return f"{reason}; {lost} without a known NUMA node, which no policy aligns"
        if policy == "single-numa-node" and most < len(gpus):
            return f"{reason}; a container can have at most {most} of the {len(gpus)} GPUs"
        return reason

    def _topology_options(self, policy: str) -> dict[str, str]:
        nodes, chosen = len(self.view.nodes), {}
        field, asked = TOPOLOGY_OPTIONS, self.asked[TOPOLOGY_OPTIONS]
        if nodes > MAX_NUMA_NODES and policy != "none" and self._has(field, _MAX_NODES):
            chosen[_MAX_NODES] = str(nodes)
            self._decide(
                f"{field}.{_MAX_NODES}",
                str(nodes),
                f"this machine has {nodes} NUMA nodes, those without CPUs included, and the kubelet refuses to start "
                f"on more than {MAX_NUMA_NODES} without it (Kubernetes 1.31 and newer)",
            )
        distances = {d for node in self.view.nodes for d in (node.distances or ())}
        spans = policy in ("best-effort", "restricted") and nodes >= _CLOSEST_MATTERS and len(distances) > 2
        if spans and self._has(field, _CLOSEST):
            chosen[_CLOSEST] = "true"
            self._decide(f"{field}.{_CLOSEST}", "true", "of several NUMA nodes, those that are near each other")
        return self._with_asked(field, chosen, asked)

    # -- the CPU manager

    def cpu_options(self) -> dict[str, str]:
        """The CPU manager's options: those asked for over those that suit the machine."""
        asked = self.asked[CPU_OPTIONS]
        found = {_FULL: "true"}
        if self._many_l3() and self._has(CPU_OPTIONS, _L3):
            found[_L3] = "true"
        for name in [name for name in found if name not in asked]:
            excluding = self._excluding(name, asked)
            if excluding is not None:
                del found[name]
                self._decide(f"{CPU_OPTIONS}.{name}", None, f"{excluding} excludes it")
        return {**found, **asked}

    def _excluding(self, name: str, asked: Mapping[str, str]) -> str | None:
        """Which of the options that were asked for is one beside which the kubelet does not start with this one."""
        on = {option for option, value in asked.items() if _on(value)}
        others = {
            (set(pair) - {name}).pop()
            for *pair, since in EXCLUSIVE_OPTIONS
            if name in pair and self.wishes.minor >= since
        }
        return min(on & others, default=None)

    def _many_l3(self) -> bool:
        homes = places(self.machine).values()
        return any(sum(bool(l3.cpus.bits & cpus.bits) for l3 in self.machine.l3_caches) > 1 for cpus in homes)

    def write_cpus(self, choice: Choice, chosen: Mapping[str, str]) -> None:
        """The CPU manager's policy and options, and the reserved CPUs."""
        machine, field = self.machine, CPU_OPTIONS
        self.configuration["cpuManagerPolicy"] = "static"
        self._decide(
            "cpuManagerPolicy", "static", "containers of Guaranteed pods that ask for whole CPUs get exclusive ones"
        )
        own = {name: value for name, value in chosen.items() if name not in self.asked[field]}
        if _FULL in own:
            self._decide(f"{field}.{_FULL}", own[_FULL], self._full_reason(own[_FULL]))
        if _L3 in own:
            groups = len(machine.l3_caches)
            self._decide(f"{field}.{_L3}", "true", f"a container's CPUs share an L3 where they fit: {groups} L3 groups")
        self.configuration[field] = self._with_asked(field, own, self.asked[field])
        self.configuration["reservedSystemCPUs"] = str(choice.cpus)
        left: dict[int, list[int]] = {}
        for id, cpus in places(machine).items():
            left.setdefault(len(cpus - choice.cpus), []).append(id)
        each = ", ".join(
            f"{number} on {'each of ' if len(ids) > 1 else ''}{numa_nodes(ids)}" for number, ids in left.items()
        )
        known = known_cpus(machine)
        homeless = machine.online_cpus - known
        self._decide(
            "reservedSystemCPUs",
            str(choice.cpus),
            f"kept from exclusive use: {len(choice.cpus)} of {len(known)} CPUs ({choice.reason}); "
            f"left for exclusive use: {each if machine.numa_nodes else 'the others'}"
            + (f"; the kubelet does not know CPUs {homeless}, which are in no NUMA node" if homeless else ""),
        )
        if _STRICT in options(field, self.wishes.minor) and _STRICT not in self.asked[field]:
            self._decide(
                f"{field}.{_STRICT}",
                None,
                "it keeps other pods off the reserved CPUs, but a kubelet whose CPUs are all given out does not start "
                "again with it; --option strict-cpu-reservation=true asks for it",
            )

    def _full_reason(self, value: str) -> str:
        cpus, cores, step = len(self.view.cpus), self.view.cores, _step(self.view)
        if _on(value) and any(len(core.cpus) > step for core in self.machine.cores):
            return (
                f"the kubelet reckons {count(step, 'CPU')} a core here ({cpus} CPUs on {cores} cores, since some "
                "siblings are missing), and gives CPUs out by that number: two containers can share a larger core"
            )
        if _on(value):
            return "exclusive CPUs come as whole cores: no two containers share one"
        return (
            f"the kubelet reckons {step} CPUs a core here ({cpus} CPUs on {cores} cores), and on no NUMA "
            "node are so many left: with it no container could have exclusive CPUs; without it two can share a core"
        )

    def _with_asked(self, field: str, own: dict[str, str], asked: Mapping[str, str]) -> dict[str, str]:
        for name, value in asked.items():
            group = options(field, self.wishes.minor)[name]
            for gate in self._needed_gates(field, name):
                self.gates[gate] = f"opens {name}, which is {group} in Kubernetes 1.{self.wishes.minor}"
            own[name] = value
            cost = ": two containers can share a core" if name == _FULL and not _on(value) else ""
            reason = f"as asked for{cost}" if name in self.wishes.options else "as it was"
            self._decide(f"{field}.{name}", value, self.gave_way.get(name, reason))
        return own

    # -- memory and feature gates

    def write_memory(self, memory: MemoryReservation | None) -> None:
        """The memory manager's policy, what is reserved, and on which NUMA node."""
        if memory is None:
            return
        self.configuration["memoryManagerPolicy"] = "Static"
        self._decide("memoryManagerPolicy", "Static", "memory comes from the NUMA node of the CPUs and devices")
        for field, amount in (("kubeReserved", memory.kube), ("systemReserved", memory.system)):
            self.configuration[field] = {"memory": str(amount)}
        self.configuration["evictionHard"] = dict(memory.eviction_hard(self.wishes.minor))
        self._decide("kubeReserved", f"memory {memory.kube}", memory.kube_reason)
        self._decide("systemReserved", f"memory {memory.system}", memory.system_reason)
        self._decide(
            "evictionHard",
            f"memory.available {memory.eviction}",
            "an amount: a share moves with MemTotal",
        )
        self.configuration["reservedMemory"] = [
            {"numaNode": id, "limits": {"memory": str(amount)}} for id, amount in memory.by_node.items()
        ]
        self._decide("reservedMemory", memory.words(), memory.reason)

    def write_gates(self) -> None:
        """The feature gates without which something asked for would keep the kubelet from starting."""
        if self.gates:
            self.configuration["featureGates"] = dict.fromkeys(self.gates, True)
            for gate, reason in self.gates.items():
                self._decide(f"featureGates.{gate}", "true", reason)


def _refuse_slow_memory(nodes: int) -> None:
    if nodes >= SLOW_MEMORY_NODES:
        raise DoesNotHold(
            f"a static memory manager on {nodes} NUMA nodes takes the kubelet from a third of a second to hours for "
            "each pod, doubling with each NUMA node",
            hint="leave out --memory-manager static",
        )


def _unknown_option(name: str, value: str, minor: int) -> NumalignError:
    """The error for an option that the version does not have: such a kubelet would refuse it; or that none has."""
    others = [
        other
        for other in range(OLDEST, NEWEST + 1)
        if name in options(CPU_OPTIONS, other) or name in options(TOPOLOGY_OPTIONS, other)
    ]
    if others:
        first = f"1.{others[0]}"
        return DoesNotHold(
            f"--option {name}: Kubernetes 1.{minor} does not have it",
            hint=f"{first} and newer have it: --kubernetes-version {first}",
        )
    from difflib import get_close_matches

    known = sorted({*options(CPU_OPTIONS, minor), *options(TOPOLOGY_OPTIONS, minor)})
    near = get_close_matches(name, known, n=1)
    return WrongUsage(
        f"--option {name}: no kubelet has such an option",
        hint=f"did you mean --option {near[0]}={value}?" if near else f"Kubernetes 1.{minor} has {', '.join(known)}",
    )


class _WouldNotStart(DoesNotHold):
    """The kubelet refuses the configuration."""


def _refuse_problems(configuration: dict[str, Any], view: KubeletView, minor: int) -> None:
    """Raises _WouldNotStart where the kubelet would not start on the configuration."""
    for problem in problems(settings(typed(configuration, minor), minor), view):
        raise _WouldNotStart(
            f"Kubernetes 1.{minor} would not start on this machine with what was asked for: {problem.message}"
        )


def _better(machine: Machine, wishes: PlanWishes) -> str | None:
    """The first of the nearest other wishes that can be met, as options of the command line; None: there is none."""
    for words, other in _nearest_wishes(machine, wishes):
        with suppress(NumalignError):
            _made(machine, other)
            return words
    return None


def _nearest_wishes(machine: Machine, wishes: PlanWishes) -> Iterator[tuple[str, PlanWishes]]:
    """What a person can ask for instead, the least different first."""
    replace = msgspec.structs.replace
    for name in wishes.options:
        number = str(max(len(machine.numa_nodes), MAX_NUMA_NODES))
        for value in ("true",) if name != _MAX_NODES else (number,):
            yield f"--option {name}={value}", replace(wishes, options={**wishes.options, name: value})
    if _FULL not in wishes.options:
        yield f"--option {_FULL}=false", replace(wishes, options={**wishes.options, _FULL: "false"})
    if wishes.policy is None:
        yield "--policy restricted", replace(wishes, policy="restricted")
    for name in wishes.options:
        rest = {other: value for other, value in wishes.options.items() if other != name}
        yield f"leave out --option {name}", replace(wishes, options=rest)
    yield f"--kubernetes-version 1.{DEFAULT}", replace(wishes, minor=DEFAULT)
    if wishes.policy is not None:
        yield "leave out --policy", replace(wishes, policy=None)


def _node_plans(machine: Machine, reserved: CpuSet, memory: MemoryReservation | None) -> tuple[NodePlan, ...]:
    return tuple(
        NodePlan(
            numa_node=id,
            reserved=cpus & reserved,
            exclusive=cpus - reserved,
            gpus=CpuSet(gpu.index for gpu in gpus_on(machine, id)),
            reserved_memory_bytes=memory.by_node[id].whole if memory and id in memory.by_node else None,
        )
        for id, cpus in places(machine).items()
    )
