"""The messages of numalign/kubelet/proto as classes of protobuf's own library, made from the files at run time."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from grpc_tools import protoc

import numalign.kubelet

__all__ = ["FOLDER", "descriptor", "message"]

FOLDER = Path(numalign.kubelet.__file__).parent / "proto"


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet()
    with TemporaryDirectory() as folder:
        out = Path(folder, "descriptors")
        names = [str(path) for path in sorted(FOLDER.glob("*.proto"))]
        assert protoc.main(["protoc", f"-I{FOLDER}", f"--descriptor_set_out={out}", *names]) == 0
        files.ParseFromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def descriptor(name: str) -> Descriptor:
    """The description of a message, such as v1.PodResources."""
    return _pool().FindMessageTypeByName(name)


def message(name: str, /, **fields: Any) -> Any:
    """A message of that name with these fields."""
    return message_factory.GetMessageClass(descriptor(name))(**fields)
