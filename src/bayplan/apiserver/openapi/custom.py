"""Custom resources in OpenAPI documents.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/controller/openapi/builder`.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.pruning import EMBEDDED, METADATA_DEFINITION, PRESERVE
from bayplan.api.schema import Schema
from bayplan.apiserver.openapi.texts import documented_definitions

_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_HEAD: Final[dict[str, Schema]] = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines which version of which schema this object follows.",
    },
    "kind": {"type": "string", "description": "Kind tells what this object is, in CamelCase."},
}
_METADATA: Final = "Metadata that all objects of the cluster have."
"""Used where the published texts are not installed."""
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_EMBEDDED_TEXTS: Final = {
    "apiVersion": "apiVersion defines the versioned schema of this representation of an object. More info: "
    f"{_CONVENTIONS}#resources",
    "kind": "kind is a string value representing the type of this object. In CamelCase. More info: "
    f"{_CONVENTIONS}#types-kinds",
}
_INTEGER_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")
_SELECTABLE = "x-kubernetes-selectable-fields"


def definition_name(kind: CustomKind) -> str:
    """`com.example.stable.v1.CronTab` of the group `stable.example.com`."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def published(kind: CustomKind, *, v2: bool) -> dict[str, Schema]:
    """The definitions of a kind and of its list, whose references are names of definitions.

    v2: for a document of version 2 of OpenAPI; otherwise of version 3.
    """
    name = definition_name(kind)
    schema = _whole(kind, v2=v2)
    fields = [{"fieldPath": one.json_path.removeprefix(".")} for one in kind.definition.selectable_fields]
    selectable = {_SELECTABLE: fields} if fields else {}
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    items = {
        "type": "array",
        "items": {"$ref": name},
        "description": f"List of {kind.plural}. More info: {_CONVENTIONS}",
    }
    return {
        name: {**schema, "x-kubernetes-group-version-kind": [gvk], **selectable},
        f"{name}List": {
            "type": "object",
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "required": ["items"],
            "properties": {**_head("PodList", _LIST_META), "items": items},
            "x-kubernetes-group-version-kind": [{**gvk, "kind": kind.list_kind}],
            **selectable,
        },
    }


def _head(like: str, metadata: str) -> dict[str, Schema]:
    """The fields that every object has, with the texts of a built-in kind. `metadata`: the definition of that field."""
    texts = documented_definitions()[f"io.k8s.api.core.v1.{like}"]["properties"]
    head = {name: {**schema, **_text(texts[name])} for name, schema in _HEAD.items()}
    return {**head, "metadata": {"$ref": metadata, "description": _METADATA, **_text(texts["metadata"])}}


def _text(schema: Schema) -> Schema:
    """The description alone, if there is one."""
    return {key: value for key, value in schema.items() if key == "description"}


def _whole(kind: CustomKind, *, v2: bool) -> Schema:
    """The schema of a whole object, with what every object has. Where anything goes, version 2 says nothing, or kubectl would miss what is not said."""
    if v2 and (kind.schema.get(PRESERVE) or kind.keeps_unknown_fields):
        return {"type": "object"}
    found = _shown(kind.schema, v2=v2)
    return {**found, "properties": {**found.get("properties", {}), **_head("ConfigMap", METADATA_DEFINITION)}}


def _shown(schema: Schema, *, v2: bool) -> Schema:
    """A schema as it is published."""
    found: dict[str, Any] = _for_v2(schema) if v2 else _for_v3(schema)
    if "properties" in found:
        found["properties"] = {name: _shown(inner, v2=v2) for name, inner in found["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _shown(found[key], v2=v2)
    if schema.get(EMBEDDED) and not (v2 and schema.get(PRESERVE)):
        head = _head("ConfigMap", METADATA_DEFINITION)
        texts = {name: {**head[name], "description": text} for name, text in _EMBEDDED_TEXTS.items()}
        found["properties"] = {**found.get("properties", {}), **head, **texts}
        found["required"] = list(dict.fromkeys((*found.get("required", ()), "kind", "apiVersion")))
    return found


def _for_v3(schema: Schema) -> dict[str, Any]:
    """A schema in which what may be an integer or a string says so in words that every reader of OpenAPI knows."""
    if not schema.get("x-kubernetes-int-or-string") or schema.get("anyOf") == _INTEGER_OR_STRING:
        return dict(schema)
    others = schema.get("allOf", [])
    if others and others[0].get("anyOf") == _INTEGER_OR_STRING:
        return dict(schema)
    if "anyOf" not in schema:
        return {**schema, "anyOf": _INTEGER_OR_STRING}
    return {**schema, "allOf": [{"anyOf": _INTEGER_OR_STRING}, *others]}


def _for_v2(schema: Schema) -> dict[str, Any]:
    """A schema without what version 2, or kubectl when it reads that, does not know: alternatives, nulls, types of values in which anything goes."""
    found = {key: value for key, value in schema.items() if key not in (*_ALTERNATIVES, "nullable")}
    is_nullable, keeps_all = schema.get("nullable"), schema.get(PRESERVE)
    if is_nullable or keeps_all:
        found.pop("items", None)
        found.pop("properties", None)
    no_items = schema.get("type") == "array" and "items" not in found
    if is_nullable or no_items or (keeps_all and schema.get("type") == "object"):
        found.pop("type", None)
    optional = {name for name, one in found.get("properties", {}).items() if one.get("nullable")}
    values = found.get("additionalProperties")
    all_optional = isinstance(values, dict) and values.get("nullable")
    required = [name for name in found.pop("required", ()) if name not in optional and not all_optional]
    return {**found, "required": required} if required else found
