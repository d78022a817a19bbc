"""Taking out of a tree what a structural schema does not know.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/schema/pruning`.
"""

from __future__ import annotations

from typing import Any

from bayplan.api import schema as schemas
from bayplan.api.schema import Schema
from bayplan.api.types import meta_v1

META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
"""Fields that every object has, without its schema saying so."""
METADATA_DEFINITION = schemas.definition_of(meta_v1.ObjectMeta)
PRESERVE, EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
RULES = "x-kubernetes-validations"


def has_rules(schema: Any) -> bool:
    """Whether a schema, or one inside it, has rules for values."""
    return has_key(schema, RULES)


def has_key(schema: Any, key: str) -> bool:
    """Whether a schema, or one inside it, says something under a key."""
    if isinstance(schema, dict):
        return bool(schema.get(key)) or any(has_key(one, key) for one in schema.values())
    return isinstance(schema, list) and any(has_key(one, key) for one in schema)


def child(schema: Schema, name: str) -> Schema | None:
    """The schema of a field: a declared one, or that of all other fields; None if it is not declared."""
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def child_path(path: str, name: str, schema: Schema) -> str:
    """The path of a field of an object; those that are not declared stand in brackets."""
    if name not in schema.get("properties", ()):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def has_additional(schema: Schema) -> bool:
    """Whether fields that are not declared are allowed, with a schema of their own or without."""
    return schema.get("additionalProperties", False) is not False


def prune(tree: dict[str, Any], schema: Schema) -> list[str]:
    """Take unknown fields out of a whole object, in place. Returns their paths in order."""
    dropped: list[str] = []
    _prune(tree, {**schema, EMBEDDED: True}, "", dropped)
    return sorted(dropped)


def _prune(value: Any, schema: Schema | None, path: str, dropped: list[str]) -> None:
    if isinstance(value, dict):
        keeps_all = schema is not None and bool(schema.get(PRESERVE))
        is_object = schema is not None and bool(schema.get(EMBEDDED))
        for name in list(value):
            if is_object and name in META_FIELDS:
                continue
            known = schema is not None and (name in schema.get("properties", ()) or has_additional(schema))
            if known:
                assert schema is not None
                _prune(value[name], child(schema, name), f"{path}{name}.", dropped)
            elif not keeps_all:
                if path or name not in META_FIELDS:
                    dropped.append(path + name)
                del value[name]
    elif isinstance(value, list):
        items = None if schema is None else schema.get("items")
        if schema is not None and schema.get(PRESERVE):
            if items is None:
                return
            items = {**items, PRESERVE: True}
        base = path.removesuffix(".")
        for index, item in enumerate(value):
            _prune(item, items, f"{base}[{index}].", dropped)
