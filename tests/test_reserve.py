"""The reservation, on every machine and for any wish: whole cores, what was asked for, or an error."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numalign.reserve
from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Machine
from numalign.reserve import Wishes, choose, places, whole_cores
from tests import machines

_EACH = "cannot be reserved on each NUMA node"
LISTS = st.none() | st.frozensets(st.integers(0, 300), max_size=12).map(CpuSet) | st.just(CpuSet(range(300)))


@pytest.mark.parametrize("name", machines.names())
@settings(max_examples=60, deadline=None)
@given(
    listed=LISTS,
    count=st.none() | st.integers(0, 400),
    per_numa=st.none() | st.integers(0, 60),
    on=st.lists(st.integers(0, 9), max_size=3, unique=True),
    keep_l3=st.booleans(),
)
def test_any_wish_is_met_in_whole_cores_or_refused_with_one_that_is(
    name: str,
    listed: CpuSet | None,
    count: int | None,
    per_numa: int | None,
    on: list[int],
    keep_l3: bool,
    machine_of: Callable[[str], Machine],
) -> None:
    machine = machine_of(name)
    if listed is not None:
        wishes = Wishes(cpus=listed)
    elif count is not None:
        wishes = Wishes(count=count, on=tuple(on))
    else:
        wishes = Wishes(cores_per_numa=per_numa, on=tuple(on))
    refusal: DoesNotHold | None = None
    try:
        choice = choose(machine, wishes, keep_l3=keep_l3)
    except DoesNotHold as error:
        refusal = error
    if refusal is not None:
        assert (refusal.hint is None) == (len(machine.cores) == 1)
        for better in _named(refusal.hint, wishes) if refusal.hint else ():
            choose(machine, better, keep_l3=keep_l3)
        return
    cpus, homes = choice.cpus, places(machine)
    assert whole_cores(machine, cpus) == cpus <= machine.online_cpus
    assert cpus != machine.online_cpus
    assert cpus
    if wishes.cpus is not None:
        assert cpus == wishes.cpus
        return
    if wishes.count is not None:
        assert len(cpus) == count
    for id, own in homes.items():
        here = CpuSet.from_mask(own.bits & cpus.bits)
        if wishes.cores_per_numa is not None:
            number = sum(bool(core.cpus.bits & here.bits) for core in machine.cores)
            assert number == (per_numa if not on or id in on else 0)
        assert not here or not on or id in on


def _named(hint: str, refused: Wishes) -> list[Wishes]:
    """The wishes that an error's hint names."""
    option, _, rest = hint.partition(" ")
    if option == "--reserve-on":
        return [Wishes(on=(int(id),)) for id in rest.removeprefix("takes ").split(", ")]
    if option == "--reserved-cpus":
        return [Wishes(cpus=CpuSet.parse(rest))]
    if option == "--reserved-cores-per-numa":
        return [Wishes(cores_per_numa=int(rest), on=refused.on)]
    assert option == "--reserved-cpu-count"
    return [Wishes(count=int(number), on=refused.on) for number in rest.split(" or ")]


@pytest.mark.parametrize(
    ("wishes", "hint"),
    [
        (Wishes(cpus=CpuSet.parse("0-111")), "--reserved-cpus 0-3,56-59,112-115,168-171"),
        (Wishes(cpus=CpuSet.parse("0-1,500")), "--reserved-cpus 0-1,112-113"),
        (Wishes(cpus=CpuSet.parse("500")), "--reserved-cpus 0-3,56-59,112-115,168-171"),
        (Wishes(count=3), "--reserved-cpu-count 2 or 4"),
        (Wishes(count=224), "--reserved-cpu-count 222"),
        (Wishes(cores_per_numa=56), "--reserved-cores-per-numa 55"),
        (Wishes(count=200, on=(0,)), "--reserved-cpu-count 112"),
    ],
)
def test_a_wish_that_cannot_be_met_names_the_nearest_one_that_can(
    wishes: Wishes, hint: str, machine_of: Callable[[str], Machine]
) -> None:
    with pytest.raises(DoesNotHold) as refused:
        choose(machine_of("dgx-h100"), wishes)
    assert refused.value.hint == hint
    for better in _named(hint, wishes):
        choose(machine_of("dgx-h100"), better)


@pytest.mark.parametrize("name", machines.names())
def test_by_default_the_cores_that_are_left_divide_evenly_among_the_gpus(
    name: str, machine_of: Callable[[str], Machine]
) -> None:
    machine = machine_of(name)
    reserved = choose(machine, Wishes()).cpus
    for id, own in places(machine).items():
        gpus = sum(gpu.numa_node == id for gpu in machine.gpus)
        left = sum(bool(core.cpus.bits & own.bits & ~reserved.bits) for core in machine.cores)
        assert not gpus or left % gpus == 0 or left < gpus


def test_isolated_cores_are_not_taken_to_make_the_rest_even(machine_of: Callable[[str], Machine]) -> None:
    machine = msgspec.structs.replace(machine_of("dgx-h100"), isolated_cpus=CpuSet.parse("1-55,57-111,113-167,169-223"))
    assert str(choose(machine, Wishes()).cpus) == "0,56,112,168"


@pytest.mark.parametrize(
    ("isolated", "wishes", "reserved"),
    [
        # a NUMA node of isolated CPUs is left to the pods
        ("56-111,168-223", Wishes(), "0-3,112-115"),
        ("0-55,112-167", Wishes(), "56-59,168-171"),
        ("56-111,168-223", Wishes(count=8), "0-3,112-115"),
        # no core is free of them: those with the fewest come first
        ("4-223", Wishes(cores_per_numa=1), "0,56,112,168"),
        ("0-223", Wishes(cores_per_numa=1), "0,56,112,168"),
        # but where they are named
        ("56-111,168-223", Wishes(cpus=CpuSet.parse("56,168")), "56,168"),
    ],
)
def test_isolated_cores_are_reserved_only_by_name(
    isolated: str, wishes: Wishes, reserved: str, machine_of: Callable[[str], Machine]
) -> None:
    machine = msgspec.structs.replace(machine_of("dgx-h100"), isolated_cpus=CpuSet.parse(isolated))
    assert str(choose(machine, wishes).cpus) == reserved


@pytest.mark.parametrize(
    ("isolated", "wishes", "message", "hint"),
    [
        (
            "1-55,57-111,113-167,169-223",
            Wishes(count=16),
            "16 CPUs cannot be reserved there: there are 4 that are not isolated",
            "--reserved-cpu-count 4",
        ),
        (
            "1-55,57-111,113-167,169-223",
            Wishes(cores_per_numa=3),
            f"3 cores {_EACH}: at most 1 core can, since others of NUMA nodes 0-1 are isolated",
            "--reserved-cores-per-numa 1",
        ),
        (
            "56-111,168-223",
            Wishes(cores_per_numa=3),
            f"3 cores {_EACH}: at most 0 cores can, since others of NUMA node 1 are isolated",
            "--reserve-on 0 --reserved-cores-per-numa 3",
        ),
        (
            "56-111,168-223",
            Wishes(on=(1,)),
            "all CPUs of NUMA node 1 are isolated: the system would stay on one of them",
            "--reserve-on 0; --reserved-cpus takes isolated CPUs too",
        ),
    ],
)
def test_a_wish_that_needs_isolated_cores_is_refused_with_the_nearest_that_does_not(
    isolated: str, wishes: Wishes, message: str, hint: str, machine_of: Callable[[str], Machine]
) -> None:
    machine = msgspec.structs.replace(machine_of("dgx-h100"), isolated_cpus=CpuSet.parse(isolated))
    with pytest.raises(DoesNotHold) as refused:
        choose(machine, wishes)
    assert (refused.value.message, refused.value.hint) == (message, hint)


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.reserve)
    assert (failed, tried > 0) == (0, True)
