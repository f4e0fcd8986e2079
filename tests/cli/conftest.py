"""The command predict on a machine with a configuration, pods and state files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import machines
from tests.cli.predicting import Answer, Predict
from tests.conftest import Run


@pytest.fixture
def predict(run: Run, tmp_path: Path) -> Predict:
    """Runs the command on a machine (its text, or a name) with a configuration, pods and state files."""

    def of(node: str, config: str, pods: str, *words: str, state: Mapping[str, str] | None = None) -> Answer:
        root = tmp_path / "root"
        if not root.exists():
            root.mkdir()
            machines.build(node, root)
        (tmp_path / "kubelet.yaml").write_text(config)
        (tmp_path / "pods.yaml").write_text(pods)
        for name, text in (state or {}).items():
            (tmp_path / "state" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "state" / name).write_text(text)
        beside = ("--state-dir", "state") if state else ()
        command = ("predict", "pods.yaml", "--config", "kubelet.yaml", "--root", str(root), *words, *beside)
        return Answer(lambda *more: run(*command, *more))

    return of
