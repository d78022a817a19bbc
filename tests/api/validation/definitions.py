"""CustomResourceDefinitions as the server checks them, for tests of their rules."""

from __future__ import annotations

from typing import Any

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.strategies.apiextensions.customresourcedefinitions import STRATEGY
from bayplan.api.strategies.base import clone
from bayplan.api.types import apiextensions_v1

Tree = dict[str, Any]
SCHEMA = "spec.validation.openAPIV3Schema"
ESTABLISHED = (apiextensions_v1.CustomResourceDefinitionCondition(type="Established", status="True"),)


def version(name: str = "v1", *, storage: bool = True, schema: Tree | None = None, **more: Any) -> Tree:
    """One version, with a schema of anything if it has no other; `schema={}` leaves it out."""
    given = {"type": "object"} if schema is None else schema
    found = {"name": name, "served": True, "storage": storage, **more}
    return {**found, "schema": {"openAPIV3Schema": given}} if given else found


def definition(*versions: Tree, names: Tree | None = None, **spec: Any) -> apiextensions_v1.CustomResourceDefinition:
    """A new definition as it comes: of `things.example.com`."""
    tree = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", **(names or {})},
            "versions": list(versions) or [version()],
            **spec,
        },
    }
    return settled(tree)


def settled(tree: Tree) -> apiextensions_v1.CustomResourceDefinition:
    """A definition, defaulted and prepared."""
    found = codec.from_tree(apiextensions_v1.CustomResourceDefinition, tree)
    STRATEGY.default(found)
    STRATEGY.prepare_create(found)
    return found


def lines(errors: list[FieldError]) -> list[str]:
    """What a client reads."""
    return [str(error) for error in errors]


def problems(*versions: Tree, names: Tree | None = None, **spec: Any) -> list[str]:
    """What is wrong with a new definition."""
    return lines(STRATEGY.validate_create(definition(*versions, names=names, **spec)))


def schema_problems(schema: Tree, **more: Any) -> list[str]:
    """What is wrong with a schema, without the path to it."""
    return [one.removeprefix(SCHEMA) for one in problems(version(schema=schema, **more))]


def field_problems(schema: Tree) -> list[str]:
    """What is wrong with the schema of a field `a`, without the path to it."""
    found = schema_problems({"type": "object", "properties": {"a": schema}})
    return [one.removeprefix(".properties[a]") for one in found]


def update_problems(
    new: apiextensions_v1.CustomResourceDefinition,
    old: apiextensions_v1.CustomResourceDefinition,
    *,
    established: bool = False,
) -> list[str]:
    """What is wrong with a change."""
    before = clone(old)
    if established:
        before.status.conditions = ESTABLISHED
    STRATEGY.prepare_update(new, before)
    return lines(STRATEGY.validate_update(new, before))
