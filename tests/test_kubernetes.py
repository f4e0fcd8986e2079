"""The image's definition and the manifests are valid and hang together, and their command lines do what they should."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from dockerfile_parse import DockerfileParser
from ruamel.yaml import YAML

from numalign.cli.waiting import seconds
from tests.conftest import CHECKOUT, Run
from tests.testnode import MakeNode

FOLDER = CHECKOUT / "deploy/kubernetes"
CONTAINERFILE = CHECKOUT / "deploy/container/Containerfile"
KUSTOMIZATIONS = sorted(FOLDER.rglob("kustomization.yaml"))
PROGRAM = "/opt/numalign/bin/numalign"


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(YAML(typ="safe").load(path)))
    return found


MANIFESTS = {path: read(path) for path in sorted(FOLDER.rglob("*.yaml")) if path not in KUSTOMIZATIONS}
PATCHES = {path.parent / patch["path"] for path in KUSTOMIZATIONS for patch in read(path).get("patches", [])}
WHOLE = {path: manifest for path, manifest in MANIFESTS.items() if path not in PATCHES}


def named(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod of a manifest, empty where it has none."""
    spec: dict[str, Any] = manifest.get("spec", {})
    return spec if manifest["kind"] == "Pod" else spec.get("template", {}).get("spec", {})


def own_containers(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The containers of a manifest that run numalign."""
    pod = pod_of(manifest)
    yield from (each for each in [*pod.get("initContainers", []), *pod.get("containers", [])] if "args" in each)


@pytest.mark.parametrize("path", WHOLE, ids=named)
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_a_manifest_follows_the_schema_of_kubernetes(path: Path, version: str) -> None:
    kubernetes_validate.validate(WHOLE[path], version, strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=named)
def test_what_a_kustomization_names_is_there(path: Path) -> None:
    content = read(path)
    assert set(content) <= {"apiVersion", "kind", "resources", "patches"}
    for resource in content.get("resources", []):
        target = path.parent / resource
        # kustomize takes files below its own folder only, and other folders with a kustomization
        assert target.is_file() if "/" not in resource else (target / "kustomization.yaml").is_file()
    for patch in content.get("patches", []):
        changed = read(path.parent / patch["path"])
        (target_,) = (
            each
            for each in WHOLE.values()
            if (each["kind"], each["metadata"]) == (changed["kind"], {**each["metadata"], **changed["metadata"]})
        )
        names = [each["name"] for each in own_containers(target_)]
        assert [each["name"] for each in own_containers(changed)] == names


def test_no_pod_has_a_token_or_more_rights_than_it_needs() -> None:
    assert {manifest["kind"] for manifest in WHOLE.values()} == {
        "Namespace",
        "ServiceAccount",
        "DaemonSet",
        "Job",
        "Pod",
    }
    for manifest in WHOLE.values():
        pod = pod_of(manifest)
        assert not pod or pod["automountServiceAccountToken"] is False
        assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)
        for container in own_containers(manifest):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}
            assert "privileged" not in security
            mounts = {mount["name"]: mount for mount in container.get("volumeMounts", [])}
            assert "host" not in mounts or mounts["host"]["readOnly"] is True


@pytest.mark.parametrize("good", [True, False], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("path", MANIFESTS, ids=named)
def test_the_command_lines_of_a_manifest_do_what_they_are_there_for(
    path: Path, good: bool, testnode: MakeNode, run: Run, tmp_path: Path
) -> None:
    for container in own_containers(MANIFESTS[path]):
        words = list(container["args"])
        if "--self" in words:
            assert run(*words).returncode in (0, 1)
            continue
        node = testnode()
        node.kubelet()
        node.cpu_state({}, "0-223")
        node.listen("device-plugins/nvidia-gpu.sock")
        if not good:
            config = node.root / "var/lib/kubelet/config.yaml"
            config.write_text(config.read_text().replace("single-numa-node", "none"))
        environment = {**node.environment, "NUMALIGN_ROOT": str(node.root)}
        if "--every" in words:
            place = words.index("--every")
            assert seconds(words[place + 1], "--every") >= 60
            del words[place : place + 2]
        if "--out" in words:
            place = words.index("--out") + 1
            file = Path(words[place])
            assert file.parent in [Path(mount["mountPath"]) for mount in container.get("volumeMounts", [])] or (
                path in PATCHES
            )
            words[place] = str(tmp_path / file.name)
        done = run(*words, env=environment)
        assert done.returncode == (0 if good else 1), done.stdout + done.stderr
        if "--out" in words:
            told = {
                "prometheus": f"numalign_verify_success {int(good)}",
                "nfd": f"numalign.io/aligned={str(good).lower()}",
            }
            assert told[words[words.index("-o") + 1]] in Path(words[words.index("--out") + 1]).read_text().splitlines()
        if "readinessProbe" in container:
            probe = container["readinessProbe"]
            program, *rest = probe["exec"]["command"]
            assert program == PROGRAM
            assert seconds(rest[rest.index("--timeout") + 1], "--timeout") < probe["timeoutSeconds"]
            assert run(*rest, env=environment).returncode == (0 if good else 1)


def test_the_steps_of_the_image_give_a_command_that_works(tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "opt/numalign"
    source.mkdir()
    parser = DockerfileParser(fileobj=io.BytesIO(CONTAINERFILE.read_bytes()))
    steps = [(step["instruction"], step["value"]) for step in parser.structure if step["instruction"] != "COMMENT"]
    build = steps[: [name for name, _ in steps].index("FROM", 3)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, value in build:
        if name == "COPY":
            *files, to = value.split()
            for file in files:
                place = source / (to if to != "./" else file)
                if (CHECKOUT / file).is_dir():
                    shutil.copytree(CHECKOUT / file, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(CHECKOUT / file, place)
        elif name == "RUN":
            line = value.replace("/opt/", f"{target.parent}/")
            line = line.replace("python -m venv", f"{sys.executable} -m venv") if line.startswith("python ") else line
            subprocess.run(["/bin/sh", "-ec", line], check=True, cwd=source, env=environment)
    copied = {file for name, value in build if name == "COPY" for file in value.split()[:-1]}
    for ignore in (
        CHECKOUT / ".containerignore",
        CONTAINERFILE.with_name("Containerfile.dockerignore"),
    ):  # podman, docker
        assert {line[1:] for line in ignore.read_text().splitlines() if line[0] == "!"} == copied, ignore.name
    final = dict(steps[len(build) :])
    (program,) = json.loads(final["ENTRYPOINT"])
    assert program == PROGRAM
    assert final["USER"] == "65532:65532"
    command = [program.replace("/opt/numalign", str(target)), *shlex.split("checks show reserved-cpus-list")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert done.stdout.startswith("# reserved-cpus-list")
    assert not (target / "bin/pip").exists()
