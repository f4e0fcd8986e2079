"""What fleet answers for each class, computed once: its configuration, and how many of a pod fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from numalign.cli.predict import device_specs, offered
from numalign.cli.render import filled, worth_saying
from numalign.errors import DoesNotHold, NumalignError
from numalign.fleet import (
    Class,
    ClassOfNodes,
    Configuration,
    Fleet,
    OddKind,
    PodFit,
    divide,
    node_name,
    odd_ones,
    shape,
)
from numalign.machine import API_VERSION, Machine
from numalign.plan import Plan, PlanWishes, make_plan
from numalign.words import count, printable

if TYPE_CHECKING:
    from numalign.admission.manifest import Submitted
    from numalign.cli.gather import Found
    from numalign.render.targets import Target

__all__ = ["Answer", "Wishes", "answer"]

_MOST_KINDS = 400
"""Kinds of nodes beside the largest of each class for which it is looked at whether the configuration suits them."""


class Wishes(NamedTuple):
    """What was asked for on the command line."""

    plan: PlanWishes
    target: Target
    template: str | None
    folder: str | None
    device: tuple[str, ...]
    mig_strategy: str | None


class Answer(NamedTuple):
    """The document, the configurations' files by name, and a machine of each class with its plan, to be drawn."""

    fleet: Fleet
    files: dict[str, bytes]
    members: dict[str, tuple[Machine, Plan | None]]


class _Planned(NamedTuple):
    """A class with its plan, or why there is none."""

    one: Class
    plan: Plan | None
    reason: str | None


def answer(found: Found, wishes: Wishes, pods: Sequence[Submitted], class_from: int | None) -> Answer:
    """The classes of the nodes that were found, with a configuration for each. Raises WrongUsage."""
    twice, replaced = found.gathering.twice()
    classes, odd = divide(found.gathering.kinds(replaced), class_from)
    planned = {one.name: _planned(one, wishes) for one in classes}
    plans = _Plans(wishes.plan)
    files: dict[str, bytes] = {}
    shown = tuple(_shown(planned[one.name], wishes, pods, plans, files) for one in classes)
    hardware = {one.name: one.nodes for one in classes}
    for each in odd:
        if each.topology:
            hardware[each.like.name] += len(each.kind.nodes)
    strange = []
    for one, members in odd_ones(odd, hardware):
        same = None
        if one.topology:
            kept = [plans.suits(planned[one.like].plan, member) for member in members]
            same = None if None in kept else all(kept)
            one = replace(one, pods=_summed(_fits_of(member, wishes, pods) for member in members))
        strange.append(replace(one, same_configuration=True if not one.topology else same))
    fleet = Fleet(
        api_version=API_VERSION,
        kind="Fleet",
        kubernetes_version=f"1.{wishes.plan.minor}",
        nodes=len(found.gathering) - len(replaced),
        classes=shown,
        odd=tuple(strange),
        unread=tuple(found.unread),
        twice=tuple(twice),
        pods=_summed([*(one.pods for one in shown), *(one.pods for one in strange)]),
        notes=plans.notes,
    )
    return Answer(fleet, files, {name: (each.one.machine, each.plan) for name, each in planned.items()})


def _planned(one: Class, wishes: Wishes) -> _Planned:
    try:
        return _Planned(one, make_plan(one.machine, wishes.plan), None)
    except DoesNotHold as error:
        return _Planned(one, None, error.message)


class _Plans:
    """Whether what is made for a class suits other kinds of nodes, for a bounded number of them."""

    def __init__(self, wishes: PlanWishes) -> None:
        self._wishes = wishes
        self._left = _MOST_KINDS
        self.notes: tuple[str, ...] = ()

    def differing(self, plan: Plan, machine: Callable[[], Machine]) -> list[str] | None:
        """The fields that a machine needs otherwise; None where nobody looked."""
        if self._left <= 0:
            self.notes = (f"whether the configuration suits was looked at for {_MOST_KINDS} kinds of nodes, not all",)
            return None
        self._left -= 1
        try:
            own = make_plan(machine(), self._wishes).configuration
        except DoesNotHold:
            return ["none can be made"]
        fields = plan.configuration.keys() | own.keys()
        return sorted(field for field in fields if plan.configuration.get(field) != own.get(field))

    def suits(self, plan: Plan | None, odd: OddKind) -> bool | None:
        """Whether a class's configuration is what is made for an odd kind too."""
        fields = None if plan is None else self.differing(plan, odd.kind.machine)
        return None if fields is None else not fields


def _shown(
    planned: _Planned, wishes: Wishes, pods: Sequence[Submitted], plans: _Plans, files: dict[str, bytes]
) -> ClassOfNodes:
    one = planned.one
    return ClassOfNodes(
        name=one.name,
        fingerprint=one.topology,
        nodes=one.nodes,
        names=tuple(map(node_name, one.sights())),
        shape=shape(one.machine),
        like=one.like.name if one.like else None,
        differences=one.differences,
        configuration=_configuration(planned, wishes, plans, files),
        pods=_fits(one.machine, planned.plan, planned.reason, one.nodes, wishes, pods),
    )


def _configuration(planned: _Planned, wishes: Wishes, plans: _Plans, files: dict[str, bytes]) -> Configuration:
    """The class's configuration; its file is filled in where one is to be written."""
    from numalign.render.targets import check_target, for_version

    one, plan = planned.one, planned.plan
    if plan is None:
        return Configuration(None, reason=planned.reason)
    differs = {}
    for kind in one.kinds[1:]:
        fields = plans.differing(plan, kind.machine)
        differs.update({node_name(sight): tuple(fields) for sight in kind.nodes if fields})
    told = tuple(f"{warning.id}  {warning.message}" for warning in worth_saying(one.machine))
    if wishes.folder is None:
        return Configuration(plan.configuration, differs=differs, warnings=told)
    try:
        lost = check_target(plan, wishes.plan, wishes.target)
        row = for_version(wishes.target, wishes.plan.minor)
        machine = replace(one.machine, name=f"class {one.name}, {count(one.nodes, 'node')}")
        data = filled(machine, plan, row, wishes.template, lost, wishes.plan.minor)
    except DoesNotHold as error:
        return Configuration(plan.configuration, reason=error.message, differs=differs, warnings=told)
    file = f"{one.name}.{wishes.target.suffix}"
    files[file] = data
    told += tuple(f"target-lacks  {wishes.target.name} has no {name}: {why}" for name, why in lost.items())
    return Configuration(plan.configuration, f"{wishes.folder.rstrip('/')}/{file}", None, differs, told)


# -- pods


def _fits_of(odd: OddKind, wishes: Wishes, pods: Sequence[Submitted]) -> tuple[PodFit, ...]:
    """How many fit on odd nodes, under a configuration made for them."""
    if not pods:
        return ()
    machine = odd.kind.machine()
    try:
        plan, reason = make_plan(machine, wishes.plan), None
    except DoesNotHold as error:
        plan, reason = None, error.message
    return _fits(machine, plan, reason, len(odd.kind.nodes), wishes, pods)


def _fits(
    machine: Machine, plan: Plan | None, reason: str | None, nodes: int, wishes: Wishes, pods: Sequence[Submitted]
) -> tuple[PodFit, ...]:
    """How many of each pod fit on an empty machine under a plan. Raises WrongUsage."""
    found = []
    for submitted in pods:
        each, why = (0, f"no configuration: {reason}") if plan is None else _count(machine, plan, wishes, submitted)
        found.append(PodFit(submitted.name, each, nodes, each * nodes, why))
    return tuple(found)


def _count(machine: Machine, plan: Plan, wishes: Wishes, submitted: Submitted) -> tuple[int, str | None]:
    from numalign.admission.fit import most_pods
    from numalign.admission.node import Node
    from numalign.admission.offers import preferences
    from numalign.admission.prediction import Occupancy, predict
    from numalign.kubelet.document import typed
    from numalign.kubelet.settings import settings
    from numalign.kubelet.view import kubelet_view

    values, view = typed(plan.configuration, wishes.plan.minor), kubelet_view(machine)
    try:
        offers = offered(machine, view, None, device_specs(wishes.device, None), wishes.mig_strategy)
    except NumalignError as error:
        return 0, error.message
    node = Node(
        settings(values, wishes.plan.minor),
        view,
        [each for offer in offers for each in offer.devices],
        prefer=preferences(machine, offers),
        max_pods=most_pods(values, view),
    )
    occupancy = Occupancy("empty")
    told = predict(
        machine, node, [submitted], offers=offers, config="", version_from="", occupancy=occupancy, counting=True
    ).pods[0]
    if told.outcome == "admitted":
        return told.count or 0, None if told.then is None else printable(told.then)
    return 0, next(iter(told.because), None) or told.message or told.outcome


def _summed(fits: Iterable[tuple[PodFit, ...]]) -> tuple[PodFit, ...]:
    """For each pod the sum over nodes; `each` is the most that fit on one."""
    found: dict[int, PodFit] = {}
    for several in fits:
        for place, one in enumerate(several):
            so_far = found.get(place)
            found[place] = (
                one
                if so_far is None
                else PodFit(
                    one.pod,
                    max(so_far.each, one.each),
                    so_far.nodes + one.nodes,
                    so_far.total + one.total,
                    so_far.reason if so_far.reason == one.reason else None,
                )
            )
    return tuple(found.values())
