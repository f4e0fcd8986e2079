"""The model: its JSON Schema is the one in docs/, and its documents read back as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from numalign.machine import Machine, contradiction, decode, encode, from_plain, plain, schema
from tests import machines

SCHEMA = Path(__file__).parent.parent / "docs/schema/machine.json"


def test_the_published_schema_is_the_models() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "make schema writes it anew"


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_fits_the_schema_and_reads_back(name: str, machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of(name)
    document = json.loads(encode(machine))
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert decode(encode(machine)) == machine
    assert from_plain(plain(machine)) == machine


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"onlineCPUs": "3-1"}, "onlineCPUs"),
        ({"numaNodes": [{"id": "zero"}]}, "numaNodes"),
        ({"kind": "Pod"}, "kind"),
        ({"cores": None}, "cores"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(
    change: dict[str, object], where: str, machine_of: Callable[[str], Machine]
) -> None:
    document = {**plain(machine_of("laptop")), **change}
    with pytest.raises(msgspec.ValidationError, match=where):
        decode(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"onlineCPUs": ""}, "no online CPUs"),
        ({"onlineCPUs": "0-3"}, "not a division"),
        ({"cores": []}, "not a division"),
        ({"gpus": "twice"}, "one address"),
        ({"nics": []}, "near a NIC that is not there"),
        ({"numaNodes": "twice"}, "share CPUs"),
        ({"l3Caches": [{"id": 0, "cpus": "", "sizeBytes": None, "kernelId": None}]}, "no CPUs"),
    ],
)
def test_a_document_that_contradicts_itself_is_told_from_one_that_does_not(
    change: dict[str, Any], says: str, machine_of: Callable[[str], Machine]
) -> None:
    document = plain(machine_of("gpu-far-from-nic"))
    assert contradiction(from_plain(document)) is None
    for field, value in change.items():
        document[field] = document[field] * 2 if value == "twice" else value
    assert says in (contradiction(from_plain(document)) or "")


def test_the_model_is_immutable(machine_of: Callable[[str], Machine]) -> None:
    with pytest.raises(AttributeError):
        machine_of("laptop").name = "other"  # type: ignore[misc]
