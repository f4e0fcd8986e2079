"""Machines as text: turns tests/fixtures/sysfs/NAME.machine into a root directory that looks like that host's.

    python -m tests.machines dgx-h100 /tmp/dgx-h100     then     numalign inspect --root /tmp/dgx-h100

A machine is a YAML document; what a host would not say differently need not be said:

    about, source     what the machine shows; where the facts are published and what of them is inferred
    arch, kernel, hostname, cmdline, tainted        hostname is the file's name unless given
    cpuinfo           the lines of /proc/cpuinfo that all CPUs share; platform: its last lines (POWER)
    numa              {ids: {cpus, memory, movable, hugepages: {2048kB: total/free}}}; a later entry replaces an earlier
                      one; movable memory is not "normal" (a GPU's); `none` holds the CPUs of no NUMA node
    distances         ["0-3 4-7 21", …]: between the nodes of both lists, both ways; 20 where nothing is said
    threads, numbering   siblings of a NUMA node's CPUs: `split` (a first half and a second half) or `adjacent`
    cores             instead of both: "0-15/2 16-31/1", lists cut into cores of so many CPUs
    sockets           {id: cpus}; else one for each NUMA node with CPUs. core-id: a number that all CPUs claim
    caches            {L1d, L1i, L2, L3: "48K per core"}; or per socket, per numa, per 4 cores, per 0-7 8-15
    offline, possible, isolated, nohz-full   CPU lists. confined: {cpus, mems} of /proc/self/status
    nvidia            the driver's version; nvidia-module: open (default) or proprietary
    pci               an outline: host bridges (`pci0000:15 numa=0`), below them `BB:DD.F KIND key=value …`, more
                      indented below their bridge or after ` / ` on its line; numa= and cpus= hold for all below
    kinds             {name: "key=value …"}, beside those of kinds.yaml; the keys are FUNCTION_KEYS
    bonds             {bond0: {slaves: [a, b], mode: 802.3ad 4}}
    files, absent     {path: text} to write as it stands; paths (`*` within a name) to leave out with all below them
"""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML

from tests.machines.cpus import add_cpus, add_nodes, add_proc, read_layout
from tests.machines.pci import add_pci
from tests.machines.tree import FIXTURES, MachineError, Tree, refuse_unknown

MACHINE_KEYS = (
    "about source arch kernel hostname cmdline tainted cpuinfo platform numa distances threads numbering cores sockets "
    "core-id caches offline possible isolated nohz-full confined nvidia nvidia-module pci kinds bonds files absent"
)


def tree_of(text: str, name: str) -> Tree:
    """The files and links of a machine's text."""
    machine = YAML(typ="safe").load(text)
    refuse_unknown(machine, MACHINE_KEYS, name)
    tree, layout = Tree(), read_layout(machine)
    add_cpus(tree, machine, layout)
    add_nodes(tree, machine, layout)
    add_proc(tree, machine, layout, name)
    add_pci(tree, machine, layout, name)
    for pattern in machine.get("absent", ()):
        tree.drop(pattern)
    tree.files |= machine.get("files", {})
    return tree


def names() -> list[str]:
    """The machines there are."""
    return sorted(path.stem for path in FIXTURES.glob("*.machine"))


def path_of(name: str) -> Path:
    """The file of a machine."""
    path = FIXTURES / f"{name}.machine"
    if not path.exists():
        raise MachineError(f"no machine {name}; there are {' '.join(names())}")
    return path


def build(text_or_path: str | Path, root: Path) -> None:
    """Writes a machine's tree below root: a path, the name of one of the machines, or a text of several lines."""
    if isinstance(text_or_path, str) and "\n" in text_or_path:
        tree_of(text_or_path, "machine").write(root)
        return
    path = Path(text_or_path) if Path(text_or_path).is_file() else path_of(str(text_or_path))
    tree_of(path.read_text(encoding="utf-8"), path.stem).write(root)
