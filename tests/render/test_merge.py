"""Merging into many styles of documents: what holds of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.kubelet import yaml
from numalign.machine import Machine
from numalign.plan import PlanWishes, make_plan
from numalign.quantity import Quantity
from numalign.render.base import base_wishes, merge
from numalign.render.reasons import is_reason, own_lines
from numalign.reserve import Wishes
from numalign.reserve_memory import MemoryWishes

MachineOf = Callable[[str], Machine]

WISHES = (
    PlanWishes(),
    PlanWishes(static_memory=True),
    PlanWishes(static_memory=True, reserved=Wishes(count=16), scope="pod", minor=31),
    PlanWishes(static_memory=True, reserved=Wishes(on=(1,)), memory=MemoryWishes(kube=Quantity.parse("3Gi"))),
    PlanWishes(policy="best-effort", options={"prefer-closest-numa-nodes": "true"}, minor=30),
    PlanWishes(policy="restricted", options={"distribute-cpus-across-cores": "true"}),
    PlanWishes(options={"distribute-cpus-across-numa": "true", "strict-cpu-reservation": "true"}, minor=33),
    PlanWishes(policy="none", reserved=Wishes(cores_per_numa=2)),
)
MACHINES = ("dgx-h100", "dgx-a100-nps4", "sixty-four", "vm-some-unknown", "gb200-nvl", "no-node-dir")

FIELDS: dict[str, tuple[Any, ...]] = {
    "clusterDNS": (["10.96.0.10"], []),
    "maxPods": (50,),
    "authentication": ({"anonymous": {"enabled": False}, "x509": {"clientCAFile": "/a#b"}},),
    "cpuManagerPolicy": ("none", "static"),
    "cpuManagerPolicyOptions": ({}, {"full-pcpus-only": "false"}, {"distribute-cpus-across-numa": "true"}),
    "topologyManagerPolicy": ("none", "single-numa-node"),
    "reservedSystemCPUs": ("0", "0,1,2-3"),
    "kubeReserved": ({"cpu": "1"}, {"memory": "1024Mi"}, None),
    "systemReserved": ({"memory": "1Gi", "cpu": "1"}, {}),
    "evictionHard": ({"memory.available": "5%", "nodefs.available": "10%"}, {"memory.available": "0.5Gi"}),
    "reservedMemory": (
        [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        [{"numaNode": 1, "limits": {"memory": "1Gi"}}, {"numaNode": 7, "limits": {"memory": "1Gi"}}],
    ),
    "featureGates": ({}, {"CPUManagerPolicyAlphaOptions": False}),
}


@st.composite
def _documents(draw: st.DrawFn) -> bytes:
    """A KubeletConfiguration in some style: YAML in blocks or on lines, JSON; its comments are `#n` with numbers."""
    chosen = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True))
    values = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    values.update({name: draw(st.sampled_from(FIELDS[name])) for name in chosen})
    values = dict(draw(st.permutations(list(values.items()))))
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 2, "\t"]))
        separators = draw(st.sampled_from([None, (",", ":")])) if indent is None else None
        text = json.dumps(values, indent=indent, separators=separators) + draw(st.sampled_from(["", "\n"]))
    else:
        step, offset = draw(st.sampled_from([(2, 0), (2, 2), (4, 0), (4, 4), (3, 1)]))
        lines = [line for name, value in values.items() for line in _block(draw, name, value, step, offset)]
        blanks = st.sampled_from([" ", "\t", "  "])
        lines = [f"{line}{draw(blanks)}#{i}\t'\"" for i, line in enumerate(lines)]
        text = draw(st.sampled_from(["", "--- \n", "# ours\n\n", "%YAML 1.1\n--- # ours\n"])) + "\n".join(lines)
        text += draw(st.sampled_from(["", "\n", "\n\n# end\n", "\n...\n", "\n---\n# other\nkind: Other\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def _block(draw: st.DrawFn, name: str, value: Any, step: int, offset: int) -> list[str]:
    if value is None or not value or not isinstance(value, (dict, list)) or draw(st.integers(0, 3)) == 0:
        return [f"{name}: {json.dumps(value) if value is not None else ''}"]
    if isinstance(value, dict):
        return [f"{name}:"] + [
            " " * step + line for key, entry in value.items() for line in _block(draw, key, entry, step, offset)
        ]
    items = [
        _block(draw, "", entry, step, offset) if isinstance(entry, dict) else [json.dumps(entry)] for entry in value
    ]
    return [f"{name}:", *(" " * offset + line for item in items for line in _item(item, step))]


def _item(lines: list[str], step: int) -> list[str]:
    """The lines of a map or of a value as an entry of a list."""
    inner = [line[step:] for line in lines[1:]] or [lines[0].removeprefix(": ")]
    return ["- " + inner[0], *("  " + line for line in inner[1:])]


def _merged(data: bytes, machine: Machine, wishes: PlanWishes) -> bytes:
    asked = base_wishes(data, "base", wishes)
    return merge(data, "base", make_plan(machine, asked), wishes.minor).data


@given(data=_documents(), first=st.sampled_from(WISHES[:5]), second=st.sampled_from(WISHES[:5]))
@settings(max_examples=60, deadline=None)
def test_merging_again_changes_nothing_and_loses_nothing(
    machine_of: MachineOf, data: bytes, first: PlanWishes, second: PlanWishes
) -> None:
    machine = _machine(machine_of, "dgx-h100")
    once = _merged(data, machine, first)
    assert _merged(once, machine, first) == once
    for result in (once, _merged(once, machine, second)):
        assert result.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
        assert (b"\r\n" in data and b"\n" in result.replace(b"\r\n", b"")) is False
        assert (data.endswith(b"\n"), data.endswith(b"\r\n")) == (result.endswith(b"\n"), result.endswith(b"\r\n"))
        comments = [line.rpartition("#")[2] for line in data.decode().splitlines() if "\t'" in line]
        assert all(comment in result.decode() for comment in comments)
        before, after = (yaml.read(document, "base").value for document in (data, result))
        for name in ("clusterDNS", "maxPods", "authentication"):
            assert after.get(name) == before.get(name)
        if data.lstrip(b"\xef\xbb\xbf").startswith(b"{"):
            assert json.loads(result.decode("utf-8-sig")) == after


@given(first=st.sampled_from(WISHES), second=st.sampled_from(WISHES))
@settings(max_examples=20, deadline=None)
def test_no_comment_of_an_earlier_run_is_left(machine_of: MachineOf, first: PlanWishes, second: PlanWishes) -> None:
    machine = _machine(machine_of, "dgx-a100-nps4")
    head = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    second = msgspec.structs.replace(second, minor=first.minor, options={})
    once = _merged(head, machine, first)
    asked = base_wishes(once, "base", second)
    plan = make_plan(machine, asked)
    twice = merge(once, "base", plan, asked.minor).data.decode()
    for field in ("reservedSystemCPUs", "topologyManagerScope", "topologyManagerPolicy"):
        lines = twice.splitlines()
        end = next(i for i, line in enumerate(lines) if line.startswith(f"{field}:"))
        start = end
        while lines[start - 1].startswith("#"):
            start -= 1
        assert " ".join(line.removeprefix("# ") for line in lines[start:end]) == plan.reason(field)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("wishes", WISHES)
def test_every_reason_of_a_plan_is_known_again(name: str, wishes: PlanWishes, machine_of: MachineOf) -> None:
    machine = _machine(machine_of, name)
    if wishes.reserved.on:
        wishes = msgspec.structs.replace(wishes, reserved=Wishes())
    if name in ("sixty-four", "no-node-dir", "gb200-nvl"):
        wishes = msgspec.structs.replace(wishes, static_memory=False)
    if name == "gb200-nvl" and wishes.minor < 31:
        wishes = PlanWishes(minor=wishes.minor)  # without a policy: there are too many NUMA nodes
    plan = make_plan(machine, wishes)
    unknown = [decision.reason for decision in plan.decisions if not is_reason(decision.reason)]
    assert unknown == []


def test_a_persons_comment_is_nobodys_reason() -> None:
    assert own_lines(["# for the pods", "# as asked for", "# by Ann"]) == (1, 2)
    assert own_lines(["#as asked for"]) is None
    assert own_lines([]) is None


_MACHINES: dict[str, Machine] = {}


def _machine(machine_of: MachineOf, name: str) -> Machine:
    if name not in _MACHINES:
        _MACHINES[name] = machine_of(name)
    return _MACHINES[name]
