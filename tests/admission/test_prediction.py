"""What holds of every prediction, whatever the pods: it is made, its advice was tried, its verdict is right."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from numalign.admission.manifest import read_pods
from numalign.admission.node import Node
from numalign.admission.offers import Offer
from numalign.admission.prediction import Occupancy, PodPrediction, Prediction, predict
from numalign.machine import encode, schema_of
from numalign.report.prediction import draw
from tests.admission.test_node import MACHINES, NAMES, OPTIONS, gpus, limits
from tests.admission.test_node import node_of as static_node
from tests.admission.test_occupancy import NOWHERE

SCHEMA = jsonschema.Draft202012Validator(schema_of(Prediction))
Documents = list[dict[str, Any]]


def test_the_published_schema_is_the_models() -> None:
    published = Path(__file__).parents[2] / "docs/schema/prediction.json"
    assert json.loads(published.read_text()) == json.loads(json.dumps(schema_of(Prediction))), "make schema"


@st.composite
def documents(draw: st.DrawFn) -> Documents:
    """Pods with one to three containers and perhaps one before them."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        containers = [
            {"name": f"c{each}", "resources": {"limits": own}}
            for each, own in enumerate(draw(st.lists(limits(), min_size=1, max_size=3)))
        ]
        init = [{"name": "i", "resources": {"limits": own}} for own in draw(st.lists(limits(), max_size=1))]
        spec = {"containers": containers, "initContainers": init}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec})
    return found


def predicted(node: Node, pods: Documents) -> Prediction:
    text = "\n---\n".join(map(json.dumps, pods)).encode()
    known = [device for resource in node.managers.devices.resources.values() for device in resource.devices]
    return predict(
        NOWHERE,
        node,
        read_pods(text, "pods")[0],
        offers=[Offer("nvidia.com/gpu", tuple(known), "option")],
        config="kubelet.yaml",
        version_from="option",
        occupancy=Occupancy("empty"),
    )


def with_requests(document: dict[str, Any], requests: dict[str, Any]) -> dict[str, Any]:
    """The pod with the amounts of a piece of advice."""
    changed: dict[str, Any] = json.loads(json.dumps(document))
    for container in (*changed["spec"]["initContainers"], *changed["spec"]["containers"]):
        container["resources"]["limits"].update(requests.get(container["name"], {}))
    return changed


@settings(max_examples=150, deadline=None)
@given(
    machine=st.sampled_from(NAMES),
    policy=st.sampled_from(("none", "best-effort", "restricted", "single-numa-node")),
    scope=st.sampled_from(("container", "pod")),
    options=st.sampled_from(OPTIONS),
    memory=st.booleans(),
    pods=documents(),
)
def test_what_holds_whatever_pods_come(
    machine: str, policy: str, scope: str, options: dict[str, str], memory: bool, pods: Documents
) -> None:
    if "align-by-socket" in options and policy == "single-numa-node":
        options = {}  # the kubelet does not start
    homes = [node["id"] for node in MACHINES[machine]["numa_nodes"]]
    node = static_node(machine, policy, scope, options=options, memory=memory, devices=gpus(homes), max_pods=110)
    found = predicted(node.copy(), pods)
    SCHEMA.validate(json.loads(encode(found)))
    draw(Console(file=io.StringIO(), width=200), found)
    for number, each in enumerate(found.pods):
        if each.outcome != "refused":
            continue
        assert each.reason
        alone = predicted(node.emptied(), [pods[number]]).pods[0]
        assert (each.verdict == "never") == (alone.outcome != "admitted"), "never: not on the empty node either"
        for advice in each.advice:
            if advice.kind == "request":
                changed = with_requests(pods[number], advice.requests)  # type: ignore[arg-type]
                before = [] if "empty node" in advice.message else pods[:number]
                assert outcome(node.copy(), [*before, changed]) == "admitted", advice.message
            if advice.kind == "policy":
                before = pods[:number] if each.verdict == "not-now" else []
                other = node.copy()
                for document in before:
                    predicted(other, [document])
                assert outcome(other.under(advice.value or "", scope), [pods[number]]) == "admitted"


def outcome(node: Node, pods: Documents) -> str:
    """What becomes of the last of the pods."""
    last: PodPrediction = predicted(node, pods).pods[-1]
    return last.outcome


def test_equal_pods_are_explained_alike_until_something_changes_on_the_node() -> None:
    def document(name: str, cpu: str) -> dict[str, Any]:
        containers = [{"name": "c", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}

    def explained(pods: Documents) -> list[Any]:
        node = static_node("2s-8c16t", "single-numa-node", memory=False, max_pods=110)
        return [(pod.outcome, pod.verdict, pod.needs, pod.because, pod.advice) for pod in predicted(node, pods).pods]

    others = [document("a", "8"), document("b", "8")]
    large, small = document("large", "12"), document("small", "4")
    _, _, first, second, _, third = explained([*others, large, document("equal", "12"), small, document("later", "12")])
    assert first == second == explained([*others, large])[2]
    assert third == explained([*others, small, large])[3] != first
