"""Schemas of definitions: what OpenAPI and Kubernetes' extensions to it allow.

Structure is checked first, then defaults, then each schema for itself, and last the rules of `x-kubernetes-validations`, which are only looked at when nothing
else is wrong with them. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bayplan.api.custom_resources.pruning import EMBEDDED, META_FIELDS, PRESERVE, RULES
from bayplan.api.errors import FieldError, forbidden, invalid, unsupported_text
from bayplan.api.schema import Schema
from bayplan.api.validation.custom_resource_definitions.budget import Budget
from bayplan.api.validation.custom_resource_definitions.defaults import default_errors
from bayplan.api.validation.custom_resource_definitions.form import NOTHING, has_inner
from bayplan.api.validation.custom_resource_definitions.lists import list_errors, map_type_errors
from bayplan.api.validation.custom_resource_definitions.options import Options
from bayplan.api.validation.custom_resource_definitions.rules import RulePlace, compiled_rule_errors, rule_errors
from bayplan.api.validation.custom_resource_definitions.shown import SCHEMA_FIELDS, shown_schema
from bayplan.api.validation.custom_resource_definitions.sizes import MOST, cardinality
from bayplan.api.validation.custom_resource_definitions.structural import conversion_problem, structural_errors
from bayplan.api.validation.fields import Errors

PROPERTY_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_AT_ROOT = (
    "description type format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems multipleOf"
    f" required items properties externalDocs example {PRESERVE} {RULES}"
).split()
"""Fields that the schema of objects with a status of their own may have at its root."""
_NOT_SUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_CORRELATABLE_MAPS = (None, "granular", "atomic")


def check_schema(
    errors: Errors, path: str, schema: Schema, options: Options, *, has_status: bool, is_unchanged: bool
) -> None:
    """One schema (`openAPIV3Schema`). has_status: whether objects have a status of their own. is_unchanged: since before an update."""
    before = len(errors)
    if has_status:
        errors.extend(_root_errors(schema, path))
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unconvertible: list[FieldError] = []
    checks_rules = False
    if options.needs_structural:
        problem = conversion_problem(schema)
        if problem:
            unconvertible.append(invalid(path, "", problem))
        else:
            found = structural_errors(schema, path) or default_errors(
                schema, path, needs_pruned=options.needs_pruned_defaults
            )
            errors.extend(found)
            checks_rules = not found
    budget = Budget(limits_rules=not is_unchanged)
    result = _Walk(options, budget).look(schema, path, _Place(is_root=True, checks_rules=checks_rules))
    errors.extend(result.of_schema)
    errors.extend(result.of_rules)
    if len(errors) == before:
        errors.extend(unconvertible)
    errors.extend(budget.errors(path))


def _root_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """The first thing at the root that keeps the status from being checked alone."""
    condition = "if the status subresource is enabled"
    for name in (one for one in SCHEMA_FIELDS if one in schema):
        if name == "type" and schema["type"] != "object":
            text = f'only "object" is allowed as the type at the root of the schema {condition}'
            yield invalid(f"{path}.type", schema["type"], text)
            return
        if name not in _AT_ROOT:
            shown = " ".join(SCHEMA_FIELDS[one][0] for one in _AT_ROOT)
            text = f"only [{shown}] fields are allowed at the root of the schema {condition}"
            yield invalid(path, shown_schema(schema), text)
            return


@dataclass(slots=True)
class _Found:
    """What was found: about schemas, and about rules."""

    of_schema: list[FieldError] = field(default_factory=list)
    of_rules: list[FieldError] = field(default_factory=list)

    def merge(self, other: _Found) -> None:
        """Take over what was found elsewhere."""
        self.of_schema += other.of_schema
        self.of_rules += other.of_rules


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands."""

    is_root: bool = False
    checks_rules: bool = False
    """Whether rules are compiled: not inside `allOf` and the like."""
    in_metadata: bool = False
    """Whether it is about kind, apiVersion or metadata of an object."""
    no_defaults: str = ""
    """Why there may be no defaults, empty if there may."""
    uncorrelated: str = ""
    """Path of the first schema on the way down whose values cannot be told apart after a change, empty if there is none."""

    times: int | None = 1
    """How many values an object can have there, None if nothing limits that."""

    def inner(self, **changes: Any) -> _Place:
        """A place further down."""
        return replace(self, is_root=False, **changes)

    def repeated(self, schema: Schema) -> _Place:
        """This place, in values of which each value of a schema has as many as it may."""
        each = cardinality(schema)
        return replace(self, times=None if each is None or self.times is None else min(self.times * each, MOST))

    def of_rules(self) -> RulePlace:
        """What rules need to know."""
        return RulePlace(self.is_root, self.uncorrelated, self.times)

    def below_uncorrelated(self, path: str) -> _Place:
        """This place, inside values that cannot be told apart after a change."""
        return self.inner(uncorrelated=self.uncorrelated or path)


class _Walk:
    """Looks at a schema and all schemas inside it."""

    def __init__(self, options: Options, budget: Budget) -> None:
        self._options = options
        self._budget = budget

    def look(self, schema: Schema, path: str, place: _Place) -> _Found:
        """What is wrong with a schema."""
        found = _Found()
        found.of_schema += self._own_errors(schema, path, place)
        if schema.get("uniqueItems"):
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            found.of_schema.append(forbidden(f"{path}.uniqueItems", text))
        self._look_inside(schema, path, place, found)
        if schema.get(PRESERVE) is False:
            found.of_schema.append(invalid(f"{path}.{PRESERVE}", False, "must be true or undefined"))
        found.of_schema += map_type_errors(schema, path)
        found.of_schema += list_errors(schema, path, self._options)
        found.of_schema += rule_errors(schema, path)
        if schema.get(RULES) and not found.of_schema and place.checks_rules:
            found.of_rules += compiled_rule_errors(schema, path, place.of_rules(), self._budget)
        return found

    def _own_errors(self, schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
        kind = schema.get("type", "")
        if self._options.needs_valid_types and kind and kind not in PROPERTY_TYPES:
            yield unsupported_text(f"{path}.type", kind, PROPERTY_TYPES)
        if schema.get("default") is not None and place.no_defaults:
            yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
        for name in _NOT_SUPPORTED:
            if name in schema:
                yield forbidden(f"{path}.{name}", f"{name} is not supported")
        if kind == "null":
            yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
        if isinstance(schema.get("items"), list):
            yield forbidden(f"{path}.items", "items must be a schema object and not an array")
        if place.in_metadata and schema.get(EMBEDDED):
            yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")

    def _look_inside(self, schema: Schema, path: str, place: _Place, found: _Found) -> None:
        if not has_inner(schema):
            return
        place = place.repeated(schema)
        self._look_at_fields(schema, path, place, found)
        without_rules = place.inner(checks_rules=False)
        if "not" in schema:
            found.merge(self.look(schema["not"], f"{path}.not", without_rules))
        for name in ("allOf", "oneOf", "anyOf"):
            for index, one in enumerate(schema.get(name, ())):
                found.merge(self.look(one, f"{path}.{name}[{index}]", without_rules))
        for name, one in schema.get("definitions", NOTHING).items():
            found.merge(self.look(one, f"{path}.definitions[{name}]", without_rules))
        items = schema.get("items")
        if items is not None:
            is_map = schema.get("x-kubernetes-list-type") == "map"
            inner = place.inner() if is_map else place.below_uncorrelated(path)
            for where, one in enumerate(items) if isinstance(items, list) else (("", items),):
                found.merge(self.look(one, f"{path}.items" if where == "" else f"{path}.items[{where}]", inner))
        for name, one in schema.get("dependencies", NOTHING).items():
            if isinstance(one, dict):
                found.merge(self.look(one, f"{path}.dependencies[{name}]", without_rules))

    def _look_at_fields(self, schema: Schema, path: str, place: _Place, found: _Found) -> None:
        additional, properties = schema.get("additionalProperties"), schema.get("properties", NOTHING)
        where = f"{path}.additionalProperties"
        if properties and (additional is False or isinstance(additional, dict)):
            found.of_schema.append(forbidden(where, "additionalProperties and properties are mutual exclusive"))
        if isinstance(additional, dict):
            inner = place.inner()
            if place.in_metadata:
                inner = place.inner(no_defaults="inside additionalProperties applying to object metadata")
            found.merge(self.look(additional, where, inner))
        for name, one in properties.items():
            is_known = schema.get("x-kubernetes-map-type") in _CORRELATABLE_MAPS
            inner = place.inner() if is_known else place.below_uncorrelated(path)
            if (place.is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
                inner = inner.inner(in_metadata=True)
                if place.is_root:
                    inner = inner.inner(no_defaults=f"in top-level {name}")
            found.merge(self.look(one, f"{path}.properties[{name}]", inner))
