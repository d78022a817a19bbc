"""The rules of one version of a custom resource.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/registry/customresource`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.api.custom_resources import defaulting, pruning, values
from bayplan.api.custom_resources.acceptance import Accepts, acceptor
from bayplan.api.custom_resources.correlation import Before, same
from bayplan.api.custom_resources.embedded import embedded_errors, has_embedded
from bayplan.api.custom_resources.go_values import shown, type_name
from bayplan.api.custom_resources.lists import has_unique_items, list_errors
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.paths import JsonPath, PathError, path_of
from bayplan.api.errors import ErrorType, FieldError, invalid
from bayplan.api.kinds import Kind
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.schema import Schema
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiextensions_v1
from bayplan.api.validation.finalizers import finalizer_warnings

if TYPE_CHECKING:
    from bayplan.api.custom_resources.rule_compilation import Node
    from bayplan.api.custom_resources.rules import Findings

_MOST_REPLICAS = (1 << 31) - 1
_BLOCKING = frozenset(
    (
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    )
)


@dataclass(frozen=True, slots=True)
class Subresources:
    """The subresources of a version."""

    status: bool = False
    scale: apiextensions_v1.CustomResourceSubresourceScale | None = None


class CustomStrategy(Strategy):
    """Rules that follow from a schema."""

    counts_generation = True
    allow_unconditional_update = False
    tells_every_error = False
    reset_by_status = of_paths(("f:metadata",), ("f:spec",))

    def __init__(
        self,
        api_version: str,
        kind: str,
        schema: Schema,
        subresources: Subresources,
        selectable: Mapping[str, str],
        indexed: Mapping[str, str],
        *,
        prunes: bool = True,
    ) -> None:
        """selectable: name of a field in selectors -> JSON path; indexed: those of all versions.
        prunes: whether fields that the schema does not know are taken out."""
        self._api_version, self._kind = api_version, kind
        self.schema = schema
        self._prunes = prunes
        self._last_findings: tuple[CustomObject, CustomObject, Findings] | None = None
        self._restricts_metadata = b'"metadata"' in msgspec.json.encode(schema)
        self._has_embedded, self._has_unique_items = has_embedded(schema), has_unique_items(schema)
        self.has_status = subresources.status
        self.scale = subresources.scale
        self._indexed = {name: path for name, text in indexed.items() if (path := _understood(text)) is not None}
        self.selectable_field_names = frozenset(selectable)

    def default(self, obj: CustomObject) -> None:
        """Fill in the schema's defaults."""
        defaulting.default(obj.content, self.schema)

    def prepare_create(self, obj: CustomObject) -> None:
        """A creator does not say what the status is, if that is kept apart."""
        if self.has_status:
            obj.content.pop("status", None)

    def prepare_update(self, obj: CustomObject, old: CustomObject) -> None:
        """Nor does who updates the rest."""
        if self.has_status:
            obj.content = _with_status_of(obj.content, old.content)

    def prepare_status_update(self, obj: CustomObject, old: CustomObject) -> None:
        """Everything but the status stays as it is."""
        obj.content = _with_status_of(old.content, obj.content)

    def spec_changed(self, obj: CustomObject, old: CustomObject) -> bool:
        """Whether anything changed but metadata (the status is as it was by now, if it is kept apart)."""
        return not same(self._known(obj), self._known(old))

    def metadata_rule(self, obj: CustomObject) -> str | None:
        """See Strategy; of an object that says it is of another kind nothing is looked at but what has rules of its own."""
        return None if self._other_kind(obj) else super().metadata_rule(obj)

    def _other_kind(self, obj: CustomObject) -> list[FieldError]:
        """What is wrong with the kind that an object says it is of."""
        return [] if obj.kind in ("", self._kind) else [invalid("kind", obj.kind, f"must be {self._kind}")]

    def validate_create(self, obj: CustomObject) -> list[FieldError]:
        """What the schema says against a new object."""
        tree = self._whole(obj)
        if errors := self._other_kind(obj):
            errors += self._embedded_errors(tree) + self._list_errors(tree)
            return errors + self._rule_errors(obj, None, errors)
        errors = [] if self._accepts(tree) else values.validate(tree, self.schema)
        errors += [*self._scale_errors(tree, "spec"), *self._scale_errors(tree, "status")]
        errors += self._embedded_errors(tree) + self._list_errors(tree)
        return errors + self._rule_errors(obj, None, errors)

    def validate_update(self, obj: CustomObject, old: CustomObject) -> list[FieldError]:
        """What it says against a change: what was wrong before and did not change may stay so."""
        tree, before = self._whole(obj), self._whole(old)
        if errors := self._other_kind(obj):
            errors += self._embedded_errors(tree) + self._new_list_errors(tree, before)
            return errors + self._rule_errors(obj, old, errors)
        errors = (
            [] if self._accepts(tree) else values.validate(tree, self.schema, before=Before(before, tree, self.schema))
        )
        errors += [*self._scale_errors(tree, "spec"), *self._scale_errors(tree, "status")]
        errors += self._embedded_errors(tree) + self._new_list_errors(tree, before)
        return errors + self._rule_errors(obj, old, errors)

    def validate_status_update(self, obj: CustomObject, old: CustomObject) -> list[FieldError]:
        """What it says against a new status."""
        errors: list[FieldError] = []
        tree, before = self._known(obj), self._known(old)
        schema = self.schema.get("properties", {}).get("status")
        if "status" in tree and schema is not None:
            errors += values.validate(
                tree["status"], schema, "status", Before(before, tree, self.schema).field("status")
            )
        errors += [*self._scale_errors(tree, "status"), *self._new_list_errors(tree, before)]
        return errors + self._rule_errors(obj, old, errors)

    def _rule_errors(self, obj: CustomObject, old: CustomObject | None, others: list[FieldError]) -> list[FieldError]:
        """What the rules of the schema say, unless what is wrong already keeps them from being looked at."""
        if self._rules is None:
            return []
        if any(error.type in _BLOCKING for error in others) or not obj.metadata.name:
            return [values.UNCHECKED]
        found = self._find(self._rules, obj, old)
        # the question about warnings comes next
        self._last_findings = None if old is None else (obj, old, found)
        return found.errors

    def _find(self, rules: Node, obj: CustomObject, old: CustomObject | None) -> Findings:
        """What the rules say."""
        from bayplan.api.custom_resources.rules import check_rules

        tree = self._seen_by_rules(obj)
        before = None if old is None else Before(self._seen_by_rules(old), tree, self.schema)
        return check_rules(rules, tree, before)

    def _rule_warnings(self, obj: CustomObject, old: CustomObject) -> list[str]:
        """What the rules have against parts of a valid object that did not change."""
        if self._rules is None:
            return []
        last, self._last_findings = self._last_findings, None
        if last is not None and last[0] is obj and last[1] is old:
            return last[2].warnings
        return self._find(self._rules, obj, old).warnings

    @functools.cached_property
    def _rules(self) -> Node | None:
        """The rules of the schema, compiled when the first object is checked; few schemas have any, and they bring a compiler along."""
        if not pruning.has_rules(self.schema):
            return None
        from bayplan.api.custom_resources.rule_compilation import compile_rules

        return compile_rules(self.schema)

    def _seen_by_rules(self, obj: CustomObject) -> dict[str, Any]:
        """The tree of an object with its metadata."""
        return {**self._whole(obj), "metadata": msgspec.json.decode(msgspec.json.encode(obj.metadata))}

    def _new_list_errors(self, tree: dict[str, Any], before: dict[str, Any]) -> list[FieldError]:
        """Items that are there twice; objects that had such may go on having some."""
        found = self._list_errors(tree)
        return found if found and not list_errors(before, self.schema) else []

    @functools.cached_property
    def _accepts(self) -> Accepts:
        """What knows quickly of most valid objects that they are."""
        return acceptor(self.schema)

    def _embedded_errors(self, tree: dict[str, Any]) -> list[FieldError]:
        return embedded_errors(tree, self.schema) if self._has_embedded else []

    def _list_errors(self, tree: dict[str, Any]) -> list[FieldError]:
        return list_errors(tree, self.schema) if self._has_unique_items else []

    def warnings(self, obj: CustomObject, old: CustomObject | None) -> list[str]:
        """New finalizers whose names may be somebody else's, and what rules have against parts that did not change."""
        known = old.metadata.finalizers if old is not None else ()
        found = finalizer_warnings(sorted(set(obj.metadata.finalizers) - set(known)))
        return found if old is None else found + self._rule_warnings(obj, old)

    def selectable_fields(self, obj: CustomObject) -> dict[str, str]:
        """The fields by which the definition says that objects can be selected, in any version."""
        return {name: _selected(path, obj.content) for name, path in self._indexed.items()}

    def _whole(self, obj: CustomObject) -> dict[str, Any]:
        """The tree of an object; metadata only if the schema says something about them (it may restrict names)."""
        metadata = msgspec.json.decode(msgspec.json.encode(obj.metadata)) if self._restricts_metadata else {}
        return {"apiVersion": self._api_version, "kind": self._kind, "metadata": metadata, **self._known(obj)}

    def _known(self, obj: CustomObject) -> dict[str, Any]:
        """The content of an object as this version sees it."""
        if obj.schema is self.schema or not self._prunes:
            return obj.content
        content = copy.deepcopy(obj.content)
        pruning.prune(content, self.schema)
        return content

    def _scale_errors(self, content: dict[str, Any], part: str) -> Iterator[FieldError]:
        if self.scale is None:
            return
        path = self.scale.spec_replicas_path if part == "spec" else self.scale.status_replicas_path
        try:
            replicas = nested(content, path, int) or 0
        except TypeError as error:
            yield invalid(path, 0, str(error))
        else:
            if replicas < 0:
                yield invalid(path, replicas, "should be a non-negative integer")
            elif replicas > _MOST_REPLICAS:
                yield invalid(path, replicas, f"should be less than or equal to {_MOST_REPLICAS}")
        if part == "status" and self.scale.label_selector_path:
            try:
                nested(content, self.scale.label_selector_path, str)
            except TypeError as error:
                yield invalid(self.scale.label_selector_path, "", str(error))


def type_errors(kind: Kind, obj: CustomObject) -> list[FieldError]:
    """What is wrong with what an object of a kind says that it is; nothing with what it leaves out."""
    errors = []
    if obj.kind not in ("", kind.kind):
        errors.append(invalid("kind", obj.kind, f"must be {kind.kind}"))
    if obj.api_version not in ("", kind.api_version):
        errors.append(invalid("apiVersion", obj.api_version, f"must be {kind.api_version}"))
    return errors


def nested(content: dict[str, Any], path: str, kind: type[Any]) -> Any:
    """The value at a path of plain names such as `.spec.replicas`; None if it is not there. Raises TypeError if it is of another type."""
    value: Any = content
    names = path.removeprefix(".").split(".")
    for depth, name in enumerate(names):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _accessor_error(names[: depth + 1], value, "map[string]interface{}")
        if name not in value:
            return None
        value = value[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _accessor_error(names, value, {int: "int64", str: "string"}[kind])
    return value


def _accessor_error(names: list[str], value: Any, wanted: str) -> TypeError:
    return TypeError(
        f".{'.'.join(names)} accessor error: {shown(value)} is of the type {type_name(value)}, expected {wanted}"
    )


def _with_status_of(content: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in content.items() if name != "status"}
    return {**rest, "status": other["status"]} if "status" in other else rest


def _understood(text: str) -> JsonPath | None:
    try:
        return path_of(text)
    except PathError:
        return None


def _selected(path: JsonPath, content: dict[str, Any]) -> str:
    try:
        value = path.first(content)
    except PathError:
        return ""
    return "" if value is None else shown(value)
