"""A template of the user's own runs within bounds, and can do what templates do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import Run

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


def test_a_template_of_ones_own_can_reckon(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_text(
        f"{HEADER}maxPods: {{{{ 11 * 10 + 2**3 }}}} {{{{ '#' * 3 }}}}\n{{{{ plan | fields }}}}\n"
    )
    done = run("render", "kubelet-config", "--root", tree("laptop"), "--template", "own.j2")
    assert YAML(typ="safe").load(done.stdout)["maxPods"] == 118
