"""The schema facts of built-in kinds: what patches, pruning and OpenAPI need to know and structs do not say.

`types/schema.json.gz` is the published OpenAPI definitions without texts: definition name -> schema with `properties`, `required`, `x-kubernetes-*`.
It is read on first use.
"""

from __future__ import annotations

import functools
import gzip
import importlib
import importlib.resources
from base64 import b64encode
from collections.abc import Collection
from typing import Any, Final

import msgspec

from bayplan.api.feature_gates import ALL_GATES

Schema = dict[str, Any]

_PREFIXES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_SCALARS = frozenset(
    (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    )
)


def unpacked(name: str) -> bytes:
    """A generated file of `bayplan.api.types`."""
    return gzip.decompress(importlib.resources.files("bayplan.api.types").joinpath(f"{name}.json.gz").read_bytes())


@functools.cache
def definitions() -> dict[str, Schema]:
    """All definitions by name."""
    loaded: dict[str, Schema] = msgspec.json.decode(unpacked("schema"))
    return loaded


_names: dict[Any, str] = {}


def definition_of(cls: Any) -> str:
    """The definition name of a struct class."""
    known = _names.get(cls)
    if known is not None:
        return known
    group, _, version = cls.__module__.rpartition(".")[2].rpartition("_")
    name = _names[cls] = f"{_PREFIXES.get(group, f'io.k8s.api.{group}')}.{version}.{cls.__name__}"
    return name


@functools.cache
def class_of(definition: str) -> Any:
    """The struct class of a definition name; its fields are in Go's order."""
    path, _, name = definition.rpartition(".")
    prefix, _, version = path.rpartition(".")
    group = next((one for one, known in _PREFIXES.items() if known == prefix), prefix.rpartition(".")[2])
    return getattr(importlib.import_module(f"bayplan.api.types.{group}_{version}"), name)


def resolve(schema: Schema) -> Schema:
    """The schema itself, references followed. What stands beside a reference (such as `x-kubernetes-map-type`) wins."""
    reference = schema.get("$ref")
    return schema if reference is None else {**definitions()[reference], **schema}


GATE: Final = "x-bayplan-feature-gate"
"""Of a field's schema: the feature gate without which the field is unknown."""


_WITHOUT_FIELDS = frozenset(
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus",)
)
"""Objects without fields, of which schemas say no more than of objects with any."""


def prune(value: Any, definition: str, dropped: list[str], gates: Collection[str] = ALL_GATES) -> Any:
    """A copy of a JSON tree with nulls and unknown fields taken out; paths of unknown fields go to `dropped`. gates: those that are on."""
    return _prune(value, definitions()[definition], "", dropped, gates)


def fields_of_gates(tree: Any, definition: str, gates: Collection[str]) -> list[str]:
    """Paths of the fields of a JSON tree that are unknown only because their feature gates are not among those that are on."""
    unknown: list[str] = []
    prune(tree, definition, unknown, gates)
    always: list[str] = []
    prune(tree, definition, always)
    return [path for path in unknown if path not in always]


def _prune(value: Any, schema: Schema, path: str, dropped: list[str], gates: Collection[str]) -> Any:
    reference = schema.get("$ref")
    if reference is not None:
        if reference in _SCALARS:
            return value
        if reference in _WITHOUT_FIELDS and isinstance(value, dict):
            dropped.extend(path + key for key in value)
            return {}
        schema = definitions()[reference]
    if isinstance(value, dict):
        properties = schema.get("properties")
        if properties is None:
            inner = schema.get("additionalProperties")
            if not isinstance(inner, dict):
                return value
            return {
                key: _filled(_prune(item, inner, f"{path}{key}.", dropped, gates), inner) for key, item in value.items()
            }
        kept = {}
        for key, item in value.items():
            inner = properties.get(key)
            if inner is None or (GATE in inner and inner[GATE] not in gates):
                dropped.append(path + key)
            elif item is not None:
                kept[key] = _prune(item, inner, f"{path}{key}.", dropped, gates)
        return kept
    if isinstance(value, list) and "items" in schema:
        base = path.removesuffix(".")
        return [
            _filled(_prune(item, schema["items"], f"{base}[{index}].", dropped, gates), schema["items"])
            for index, item in enumerate(value)
        ]
    if isinstance(value, list) and schema.get("format") == "byte":
        return _in_base64(value)
    return value


def _in_base64(numbers: list[Any]) -> Any:
    """Bytes that are given as a list of numbers, as Go reads them, too: null is 0. The list itself if it holds anything else."""
    try:
        return b64encode(bytes(0 if one is None else _number(one) for one in numbers)).decode()
    except (TypeError, ValueError):
        return numbers


def _number(value: Any) -> int:
    if type(value) is not int:  # True is none
        raise TypeError
    return value


def _filled(value: Any, schema: Schema) -> Any:
    """What Go makes of a null inside a map or list: the zero value."""
    if value is not None:
        return value
    if schema.get("$ref", "").endswith(".Quantity"):
        return "0"
    kind = resolve(schema).get("type", "string")
    return {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}[kind]
