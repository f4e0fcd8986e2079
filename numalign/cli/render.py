"""numalign render kubelet-config."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from numalign.cli.files import emit, read_file
from numalign.cli.source import load_machine
from numalign.errors import CannotRead, WrongUsage
from numalign.report.screen import is_terminal
from numalign.words import printable

if TYPE_CHECKING:
    from numalign.machine import Machine, Warning
    from numalign.plan import Plan
    from numalign.render.base import Merged
    from numalign.render.targets import Target

__all__ = ["filled", "kubelet_config", "target_named", "worth_saying"]

_WORTH_SAYING = frozenset(
    {
        *("gpu-numa-unknown", "no-numa-directory", "numa-off", "core-ids-not-believable"),
        *("gpu-no-driver", "gpu-other-driver"),
    }
)
"""The map's warnings that make a configuration achieve less than it says."""
_TEMPLATE_BYTES = 1 << 20
_DOCUMENTS = ("kubelet", "drop-in", "kubeadm")
"""The targets that are a KubeletConfiguration as it stands."""


def kubelet_config(
    *,
    target: str = "kubelet",
    template: str | None = None,
    base: str | None = None,
    diff: bool = False,
    check: bool = False,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Write the kubelet's configuration for a machine, with the reason for each choice.

    For a kubelet that takes it from elsewhere than its own file, name the --target. With --base it is merged into a
    document that is there, whose comments and order stay.
    """
    from numalign.cli.wishes import plan_wishes
    from numalign.plan import make_plan
    from numalign.render.targets import check_target, for_version

    row = target_named(target)
    if base is not None and (target not in ("kubelet", "drop-in") or template is not None):
        raise WrongUsage("--base is for a KubeletConfiguration", hint="leave --target and --template out")
    asked = plan_wishes(**wishes)
    existing = read_file(base) if base is not None else None
    found = load_machine(root, machine, nvml)
    if existing is not None:
        from numalign.render.base import base_wishes

        asked = base_wishes(existing, base or "", asked)
    plan = make_plan(found, asked)
    lost = check_target(plan, asked, row)
    row = for_version(row, asked.minor)
    if existing is not None:
        data, changes, seen = _merged(existing, base or "", found, plan, asked.minor)
    else:
        data, changes, seen = filled(found, plan, row, template, lost, asked.minor), (), True
    status = _deliver(data, out, base, diff=diff, check=check)
    if not (diff and seen):
        for change in changes:
            print(printable(str(change)), file=sys.stderr)
    for name, why in lost.items():
        print(f"warning  target-lacks  {target} has no {name}: {why}", file=sys.stderr)
    if row.template.endswith(".json.j2"):
        print(f"to apply it: {row.apply}", file=sys.stderr)
    _say_warnings(found)
    return status


def _merged(existing: bytes, base: str, machine: Machine, plan: Plan, minor: int) -> Merged:
    """The document of --base with the plan in it. Raises CannotRead where it cannot be, or no kubelet would start."""
    from numalign.kubelet.view import kubelet_view
    from numalign.render.base import check_document, merge

    merged = merge(existing, base, plan, minor)
    check_document(merged.data, base, kubelet_view(machine), minor, CannotRead)
    return merged


def target_named(name: str) -> Target:
    """The target of --target. Raises WrongUsage."""
    from numalign.render.targets import TARGETS, near_target

    if name in TARGETS:
        return TARGETS[name]
    near = near_target(name)
    hint = f"did you mean --target {near}?" if near else f"there are {', '.join(TARGETS)}"
    raise WrongUsage(f"--target {name}: there is no such target", hint=hint)


def filled(
    machine: Machine, plan: Plan, target: Target, template: str | None, lost: dict[str, str], minor: int
) -> bytes:
    """The target's template, or the user's, filled in; a KubeletConfiguration of the user's is checked."""
    from numalign.render import fill
    from numalign.render.targets import for_target

    data = fill(
        template or target.template,
        machine,
        for_target(plan, target),
        own=None if template is None else _template_text(template),
        target=target,
        minor=minor,
        reserved_count=sum(len(node.reserved) for node in plan.numa_nodes),
        exclusive=plan.exclusive_cpus,
        lost_options={name.partition(".")[2] for name in lost},
    ).encode()
    if template is not None and target.name in _DOCUMENTS:
        from numalign.kubelet.view import kubelet_view
        from numalign.render.base import check_document

        check_document(data, template, kubelet_view(machine), minor)
    return data


def _template_text(path: str) -> str:
    try:
        return read_file(path, _TEMPLATE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise CannotRead(f"{path}: a template is UTF-8 text") from error


def _deliver(data: bytes, out: str | None, base: str | None, *, diff: bool, check: bool) -> int:
    """Writes the document; or, with `diff` and `check`, shows how the file of `out`, else `base`, differs, and gives 1
    where it does.

    Raises WrongUsage where there is no file to compare with.
    """
    if not (diff or check):
        emit(data, out)
        return 0
    against = next((path for path in (out, base) if path not in (None, "-")), None)
    if against is None:
        raise WrongUsage("there is no file to compare with", hint="name it with --out FILE or --base FILE")
    old = read_file(against) if os.path.lexists(against) else b""
    if old == data:
        return 0
    if diff:
        emit(_difference(old, data, against), None)
    if check:
        more = "" if diff else "; --diff shows how"
        print(f"differs  {against} is not what numalign writes{more}", file=sys.stderr)
    return int(check)


def _difference(old: bytes, new: bytes, path: str) -> bytes:
    from difflib import unified_diff

    if b"\0" in old:
        return f"Binary file {path} differs from what numalign writes\n".encode()
    before, after = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (old, new))
    lines = list(unified_diff(before, after, fromfile=path, tofile=f"{path} (rendered)"))
    if is_terminal(sys.stdout):
        # what stands in a file must not steer the terminal; a pipe gets a patch that applies
        lines = [f"{printable(line[:-1])}\n" if line.endswith("\n") else printable(line) for line in lines]
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ).encode()


def _say_warnings(machine: Machine) -> None:
    """Says what about the machine makes a configuration achieve less than it says, to standard error."""
    for warning in worth_saying(machine):
        print(f"warning  {warning.id}  {printable(warning.message)}", file=sys.stderr)


def worth_saying(machine: Machine) -> list[Warning]:
    """The map's warnings that make a configuration achieve less than it says."""
    return [warning for warning in machine.warnings if warning.id in _WORTH_SAYING]
