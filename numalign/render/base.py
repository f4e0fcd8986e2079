"""Merging a plan into a KubeletConfiguration that a person has: what does not change stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from numalign.errors import CannotRead, DoesNotHold, NumalignError
from numalign.kubelet import yaml
from numalign.kubelet.document import Refused, dotted
from numalign.kubelet.effective import effective
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import BOOLEANS, parse_cpus, settings
from numalign.kubelet.versions import CPU_OPTIONS, TOPOLOGY_OPTIONS
from numalign.kubelet.view import KubeletView
from numalign.plan import Plan, PlanWishes
from numalign.quantity import Quantity
from numalign.render.filters import comment_lines, entry_lines, field_lines, item_lines
from numalign.render.reasons import own_lines
from numalign.render.yamltext import TextEditor, inline
from numalign.reserve_memory import MemoryWishes

__all__ = ["Change", "Merged", "base_wishes", "check_document", "merge"]

_MEMORY = "memory.available"
_LIST = "reservedMemory"
_AMOUNTS = ("kubeReserved", "systemReserved", "evictionHard")
_CGROUPS = ("systemReservedCgroup", "kubeReservedCgroup")
_NO_CGROUP = ("pods", "none")
"""Values of enforceNodeAllocatable that need no reserved cgroup."""
_SEE_VERIFY = "numalign verify says what to write"


class Change(NamedTuple):
    """A field that has another value now, why, and what it was; None where it was not there."""

    path: yaml.Path
    old: Any
    new: Any
    reason: str

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.old is None:
            return f"added    {dotted(self.path)}: {inline(self.new)}{why}"
        return f"changed  {dotted(self.path)}: {inline(self.old)} -> {inline(self.new)}{why}"


class Merged(NamedTuple):
    """The document with the plan in it, and what is to be told: the values that were others before, and those that are
    new where the document, JSON, cannot say why (`has_reasons`)."""

    data: bytes
    changes: tuple[Change, ...]
    has_reasons: bool


def base_wishes(data: bytes, name: str, asked: PlanWishes) -> PlanWishes:
    """The wishes, and those that a document has already: its policy options, and with a static memory manager its
    reservations; what was asked for comes first. Raises CannotRead where the kubelet does not load the document."""
    values = _loaded(data, name, asked.minor, CannotRead)
    kept = {**(values.get(CPU_OPTIONS) or {}), **(values.get(TOPOLOGY_OPTIONS) or {})}
    memory = _memory_wishes(values, asked.memory) if asked.static_memory else asked.memory
    return msgspec.structs.replace(asked, kept=kept, memory=memory)


def _memory_wishes(values: Mapping[str, Any], asked: MemoryWishes) -> MemoryWishes:
    """The reservations of a document, but for those that were asked for. A threshold in percent becomes an amount."""
    thresholds = dict(values.get("evictionHard") or {})
    own = thresholds.pop(_MEMORY, None)
    return MemoryWishes(
        kube=asked.kube or _amount((values.get("kubeReserved") or {}).get("memory")),
        system=asked.system or _amount((values.get("systemReserved") or {}).get("memory")),
        eviction=asked.eviction or _amount(own),
        thresholds=thresholds if "evictionHard" in values and not values.get("mergeDefaultEvictionSettings") else None,
    )


def merge(data: bytes, name: str, plan: Plan, minor: int) -> Merged:
    """The document with the plan's fields in it, YAML or JSON as it was. What says the same already is left alone.

    Raises CannotRead where it is none that the kubelet loads, or that cannot be merged into.
    """
    _loaded(data, name, minor, CannotRead)
    parsed = yaml.read(data, name)
    for twice in parsed.duplicates:
        raise CannotRead(f"{name}:{twice.line}: {twice.key} stands there a second time", hint="keep one of the two")
    _refuse_enforcement(parsed, name)
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    text = data.decode("utf-8-sig")
    document = _Document(text, parsed.value, plan)
    merged = mark + document.merged().encode()
    if not _holds(merged, document.wanted):
        raise CannotRead(
            f"{name}: it is written in a way that cannot be changed in place",
            hint="write it without anchors, aliases and merge keys and end its last line, or set by hand: "
            + ", ".join(dict.fromkeys(str(change.path[0]) for change in document.all_changes)),
        )
    json = document.editor.json
    told = [change for whole in document.all_changes for change in (document.parts(whole) if json else [whole])]
    return Merged(merged, tuple(change for change in told if json or change.old is not None), not json)


def _holds(data: bytes, value: Any) -> bool:
    try:
        return bool(yaml.read(data, "").value == value)
    except CannotRead:
        return False


def check_document(
    data: bytes, name: str, view: KubeletView, minor: int, refusal: type[NumalignError] = DoesNotHold
) -> None:
    """Raises the refusal where a kubelet does not load the document, or does not start on it on this machine."""
    for problem in problems(settings(_loaded(data, name, minor, refusal), minor), view):
        raise refusal(
            f"{name}: the kubelet would not start on the result: {problem.message}",
            hint=problem.remedy or "numalign verify says where, and what to write",
        )


def _loaded(data: bytes, name: str, minor: int, refusal: type[NumalignError]) -> Mapping[str, Any]:
    try:
        return effective((name, data), {}, {}, minor).values
    except Refused as error:
        place = error.placed(name)
        raise refusal(f"{place}: the kubelet does not load it: {error.message}", hint=_SEE_VERIFY) from error


def _refuse_enforcement(parsed: yaml.Parsed, name: str) -> None:
    """Raises CannotRead where limits are set on reserved cgroups, which exclude reservedSystemCPUs: to take a person's
    limits away is not for numalign (pkg/kubelet/apis/config/validation; cm/node_container_manager_linux.go)."""
    field = "enforceNodeAllocatable"
    enforced = [value for value in parsed.value.get(field) or () if value not in _NO_CGROUP]
    if enforced:
        there = [cgroup for cgroup in _CGROUPS if parsed.value.get(cgroup)]
        line = parsed.places[(field, "")][0]
        raise CannotRead(
            f"{name}:{line}: {field} has {' and '.join(map(str, enforced))}, which needs a reserved cgroup, and with "
            "one the kubelet refuses reservedSystemCPUs",
            hint=" and ".join([f"write {field}: [pods]", *(f"take {cgroup} out" for cgroup in there)]),
        )


def _amount(text: object) -> Quantity | None:
    try:
        amount = Quantity.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None  # a percentage, or nothing that the kubelet would start on
    return None if amount is None or amount.value.denominator != 1 else Quantity(amount.value, "BinarySI")


class _Document:
    """A document that a plan is merged into: what it is to hold, and the text that comes to it."""

    def __init__(self, text: str, old: dict[str, Any], plan: Plan) -> None:
        self.old = old
        self.plan = plan
        self.wanted = yaml.plain(old)  # a copy in which nothing is shared, as behind aliases it is
        self.editor = TextEditor(text, old, self.wanted)
        self.all_changes = [*self._field_changes(), *self._cgroup_changes()]

    def merged(self) -> str:
        """The text with all changes."""
        if _LIST in self.plan.configuration:
            self._set_wanted((_LIST,), self._memory_entries())
        for change in self.all_changes:
            self._set_wanted(change.path, change.new)
        for change in self.all_changes:
            if change.path == (_LIST,) and self.old.get(_LIST):
                self._write_memory()
            else:
                self.editor.write(change.path, self._lines(change.path))
        self._renew_comments()
        self._add_comments()
        return self.editor.result()

    # -- what changes

    def _field_changes(self) -> Iterator[Change]:
        for field, value in self.plan.configuration.items():
            there = self.old.get(field)
            if field == _LIST:
                entries = self._memory_entries()
                if entries != there:
                    yield self._change((field,), there, entries)
            elif isinstance(value, dict) and isinstance(there, dict):
                names = [_MEMORY] if field == "evictionHard" else list(value)
                for name in names:
                    if not _alike(field, there.get(name), value[name]):
                        yield self._change((field, name), there.get(name), value[name])
            elif not _alike(field, there, value):
                yield self._change((field,), there, value)

    def _change(self, path: yaml.Path, old: Any, new: Any) -> Change:
        return Change(path, old, new, self._reason(path))

    def _reason(self, path: yaml.Path) -> str:
        return self.plan.reason(".".join(map(str, path))) or self.plan.reason(str(path[0]))

    def parts(self, change: Change) -> list[Change]:
        """A new map as its entries, where these have reasons of their own."""
        if change.old is None and isinstance(change.new, dict) and not change.reason:
            return [self._change((*change.path, name), None, value) for name, value in change.new.items()]
        return [change]

    def _cgroup_changes(self) -> Iterator[Change]:
        """The reserved cgroups: the kubelet uses them to enforce limits only, and refuses them here."""
        for field in _CGROUPS:
            if self.old.get(field):
                reason = "nothing is enforced on it, and the kubelet refuses it beside reservedSystemCPUs"
                yield Change((field,), self.old[field], "", reason)

    def _memory_entries(self) -> list[Any]:
        """reservedMemory as it is to be. A person's division stays where it has the right sum; of what numalign wrote,
        and of the others, only the memory changes, and NUMA nodes come and go."""
        planned = {entry["numaNode"]: entry["limits"]["memory"] for entry in self.plan.configuration[_LIST]}
        there = self.old.get(_LIST) or []
        amounts = [_memory(entry) for entry in there]
        known = {node.numa_node for node in self.plan.numa_nodes}
        sums = None not in amounts and sum(filter(None, amounts)) == sum(
            Quantity.parse(t).value for t in planned.values()
        )
        if there and sums and self._own_comment((_LIST,)) is None and {_node(entry) for entry in there} <= known:
            return list(there)
        kept = []
        for entry in there:
            wanted = planned.pop(_node(entry), None)
            if wanted is None:
                continue
            same = _memory(entry) == Quantity.parse(wanted).value
            limits = {**((entry or {}).get("limits") or {}), **({} if same else {"memory": wanted})}
            kept.append({**(entry or {}), "limits": limits})
        return kept + [{"numaNode": node, "limits": {"memory": amount}} for node, amount in planned.items()]

    def _set_wanted(self, path: yaml.Path, value: Any) -> None:
        into: Any = self.wanted
        for part in path[:-1]:
            into = into[part]
        into[path[-1]] = value

    # -- how it is written

    def _lines(self, path: yaml.Path) -> list[str]:
        """The lines of a field or entry that is new in a block."""
        field = str(path[0])
        parent = self.editor.find(path[:-1])
        if parent is None or parent.flow or field not in self.plan.configuration:
            return []
        step, offset = self.editor.steps()
        indent = self.editor.column(parent)
        if len(path) == 1:
            return field_lines(self.plan, field, indent, step=step, offset=offset)
        return entry_lines(self.plan, field, str(path[1]), indent)

    def _write_memory(self) -> None:
        """Entry by entry, so that what stands beside them stays."""
        node = self.editor.find((_LIST,))
        there, wanted = self.old[_LIST], self.wanted[_LIST]
        nodes = [_node(entry) for entry in wanted]
        gone = [i for i, entry in enumerate(there) if _node(entry) not in nodes]
        if node is None or node.kind != "list":
            self.editor.write((_LIST,))
            return
        if (gone and node.flow) or len({_node(entry) for entry in there}) < len(there):
            self.editor.replace_whole((_LIST,))
            return
        for i in gone:
            self.editor.remove_item(node, i)
        for i, entry in enumerate(there):
            if i in gone:
                continue
            now = wanted[nodes.index(_node(entry))]
            if now != entry:
                self.editor.write_item((_LIST, i), ("limits", "memory"), now)
        new = wanted[len(there) - len(gone) :]
        if new:
            self.editor.append_items(node, new, [item_lines(entry) for entry in new])

    def _own_comment(self, path: yaml.Path) -> tuple[int, list[str]] | None:
        """Where numalign's own comment above a value begins, and its lines."""
        start, lines = self.editor.comments_above(path)
        found = own_lines(lines)
        if found is None:
            return None
        first, end = found
        return self.editor.lines_below(start, first), lines[first:end]

    def _renew_comments(self) -> None:
        """Numalign's own comments above values that changed, and above those that only it decides about."""
        changed = {change.path for change in self.all_changes}
        simple = {(field,) for field, value in self.plan.configuration.items() if isinstance(value, str)}
        whole = {path[:1] for path in changed}
        for path in sorted(changed | simple | whole, key=str):
            own = self._own_comment(path)
            reason = self._reason(path) if path in changed else self.plan.reason(".".join(map(str, path)))
            if own is not None and reason:
                start, lines = own
                indent = len(lines[0]) - len(lines[0].lstrip())
                new = [" " * indent + line for line in comment_lines(reason, indent)]
                if new != lines:
                    self.editor.replace_lines(start, lines, new)

    def _add_comments(self) -> None:
        """Reasons above values that changed and have no comment, neither a person's nor numalign's."""
        for change in self.all_changes:
            indent = self.editor.room_above(change.path)
            if indent is not None and change.reason:
                self.editor.insert_above(change.path, comment_lines(change.reason, indent))


def _alike(field: str, old: Any, new: Any) -> bool:
    """Whether two values of a field, or of an entry of it, say the same to the kubelet."""
    if old == new:
        return True
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    if field in _AMOUNTS:
        return _amount(old) is not None and _amount(old) == _amount(new)
    if field in (CPU_OPTIONS, TOPOLOGY_OPTIONS):
        return old in BOOLEANS and BOOLEANS[old] is BOOLEANS.get(new)
    try:
        return field == "reservedSystemCPUs" and parse_cpus(old) == parse_cpus(new)
    except ValueError:
        return False


def _node(entry: Any) -> int:
    """The NUMA node of an entry of reservedMemory; 0 where none is written, as in Go."""
    return (entry or {}).get("numaNode") or 0


def _memory(entry: Any) -> Any:
    """The memory of an entry of reservedMemory in bytes; None where it has none that can be read."""
    amount = _amount(str(((entry or {}).get("limits") or {}).get("memory", "")))
    return None if amount is None else amount.value
