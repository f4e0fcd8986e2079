"""numalign plan: the decisions with their reasons, and the table of shares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numalign.plan import Plan
from numalign.report.text import plain_table, wrapped
from numalign.shares import GpuShare, ShareTable
from numalign.words import count, device_list, printable, size

__all__ = ["draw", "draw_shares"]

_INDENT = 10
_MEMORY = (
    "memory: what the kubelet, the system, eviction and huge pages leave of a NUMA node, rounded down for each GPU"
)


def draw(console: Console, plan: Plan) -> None:
    """Each field with its value and its reason; those that are left out at the end."""
    console.print(Text(f"{printable(plan.machine or 'this machine')} · Kubernetes {plan.kubernetes_version}", "bold"))
    for decision in sorted(plan.decisions, key=lambda decision: decision.value is None):
        value = "left out" if decision.value is None else decision.value
        console.print()
        beside = console.width - len(decision.field) - 2
        console.print(Text.assemble((f"{decision.field}: ", "bold"), _broken(printable(value), beside)))
        console.print(Padding(Text(printable(decision.reason)), (0, 0, 0, 4)))


def draw_shares(console: Console, plan: Plan) -> None:
    """What is reserved, the policies, and what a container can have beside its GPUs."""
    configuration = plan.configuration
    reserved = wrapped(configuration["reservedSystemCPUs"], console.width - _INDENT)
    _line(console, "reserved", reserved, plan.reason("reservedSystemCPUs"))
    _line(console, "policy", plan.policies, "")
    console.print()
    table = plan.shares
    if table.shares:
        _share_table(console, table)
    else:
        console.print(Text("no GPUs whose NUMA node is known: nothing to divide by"))
    console.print()
    for line in _limits(table):
        console.print(Text(line))


def _broken(value: str, width: int) -> str:
    """A list that is longer than `width`, broken after commas with its further lines indented."""
    return value if " " in value else wrapped(value, width).replace("\n", "\n    ")


def _line(console: Console, head: str, text: str, reason: str) -> None:
    grid = Table.grid()
    grid.add_column(width=_INDENT)
    grid.add_column(overflow="fold")
    grid.add_row(head, text)
    if reason:
        grid.add_row("", printable(reason))
    console.print(grid)


def _share_table(console: Console, table: ShareTable) -> None:
    several = len({row.numa_nodes for row in table.shares if row.never is None}) > 1
    spanning = any(row.fewest_cpus for row in table.shares) and table.policy == "restricted"
    columns = [("GPUs", "right"), ("CPUs", "right"), ("memory", "right"), ("NICs", "right"), ("on the node", "right")]
    columns += [("left over", "left")]
    drawn = plain_table(*([("NUMA", "right")] if several else []), *columns)
    for numbers, row in _rows(table):
        cells = [str(row.numa_nodes)] * several + [numbers]
        if row.never is None:
            cells += [_cpus(row, spanning), size(row.memory_bytes), _nics(row), str(row.containers), _left_over(row)]
        else:
            cells += ["–", "–", "–", "0", f"never: {row.never}"]
        drawn.add_row(*cells)
    console.print(drawn)


def _rows(table: ShareTable) -> Iterator[tuple[str, GpuShare]]:
    """Each row with its number of GPUs; those that are never admitted for the same reason as one."""
    for _, rows in groupby(table.shares, key=lambda row: (row.numa_nodes, row.never or row.gpus)):
        alike = list(rows)
        yield f"{alike[0].gpus}-{alike[-1].gpus}" if len(alike) > 1 else str(alike[0].gpus), alike[0]


def _cpus(row: GpuShare, spanning: bool) -> str:
    several = spanning and 0 < row.fewest_cpus < row.cpus
    return f"{row.fewest_cpus}-{row.cpus}" if several else str(row.cpus)


def _nics(row: GpuShare) -> str:
    return str(row.nic_count) if row.nic_count or not row.nics else f"of {device_list(row.nics)}"


def _left_over(row: GpuShare) -> str:
    return f"{row.stranded_gpus} GPUs" if row.stranded_gpus > 1 else "1 GPU" if row.stranded_gpus else ""


def _limits(table: ShareTable) -> list[str]:
    """The largest request, the step, and the requests that restricted refuses."""
    most = table.largest
    memory = f", {size(most.memory_bytes)}" if most.memory_bytes is not None else ""
    gpus = f", {count(most.gpus, 'GPU')}" if most.gpus else ""
    lines = [f"largest container: {count(most.cpus, 'CPU')}{memory}{gpus}"]
    if any(row.memory_bytes for row in table.shares):
        lines.append(_MEMORY)
    if not most.cpus:
        wanted = f"they come in steps of {table.step}, and no NUMA node has so many left"
        lines[0] = f"no container can have exclusive CPUs: {wanted} (--option full-pcpus-only=false: any number)"
    elif table.step > 1:
        lines.append(f"exclusive CPUs come in steps of {table.step}, the CPUs of a core")
    if table.restricted_refuses and table.policy == "restricted":
        refused = ", ".join(table.restricted_refuses)
        lines.append(f"restricted refuses {refused} CPUs: without the reserved ones they need more NUMA nodes")
    return lines
