"""The schemas of OpenAPI documents: the definitions that operations refer to, as version 2 or 3 shows them.

Source of the behaviour: `kube-openapi/pkg/builder`, `builder3` and `handler.PruneDefaults`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from bayplan.api.schema import GATE, Schema, definitions
from bayplan.apiserver.openapi.texts import documented_definitions

_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_INT_OR_STRING_V3: Final = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
_GVK: Final = "x-kubernetes-group-version-kind"
_NO_CLIENT: Final = ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
"""Groups that are not those of Kubernetes' own client, whose kinds the server for custom resources knows."""
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"


def schemas_v2(roots: Iterable[str], own: dict[str, Schema], gates: Collection[str] = ()) -> dict[str, Schema]:
    """The definitions of these names and of all they refer to. own: those of custom resources. gates: Bayplan's own that are on."""
    names = _needed(roots, own)
    return {name: _shown_v2(own[name]) if name in own else _built_in_v2(name, gates) for name in sorted(names)}


def schemas_v3(
    roots: Iterable[str], own: dict[str, Schema], group: str, version: str, gates: Collection[str] = ()
) -> dict[str, Schema]:
    """The same for the document of one group version. Definitions that all groups share name the group version, or all that the server for
    custom resources knows."""
    names = _needed(roots, own)
    return {
        name: _of_group(_shown_v3(_built_in_v3(name, own, gates)), group, version, custom=bool(own))
        for name in sorted(names)
    }


def _needed(roots: Iterable[str], own: dict[str, Schema]) -> set[str]:
    known = definitions()
    found: set[str] = set()
    waiting = [name for name in roots if name in known or name in own]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_references(own[name] if name in own else known[name]))
    return found


def _references(schema: Schema) -> Iterator[str]:
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    for inner in (schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()):
        if isinstance(inner, dict):
            yield from _references(inner)


def _built_in(name: str, gates: Collection[str]) -> Schema:
    """A built-in definition without the fields of gates that are off."""
    schema = documented_definitions()[name]
    properties = schema.get("properties", {})
    hidden = [field for field, one in properties.items() if GATE in one and one[GATE] not in gates]
    if not hidden:
        return schema
    return {**schema, "properties": {field: one for field, one in properties.items() if field not in hidden}}


def _built_in_v2(name: str, gates: Collection[str]) -> Schema:
    """A built-in definition. A scalar of several types is a string to version 2."""
    schema = _built_in(name, gates)
    if name == _INT_OR_STRING:
        schema = {**schema, "format": "int-or-string"}
    if "oneOf" in schema:
        schema = {"type": "string", **{key: value for key, value in schema.items() if key != "oneOf"}}
    return _shown_v2(schema)


def _built_in_v3(name: str, own: dict[str, Schema], gates: Collection[str]) -> Schema:
    schema = own[name] if name in own else _built_in(name, gates)
    return {**schema, **_INT_OR_STRING_V3} if name == _INT_OR_STRING else schema


def _of_group(schema: Schema, group: str, version: str, *, custom: bool) -> Schema:
    """A definition that many groups have, with the group versions that a document names."""
    kinds = schema.get(_GVK, ())
    if len(kinds) < 2:
        return schema
    named = ((group, version), ("", "v1"))
    kept = [
        one for one in kinds if (one["group"] not in _NO_CLIENT if custom else (one["group"], one["version"]) in named)
    ]
    return {**schema, _GVK: kept}


def _shown_v3(schema: Schema) -> Schema:
    """References point into components, and stand inside allOf when they have company."""
    result = {key: _inner(key, value, _shown_v3) for key, value in schema.items() if key != "$ref"}
    if "$ref" not in schema:
        return result
    reference = {"$ref": f"{_V3}{schema['$ref']}"}
    return {**result, "allOf": [reference]} if result else reference


def _shown_v2(schema: Schema) -> Schema:
    """References point into definitions; defaults are left out."""
    result = {key: _inner(key, value, _shown_v2) for key, value in schema.items() if key not in ("$ref", "default")}
    return {"$ref": f"{_V2}{schema['$ref']}", **result} if "$ref" in schema else result


def _inner(key: str, value: Any, convert: Callable[[Schema], Schema]) -> Any:
    """A member of a schema; schemas inside it are converted."""
    if key == "properties":
        return {name: convert(one) for name, one in sorted(value.items())}
    if key == "oneOf":
        return [convert(one) for one in value]
    return convert(value) if isinstance(value, dict) and key in ("items", "additionalProperties") else value
