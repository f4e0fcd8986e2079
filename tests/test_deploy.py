"""What deploy/ holds is what its readers read, and its command lines do what they are there for."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from numalign.cli.waiting import seconds

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted(path for path in DEPLOY.rglob("*") if path.suffix in (".service", ".timer", ".conf"))
MONITOR = DEPLOY / "node-problem-detector/numalign-monitor.json"
HOOK = DEPLOY / "node-feature-discovery/numalign"
CRON = DEPLOY / "cron/numalign"
PROGRAM = "/usr/local/bin/numalign"
GOOD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,56,112,168"
topologyManagerPolicy: single-numa-node
"""
Verify = Callable[[list[str]], "subprocess.CompletedProcess[str]"]


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, comment_prefixes=("#", ";"), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


@pytest.fixture(params=[GOOD, GOOD.replace("single-numa-node", "none")], ids=["aligned", "not aligned"])
def node(request: pytest.FixtureRequest, tree: Callable[[str], Path], tmp_path: Path) -> tuple[Path, bool]:
    """The root directory of a node, and whether verify is to pass on it."""
    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    (root / "var/lib/kubelet").mkdir(parents=True)
    (root / "var/lib/kubelet/config.yaml").write_text(request.param)
    return root, request.param == GOOD


@pytest.fixture
def verify(node: tuple[Path, bool], tmp_path: Path) -> Verify:
    """Runs a command line of deploy/ on the node instead of this host; files that it writes go below tmp_path."""
    program = tmp_path / "numalign"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m numalign "$@"\n')
    program.chmod(0o755)

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        assert words[0] == PROGRAM
        if "--out" in words:
            target = tmp_path / words[words.index("--out") + 1].lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            words = [str(target) if word == words[words.index("--out") + 1] else word for word in words]
        words = ["1s" if before == "--wait" else word for before, word in zip(["", *words], words, strict=False)]
        command = [str(program), *words[1:]]
        environment = {**os.environ, "NUMALIGN_ROOT": str(node[0])}
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def command(path: Path) -> list[str]:
    return shlex.split(unit(path)["Service"]["ExecStart"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_sections_that_systemd_knows(path: Path) -> None:
    assert set(unit(path).sections()) <= {"Unit", "Service", "Timer", "Install"}


if shutil.which("systemd-analyze"):

    def test_systemd_takes_the_units(tmp_path: Path) -> None:
        shutil.copytree(DEPLOY / "systemd", tmp_path / "units")
        for path in (tmp_path / "units").rglob("*.service"):
            # a program that is there; RestartMode= is of systemd 254, and an older one complains
            path.write_text(path.read_text().replace(PROGRAM, "/bin/true").replace("RestartMode=direct\n", ""))
        (tmp_path / "units/kubelet.service").write_text("[Service]\nExecStart=/bin/true\nRestart=always\n")
        names = [path for path in sorted((tmp_path / "units").iterdir()) if path.is_file()]
        done = subprocess.run(
            ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *names],
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path / 'units'}:"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, [line for line in done.stderr.splitlines() if str(tmp_path) in line]) == (0, [])


def test_the_kubelet_waits_for_verify() -> None:
    service, drop_in = unit(DEPLOY / "systemd/numalign-verify.service"), UNITS[0]
    assert drop_in.parent.name == "kubelet.service.d"
    assert "kubelet.service" in service["Unit"]["Before"].split()
    assert dict(unit(drop_in)["Unit"]) == dict.fromkeys(("Requires", "After"), "numalign-verify.service")
    words = command(DEPLOY / "systemd/numalign-verify.service")
    longest = sum(seconds(words[words.index(flag) + 1], flag) for flag in ("--wait", "--timeout"))
    assert seconds(service["Service"]["TimeoutStartSec"], "") > longest
    assert service["Service"]["Type"] == "oneshot"


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_service_does_what_it_is_there_for(path: Path, node: tuple[Path, bool], verify: Verify) -> None:
    done = verify(command(path))
    good = [0, *map(int, unit(path)["Service"].get("SuccessExitStatus", "").split())]
    assert (done.returncode, done.stderr) == (0 if node[1] else 1, "")
    if path.name == "numalign-verify.service":
        assert (done.returncode in good) is node[1]
    else:
        assert done.returncode in good


@pytest.mark.parametrize(
    ("path", "written", "says"),
    [
        (
            DEPLOY / "systemd/numalign-metrics.service",
            "numalign.prom",
            {True: "numalign_verify_success 1", False: "numalign_verify_success 0"},
        ),
        (
            DEPLOY / "systemd/numalign-labels.service",
            "numalign",
            {True: "numalign.io/aligned=true", False: "numalign.io/aligned=false"},
        ),
    ],
)
def test_a_file_is_written_where_the_unit_may_write(
    path: Path, written: str, says: dict[bool, str], node: tuple[Path, bool], verify: Verify, tmp_path: Path
) -> None:
    words = command(path)
    folder = unit(path)["Service"]["ReadWritePaths"]
    assert words[words.index("--out") + 1] == f"{folder}/{written}"
    verify(words)
    text = (tmp_path / folder.lstrip("/") / written).read_text()
    assert says[node[1]] in text.splitlines()
    timer = unit(path.with_suffix(".timer"))
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_cron_runs_what_the_timer_runs() -> None:
    lines = [line for line in CRON.read_text().splitlines() if line and line[0] not in "#S"]
    (line,) = lines
    *when, user, program = line.split(maxsplit=6)
    assert (when, user) == (["*/5", "*", "*", "*", "*"], "root")
    assert shlex.split(program) == command(DEPLOY / "systemd/numalign-metrics.service")


def test_the_node_problem_detector_takes_the_monitor(node: tuple[Path, bool], verify: Verify) -> None:
    monitor = json.loads(MONITOR.read_text())
    config = monitor["pluginConfig"]
    (rule,) = monitor["rules"]
    assert monitor["plugin"] == "custom"
    assert rule["condition"] in [condition["type"] for condition in monitor["conditions"]]
    assert seconds(rule["timeout"], "") <= seconds(config["timeout"], "")
    assert seconds(rule["args"][rule["args"].index("--timeout") + 1], "") < seconds(rule["timeout"], "")
    done = verify([rule["path"], *rule["args"]])
    assert done.returncode == (0 if node[1] else 1)
    assert re.fullmatch(r"[ -~]{1,80}\n", done.stdout)
    assert len(done.stdout.encode()) <= config["max_output_length"] + 1


def test_the_hook_prints_labels_and_fails_where_nothing_is_known(
    node: tuple[Path, bool], verify: Verify, tmp_path: Path
) -> None:
    (line,) = [line for line in HOOK.read_text().splitlines() if line.startswith(PROGRAM)]
    assert verify(shlex.split(line)).returncode in (0, 1)
    (tmp_path / "hook").write_text(HOOK.read_text().replace(PROGRAM, str(tmp_path / "numalign")))
    for root, status in ((node[0], 0), ("/nowhere", 1)):
        done = subprocess.run(
            ["/bin/sh", "hook"], env={**os.environ, "NUMALIGN_ROOT": str(root)}, cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, "numalign.io/topology=" in done.stdout) == (status, status == 0)
    assert os.access(HOOK, os.X_OK)


def test_cloud_init_writes_the_units_as_they_are() -> None:
    text = (DEPLOY / "cloud-init/numalign.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    content = YAML(typ="safe").load(text)
    assert set(content) == {"write_files", "runcmd"}
    written = {Path(file["path"]): file for file in content["write_files"]}
    for name in ("numalign-verify.service", "kubelet.service.d/10-numalign.conf"):
        file = written.pop(Path("/etc/systemd/system") / name)
        lines = [line for line in (DEPLOY / "systemd" / name).read_text().splitlines() if not line.startswith("#")]
        assert (file["content"].splitlines(), file["permissions"]) == (lines, "0644")
    assert written == {}
    assert content["runcmd"][0] == ["install", "-m", "755", "/opt/numalign/numalign.pyz", PROGRAM]
