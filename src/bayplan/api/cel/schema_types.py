"""Types of CEL for OpenAPI schemas, as Kubernetes shows objects to expressions (`k8s.io/apiserver/pkg/cel/common`).

What has no type in the schema is not shown: no field of such a type, no list or map of it. So quantities, which may be numbers, are missing, and a mistake
in their use is found only when a policy is evaluated; numbers or strings that are marked as such are `dyn`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.cel.tokens import FIELD_KEYWORDS
from bayplan.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    struct,
)
from bayplan.support.memory.memo import memoized

Schema = dict[str, Any]

_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SIMPLE = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile("__|[-./]")
_UNESCAPED = {escape: plain for plain, escape in _ESCAPES.items()}
_ESCAPE = re.compile(r"__[^_]+__")
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_CIRCULAR: Schema = {"type": "object"}
"""Stands for a definition inside itself."""
_TEXT: Schema = {"type": "string"}
_NAMES: Schema = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}


def escaped(name: str) -> str | None:
    """How expressions write the name of a field; None if they cannot."""
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in FIELD_KEYWORDS:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)


@memoized(4096)
def unescaped(name: str) -> str | None:
    """The field that an expression means; None if no field is written so."""
    if "__" not in name:
        return name
    inner = name[2:-2]
    if name == f"__{inner}__" and inner in FIELD_KEYWORDS:
        return inner
    if any(escape not in _UNESCAPED for escape in _ESCAPE.findall(name)):
        return None
    return _ESCAPE.sub(lambda match: _UNESCAPED[match.group()], name)


def with_names(properties: dict[str, Schema]) -> dict[str, Schema]:
    """The properties of a whole object, of which expressions can always see kind, apiVersion and two names of its metadata."""
    texts = (properties.get(name, {}).get("type") for name in ("kind", "apiVersion"))
    if all(one == "string" for one in texts) and _has_names(properties.get("metadata", {})):
        return properties
    return {**properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _NAMES}


def _has_names(metadata: Schema) -> bool:
    """Whether a schema of metadata says more than what is always known."""
    if "$ref" in metadata:
        return True
    known = metadata.get("properties", {})
    are_texts = all(known.get(name, {}).get("type") == "string" for name in ("name", "generateName"))
    return metadata.get("type") == "object" and are_texts


@dataclass(slots=True)
class SchemaTypes:
    """Makes types of schemas. Structs are named after where they stand: `Deployment.spec.template`, `Pod.spec.containers.@idx`."""

    definition: Callable[[str], Schema]
    """The schema that a `$ref` means."""
    structs: dict[str, dict[str, Type]] = field(default_factory=dict)
    """Fields of the structs that were made."""

    def root(self, schema: Schema, name: str) -> Type | None:
        """The type of a whole object, which always has kind, apiVersion and metadata; None if it has none."""
        return self._of(schema, name, frozenset(), is_root=True)

    def part(self, schema: Schema, name: str) -> Type | None:
        """The type of a part of an object; None if it has none."""
        return self._of(schema, name, frozenset())

    def _of(self, schema: Schema, name: str, inside: frozenset[str], *, is_root: bool = False) -> Type | None:
        reference = schema.get("$ref")
        if reference is not None:
            if reference == _INT_OR_STRING:
                return DYN
            schema = _CIRCULAR if reference in inside else self.definition(reference)
            inside = inside | {reference}
        if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
            return DYN
        kind = schema.get("type", "")
        if kind == "array":
            item = self._item(schema.get("items"), f"{name}.@idx", inside)
            return None if item is None else list_of(item)
        if kind == "object":
            return self._object(schema, name, inside, is_root or bool(schema.get("x-kubernetes-embedded-resource")))
        if kind == "string":
            return _FORMATS.get(schema.get("format", ""), STRING)
        return _SIMPLE.get(kind)

    def _item(self, schema: Any, name: str, inside: frozenset[str]) -> Type | None:
        return self._of(schema, name, inside) if isinstance(schema, dict) else None

    def _object(self, schema: Schema, name: str, inside: frozenset[str], is_root: bool) -> Type | None:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            held = self._item(values, f"{name}.@elem", inside)
            return None if held is None else map_of(STRING, held)
        properties = schema.get("properties", {})
        if is_root:
            properties = with_names(properties)
        fields = self.structs[name] = {}
        for key, one in properties.items():
            shown = escaped(key)
            found = None if shown is None else self._of(one, f"{name}.{shown}", inside)
            if shown is not None and found is not None:
                fields[shown] = found
        return struct(name)
