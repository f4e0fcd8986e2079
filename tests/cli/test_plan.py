"""numalign plan, and what render writes beside the kubelet's configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from tests.conftest import Golden, Run

Tree = Callable[[str], Path]


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100-nps4", "gb200-nvl", "server-2s", "gpus-uneven"])
def test_people_see_the_shares(name: str, run: Run, tree: Tree, golden: Golden) -> None:
    done = run("plan", "--shares", "--root", tree(name))
    assert (done.returncode, done.stdout) == (0, golden(f"{name}.shares", done.stdout))


def test_people_see_each_decision_with_its_reason(run: Run, tree: Tree, golden: Golden) -> None:
    done = run("plan", "--memory-manager", "static", "--policy", "restricted", "--root", tree("dgx-a100-nps4"))
    assert (done.returncode, done.stdout) == (0, golden("dgx-a100-nps4.plan", done.stdout))


def test_scripts_get_it_as_json(run: Run, tree: Tree) -> None:
    plan = json.loads(run("plan", "-o", "json", "--root", tree("dgx-h100")).stdout)
    assert (plan["apiVersion"], plan["kind"], plan["kubernetesVersion"]) == ("numalign/v1", "Plan", "1.36")
    assert plan["configuration"]["reservedSystemCPUs"] == "0-3,56-59,112-115,168-171"
    assert plan["numaNodes"][1]["exclusiveCPUs"] == "60-111,172-223"
    assert plan["shares"]["shares"][0]["CPUs"] == 26


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--option", "full-pcpus-only"), 2, "NAME=VALUE is wanted"),
        (("--option", "full-pcpus-onyl=true"), 2, "did you mean --option full-pcpus-only=true?"),
        (("--kube-reserved-memory", "1Gi"), 2, "add --memory-manager static"),
        (("--memory-manager", "static", "--kube-reserved-memory", "much"), 2, "an amount such as 2Gi"),
        (("--memory-manager", "static", "--kube-reserved-memory", "100Ti"), 1, "cannot be reserved"),
        (("--kubernetes-version", "1.20"), 2, "not known"),
        (("--policy", "strict"), 2, "'strict' is not one of"),
        (("--option", ""), 2, "--option is empty"),
    ],
)
def test_mistakes_are_told(words: tuple[str, ...], status: int, says: str, run: Run, tree: Tree) -> None:
    done = run("plan", "--root", tree("dgx-h100"), *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


def test_choices_are_taken_in_capitals_too(run: Run, tree: Tree) -> None:
    words = ("plan", "-o", "json", "--root", tree("dgx-h100"), "--memory-manager")
    assert run(*words, "Static").stdout == run(*words, "static").stdout != ""


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_pod_is_one_that_the_api_takes_and_guaranteed(gpus: int, run: Run, tree: Tree) -> None:
    done = run("render", "pod", "--gpus", str(gpus), "--nic", "rdma/hca_a", "--root", tree("dgx-h100"))
    pod = YAML(typ="safe").load(done.stdout)
    kubernetes_validate.validate(pod, "1.36", strict=True)
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {
        "cpu": str(26 * gpus),
        "memory": f"{251 * gpus}Gi",
        "nvidia.com/gpu": gpus,
        "rdma/hca_a": gpus,
    }


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--gpus", "8"), 1, "--gpus 4, or --policy restricted"),
        (("--gpus", "9"), 1, "4 GPUs at most\n          --gpus 4\n"),
        (("--gpus", "8", "--policy", "restricted", "--reserved-cores-per-numa", "30"), 1, "--gpus 4, or reserve fewer"),
        (("--gpus", "5", "--reserved-cores-per-numa", "50"), 1, "no NUMA node has so many"),
        (("--gpus", "1", "--reserved-cores-per-numa", "53"), 1, "too few CPUs are left for each GPU to have some"),
        (("--gpus", "0"), 2, "a whole number from 1"),
        (("--nic", "rdma"), 2, "the name of a resource"),
        (("--name", "A\nb"), 2, "a name of small letters"),
    ],
)
def test_a_pod_that_cannot_be_is_refused(words: tuple[str, ...], status: int, says: str, run: Run, tree: Tree) -> None:
    done = run("render", "pod", "--root", tree("dgx-h100"), *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


def test_the_system_is_kept_to_the_reserved_cpus(run: Run, tree: Tree) -> None:
    reserved, others = "0-3,56-59,112-115,168-171", "4-55,60-111,116-167,172-223"

    def last(*words: str) -> str:
        return run("render", *words, "--root", tree("dgx-h100")).stdout.splitlines()[-1]

    assert last("system-cpus") == f"AllowedCPUs={reserved}"
    assert last("system-cpus", "--for", "irqbalance") == f"IRQBALANCE_BANNED_CPULIST={others}"
    assert last("kernel-args") == f"irqaffinity={reserved}"
    assert last("kernel-args", "--isolate") == (
        f"irqaffinity={reserved} isolcpus=managed_irq,{others} nohz_full={others} rcu_nocbs={others}"
    )
