"""Messages are read as protobuf's own library writes them, by the field numbers of the .proto files, within bounds."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import podresources_messages, wire
from numalign.kubelet.wire import Field, Malformed, Message, decode
from tests.kubelet.protos import descriptor, message

KINDS = {
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_BOOL: "bool",
}
TABLES = [
    (podresources_messages.LIST, "v1.ListPodResourcesResponse"),
    (podresources_messages.ONE_POD, "v1.GetPodResourcesResponse"),
    (podresources_messages.ALLOCATABLE, "v1.AllocatableResourcesResponse"),
]


def table(described: Descriptor) -> dict[int, Any]:
    """The table that a message of a .proto file asks for."""
    return {
        field.number: Field(
            field.name,
            table(field.message_type) if field.message_type else KINDS[field.type],  # type: ignore[arg-type]
            field.is_repeated,
        )
        for field in described.fields
    }


@pytest.mark.parametrize(("fields", "name"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_the_tables_are_those_of_the_proto_files(fields: Message, name: str) -> None:
    assert fields == table(descriptor(name))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPOLOGY = st.none() | st.lists(INT64, max_size=2).map(lambda ids: {"nodes": [{"ID": id} for id in ids]})
MEMORY = st.fixed_dictionaries({"memory_type": NAMES, "size": st.integers(0, (1 << 64) - 1), "topology": TOPOLOGY})
DEVICES = st.fixed_dictionaries(
    {"resource_name": NAMES, "device_ids": st.lists(NAMES, max_size=3), "topology": TOPOLOGY}
)
ALLOCATABLE = st.fixed_dictionaries(
    {
        "devices": st.lists(DEVICES, max_size=3),
        "cpu_ids": st.lists(INT64, max_size=9),
        "memory": st.lists(MEMORY, max_size=2),
    }
)


@given(ALLOCATABLE)
def test_what_protobuf_writes_is_read(fields: dict[str, Any]) -> None:
    data = message("v1.AllocatableResourcesResponse", **fields).SerializeToString()
    assert decode(data, podresources_messages.ALLOCATABLE) == fields


@given(NAMES, NAMES)
def test_texts_are_written_as_protobuf_writes_them(name: str, namespace: str) -> None:
    wanted = message("v1.GetPodResourcesRequest", pod_name=name, pod_namespace=namespace)
    read = type(wanted)()
    read.ParseFromString(wire.text_field(1, name) + wire.text_field(2, namespace))
    assert read == wanted


INNER: Message = {1: Field("text", "text")}
OUTER: Message = {
    1: Field("text", "text"),
    2: Field("number", "int64"),
    3: Field("numbers", "int64", many=True),
    4: Field("inner", INNER, many=True),
}


def test_numbers_can_be_packed_or_not_and_unknown_fields_are_skipped() -> None:
    unknown = b"\x48\x01" + b"\x51" + bytes(8) + b"\x5d" + bytes(4) + b"\x62\x02hi"
    data = b"\x18\x05" + unknown + b"\x1a\x02\x06\x07" + b"\x10\x01\x10\x02" + b"\x0d" + bytes(4)
    assert decode(data, OUTER) == {"text": "", "number": 2, "numbers": [5, 6, 7], "inner": []}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a\x05hi", "it ends in the middle of a field"),
        (b"\x0d\x00", "it ends in the middle of a field"),
        (b"\x10\x80", "it ends in the middle of a number"),
        (b"\x10", "it ends in the middle of a number"),
        (b"\x10" + b"\x80" * 10 + b"\x01", "a number has more than 64 bits"),
        (b"\x10" + b"\xff" * 9 + b"\x7f", "a number has more than 64 bits"),
        (b"\x00\x00", "a field has the number 0"),
        (b"\x0b\x0c", "a field is of wire type 3"),
        (b"\x0a\x02\xc3\x28", "text is no UTF-8"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "it ends in the middle of a field"),
        (b"\x22\x00" * (wire.MAX_VALUES + 1), f"it holds more than {wire.MAX_VALUES} values"),
        (b"\x18\x00" * (wire.MAX_NUMBERS + 1), f"it holds more than {wire.MAX_NUMBERS} numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_message_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Malformed) as refused:
        decode(data, OUTER)
    assert str(refused.value) == why


@pytest.mark.parametrize("seed", range(100))
def test_noise_is_read_or_refused_and_nothing_else(seed: int) -> None:
    noise = random.Random(seed)
    data = bytearray(message("v1.PodResources", name="pod", cpu_ids=range(99)).SerializeToString() * 20)
    for _ in range(seed):
        data[noise.randrange(len(data))] = noise.randrange(256)
    for part in (bytes(data), bytes(data[:seed]), noise.randbytes(seed)):
        with suppress(Malformed):
            assert set(decode(part, podresources_messages.LIST)) == {"pod_resources"}
