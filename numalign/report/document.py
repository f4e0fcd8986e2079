"""Documents for programs: JSON and YAML."""

from __future__ import annotations

import io

import msgspec

from numalign.errors import CannotRead
from numalign.machine import Machine, encode, from_plain, plain

__all__ = ["machine_from_yaml", "to_json", "to_yaml"]


def to_json(document: msgspec.Struct) -> bytes:
    """The document as indented JSON."""
    return encode(document)


def to_yaml(document: msgspec.Struct) -> bytes:
    """The document as YAML, fields in the order of the model."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    stream = io.BytesIO()
    yaml.dump(plain(document), stream)
    return stream.getvalue()


def machine_from_yaml(text: bytes, name: str) -> Machine:
    """Reads a Machine document in YAML. Raises CannotRead, or msgspec.ValidationError, which says where."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return from_plain(YAML(typ="safe", pure=True).load(text))
    except (YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise
        raise CannotRead(
            f"{name}: neither a snapshot nor a Machine document: it is no YAML that can be read",
            hint="numalign snapshot and numalign inspect -o json write what --machine reads",
        ) from error
