"""The hints of each manager are those that the kubelet finds by trying every set of NUMA nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.admission.cpu import cpu_manager
from numalign.admission.device import Device, DeviceManager, device_manager
from numalign.admission.hints import Hints
from numalign.admission.memory import MemoryBlock, MemoryManager, memory_manager
from numalign.kubelet.view import KubeletView
from tests.admission import exhaustive_hints as exhaustive
from tests.vectors import scenario_settings, view_of

NODES = 4
TYPES = ("hugepages-1Gi", "memory")
GIB = 1 << 30


def machine(sizes: list[tuple[int, int]]) -> KubeletView:
    """NUMA nodes with so many GiB and pages of 1 GiB beside them, two CPUs each."""
    nodes: list[dict[str, Any]] = [
        {"id": id, "memory_bytes": (size + pages) * GIB, "distances": [], "hugepages": {"1Gi": pages}}
        for id, (size, pages) in enumerate(sizes)
    ]
    cpus = [{"cpu": cpu, "core": cpu, "socket": 0, "l3": 0, "numa": cpu // 2} for cpu in range(2 * len(sizes))]
    return view_of({"numa_nodes": nodes, "cpus": cpus})


def devices_of(homes: list[tuple[int, ...] | None], minor: int) -> DeviceManager:
    wanted = scenario_settings({}, minor)
    devices = [Device("gpu", str(number), home) for number, home in enumerate(homes)]
    return device_manager(wanted, machine([(1, 0)] * NODES), devices)


def listed(hints: Hints | None) -> object:
    return None if hints is None else list(hints)


@settings(max_examples=1500, deadline=None)
@given(
    homes=st.lists(
        st.none() | st.lists(st.integers(0, NODES), max_size=3, unique=True).map(tuple), min_size=1, max_size=6
    ),
    used=st.integers(0, 63),
    reusable=st.integers(0, 63),
    request=st.integers(0, 5),
    minor=st.sampled_from((34, 35)),
)
def test_hints_for_devices(
    homes: list[tuple[int, ...] | None], used: int, reusable: int, request: int, minor: int
) -> None:
    manager = devices_of(homes, minor)
    resource = manager.resources["gpu"]
    every = range(len(homes))
    used |= reusable
    found = manager.hints({"gpu": used}, {"gpu": reusable & (1 << len(homes)) - 1}, {"gpu": request})["gpu"]
    if not any(homes):
        assert found is None
        return
    # NUMA nodes that the machine does not have (4) are overlooked
    known = [None if home is None else sum(1 << node for node in home if node < NODES) for home in homes]
    nodes = sum(1 << node for node in range(NODES))
    own = 0
    for home in known:
        own |= home or 0
    expected = exhaustive.device_hints(
        own if own and minor >= 35 else nodes,
        known,
        [number for number in every if not used >> number & 1],
        [number for number in every if reusable >> number & 1],
        request,
    )
    assert listed(found) == expected
    assert resource.nodes == (own if own and minor >= 35 else nodes)


@settings(max_examples=500, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=NODES).filter(any),
    taken=st.integers(0, 2**12 - 1),
    left=st.integers(0, 2**12 - 1),
    request=st.integers(1, 10),
)
def test_hints_for_cpus(sizes: list[int], taken: int, left: int, request: int) -> None:
    homes = [node for node, size in enumerate(sizes) for _ in range(size)]
    nodes = [{"id": id, "memory_bytes": GIB, "distances": []} for id in range(len(sizes))]
    cpus = [{"cpu": cpu, "core": cpu, "socket": 0, "l3": 0, "numa": home} for cpu, home in enumerate(homes)]
    view = view_of({"numa_nodes": nodes, "cpus": cpus})
    manager = cpu_manager(scenario_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}), view)
    assert manager is not None
    shared = view.cpus.bits & ~taken
    reusable = taken & left & view.cpus.bits & ~1

    def count(mask: int) -> list[int]:
        return [(mask & node.cpus.bits).bit_count() for node in view.nodes]

    with_cpus = sum(1 << node.id for node in view.nodes if node.cores)
    expected = exhaustive.cpu_hints(with_cpus, sizes, count(shared & ~1), count(reusable), request)
    assert list(manager.hints(shared, reusable, request)) == expected


@st.composite
def memory_in_use(draw: st.DrawFn) -> tuple[MemoryManager, list[tuple[int, dict[str, int]]]]:
    """A memory manager, and bookings on sets of NUMA nodes that do not overlap."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=NODES))
    wanted = scenario_settings({"memoryManagerPolicy": "Static"})
    manager = memory_manager(wanted, machine(sizes))
    assert manager is not None
    order = draw(st.permutations(range(len(sizes))))
    cuts = sorted(draw(st.sets(st.integers(1, len(sizes)), max_size=3)))
    booked = []
    for first, last in zip([0, *cuts], cuts, strict=False):
        amounts = {kind: draw(st.integers(0, 3)) * GIB for kind in TYPES}
        booked.append((sum(1 << node for node in order[first:last]), amounts))
    return manager, booked


@settings(max_examples=1500, deadline=None)
@given(
    case=memory_in_use(),
    size=st.integers(0, 9),
    pages=st.none() | st.integers(0, 4),
    left=st.integers(0, 3),
)
def test_hints_for_memory(
    case: tuple[MemoryManager, list[tuple[int, dict[str, int]]]], size: int, pages: int | None, left: int
) -> None:
    manager, booked = case
    use = manager.start
    for nodes, amounts in booked:
        use = manager.book(use, nodes, amounts)
    reusable = {(nodes, kind): left * GIB for nodes, _ in booked[:1] for kind in TYPES}
    wanted = {"memory": size * GIB} if pages is None else {"hugepages-1Gi": pages * GIB, "memory": size * GIB}
    expected = exhaustive.memory_hints(manager.nodes, manager.allocatable, use, wanted, reusable)
    found = manager.hints(use, wanted, reusable)
    assert {kind: list(hints) for kind, hints in found.items()} == (dict.fromkeys(wanted, expected) if expected else {})


@settings(max_examples=500, deadline=None)
@given(case=memory_in_use())
def test_memory_that_is_given_back_leaves_no_trace(
    case: tuple[MemoryManager, list[tuple[int, dict[str, int]]]],
) -> None:
    manager, booked = case
    use = manager.start
    held = []
    for nodes, amounts in booked:
        before = use
        use = manager.book(use, nodes, amounts)
        for kind in TYPES:
            taken = sum(before.free[kind]) - sum(use.free[kind])
            held.append(MemoryBlock(nodes, kind, taken))
    assert manager.release(use, held) == manager.start
