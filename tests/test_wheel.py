"""The built wheel, in an empty environment and away from the checkout, does what the demo does."""

from __future__ import annotations

import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from tests import machines
from tests.demo import MACHINE, STEPS

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    """The wheel, built from the source distribution as an installer would."""
    (built,) = dist.glob("*.whl")
    return built


def test_it_holds_the_templates_the_types_and_the_licence_and_no_test(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folder = CHECKOUT / "templates"
    templates = {f"numalign/templates/{path.relative_to(folder)}" for path in folder.rglob("*.*")}
    assert templates | {"numalign/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    manuals = {name.rpartition("share/man/man1/")[2] for name in names if "/share/man/man1/" in name}
    assert manuals == {path.name for path in (CHECKOUT / "docs/man").iterdir()}
    assert [name for name in names if not name.startswith("numalign")] == []


def test_the_demo_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True)
    work = tmp_path / "work"
    machines.build(MACHINE, work / MACHINE)
    for step in STEPS:
        done = subprocess.run(
            [tmp_path / "env/bin/numalign", *step.format(root=MACHINE).split()],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), step
    found = subprocess.run(
        [python, "-c", "import numalign; print(numalign.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=work,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert found.stdout.startswith(str(tmp_path / "env"))
    help_text = subprocess.run([tmp_path / "env/bin/numalign", "--help"], capture_output=True, text=True, check=True)
    assert "inspect" in help_text.stdout
