"""A template of the user's own runs within bounds, and can do what templates do."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from numalign.errors import CannotRead
from numalign.machine import Machine
from numalign.plan import make_plan
from numalign.render import environment, fill, sandbox
from numalign.render.sandbox import bounded_time
from tests.conftest import Run

ENDLESS = "{% for _ in range(100000) %}{% for _ in range(100000) %}{% endfor %}{% endfor %}"
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{ 'x' * 10**10 }}", "the result of * is too large"),
        ("{{ [1] * 10**7 }}", "the result of * is too large"),
        ("{{ 9 ** (9 ** 9) }}", "the result of ** is too large"),
        ("{{ 'x' | center(10**10) }}", "more memory than 256 MiB"),
        ("{{ '%10000000000d' % 1 }}", "more memory than 256 MiB"),
        (
            "{% set n = namespace(x='x') %}{% for _ in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "more memory than 256 MiB",
        ),
    ],
)
def test_a_template_of_ones_own_has_bounds(
    text: str, says: str, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "own.j2").write_text(text)
    done = run("render", "kubelet-config", "--root", tree("laptop"), "--template", "own.j2")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_a_template_of_ones_own_has_a_deadline() -> None:
    started, before = time.monotonic(), signal.getsignal(signal.SIGALRM)
    with pytest.raises(CannotRead) as refused, bounded_time("own.j2", 0.2):
        environment(sandboxed=True).from_string(ENDLESS).render()
    assert refused.value.message == "own.j2: the template is not done after 0.2 s"
    assert time.monotonic() - started < 5
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


def test_it_is_a_deadline_of_ten_seconds(machine_of: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.MAX_SECONDS == 10
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.2)
    machine = machine_of("laptop")
    with pytest.raises(CannotRead):
        fill("own.j2", machine, make_plan(machine), own=ENDLESS)


def test_what_a_template_fails_at_is_said(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_text("a\n{{ nothing }}\n")
    done = run("render", "kubelet-config", "--root", tree("laptop"), "--template", "own.j2")
    assert done.stderr == "numalign: own.j2: the template fails: 'nothing' is undefined\n"


def test_a_template_of_ones_own_can_reckon(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_text(
        f"{HEADER}maxPods: {{{{ 11 * 10 + 2**3 }}}} {{{{ '#' * 3 }}}}\n{{{{ plan | fields }}}}\n"
    )
    done = run("render", "kubelet-config", "--root", tree("laptop"), "--template", "own.j2")
    assert YAML(typ="safe").load(done.stdout)["maxPods"] == 118
