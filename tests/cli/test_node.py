"""Whose configuration verify judges where none is named: that of the process, else of its unit, else the usual file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.kubelet.running import of_unit
from tests.conftest import Run
from tests.testnode import CONFIG as GOOD

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
UNIT = """\
[Unit]
ExecStart=/bin/false
[Service]
ExecStart=/usr/bin/kubelet
"""
KUBEADM = """\
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/etc/kubelet/own.yaml --config-dir /etc/kubelet/conf.d"
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS \\
  --root-dir=${PLACE} $KUBELET_EXTRA_ARGS $UNSET
"""
ENVIRONMENT = "# of the node\nKUBELET_EXTRA_ARGS=--cpu-manager-policy=none\nPLACE=/srv/kubelet\n"


@pytest.fixture
def node(tree: Callable[[str], Path], tmp_path: Path) -> Path:
    """A DGX H100 whose kubelet takes everything from places of its own."""
    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    for path, text in {
        "var/lib/kubelet/config.yaml": HEADER + "stale: 1\n",
        "etc/kubelet/own.yaml": GOOD,
        "etc/kubelet/conf.d/50.conf": HEADER + "topologyManagerScope: pod\n",
        "etc/kubelet/conf.d/60.yaml": "no drop-in",
        "srv/kubelet/device-plugins/nvidia-gpu.sock": "",
        "var/lib/kubelet/device-plugins/nvidia-gpu.sock": "",
        "srv/kubelet/cpu_manager_state": '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def errors(run: Run, *words: str | Path) -> tuple[str, list[str]]:
    report = json.loads(run("verify", "-o", "json", *words).stdout)
    return report["config"], [found["id"] for found in report["findings"] if found["severity"] == "error"]


def test_the_process_says_where_everything_is(run: Run, node: Path, tmp_path: Path) -> None:
    process = node / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    words = ("/usr/bin/kubelet", "--config", "/etc/kubelet/own.yaml", "--config-dir=/etc/kubelet/conf.d")
    (process / "cmdline").write_bytes("\0".join((*words, "--root-dir=/srv/kubelet", "")).encode())
    assert errors(run, "--root", node) == (str(node / "etc/kubelet/own.yaml"), ["cpu-state-unusable"])
    shown = json.loads(run("kubelet", "config", "-o", "json", "--root", node).stdout)
    assert shown["topologyManagerScope"] == "pod"
    assert run("snapshot", tmp_path / "node.tar.gz", "--root", node).returncode == 0
    shutil.rmtree(node)
    packed = str(tmp_path / "node.tar.gz")
    assert errors(run, "--machine", packed) == (f"{packed}:/etc/kubelet/own.yaml", ["cpu-state-unusable"])


def test_without_a_process_the_unit_says_it(run: Run, node: Path) -> None:
    for path, text in {
        "lib/systemd/system/kubelet.service": UNIT,
        "etc/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBEADM,
        "etc/default/kubelet": ENVIRONMENT,
    }.items():
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text(text)
    config, found = errors(run, "--root", node)
    assert config == str(node / "etc/kubelet/own.yaml")
    assert sorted(found) == ["cpu-manager-off", "cpu-options-without-static"]  # its flag turns the static policy off


def inside(node: Path, name: str, *words: str) -> None:
    """A process that runs a kubelet inside itself, and no file where kubeadm has it."""
    (node / "proc/5").mkdir(parents=True)
    (node / "proc/5/comm").write_text(f"{name}\n")
    (node / "proc/5/cmdline").write_bytes("\0".join((name, *words, "")).encode())
    (node / "var/lib/kubelet/config.yaml").unlink()


def put(node: Path, **files: str) -> None:
    for path, text in files.items():
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text(text)


def effective(run: Run, *words: str | Path) -> dict[str, object]:
    found = json.loads(run("kubelet", "config", "-o", "json", *words).stdout)
    return {field: found.get(field) for field in ("cpuManagerPolicy", "reservedSystemCPUs", "topologyManagerPolicy")}


def test_a_kubelet_inside_a_program_that_tells_nothing_is_said(run: Run, node: Path) -> None:
    inside(node, "rke2", "agent")
    done = run("verify", "--root", node)
    assert (done.returncode, "rke2 runs the kubelet inside itself" in done.stderr) == (3, True)


K3S = {
    "etc/rancher/k3s/config.yaml": "kubelet-arg:\n- cpu-manager-policy=static\n- reserved-cpus=0,56,112,168\n",
    "etc/rancher/k3s/config.yaml.d/10-add.yaml": "kubelet-arg+: [topology-manager-policy=single-numa-node]\n",
}


@pytest.mark.parametrize(
    ("files", "words", "wanted"),
    [
        (K3S, (), ("static", "0,56,112,168", "single-numa-node")),
        # a file that came later and does not add takes everything away that stood before
        (
            {**K3S, "etc/rancher/k3s/config.yaml.d/99-max-pods.yaml": "kubelet-arg: max-pods=200\n"},
            (),
            (None, None, None),
        ),
        (K3S, ("--kubelet-arg=cpu-manager-policy=none", "--kubelet-arg", "max-pods=9"), ("none", None, None)),
        ({"etc/k.yaml": "kubelet-arg: [reserved-cpus=1]"}, ("-c", "/etc/k.yaml"), (None, "1", None)),
        (
            {
                **K3S,
                "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/60-numalign.conf": HEADER
                + "topologyManagerPolicy: restricted\nreservedSystemCPUs: '1'\n",
            },
            (),
            ("static", "0,56,112,168", "single-numa-node"),  # flags win over drop-ins
        ),
        (
            {"data/agent/etc/kubelet.conf.d/60.conf": HEADER + "topologyManagerPolicy: restricted\n"},
            ("--data-dir", "/data"),
            (None, None, "restricted"),
        ),
        ({"etc/rancher/k3s/config.yaml": "a: [\n"}, (), (None, None, None)),
    ],
)
def test_k3s_says_in_its_own_configuration_how_it_calls_the_kubelet(
    run: Run, node: Path, tmp_path: Path, files: dict[str, str], words: tuple[str, ...], wanted: tuple[str | None, ...]
) -> None:
    inside(node, "k3s-server", "server", *words)
    put(node, **files)
    expected = dict(zip(("cpuManagerPolicy", "reservedSystemCPUs", "topologyManagerPolicy"), wanted, strict=True))
    assert effective(run, "--root", node) == expected
    assert run("snapshot", tmp_path / "k3s.tar.gz", "--root", node).returncode == 0
    assert run("verify", "--machine", tmp_path / "k3s.tar.gz").returncode in (0, 1)


def test_microk8s_says_it_in_a_file_of_flags(run: Run, node: Path) -> None:
    inside(node, "kubelite")
    flags = "--config=${SNAP_DATA}/kubelet.yaml\n# a comment\n--cpu-manager-policy=static\n"
    put(node, **{"var/snap/microk8s/current/args/kubelet": flags})
    put(node, **{"var/snap/microk8s/current/kubelet.yaml": HEADER + "reservedSystemCPUs: '0,112'\n"})
    assert effective(run, "--root", node) == {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,112",
        "topologyManagerPolicy": None,
    }


def test_a_unit_is_read_as_systemd_does() -> None:
    files = [("/lib/kubelet.service", UNIT), ("/etc/10.conf", KUBEADM)]
    found = of_unit(files, lambda path: ENVIRONMENT if path == "etc/default/kubelet" else None)
    assert found is not None
    assert (found.source, found.config, found.config_dir, found.folder) == (
        *("/etc/10.conf", "/etc/kubelet/own.yaml", "/etc/kubelet/conf.d", "/srv/kubelet"),
    )
    assert found.words[-1] == "--cpu-manager-policy=none"
    assert of_unit([("/etc/kubelet.service", "[Service]\nExecStart=\n")], lambda path: None) is None
