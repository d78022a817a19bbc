"""Custom resources in OpenAPI documents.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/openapi/builder`.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.pruning import EMBEDDED, METADATA_DEFINITION, PRESERVE
from bayplan.api.schema import Schema, definitions

_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")
_HIDDEN_IN_V2 = ("type", "items", "properties", "additionalProperties")


def definition_name(kind: CustomKind) -> str:
    """`com.example.stable.v1.CronTab` of the group `stable.example.com`."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def published(kind: CustomKind, *, v2: bool) -> dict[str, Schema]:
    """The definitions of a kind and of its list, whose references are names of definitions."""
    name = definition_name(kind)
    schema = _whole(kind.schema, v2=v2)
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    head = {key: _head()[key] for key in ("apiVersion", "kind")}
    items = {"type": "array", "items": {"$ref": name}, "description": f"List of {kind.plural}."}
    return {
        name: {**schema, "x-kubernetes-group-version-kind": [gvk]},
        f"{name}List": {
            "type": "object",
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "required": ["items"],
            "properties": {**head, "items": items, "metadata": {"$ref": _LIST_META}},
            "x-kubernetes-group-version-kind": [{**gvk, "kind": kind.list_kind}],
        },
    }


def _head() -> dict[str, Schema]:
    """The fields that every object has, as built-in kinds show them."""
    properties = definitions()["io.k8s.api.core.v1.ConfigMap"]["properties"]
    head = {
        name: {key: value for key, value in properties[name].items() if key != "enum"}
        for name in ("apiVersion", "kind")
    }
    return {**head, "metadata": {"$ref": METADATA_DEFINITION}}


def _whole(schema: Schema, *, v2: bool) -> Schema:
    """The schema of a whole object: what every object has comes first."""
    found = _shown(schema, v2=v2)
    if v2 and "properties" not in found and schema.get(PRESERVE):
        return found
    return {**found, "properties": {**found.get("properties", {}), **_head()}}


def _shown(schema: Schema, *, v2: bool) -> Schema:
    """A schema as it is published; version 2 does not know alternatives and nulls."""
    found: dict[str, Any] = dict(schema)
    if v2:
        for key in (*_ALTERNATIVES, "nullable", "x-kubernetes-validations"):
            found.pop(key, None)
        if schema.get("nullable") or schema.get(PRESERVE):
            for key in _HIDDEN_IN_V2:
                found.pop(key, None)
        if schema.get("x-kubernetes-int-or-string"):
            found.pop("type", None)
    if "properties" in found:
        found["properties"] = {name: _shown(inner, v2=v2) for name, inner in found["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _shown(found[key], v2=v2)
    if schema.get(EMBEDDED) and not (v2 and schema.get(PRESERVE)):
        found["properties"] = {**found.get("properties", {}), **_head()}
        found["required"] = sorted({*found.get("required", ()), "apiVersion", "kind"})
    return found
