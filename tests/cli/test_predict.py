"""numalign predict, as a process: what it reads, what it says, and how it is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.conftest import Run
from tests.nodes import configuration, container, machine, pod

CONFIG = configuration(reserved="0,4", cpuManagerPolicyOptions={"full-pcpus-only": "true"})
SMALL = machine(["0-7", "8-15"], "01")
SPEC: dict[str, Any] = {"containers": [container(cpu=2, gpu=1)]}
Predict = Callable[..., "tuple[int, dict[str, Any]]"]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two NUMA nodes of four cores and a GPU each."""
    root = tmp_path_factory.mktemp("small")
    machines.build(SMALL, root)
    return root


@pytest.fixture
def words(small: Path, tmp_path: Path) -> tuple[str, ...]:
    """The node's part of the command line."""
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    return ("--config", "kubelet.yaml", "--root", str(small))


@pytest.fixture
def predict(run: Run, words: tuple[str, ...]) -> Predict:
    """The exit status and the document for pods on standard input."""

    def of(pods: Any, *more: str) -> tuple[int, dict[str, Any]]:
        text = pods if isinstance(pods, str) else json.dumps(pods)
        done = run("predict", "-", *words, "-o", "json", *more, stdin=text.encode())
        assert (done.stderr, done.returncode in (0, 1)) == ("", True)
        return done.returncode, json.loads(done.stdout)

    return of


def made(kind: str, spec: dict[str, Any], version: str = "apps/v1", name: str = "web") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
WORKLOADS: tuple[tuple[dict[str, Any], list[tuple[str, int | None]]], ...] = (
    (made("Pod", SPEC, "v1"), [("web", None)]),
    (made("Deployment", {"replicas": 3, "template": TEMPLATE}), [("web", 3)]),
    (made("StatefulSet", {"replicas": 1, "template": TEMPLATE}), [("web", 1)]),
    (made("DaemonSet", {"template": TEMPLATE}), [("web", None)]),
    (made("ReplicaSet", {"replicas": 2, "template": TEMPLATE}), [("web", 2)]),
    (made("ReplicationController", {"template": TEMPLATE}, "v1"), [("web", None)]),
    (made("Job", {"parallelism": 4, "template": TEMPLATE}, "batch/v1"), [("web", 4)]),
    (made("CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}, "batch/v1"), [("web", None)]),
    (
        made(
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
                    {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}},
                ]
            },
            "jobset.x-k8s.io/v1alpha2",
        ),
        [("web-driver", None), ("web-worker", 6)],
    ),
    (
        made(
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": TEMPLATE},
                    "Worker": {"replicas": 7, "template": TEMPLATE},
                }
            },
            "kubeflow.org/v1",
        ),
        [("web-master", 1), ("web-worker", 7)],
    ),
    (
        made("MPIJob", {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}}, "kubeflow.org/v2beta1"),
        [("web", 2)],
    ),
    (
        made(
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
            "leaderworkerset.x-k8s.io/v1",
        ),
        [("web-leader", None), ("web-worker", None)],
    ),
)


@pytest.mark.parametrize(("document", "expected"), WORKLOADS, ids=[row[0]["kind"] for row in WORKLOADS])
def test_the_pods_of_every_workload_are_found(
    document: dict[str, Any], expected: list[tuple[str, int | None]], predict: Predict
) -> None:
    status, found = predict(document)
    pods = found["pods"]
    assert (status, [(each["name"], each["replicas"]) for each in pods]) == (0, expected)
    assert {(each["kind"], each["owner"], each["namespace"]) for each in pods} == {(document["kind"], "web", "ml")}
    assert [each["containers"][0]["devices"][0]["numaNodes"] for each in pods] == [{"0": 1}, {"1": 1}][: len(pods)]


def test_documents_lists_and_other_objects_are_read_in_their_order(predict: Predict) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [made("Pod", SPEC, "v1", "one"), service]}
    text = f"# pods\n---\n{json.dumps(listed)}\n---\n---\n{json.dumps(made('Pod', SPEC, 'v1', 'two'))}\n...\n"
    status, found = predict(text)
    assert (status, [each["name"] for each in found["pods"]], found["skipped"]) == (0, ["one", "two"], ["Service web"])
    assert [each["place"] for each in found["pods"]] == ["standard input:3", "standard input:6"]


def test_a_file_and_standard_input_say_the_same(run: Run, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(pod("p", container(cpu=2)))
    by_file = run("predict", "pod.yaml", *words)
    by_input = run("predict", "-", *words, stdin=(tmp_path / "pod.yaml").read_bytes())
    assert (by_file.returncode, by_file.stdout) == (0, by_input.stdout)
    written = run("predict", "pod.yaml", *words, "--out", "found.txt")
    assert (written.stdout, (tmp_path / "found.txt").read_text()) == ("", by_file.stdout)


def test_people_see_the_answer_first(run: Run, words: tuple[str, ...]) -> None:
    pods = pod("p", container(cpu=2, gpu=1)) + pod("large", container(cpu=4, gpu=2))
    done = run("predict", "-", *words, stdin=pods.encode())
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "p   admitted   NUMA node 0, preferred\n"
        "  container  CPUs  cores  NUMA  devices                memory  hint\n"
        "  main       1,5       1  0     nvidia.com/gpu 1 on 0  –       0\n"
        "\n"
        "large   refused, never on this node   TopologyAffinityError\n"
        "  Pod was rejected: Resources cannot be allocated with Topology locality\n"
        "\n"
        "  container main  needs             NUMA 0             NUMA 1\n"
        "  nvidia.com/gpu      2  1 free, 1 too few  1 free, 1 too few\n"
        "  cpu                 4             6 free             8 free\n"
        "\n"
        "  2 nvidia.com/gpu are never on one NUMA node: none has more than 1 for containers\n"
        "  Fits now with nvidia.com/gpu: 1\n"
        "  topologyManagerPolicy: best-effort would take it\n"
        "\n"
        "left on NUMA  CPUs  nvidia.com/gpu\n"
        "           0     4               0\n"
        "           1     8               1\n"
        "\n"
        "small · kubelet.yaml · CPUs static, memory None, topology single-numa-node, scope container "
        "(full-pcpus-only)\n"
        "nvidia.com/gpu: 1 each on 0-1 (by the map); which of equal ones a pod gets is left to chance\n"
        "the node is taken for empty; --running takes what runs on it\n"
        "memoryManagerPolicy is None: memory can be on any NUMA node\n"
        "Kubernetes 1.36 (assumed: --kubernetes-version names another)\n"
    ).replace("small ·", "machine ·")


def test_count_says_how_many_fit(run: Run, words: tuple[str, ...], predict: Predict) -> None:
    document = made("Deployment", {"replicas": 8, "template": TEMPLATE})
    status, found = predict(document, "--count")
    assert (status, found["pods"][0]["count"], found["pods"][0]["then"]) == (0, 2, "TopologyAffinityError")
    done = run("predict", "-", *words, "--count", stdin=json.dumps(document).encode())
    assert (
        "  2 such pods fit, one after another; the next: TopologyAffinityError\n"
        "  one pod of Deployment web is looked at, of 8 that it wants\n"
    ) in done.stdout
    assert "; --count says how many fit\n" in run("predict", "-", *words, stdin=json.dumps(document).encode()).stdout
    status, found = predict(made("Pod", {"containers": [container(cpu=2, gpu=3)]}, "v1"), "--count")
    assert (status, found["pods"][0]["count"]) == (1, 0)


def test_the_document_fits_its_schema(predict: Predict) -> None:
    import jsonschema

    schema = json.loads((Path(__file__).parents[2] / "docs/schema/prediction.json").read_text())
    pods = pod("p", container(cpu=2, gpu=1)) + pod("large", container(cpu=4, gpu=2)) + pod("Bad", container())
    jsonschema.Draft202012Validator(schema).validate(predict(pods)[1])


INVALID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"containers": []}, "spec.containers: Required value"),
    ({"containers": [{"name": "x"}, {"name": "x"}]}, 'spec.containers[1].name: Duplicate value: "x"'),
    ({"containers": [{}]}, "spec.containers[0].name: Required value"),
    (
        {"containers": [{"name": "A_b"}]},
        'spec.containers[0].name: Invalid value: "A_b": a lowercase RFC 1123 label is wanted',
    ),
    (
        {"containers": [{"name": "x", "resources": {"limits": {"cpu": "1x"}}}]},
        (
            'spec.containers[0].resources.limits[cpu]: Invalid value: "1x": quantities must match the regular '
            "expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ),
    ),
    (
        {"containers": [{"name": "x", "resources": {"limits": {"cpu": -1}}}]},
        'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        {"containers": [{"name": "x", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]},
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {"containers": [{"name": "x", "resources": {"requests": {"nvidia.com/gpu": 1}}}]},
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        {"containers": [{"name": "x", "resources": {"requests": {"a.b/c": 1}, "limits": {"a.b/c": 2}}}]},
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to a.b/c limit of 2',
    ),
    (
        {"containers": [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": 0.5}}}]},
        'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    (
        {"containers": [{"name": "x", "resources": {"limits": {"gpu": 1}}}]},
        'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
    ),
    (
        {"containers": [{"name": "x", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]},
        "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
    ),
    (
        {"containers": [{"name": "x"}], "initContainers": [{"name": "i", "restartPolicy": "Never"}]},
        'spec.initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        {"containers": [{"name": "x", "resources": {"claims": [{"name": "g"}]}}]},
        (
            'spec.containers[0].resources.claims[0]: Not found: "g": must be one of the names in '
            "pod.spec.resourceClaims "
            "which is empty"
        ),
    ),
    (
        {"containers": [container(cpu=2)], "resources": {"requests": {"cpu": 1}}},
        (
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
            "container requests "
            "of 2"
        ),
    ),
    (
        {"containers": [container(cpu=2)], "resources": {"limits": {"cpu": 1}}},
        'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1',
    ),
    (
        {"containers": [{"name": "x"}], "resources": {"limits": {"nvidia.com/gpu": 1}}},
        (
            'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported values: "cpu", '
            '"hugepages-", "memory"'
        ),
    ),
)


@pytest.mark.parametrize(("spec", "says"), INVALID, ids=[row[1][:40] for row in INVALID])
def test_a_pod_that_the_api_server_refuses_is_said_to_be_so(spec: dict[str, Any], says: str, predict: Predict) -> None:
    status, found = predict(made("Pod", spec, "v1"))
    (only,) = found["pods"]
    assert (status, only["outcome"], says in only["because"]) == (1, "invalid", True), only["because"]


def test_two_pods_of_one_name_are_one_too_many(predict: Predict) -> None:
    status, found = predict(pod("p", container(cpu=2)) * 2)
    assert (status, [each["outcome"] for each in found["pods"]], found["pods"][1]["because"]) == (
        1,
        ["admitted", "invalid"],
        ['pods "p" already exists'],
    )


def test_a_limit_is_the_request_too(predict: Predict) -> None:
    spec = {"containers": [{"name": "x", "resources": {"limits": {"cpu": 2.0, "memory": 1e9}}}]}
    status, found = predict(made("Pod", spec, "v1"))
    (only,) = found["pods"]
    assert (status, only["qosClass"], only["containers"][0]["cpus"]) == (0, "Guaranteed", "1,5")


POD = b"apiVersion: v1\nkind: Pod\n"
CONTAINER = POD + b"spec:\n  containers:\n  - name: x\n"
NINE_TIMES = [b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)]
BAD: tuple[tuple[bytes, str], ...] = (
    (b"", "standard input: it is empty"),
    (b"# nothing\n", "standard input: it is empty"),
    (b"---\n---\n", "standard input: it is empty"),
    (b"\xff\xfe", "standard input: no UTF-8 text: byte 0 is 0xff"),
    (b"a: [", "standard input:1:5: "),
    (b"a: b: c", "standard input:1:5: mapping values are not allowed in this context"),
    (b"- a\n", "standard input:1: no object: a list"),
    (b"text\n", "standard input: no object: text"),
    (b"12\n", "no object: a number"),
    (b"kind: Pod\n", "standard input:1: an object without apiVersion"),
    (b"apiVersion: v1\n", "standard input:1: an object without kind"),
    (b"apiVersion: 1\nkind: Pod\n", "standard input:1: an object without apiVersion"),
    (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "standard input: no pod in ConfigMap a"),
    (b"apiVersion: v1\nkind: List\nitems: []\n", "standard input: it is empty"),
    (b"apiVersion: v1\nkind: List\nitems: [1]\n", "standard input:3: no object: a number"),
    (b"apiVersion: v1\nkind: List\nitems: [null]\n", "standard input:3: no object: null"),
    (POD + b"spec: 1\n", "standard input:3: spec: a mapping is wanted, no number"),
    (POD + b"spec: {containers: {}}\n", "standard input:3: spec.containers: a list is wanted, no mapping"),
    (POD + b"spec:\n  containers:\n  - 7\n", "standard input:5: spec.containers[0]: a mapping is wanted"),
    (POD + b"spec:\n  containers: [null]\n", "standard input:4: spec.containers[0]: null"),
    (POD + b"spec: {containers: [{name: 7}]}\n", "3: spec.containers[0].name: text is wanted, no number"),
    (CONTAINER + b"    resources: []\n", "standard input:6: spec.containers[0].resources: a mapping"),
    (
        CONTAINER + b"    resources: {limits: {cpu: yes}}\n",
        "standard input:6: spec.containers[0].resources.limits.cpu: an amount is wanted, no boolean",
    ),
    (
        CONTAINER + b"    resources: {limits: {cpu: [1]}}\n",
        "standard input:6: spec.containers[0].resources.limits.cpu: an amount is wanted, no list",
    ),
    (POD + b"metadata: {labels: {a: 1}}\n", "standard input:3: metadata.labels.a: text is wanted"),
    (POD + b"spec: {os: linux}\n", "standard input:3: spec.os: a mapping is wanted, no text"),
    (b"a: " + b"[" * 5000, "nested more than 100 deep"),
    (b"a: &x [*x]\n", "anchor 'x' value contains itself"),
    (b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(NINE_TIMES), "excessive aliasing"),
    (b"!!python/object/apply:os.system [id]\n", "standard input:1: no object: a list"),
    (b"a: .inf\n", "json: unsupported value: +Inf"),
    (b"{{{", "standard input:1:"),
    (b"\x00\x01\x02", "standard input"),
)


@pytest.mark.parametrize(("text", "says"), BAD, ids=range(len(BAD)))
def test_what_is_no_pod_gets_one_clear_line(text: bytes, says: str, run: Run, words: tuple[str, ...]) -> None:
    done = run("predict", "-", *words, stdin=text)
    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr.splitlines()[0], done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (("--device", "a"), 2, "--device a: RESOURCE=DEVICES is wanted"),
        (("--device", "gpu=1@0"), 2, "--device gpu: no name of a device plugin's resource"),
        (("--device", "a.b/c=x"), 2, "--device a.b/c=x: 'x' is no COUNT@NUMA"),
        (("--device", "a.b/c=1@0,"), 2, "'nothing' is no COUNT@NUMA"),
        (("--device", "a.b/c=1@9"), 2, "--device a.b/c: the machine has no NUMA node 9"),
        (("--device", "a.b/c=@-"), 2, "--device a.b/c=@-: its devices are not known"),
        (("--device", "a.b/c=99999@0"), 2, "more than 10000 devices"),
        (("--devices", "/nowhere"), 3, "/nowhere: No such file or directory"),
        (("--mig-strategy", "some"), 2, "--mig-strategy"),
        (("--kubernetes-version", "1.20"), 2, "1.27 to 1.37"),
        (("--state-dir", "/nowhere"), 3, "--state-dir /nowhere is no directory"),
        (("--running",), 3, "no directory of a kubelet"),
        (("--out", "/nowhere/file"), 3, "/nowhere/file: cannot be written"),
        (("other.yaml",), 2, "numalign predict --help has its options"),
        (("--machine", "-", "--config", "kubelet.yaml"), 2, "standard input can be read only once"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    more: tuple[str, ...], status: int, says: str, run: Run, words: tuple[str, ...]
) -> None:
    done = run("predict", "-", *words, *more, stdin=pod("p", container(cpu=2)).encode())
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


def test_without_a_file_or_a_configuration_that_is_said(run: Run, small: Path, tmp_path: Path) -> None:
    assert "Missing argument 'FILE'" in run("predict").stderr
    (tmp_path / "pod.yaml").write_text(pod("p", container(cpu=2)))
    done = run("predict", "pod.yaml", "--root", small)
    assert (done.returncode, "config.yaml does not exist" in done.stderr) == (3, True)
    (tmp_path / "kubelet.yaml").write_text("kind: KubeletConfiguration\ncpuManagerPolicy: [\n")
    done = run("predict", "pod.yaml", "--root", small, "--config", "kubelet.yaml")
    assert (done.returncode, "the kubelet does not load it" in done.stderr) == (1, True)


def test_devices_come_from_a_file_and_from_options(predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text("example.com/vf: 2@0,2@1\nexample.com/hca: 63@-\nnvidia.com/gpu: none\n")
    words = ("--devices", "devices.yaml", "--device", "example.com/vf=4@0+1")
    status, found = predict(pod("p", container(cpu=2, vf=1, hca=1, gpu=1)), *words)
    rows = {row["resource"]: (row["numaNodes"], row["saidBy"]) for row in found["resources"]}
    assert (status, rows) == (0, {"example.com/vf": ({"0+1": 4}, "option"), "example.com/hca": ({"-": 63}, "option")})
    (only,) = found["pods"]
    assert {note["id"] for note in only["notes"]} == {"device-not-offered", "no-topology"}


def test_a_file_of_devices_is_a_mapping_of_texts(run: Run, words: tuple[str, ...], tmp_path: Path) -> None:
    for text, says in (("a.b/c: 2\n", "devices.yaml:1: a.b/c: text is wanted"), ("[]", "a mapping of resources")):
        (tmp_path / "devices.yaml").write_text(text)
        done = run("predict", "-", *words, "--devices", "devices.yaml", stdin=pod("p", container(cpu=2)).encode())
        assert (done.returncode, says in done.stderr) == (3, True)


def test_what_takes_no_pods_of_other_kinds_is_told(predict: Predict) -> None:
    status, found = predict(pod("p", container(cpu=2), os={"name": "windows"}))
    (only,) = found["pods"]
    assert (status, only["reason"], only["message"]) == (
        1,
        "PodOSNotSupported",
        "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS",
    )


def test_pods_beyond_max_pods_are_refused(run: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(configuration(maxPods=1))
    pods = pod("a", {"name": "x"}) + pod("b", {"name": "x"})
    done = run("predict", "-", "--config", "kubelet.yaml", "--root", small, "-o", "json", stdin=pods.encode())
    found = json.loads(done.stdout)["pods"]
    assert [each["outcome"] for each in found] == ["admitted", "refused"]
    assert (found[1]["reason"], found[1]["verdict"]) == ("OutOfpods", "not-now")
