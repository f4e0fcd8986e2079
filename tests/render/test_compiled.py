"""The templates as Python write what Jinja2 makes of them, and are of the templates as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numalign import render
from numalign.machine import Machine
from numalign.plan import PlanWishes, make_plan
from numalign.render import compiled
from numalign.render.precompile import compiled_module
from numalign.render.targets import TARGETS
from tests.render.test_targets import FOLDER, MACHINES, written


def test_they_are_made_anew_after_a_change_in_templates() -> None:
    assert Path(compiled.__file__).read_text() == compiled_module(), "make templates"


def test_every_template_is_among_them() -> None:
    assert set(compiled.TEMPLATES) == {path.name for path in FOLDER.glob("*.j2")}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("minor", [31, 36])
def test_they_write_what_jinja_writes(
    machine: str, minor: int, machine_of: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine_of(machine)
    wishes = PlanWishes(static_memory=machine == "dgx-h100", policy="restricted", minor=minor)
    plan = make_plan(found, wishes)
    fast = {target: written(target, found, plan, minor) for target in TARGETS}
    monkeypatch.setattr(render, "template_digest", lambda: 0)
    assert fast == {target: written(target, found, plan, minor) for target in TARGETS}


def test_the_documents_beside_a_configuration_are_the_same_too(
    machine_of: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_of("dgx-h100")
    plan = make_plan(machine)
    values: dict[str, dict[str, Any]] = {
        "pod.yaml.j2": {
            "name": "a", "image": "b", "note": "c", "cpus": 2, "memory": "1Gi", "devices": {"nvidia.com/gpu": 1},
        },
        "systemd-slice.conf.j2": {},
        "irqbalance.j2": {"exclusive": "1-2"},
        "kernel-args.j2": {"arguments": "x=1"},
    }  # fmt: skip
    fast = {name: render.fill(name, machine, plan, **given) for name, given in values.items()}
    monkeypatch.setattr(render, "template_digest", lambda: 0)
    assert fast == {name: render.fill(name, machine, plan, **given) for name, given in values.items()}
