"""`x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`: how lists and maps are merged.

Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported_text
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.form import NOTHING
from bayplan.api.validation.custom_resource_definitions.options import Options
from bayplan.api.validation.custom_resource_definitions.shown import shown_items
from bayplan.api.validation.fields import repeats

LIST_TYPE, LIST_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_LIST_TYPES, _MAP_TYPES = ("atomic", "set", "map"), ("atomic", "granular")


def map_type_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """What is wrong with the type of a map."""
    kind = schema.get(MAP_TYPE)
    if kind is None:
        return
    if schema.get("type") != "object":
        yield _wrong_type(schema, path, f"must be object if {MAP_TYPE} is specified")
    if kind not in _MAP_TYPES:
        yield unsupported_text(f"{path}.{MAP_TYPE}", kind, _MAP_TYPES)


def _wrong_type(schema: Schema, path: str, text: str) -> FieldError:
    kind = schema.get("type")
    return invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)


def list_errors(schema: Schema, path: str, options: Options) -> Iterator[FieldError]:
    """What is wrong with the type of a list, and with the fields that its items are told apart by."""
    kind = schema.get(LIST_TYPE)
    if kind is not None and schema.get("type") != "array":
        yield _wrong_type(schema, path, f"must be array if {LIST_TYPE} is specified")
    elif kind == "set" and options.needs_atomic_sets and isinstance(schema.get("items"), dict):
        yield from set_errors(schema["items"], f"{path}.items")
    if kind is not None and kind not in _LIST_TYPES:
        yield unsupported_text(f"{path}.{LIST_TYPE}", kind, _LIST_TYPES)
    if schema.get(LIST_KEYS) and kind != "map":
        text = f"must be map if {LIST_KEYS} is non-empty"
        yield required(f"{path}.{LIST_TYPE}", text) if kind is None else invalid(f"{path}.{LIST_TYPE}", kind, text)
    if kind == "map":
        yield from _keyed_list_errors(schema, path)
    if options.needs_usable_keys:
        yield from key_errors(schema, path)


def set_errors(items: Schema, path: str) -> Iterator[FieldError]:
    """Items of a set that are merged themselves. Kubernetes shows the type of the list in both messages."""
    text = f"must be atomic as item of a list with {LIST_TYPE}=set"
    list_type = items.get(LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(f"{path}.{LIST_TYPE}", list_type, text)
    elif items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{MAP_TYPE}", list_type, text)


def _keyed_list_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    keys, items = schema.get(LIST_KEYS, []), schema.get("items")
    if not keys:
        yield required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
    elif isinstance(items, list):
        yield invalid(f"{path}.items", shown_items(items), f"must only have a single schema if {LIST_TYPE} is map")
    elif items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
    else:
        yield from _name_errors(keys, items, path)


def _name_errors(keys: list[str], items: Schema, path: str) -> Iterator[FieldError]:
    properties = items.get("properties", NOTHING)
    again = repeats(keys)
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(f"{path}.{LIST_KEYS}", keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], text)
        if index in again:
            yield invalid(f"{path}.{LIST_KEYS}", keys, "must not contain duplicate entries")


def key_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """Items of lists and sets, and keys, that could be missing."""
    kind, items = schema.get(LIST_TYPE), schema.get("items")
    if kind not in ("set", "map") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {LIST_TYPE} is {kind}")
    if kind == "set":
        return
    needed = items.get("required", ())
    for key in schema.get(LIST_KEYS, ()):
        found = items.get("properties", NOTHING).get(key)
        if found is None:
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in needed and found.get("default") is None:
            text = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(f"{where}.default", text)
        if found.get("nullable"):
            yield forbidden(f"{where}.nullable", f"this property is in {LIST_KEYS}, so it cannot be nullable")
