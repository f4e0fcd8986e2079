"""numalign predict: the answer for each pod, why, what would do, and what is left on the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.admission.explain import Need, amount
from numalign.admission.prediction import Container, NodeLeft, PodPrediction, Prediction
from numalign.cpuset import CpuSet
from numalign.kubelet.settings import is_memory
from numalign.report.text import fits, plain_table, wrapped
from numalign.words import count, few, folded, printable, size

__all__ = ["draw"]

_INDENT = (0, 0, 0, 2)
_STYLES = {"admitted": "green", "refused": "bold red", "invalid": "bold red", "hangs": "bold red", "stalls": "bold red"}
_MOST_NODES = 8
"""NUMA nodes beside each other in a table; more are told in a line for each resource."""


def draw(console: Console, found: Prediction) -> None:
    """Each pod, what is left, and on what it rests."""
    for pod in found.pods:
        _pod(console, pod, one_node=found.policies.topology_manager == "single-numa-node")
        console.print()
    left = next((pod.left for pod in reversed(found.pods) if pod.left), ())
    if left:
        _left(console, left)
        console.print()
    for line in _rests_on(found):
        console.print(Text(printable(line)))


def _pod(console: Console, pod: PodPrediction, *, one_node: bool) -> None:
    head = Text.assemble((printable(pod.name), "bold"), "   ", (pod.words, _STYLES[pod.outcome]))
    if pod.reason:
        head.append(f"   {pod.reason}")
    if pod.outcome == "admitted":
        head.append(_aligned(pod.containers))
    console.print(head)
    if pod.message:
        _lines(console, [pod.message])
    if pod.outcome == "admitted":
        _containers(console, pod.containers)
    if pod.needs:
        console.print()
        _needs(console, pod.needs, one_node=one_node)
        console.print()
    _lines(console, list(pod.because) if pod.outcome == "invalid" else [_sentence(text) for text in pod.because])
    _lines(console, [_sentence(each.message) for each in pod.advice])
    for remarks, style in ((pod.costs, "yellow"), (pod.notes, "cyan")):
        for remark in remarks:
            console.print(Padding(Text.assemble((f"{remark.id}  ", style), printable(remark.message)), _INDENT))
    _lines(console, list(_how_many(pod)))


def _aligned(containers: Sequence[Container]) -> str:
    """What the topology manager made of it, where it is the same for all containers."""
    hints = [each.hint for each in containers if each.hint is not None]
    if not hints or any(hint != hints[0] for hint in hints):
        return ""
    where = (
        f"NUMA node{'s' * (len(hints[0].numa_nodes) > 1)} {hints[0].numa_nodes}" if hints[0].numa_nodes else "anywhere"
    )
    return f"   {where}, {'preferred' if hints[0].preferred else 'not preferred'}"


def _containers(console: Console, containers: Sequence[Container]) -> None:
    """What each container got, in a table; a container below the other where the terminal has no room for it."""
    l3 = any(each.l3_groups for each in containers)
    columns = [("container", "left"), ("CPUs", "left"), ("cores", "right"), ("NUMA", "left"), ("L3", "left")]
    columns += [("devices", "left"), ("memory", "left"), ("hint", "left")]
    shown = [column for column in columns if l3 or column[0] != "L3"]
    rows = [_container_row(each, l3=l3) for each in containers]
    if not fits([[head for head, _ in shown], *rows], console.width - 2):
        for each in containers:
            _below(console, each)
        return
    table = plain_table(*shown)
    for row in rows:
        table.add_row(*row)
    console.print(Padding(table, _INDENT))


def _container_row(each: Container, *, l3: bool) -> list[str]:
    return [
        _container_name(each),
        "shared pool" if each.cpus is None else str(each.cpus),
        str(each.cores) if each.cpus else "–",
        str(CpuSet(each.numa_nodes)) if each.cpus else "–",
        *([str(CpuSet(each.l3_groups)) or "–"] if l3 else []),
        printable(", ".join(_devices(each)) or "–"),
        ", ".join(_memory(each)) or "–",
        _hint(each),
    ]


def _below(console: Console, each: Container) -> None:
    """A container's name, and below it what it got, part by part."""
    console.print(Padding(Text(_container_name(each)), _INDENT))
    parts = ["shared pool"]
    if each.cpus:
        listed = wrapped(each.cpus, console.width - 9)
        parts = [f"CPUs {listed}", count(each.cores, "core"), f"NUMA {CpuSet(each.numa_nodes)}"]
        parts += [f"L3 {CpuSet(each.l3_groups)}"] if each.l3_groups else []
    parts += [printable(device) for device in _devices(each)]
    parts += [f"memory {memory}" for memory in _memory(each)]
    parts += [f"hint {_hint(each)}"] if each.hint is not None else []
    for line in folded(" · ".join(parts), console.width - 4):
        console.print(Padding(Text(line), (0, 0, 0, 4)))


def _container_name(each: Container) -> str:
    return printable(f"{each.name} (init)" if each.init else each.name)


def _devices(container: Container) -> Iterator[str]:
    for share in container.devices:
        yield f"{share.resource} {_spread(share.numa_nodes)}{', or others' if share.open else ''}"


def _spread(counts: Mapping[str, int]) -> str:
    """`1 on 0 + 3 on 1`, `2 each on 0-3`, `8 without NUMA node`."""
    plain = {node: number for node, number in counts.items() if node.isdecimal()}
    if len(plain) == len(counts) > 1 and len(set(plain.values())) == 1:
        return f"{next(iter(plain.values()))} each on {CpuSet(map(int, plain))}"
    return " + ".join(
        f"{number} without NUMA node" if node == "-" else f"{number} on {node}" for node, number in counts.items()
    )


def _memory(container: Container) -> Iterator[str]:
    for share in container.memory:
        name = "" if share.type == "memory" else f"{share.type} "
        if share.bytes:
            yield f"{name}{size(share.bytes)} on {share.numa_nodes}"


def _hint(container: Container) -> str:
    if container.hint is None:
        return "–"
    where = str(container.hint.numa_nodes) if container.hint.numa_nodes else "any"
    return where if container.hint.preferred else f"{where}, not preferred"


def _needs(console: Console, needs: Sequence[Need], *, one_node: bool) -> None:
    """What is needed and free; how many NUMA nodes wide it is where a pod may be on several (not `one_node`). NUMA
    nodes stand beside each other where there is room for them."""
    nodes = sorted({node for need in needs for node in need.free})
    container = needs[0].container
    title = f"container {printable(container)}" if container else "whole pod"
    widths = ["held to need", "needs"] if not one_node and any(need.width is not None for need in needs) else []
    heads = [title, "needs", *(f"NUMA {node}" for node in nodes), *widths]
    rows = [_need_row(need, [_free(need, node, one_node=one_node) for node in nodes], widths) for need in needs]
    columns: list[tuple[str, str]] = [(title, "left"), ("needs", "right")]
    if len(nodes) <= _MOST_NODES and fits([heads, *rows], console.width - 2):
        columns += [(f"NUMA {node}", "right") for node in nodes]
    else:
        rows = [_need_row(need, [_grouped(need)], widths) for need in needs]
        columns.append(("free", "left"))
    table = plain_table(*columns, *((head, "left") for head in widths))
    for row in rows:
        table.add_row(*row)
    console.print(Padding(table, _INDENT))


def _need_row(need: Need, free: list[str], widths: list[str]) -> list[str]:
    wide = [_wide(need.width), _wide(need.fewest)] if widths else []
    return [printable(need.resource), amount(need.resource, need.needed), *free, *wide]


def _free(need: Need, node: int, *, one_node: bool) -> str:
    """`1 free`; `24 free, 8 too few` where it has to be on one NUMA node."""
    free = f"{amount(need.resource, need.free[node])} free"
    if not one_node or need.free[node] >= need.needed:
        return free
    little = "little" if is_memory(need.resource) else "few"
    return f"{free}, {amount(need.resource, need.needed - need.free[node])} too {little}"


def _wide(number: int | None) -> str:
    """How many NUMA nodes."""
    return "–" if number is None else count(number, "NUMA node") if number else "more than all"


def _grouped(need: Need) -> str:
    """What is free, NUMA nodes that have equally much together."""
    by_number: dict[int, list[int]] = {}
    for node, number in need.free.items():
        by_number.setdefault(number, []).append(node)
    return "; ".join(f"{amount(need.resource, number)} on {CpuSet(nodes)}" for number, nodes in by_number.items())


def _how_many(pod: PodPrediction) -> Iterator[str]:
    if pod.count is not None:
        then = f"; the next: {pod.then}" if pod.then and pod.count else ""
        yield f"{count(pod.count, 'such pod')} {'fits' if pod.count == 1 else 'fit'}, one after another{then}"
    if pod.kind != "Pod" and pod.outcome != "invalid":
        wanted = f", of {pod.replicas} that it wants" if pod.replicas is not None and pod.replicas != 1 else ""
        more = "" if pod.count is not None else "; --count says how many fit"
        yield f"one pod of {pod.kind} {printable(pod.owner)} is looked at{wanted}{more}"


def _left(console: Console, left: Sequence[NodeLeft]) -> None:
    resources = list(left[0].devices)
    kinds = [kind for kind in left[0].memory if any(row.memory[kind] for row in left)]
    table = plain_table(
        ("left on NUMA", "right"),
        ("CPUs", "right"),
        *((kind, "right") for kind in kinds),
        *((resource, "right") for resource in resources),
    )
    for nodes, row in _alike(left):
        cells = [
            str(row.cpus),
            *(size(row.memory[kind]) for kind in kinds),
            *(str(row.devices[name]) for name in resources),
        ]
        table.add_row(str(nodes), *cells)
    console.print(table)


def _alike(left: Sequence[NodeLeft]) -> Iterator[tuple[CpuSet, NodeLeft]]:
    """The NUMA nodes, those that have the same left together where there are many."""
    rows: dict[object, list[NodeLeft]] = {}
    for row in left:
        alone = row.numa_node if len(left) <= _MOST_NODES else None
        key = (alone, row.cpus, _key(row.devices), _key(row.memory))
        rows.setdefault(key, []).append(row)
    for group in rows.values():
        yield CpuSet(row.numa_node for row in group), group[0]


def _key(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(amounts.items())


def _rests_on(found: Prediction) -> Iterator[str]:
    """The machine, the configuration, and what was taken for granted."""
    policies = found.policies
    options = f" ({', '.join(policies.options)})" if policies.options else ""
    yield (
        f"{found.machine or 'this machine'} · {found.config} · CPUs {policies.cpu_manager}, memory "
        f"{policies.memory_manager}, topology {policies.topology_manager}, scope {policies.scope}{options}"
    )
    for each in found.resources:
        where = _spread(each.numa_nodes)
        by = {"machine": "by the map", "option": "as given", "state": "registered"}[each.said_by]
        if each.unhealthy == sum(each.numa_nodes.values()):
            yield f"{each.resource}: none that is healthy ({by})"
            continue
        ill = f", {each.unhealthy} of them not healthy" if each.unhealthy else ""
        yield f"{each.resource}: {where}{ill} ({by}); which of equal ones a pod gets is left to chance"
    if found.occupancy.source == "empty":
        yield "the node is taken for empty; --running takes what runs on it"
    else:
        names = few([key.removeprefix("default/") for key in found.occupancy.pods])
        number = count(len(found.occupancy.pods), "pod")
        yield f"beside {number} of {found.occupancy.source}{f': {names}' if names else ''}"
    yield from found.occupancy.notes
    yield from (remark.message for remark in found.notes)
    if found.skipped:
        yield f"no pods in {few(found.skipped)}"
    assumed = " (assumed: --kubernetes-version names another)" if found.version_from == "assumed" else ""
    yield f"Kubernetes {found.kubernetes_version}{assumed}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isascii() and text.split(" ")[0].isalpha() else text


def _lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(Padding(Text(printable(line)), _INDENT))
