"""The reservation, on every machine and for any wish: whole cores, what was asked for, or an error."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numalign.reserve
from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Machine
from numalign.reserve import Wishes, choose, places, whole_cores
from tests import machines


@pytest.mark.parametrize("name", machines.names())
@settings(max_examples=40, deadline=None)
@given(
    count=st.none() | st.integers(0, 400),
    per_numa=st.none() | st.integers(0, 60),
    on=st.lists(st.integers(0, 9), max_size=3, unique=True),
)
def test_any_wish_is_met_in_whole_cores_or_refused(
    name: str, count: int | None, per_numa: int | None, on: list[int], machine_of: Callable[[str], Machine]
) -> None:
    machine = machine_of(name)
    try:
        choice = choose(machine, Wishes(count=count, cores_per_numa=per_numa if count is None else None, on=tuple(on)))
    except DoesNotHold:
        return
    cpus, homes = choice.cpus, places(machine)
    assert whole_cores(machine, cpus) == cpus <= machine.online_cpus
    assert cpus != machine.online_cpus
    assert cpus
    if count is not None:
        assert len(cpus) == count
    for id, own in homes.items():
        here = CpuSet.from_mask(own.bits & cpus.bits)
        assert bool(here) == (not on or id in on) or count is not None
        if per_numa is not None and count is None and here:
            assert sum(bool(core.cpus.bits & here.bits) for core in machine.cores) == per_numa


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


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.reserve)
    assert (failed, tried > 0) == (0, True)
