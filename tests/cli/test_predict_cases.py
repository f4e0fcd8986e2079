"""numalign predict on nodes whose pods people had trouble with: what it says of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.cli.predicting import DEVICES, P5, STATIC, TWO, Predict, static_state
from tests.conftest import Run
from tests.nodes import checkpoint, configuration, container, cpu_state, machine, pod


def test_the_free_gpus_of_each_numa_node_are_told(predict: Predict) -> None:
    config = configuration(reserved="0,24,48,72", topologyManagerScope="pod")
    pods = pod("a", container(cpu=8, gpu=1)) + pod("b", container(cpu=45, gpu=3)) + pod("c", container(cpu=8, gpu=4))
    found = predict(P5, config, pods)
    assert (found.status, found.outcomes()) == (1, ["admitted", "admitted", "not-now"])
    large = found.pod()
    assert (large["reason"], large["message"]) == (
        "TopologyAffinityError",
        "Pod was rejected: Resources cannot be allocated with Topology locality",
    )
    (gpus,) = [need for need in large["needs"] if need["resource"] == "nvidia.com/gpu"]
    assert (gpus["needed"], gpus["free"], gpus["empty"]) == (4, {"0": 3, "1": 1}, {"0": 4, "1": 4})
    assert large["because"] == [
        "4 nvidia.com/gpu fit one NUMA node of the empty machine, but now need 2 (3 on NUMA node 0, 1 on 1 free)",
        "nvidia.com/gpu on NUMA node 0: pod a holds 1",
    ]
    assert found.advice() == [
        "fits now with nvidia.com/gpu: 3",
        "topologyManagerPolicy: best-effort would take it",
        "fits when any of these pods ends: a, b",
    ]
    assert "nvidia.com/gpu      4  3 free, 1 too few  1 free, 3 too few" in found.text


@pytest.mark.parametrize(("taken", "outcome"), [((0, 4), "not-now"), ((0, 1), "admitted")])
def test_what_runs_decides_where_a_large_pod_fits(taken: tuple[int, ...], outcome: str, predict: Predict) -> None:
    entries = [(f"u{gpu}", "nvidia.com/gpu", {gpu // 4: [f"GPU-{gpu}"]}) for gpu in taken]
    state = {
        DEVICES: checkpoint(entries, {"nvidia.com/gpu": [f"GPU-{gpu}" for gpu in range(8)]}),
        "cpu_manager_state": cpu_state("0-95", {}),
    }
    found = predict(P5, configuration(), pod("large", container(cpu=8, gpu=4)), state=state)
    assert (found.outcomes(), found.document["occupancy"]["pods"]) == ([outcome], [f"u{gpu}" for gpu in taken])


def test_more_gpus_than_a_numa_node_has_never_fit_single_numa_node(predict: Predict) -> None:
    found = predict(P5, configuration(reserved="0,24,48,72"), pod("all", container(cpu=8, gpu=8)))
    assert (found.status, found.outcomes(), found.pod()["because"]) == (
        1,
        ["never"],
        ["8 nvidia.com/gpu are never on one NUMA node: none has more than 4 for containers"],
    )
    assert found.advice() == ["fits now with nvidia.com/gpu: 4", "topologyManagerPolicy: best-effort would take it"]
    assert found.text.startswith("all   refused, never on this node   TopologyAffinityError\n")


FOUR = machine(["0-63", "64-127", "128-191", "192-255"], "00112233")


def test_restricted_refuses_gpus_and_cpus_that_need_differently_many_numa_nodes(predict: Predict) -> None:
    found = predict(FOUR, configuration("restricted"), pod("whole", container(cpu=176, gpu=8)))
    assert (found.outcomes(), found.pod()["because"]) == (
        ["never"],
        [
            (
                "restricted wants all to need equally many NUMA nodes: 8 nvidia.com/gpu 4 NUMA nodes (2 each), "
                "176 CPUs 3 NUMA nodes (64 each)"
            )
        ],
    )
    assert "fits now with cpu: 193" in found.advice()
    assert "topologyManagerPolicy: best-effort would take it" in found.advice()
    assert predict(FOUR, configuration("restricted"), pod("whole", container(cpu=200, gpu=8))).status == 0


EIGHT = machine([f"{8 * n}-{8 * n + 7},{64 + 8 * n}-{71 + 8 * n}" for n in range(8)], "01234567", kind="rtx4090")


@pytest.mark.parametrize(("cpus", "status"), [(105, 0), (106, 1), (112, 1), (113, 0)])
def test_reserved_cpus_make_a_dead_zone_for_restricted(cpus: int, status: int, predict: Predict) -> None:
    config = configuration("restricted", reserved="0,8,16,24,32,40,48,56")
    found = predict(EIGHT, config, pod("p", container(cpu=cpus)))
    assert found.status == status
    if status:
        assert found.pod()["because"] == [
            (
                f"{cpus} CPUs are held to need 7 NUMA nodes, each reckoned with what is reserved on it, but "
                f"need 8 without "
                "that: restricted refuses 106-112 CPUs"
            )
        ]
        assert found.advice()[:2] == ["fits now with cpu: 105", "fits now with cpu: 113"]


def test_the_dead_zone_is_told_beside_gpus_too(predict: Predict) -> None:
    config = configuration("restricted", reserved="0,8,16,24,32,40,48,56")
    found = predict(EIGHT, config, pod("p", container(cpu=112, gpu=8)))
    assert (found.outcomes(), found.advice()[0]) == (["never"], "fits now with cpu: 113")


@pytest.mark.parametrize(("policy", "status"), [("restricted", 1), ("best-effort", 0)])
def test_scattered_cpus_are_refused_by_restricted_and_taken_by_best_effort(
    policy: str, status: int, predict: Predict
) -> None:
    node = machine(["0-5", "6-11", "12-17"], memory="4 GiB", threads=1)
    state = {"cpu_manager_state": cpu_state("0-17", {"u1": "2-5", "u2": "8-11", "u3": "14-17"})}
    found = predict(node, configuration(policy), pod("p", container(cpu=4)), state=state)
    assert found.status == status
    if status:
        assert (found.outcomes(), found.pod()["because"][0]) == (
            ["not-now"],
            "4 CPUs fit 1 NUMA node of the empty machine, but now need 2 (1 on NUMA node 0, 2 on 1, 2 on 2 free)",
        )
        assert "fits when any of these pods ends: u1, u2, u3" in found.advice()
    else:
        assert found.remarks()["cpus-span-numa-nodes"] == "main: CPUs 2 each on NUMA nodes 1-2"


def test_best_effort_splits_cpus_where_the_only_nic_is_remote(predict: Predict) -> None:
    even, odd = (",".join(map(str, range(first, 80, 2))) for first in (0, 1))
    pods = pod("a", container(cpu=32, vf=1)) + pod("b", container(cpu=32, vf=1))
    words = ("--device", "example.com/vf=8@0")
    found = predict(machine([even, odd]), configuration("best-effort", reserved="0,1,40,41"), pods, *words)
    assert found.status == 0
    second = found.pod()["containers"][0]
    assert second["hint"] == {"numaNodes": "0", "preferred": False}
    assert {node: len(cpus.split(",")) for node, cpus in second["numaNodes"].items()} == {"0": 6, "1": 26}
    assert found.remarks()["cpus-span-numa-nodes"] == (
        "main: CPUs 6 on NUMA node 0 and 26 on 1; the merged hint is NUMA node 0, and there are not enough free"
    )
    assert "b   admitted   NUMA node 0, not preferred" in found.text


def test_best_effort_does_not_look_at_how_many_gpus_a_numa_node_has(predict: Predict) -> None:
    node = machine(["0-31,64-95", "32-63,96-127"], "011")
    found = predict(node, configuration("best-effort", reserved="0,64"), pod("p", container(cpu=8, gpu=3)))
    assert list(found.pod()["containers"][0]["numaNodes"]) == ["0"]
    assert found.remarks()["cpus-beside-fewer-devices"] == (
        "main: its CPUs are on NUMA node 0 with 1 of its nvidia.com/gpu, NUMA node 1 has 2: of equally good NUMA nodes "
        "the kubelet does not look at the number of devices"
    )


@pytest.mark.parametrize(
    ("threads", "cpus", "status"), [(2, (3, 1), 1), (1, (3, 1), 0), (4, (4, 4), 0), (4, (6, 2), 1)]
)
def test_full_pcpus_only_wants_whole_cores_of_each_container(
    threads: int, cpus: tuple[int, int], status: int, predict: Predict
) -> None:
    node = machine(["0-15"], threads=threads)
    reserved = {1: "0", 2: "0,8", 4: "0,4,8,12"}[threads]
    config = configuration(reserved=reserved, cpuManagerPolicyOptions={"full-pcpus-only": "true"})
    found = predict(node, config, pod("p", container("x", cpu=cpus[0]), container("y", cpu=cpus[1])))
    assert found.status == status
    if status:
        refused = found.pod()
        assert (refused["reason"], refused["message"]) == (
            "SMTAlignmentError",
            f"Pod was rejected: SMT Alignment Error: requested {cpus[0]} cpus not multiple cpus per core = {threads}",
        )
        assert refused["because"] == [
            (
                f"with full-pcpus-only the CPUs of each container come in whole cores of {threads}: x asks for "
                f"{cpus[0]}, "
                f"y asks for {cpus[1]}"
            )
        ]
        whole = [-(-number // threads) * threads for number in cpus]
        assert found.advice() == [f"fits now with cpu: {whole[0]} in container x, cpu: {whole[1]} in container y"]


def test_pods_without_hints_always_pass(predict: Predict) -> None:
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"requests": {"cpu": "100m"}},
        {"limits": {"cpu": "1500m", "memory": "1Gi"}},
    )
    pods = "".join(pod(f"p{n}", {"name": "x", "resources": shape}) for n, shape in enumerate(shapes))
    found = predict(P5, configuration(), pods)
    assert (found.status, [each["qosClass"] for each in found.document["pods"]]) == (
        0,
        ["BestEffort", "Burstable", "Guaranteed"],
    )
    assert found.remarks()["cpu-not-whole"] == "x: cpu: 1500m is no whole number, so it runs on the shared pool"


@pytest.mark.parametrize(
    ("policy", "reason", "verdict"),
    [
        ("best-effort", "UnexpectedAdmissionError", "not-now"),
        ("restricted", "UnexpectedAdmissionError", "not-now"),
        ("single-numa-node", "TopologyAffinityError", "never"),
    ],
)
def test_memory_on_one_numa_node_forbids_a_group(policy: str, reason: str, verdict: str, predict: Predict) -> None:
    state = static_state({0: 1, 1: 0}, {"small": ([0], 1)})
    found = predict(TWO, configuration(policy, **STATIC), pod("wide", container(cpu=10, memory="100Gi")), state=state)
    assert (found.pod()["reason"], found.outcomes()) == (reason, [verdict])
    if verdict == "not-now":
        assert found.pod()["because"][:3] == [
            (
                "100.0 GiB of memory: 62.0 GiB on NUMA node 0, 64.0 GiB on 1 free, without what is reserved and "
                "made into "
                "huge pages"
            ),
            "a NUMA node that serves memory to pods by itself, or in a group, can be in no other group until they end",
            "NUMA node 0 by itself serves pod small",
        ]
        assert found.advice()[-1] == "fits when pod small ends"


def test_a_group_of_numa_nodes_outlives_the_pod_that_made_it(predict: Predict) -> None:
    state = static_state({0: 1, 1: 0}, {"small": ([0, 1], 1)})
    found = predict(TWO, configuration("best-effort", **STATIC), pod("next", container(cpu=2)), state=state)
    assert (found.status, found.pod()["containers"][0]["hint"]) == (0, {"numaNodes": "0-1", "preferred": False})
    assert [note["message"] for note in found.document["notes"]] == [
        (
            "NUMA nodes 0-1 serve memory as one group because of pod small: no pod has memory of one of them "
            "alone until "
            "all of it is given back"
        )
    ]
    refused = predict(TWO, configuration("restricted", **STATIC), pod("next", container(cpu=2)), state=state)
    assert (refused.outcomes(), refused.advice()[-1]) == (["not-now"], "fits when pod small ends")


def test_a_plugin_that_has_not_registered_refuses_its_pods(predict: Predict) -> None:
    pods = pod("p", container(cpu=1, dev=1))
    found = predict(TWO, configuration(), pods, "--device", "example.com/dev=unregistered")
    assert (found.outcomes(), found.pod()["reason"], found.pod()["message"]) == (
        ["not-now"],
        "UnexpectedAdmissionError",
        (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
            "example.com/dev, which is unexpected"
        ),
    )
    assert found.advice() == ["fits when the plugin of example.com/dev has registered its devices"]


def test_a_device_in_an_init_and_an_app_container_is_warned_of(predict: Predict) -> None:
    pods = pod("p", container(cpu=1, dev=1), init=[container("i", cpu=1, dev=1)])
    found = predict(TWO, configuration(), pods, "--device", "example.com/dev=1@1")
    assert found.status == 0
    assert found.remarks()["device-in-init-and-app"].startswith(
        "example.com/dev is asked for in an init container and in an app container: after a restart of the kubelet"
    )
    assert [each["devices"][0]["numaNodes"] for each in found.pod()["containers"]] == [{"1": 1}, {"1": 1}]


SOCKETS = machine(["0-13", "14-27", "28-41", "42-55"], threads=1, more="sockets: {0: 0-27, 1: 28-55}\n")
ALPHA: dict[str, Any] = {"featureGates": {"CPUManagerPolicyAlphaOptions": True}}


def test_align_by_socket_and_distribution_do_not_combine(predict: Predict) -> None:
    options = {"align-by-socket": "true", "distribute-cpus-across-numa": "true"}
    config = configuration("best-effort", cpuManagerPolicyOptions=options, **ALPHA)
    found = predict(SOCKETS, config, pod("p", container(cpu=15)))
    assert found.remarks()["cpus-span-numa-nodes"] == "main: CPUs 7 on NUMA node 0 and 8 on 1"
    assert found.document["policies"]["options"] == ["align-by-socket", "distribute-cpus-across-numa"]


def test_align_by_socket_under_single_numa_node_starts_no_kubelet(predict: Predict) -> None:
    config = configuration(cpuManagerPolicyOptions={"align-by-socket": "true"}, **ALPHA)
    found = predict(SOCKETS, config, pod("p", container(cpu=15)))
    assert (found.status, found.error) == (
        1,
        (
            "numalign: kubelet.yaml: the kubelet does not start: new static policy error: Topolgy manager "
            "single-numa-node "
            "policy is incompatible with CPUManager align-by-socket policy option\n"
            "          numalign verify says where, and what to write\n"
        ),
    )


@pytest.mark.parametrize(("version", "groups"), [("1.32", [0, 1]), ("1.36", [1])])
def test_odd_numbers_break_the_alignment_by_l3_of_older_kubelets(
    version: str, groups: list[int], predict: Predict
) -> None:
    node = machine(["0-31"], more="caches: {L3: 32768K per 4 cores}\n")
    config = configuration(
        "best-effort", "0,16", cpuManagerPolicyOptions={"prefer-align-cpus-by-uncorecache": "true"}, **ALPHA
    )
    pods = pod("odd", container(cpu=7)) + pod("even", container(cpu=8))
    found = predict(node, config, pods, "--kubernetes-version", version)
    assert [found.pod(number)["containers"][0]["l3Groups"] for number in (0, 1)] == [groups, [2]]
    if version == "1.32":
        assert found.remarks(0)["l3-groups-split"] == (
            "main: 7 CPUs: 6 in L3 group 0, 1 in L3 group 1; 7 CPUs are no whole cores, which the alignment by L3 does "
            "not keep together"
        )


def test_gpus_without_a_numa_node_are_not_aligned_and_that_is_said(predict: Predict) -> None:
    found = predict(machine(["0-7", "8-15"], "--"), configuration(), pod("p", container(cpu=4, gpu=1)))
    assert (found.status, found.pod()["containers"][0]["devices"][0]["numaNodes"]) == (0, {"-": 1})
    assert found.remarks()["no-topology"] == (
        "nvidia.com/gpu gives no hint, since its devices have no NUMA node: alignment is not enforced for it, even "
        "under single-numa-node"
    )


def test_gpus_that_no_nvlink_joins_are_told(predict: Predict, run: Run, tmp_path: Path) -> None:
    """Pairs (0,2) (1,3) (4,5) (6,7) of which 0, 1, 4 and 6 are free: NVIDIA/k8s-device-plugin#546."""
    root = tmp_path / "eight"
    root.mkdir()
    machines.build(machine(["0-15", "16-31"], "00001111"), root)
    document = json.loads(run("inspect", "-o", "json", "--root", root).stdout)
    bus = [gpu["bdf"] for gpu in document["gpus"]]
    pairs = [{bus[a], bus[b]} for a, b in ((0, 2), (1, 3), (4, 5), (6, 7))]
    for link in document["links"]:
        link["nvlinks"] = 12 * ({link["a"], link["b"]} in pairs)
    (tmp_path / "machine.json").write_text(json.dumps(document))
    (tmp_path / "kubelet.yaml").write_text(configuration("best-effort"))
    (tmp_path / "pods.yaml").write_text(pod("two", container(cpu=2, gpu=2)))
    (tmp_path / "state/device-plugins").mkdir(parents=True)
    entries = [(f"u{gpu}", "nvidia.com/gpu", {gpu // 4: [f"GPU-{gpu}"]}) for gpu in (2, 3, 5, 7)]
    ids = {"nvidia.com/gpu": [f"GPU-{gpu}" for gpu in range(8)]}
    (tmp_path / "state" / DEVICES).write_text(checkpoint(entries, ids))
    words = ("predict", "pods.yaml", "--config", "kubelet.yaml", "--machine", "machine.json", "-o", "json")
    (empty,) = json.loads(run(*words).stdout)["pods"]
    assert (empty["containers"][0]["devices"][0]["ids"], empty["costs"]) == (["GPU-0", "GPU-2"], [])
    (packed,) = json.loads(run(*words, "--state-dir", "state").stdout)["pods"]
    assert {remark["id"]: remark["message"] for remark in packed["costs"]} == {
        "no-nvlink": "main: no NVLink between GPUs 0 and 1"
    }


def test_containers_are_taken_in_their_order(predict: Predict) -> None:
    node = machine(["0-29", "30-59"], "00001111", threads=1)
    one, three = container("x", cpu=20, gpu=1), container("y", cpu=4, gpu=3)
    entries = [(f"u{gpu}", "nvidia.com/gpu", {gpu // 4: [f"GPU-{gpu}"]}) for gpu in (0, 4, 5, 6)]
    state = {
        DEVICES: checkpoint(entries, {"nvidia.com/gpu": [f"GPU-{gpu}" for gpu in range(8)]}),
        "cpu_manager_state": cpu_state("0-59", {}),
    }
    found = predict(node, configuration(), pod("p", three, one), state=state)
    assert (found.status, [list(each["numaNodes"]) for each in found.pod()["containers"]]) == (0, [["0"], ["1"]])
    found = predict(node, configuration(), pod("p", one, three), state=state)
    assert (found.status, found.pod()["because"][0]) == (
        1,
        (
            "container y: 3 nvidia.com/gpu fit one NUMA node of the empty machine, but now need 2 (2 on NUMA "
            "node 0, 1 on 1 "
            "free)"
        ),
    )
    assert "fits with the containers in the order y, x" in found.advice()
