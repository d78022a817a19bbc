"""What the parts of a custom resource are for ownership: its schema in the form that built-in kinds have."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.pruning import EMBEDDED, METADATA_DEFINITION, PRESERVE
from bayplan.api.managedfields.typed import Type, type_of_schema
from bayplan.api.schema import Schema

_OBJECT: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": METADATA_DEFINITION},
}
_KEPT = (
    "type",
    "format",
    "default",
    PRESERVE,
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


_known: WeakKeyDictionary[type[CustomObject], Type] = WeakKeyDictionary()
"""Classes go with their definitions."""


def ownership_type(cls: type[CustomObject]) -> Type:
    """The ownership type of a class of custom objects, made once."""
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = type_of_schema(_facts({**cls.schema, EMBEDDED: True}))
    return found


def _facts(schema: Schema) -> Schema:
    """A schema without what only says which values are allowed."""
    found: dict[str, Any] = {name: schema[name] for name in _KEPT if name in schema}
    if schema.get("x-kubernetes-int-or-string"):  # published without a type, so that anything may stand there
        found[PRESERVE] = True
    properties = {name: _facts(inner) for name, inner in schema.get("properties", {}).items()}
    if schema.get(EMBEDDED):
        properties |= _OBJECT
    if properties:
        found["properties"] = properties
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        found["additionalProperties"] = _facts(additional)
    elif additional:
        found[PRESERVE] = True
    if isinstance(schema.get("items"), dict):
        found["items"] = _facts(schema["items"])
    return found
