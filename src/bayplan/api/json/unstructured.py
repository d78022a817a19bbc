"""JSON trees as apimachinery's converter makes objects of them, and what it says of those that do not fit: `cannot convert int64 to string`.

Strategic merge patches and server-side apply make an object from a tree, not from text: numbers wrap around where they are too large for a field, whole ones
may have a point, and the words differ from those of `decode_problems`. Fields are read in the order of the type. Only trees that a decoder refuses, or that
hold floats, come here. Source: apimachinery's `runtime/converter.go`.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from bayplan.api import schema
from bayplan.api.json.decode_problems import (
    READERS,
    Number,
    Pairs,
    Place,
    Refused,
    element_type,
    go_types,
    plain_type,
)
from bayplan.api.json.writing import number_text
from bayplan.api.times import base64_problem

_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
_GO_KINDS: Final = {"string": "string", "boolean": "bool", "number": "float64"}
_WIDTHS: Final = {"uint8": 8, "int32": 32, "int64": 64}


COMPARED_IN_BYTES: Final = frozenset(("ControllerRevision",))
"""Kinds with JSON that must stay as it is written: what the converter makes of it differs from what a client wrote in another order."""


def as_converted(cls: type[Any], tree: Any) -> Any:
    """A tree with values that fit a class: what a decoder makes of it is what the converter makes of the tree. Raises Refused."""
    of = {"$ref": schema.definition_of(cls)}
    return _read(tree, of, plain_type(of))


def first_unstructured_problem(cls: type[Any], tree: Any) -> str | None:
    """The message for an object of a class in this tree; None if nothing is wrong."""
    try:
        as_converted(cls, tree)
    except Refused as refusal:
        return str(refusal)
    return None


def _read(value: Any, of: schema.Schema, go_type: str) -> Any:
    """Raises Refused."""
    if value is None:
        return None
    reference = of.get("$ref", "")
    reader = READERS.get(reference.rpartition(".")[2]) if reference else None
    if reader is not None:
        reader(_as_read(value), Place())
        return _as_go_writes(value)
    resolved = schema.resolve(of)
    properties = resolved.get("properties")
    if properties is not None:
        return _read_struct(value, reference, properties)
    kind = resolved.get("type", "object")
    if kind == "array":
        return _read_list(value, resolved["items"], element_type(go_type, resolved["items"]))
    if kind == "object":
        inner: schema.Schema = resolved.get("additionalProperties") or {"type": "string"}
        return _read_map(value, inner, element_type(go_type, inner))
    if kind == "string" and resolved.get("format") == "byte":
        return _read_bytes(value)
    return _read_scalar(value, _GO_KINDS.get(kind) or resolved.get("format", "int64"), go_type)


def _as_read(value: Any) -> Any:
    """The value as a reader of text has it, who tells numbers from texts by their class."""
    if isinstance(value, dict):
        return Pairs(value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Number(number_text(value))


def _as_go_writes(value: Any) -> Any:
    """A value that becomes JSON on the way, with its numbers and names as Go writes them."""
    if isinstance(value, float):
        return msgspec.Raw(number_text(value).encode())
    if isinstance(value, dict):
        return {name: _as_go_writes(item) for name, item in sorted(value.items())}
    return [_as_go_writes(item) for item in value] if isinstance(value, list) else value


def _read_struct(value: Any, definition: str, properties: dict[str, schema.Schema]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"cannot restore struct from: {_KINDS[type(value)]}")
    known, found = go_types().get(definition, {}), dict(value)
    for name in schema.class_of(definition).__struct_encode_fields__:
        if name in value and name in properties:
            of = properties[name]
            go_type, _ = known.get(name) or (plain_type(of), "")
            found[name] = _read(value[name], of, go_type)
    return found


def _read_list(value: Any, of: schema.Schema, go_type: str) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(f"cannot restore slice from {_KINDS[type(value)]}")
    return [_read(item, of, go_type) for item in value]


def _read_map(value: Any, of: schema.Schema, go_type: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"cannot restore map from {_KINDS[type(value)]}")
    return {name: _read(item, of, go_type) for name, item in value.items()}


def _read_bytes(value: Any) -> str:
    if isinstance(value, list):
        return base64.b64encode(bytes(_read_scalar(item or 0, "uint8", "uint8") for item in value)).decode()
    if not isinstance(value, str):
        raise Refused(f"cannot restore slice from {_KINDS[type(value)]}")
    if problem := base64_problem(value):
        raise Refused(f"error decoding from json: {problem}")
    return value


def _read_scalar(value: Any, go_kind: str, go_type: str) -> Any:
    found = _KINDS[type(value)]
    if found == go_kind:
        return value
    if found == "int64" and go_kind == "float64":
        return value
    if found in ("int64", "float64") and go_kind in _WIDTHS:
        return _as_integer(value, go_kind, go_type)
    if found == "int64" and go_kind == "string":
        raise Refused(f"cannot convert int64 to {go_type}")
    raise Refused(f"unrecognized type: {go_kind}")


def _as_integer(number: float, go_kind: str, go_type: str) -> int:
    """A number as an integer of some bits: the lower ones of 64, which what is too large for them has none of but the highest."""
    if not float(number).is_integer():
        raise Refused(f"cannot convert float64 to {go_type}")
    whole = int(number) if -(2**63) <= number < 2**63 else -(2**63)
    width = _WIDTHS[go_kind]
    low = whole & ((1 << width) - 1)
    return low - (1 << width) if go_kind != "uint8" and low >> (width - 1) else low
