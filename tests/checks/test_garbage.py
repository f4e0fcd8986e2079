"""Whatever stands in the fields that the checks read, on any machine: a report or a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import HealthCheck, example, given
from hypothesis import settings as options
from hypothesis import strategies as st

from numalign.checks import judge
from numalign.checks.finding import Node, State
from numalign.checks.pages import ids
from numalign.kubelet.checkpoint import CPU_FILE, MEMORY_FILE
from numalign.kubelet.document import Refused
from numalign.kubelet.effective import effective
from numalign.machine import Machine

AMOUNTS = st.sampled_from(["0", "1", "-1", "100m", "1Gi", "1e3", "0.1Ki", "9e99Ei", "nan%", "5%", "inf%", "", "x", "٣"])
CPUS = st.sampled_from(["", "0", "0-3", "3-1", "0,56", "0-223", "999", "99999999999", "a", "0-", " 0", "-"])
RESOURCES = st.sampled_from(["cpu", "memory", "hugepages-2Mi", "hugepages-1Gi", "hugepages-x", "pid", "nvidia.com/gpu"])
SIGNALS = st.sampled_from(["memory.available", "nodefs.available", "x"])
OPTIONS = st.sampled_from(
    [
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
        "max-allowable-numa-nodes",
        "x",
    ]
)
VALUES = st.sampled_from(["true", "false", "TRUE", "", "9", "99999999999999999999", "-1", "x"])
FIELDS = {
    "cpuManagerPolicy": st.sampled_from(["static", "none", "Static", ""]),
    "cpuManagerPolicyOptions": st.dictionaries(OPTIONS, VALUES, max_size=3),
    "reservedSystemCPUs": CPUS,
    "topologyManagerPolicy": st.sampled_from(["single-numa-node", "restricted", "best-effort", "none", "x"]),
    "topologyManagerScope": st.sampled_from(["pod", "container", "x"]),
    "topologyManagerPolicyOptions": st.dictionaries(OPTIONS, VALUES, max_size=2),
    "memoryManagerPolicy": st.sampled_from(["Static", "None", "static"]),
    "reservedMemory": st.lists(
        st.fixed_dictionaries(
            {"numaNode": st.integers(-1, 9), "limits": st.dictionaries(RESOURCES, AMOUNTS, max_size=2)}
        ),
        max_size=3,
    ),
    "kubeReserved": st.dictionaries(RESOURCES, AMOUNTS, max_size=3),
    "systemReserved": st.dictionaries(RESOURCES, AMOUNTS, max_size=3),
    "enforceNodeAllocatable": st.lists(st.sampled_from(["pods", "none", "kube-reserved", "x"]), max_size=2),
    "evictionHard": st.dictionaries(SIGNALS, AMOUNTS, max_size=2),
    "evictionSoft": st.dictionaries(SIGNALS, AMOUNTS, max_size=2),
    "evictionSoftGracePeriod": st.dictionaries(SIGNALS, VALUES, max_size=2),
    "evictionMinimumReclaim": st.dictionaries(SIGNALS, AMOUNTS, max_size=2),
    "featureGates": st.dictionaries(st.sampled_from(["CPUManager", "MemoryManager", "AllAlpha", "x"]), st.booleans()),
}
DOCUMENTS = st.fixed_dictionaries({}, optional=FIELDS)
STATES = st.dictionaries(
    st.sampled_from([CPU_FILE, MEMORY_FILE]),
    st.sampled_from(
        [b"", b"{}", b"[]", b"null", b"\xff", b'{"data":"{}"}', b'{"policyName":"static","entries":{"a":{"b":"0-"}}}']
    ),
)
MACHINES = ("dgx-h100", "gb200-nvl", "laptop", "dgx-a100-nps4", "no-node-dir", "sparse-node-ids", "smt-part-off")


@example(
    document={
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"},
        "reservedSystemCPUs": "3-1",
    },
    state={},
    minor=36,
    name="dgx-h100",
)
@options(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(document=DOCUMENTS, state=STATES, minor=st.integers(27, 37), name=st.sampled_from(MACHINES))
def test_any_values_of_the_fields_are_judged(
    document: dict[str, object], state: dict[str, bytes], minor: int, name: str, machine_of: Callable[[str], Machine]
) -> None:
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    text = json.dumps({**header, **document}, ensure_ascii=False).encode()
    try:
        loaded = effective(("f.json", text), {}, {}, minor)
    except Refused:
        return
    report = judge(Node(machine_of(name), State("/state", state)), loaded, minor)
    assert {finding.id for finding in report.findings} <= set(ids())
    assert all(finding.message and finding.place for finding in report.findings)
