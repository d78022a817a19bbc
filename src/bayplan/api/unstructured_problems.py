"""What apimachinery's converter says of a JSON tree that does not fit a type: `cannot convert int64 to string`.

A strategic merge patch makes an object from a tree, not from text; the words differ from those of `decode_problems`, and fields are read in the order of the
type. Source: apimachinery's `runtime/converter.go`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from bayplan.api import schema
from bayplan.api.decode_problems import (
    READERS,
    Number,
    Pairs,
    Place,
    Refused,
    element_type,
    go_types,
    plain_type,
)
from bayplan.api.times import base64_problem

_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
_GO_KINDS: Final = {"string": "string", "boolean": "bool", "number": "float64"}


def first_unstructured_problem(cls: type[Any], tree: Any) -> str | None:
    """The message for an object of a class in this tree; None if nothing is wrong."""
    of = {"$ref": schema.definition_of(cls)}
    try:
        _read(tree, of, plain_type(of))
    except Refused as refusal:
        return str(refusal)
    return None


def _read(value: Any, of: schema.Schema, go_type: str) -> None:
    """Raises Refused."""
    if value is None:
        return
    reference = of.get("$ref", "")
    reader = READERS.get(reference.rpartition(".")[2]) if reference else None
    if reader is not None:
        reader(_as_read(value), Place())
        return
    resolved = schema.resolve(of)
    properties = resolved.get("properties")
    if properties is not None:
        _read_struct(value, reference, properties)
        return
    kind = resolved.get("type", "object")
    if kind == "array":
        _read_list(value, resolved["items"], element_type(go_type, resolved["items"]))
    elif kind == "object":
        inner: schema.Schema = resolved.get("additionalProperties") or {"type": "string"}
        _read_map(value, inner, element_type(go_type, inner))
    elif kind == "string" and resolved.get("format") == "byte":
        _read_bytes(value)
    else:
        _read_scalar(value, _GO_KINDS.get(kind) or resolved.get("format", "int64"), go_type)


def _as_read(value: Any) -> Any:
    """The value as a reader of text has it, who tells numbers from texts by their class."""
    if isinstance(value, dict):
        return Pairs(value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Number(json.dumps(value))


def _read_struct(value: Any, definition: str, properties: dict[str, schema.Schema]) -> None:
    if not isinstance(value, dict):
        raise Refused(f"cannot restore struct from: {_KINDS[type(value)]}")
    known = go_types().get(definition, {})
    for name in schema.class_of(definition).__struct_encode_fields__:
        if name in value and name in properties:
            of = properties[name]
            go_type, _ = known.get(name) or (plain_type(of), "")
            _read(value[name], of, go_type)


def _read_list(value: Any, of: schema.Schema, go_type: str) -> None:
    if not isinstance(value, list):
        raise Refused(f"cannot restore slice from {_KINDS[type(value)]}")
    for item in value:
        _read(item, of, go_type)


def _read_map(value: Any, of: schema.Schema, go_type: str) -> None:
    if not isinstance(value, dict):
        raise Refused(f"cannot restore map from {_KINDS[type(value)]}")
    for item in value.values():
        _read(item, of, go_type)


def _read_bytes(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _read_scalar(item, "uint8", "uint8")
        return
    if not isinstance(value, str):
        raise Refused(f"cannot restore slice from {_KINDS[type(value)]}")
    if problem := base64_problem(value):
        raise Refused(f"error decoding from json: {problem}")


def _read_scalar(value: Any, go_kind: str, go_type: str) -> None:
    found = _KINDS[type(value)]
    if found == go_kind or (found == "int64" and go_kind in ("int32", "uint8", "float64")):
        return
    if found == "float64" and go_kind in ("int32", "int64"):
        if value != int(value):
            raise Refused(f"cannot convert float64 to {go_type}")
    elif found == "int64" and go_kind == "string":
        raise Refused(f"cannot convert int64 to {go_type}")
    else:
        raise Refused(f"unrecognized type: {go_kind}")
