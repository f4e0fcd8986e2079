"""Whatever a document holds, it is pods or one clear line."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.admission.manifest import Submitted, read_pods
from numalign.errors import CannotRead

WORDS = ("apiVersion", "kind", "metadata", "name", "namespace", "generateName", "labels", "spec", "template", "items",
         "containers", "initContainers", "resources", "limits", "requests", "claims", "resourceClaims", "overhead",
         "replicas", "replicatedJobs", "pytorchReplicaSpecs", "os", "restartPolicy", "cpu")  # fmt: skip
TEXTS = ("Pod", "List", "v1", "Always", "1", "1.5", "2Gi", "", "-", "ä", "x" * 70)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)
AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory", "nvidia.com/gpu", "gpu")), ANY, max_size=3)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(("a", "b", "")) | ANY},
    optional={"resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}) | ANY},
)
SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, max_size=3) | ANY},
    optional={"initContainers": st.lists(CONTAINER, max_size=2), "resources": ANY, "overhead": AMOUNTS, "os": ANY},
)
TEMPLATE = st.fixed_dictionaries({"spec": SPEC}, optional={"metadata": ANY})
OBJECT = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.sampled_from(("Pod", "Job", "List"))},
    optional={
        "metadata": ANY,
        "spec": SPEC | st.fixed_dictionaries({"template": TEMPLATE, "replicas": ANY}) | ANY,
        "items": st.lists(TEMPLATE | ANY, max_size=2) | ANY,
    },
)


def read(document: Any) -> list[Submitted] | str:
    """The pods of a document, or why there are none."""
    try:
        return read_pods(json.dumps(document).encode(), "pods")[0]
    except CannotRead as error:
        return error.message


@settings(max_examples=1500, deadline=None)
@given(OBJECT | ANY)
def test_whatever_a_document_holds_it_is_pods_or_one_clear_line(document: Any) -> None:
    found = read(document)
    if isinstance(found, str):
        assert (found[:4], "\n" in found) == ("pods", False)
    else:
        assert [each for each in found if each.pod is None and not each.faults] == []


def test_more_pods_than_any_node_has_are_refused() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert read({"apiVersion": "v1", "kind": "List", "items": [pod] * 1001}) == "pods: more than 1000 pods"
