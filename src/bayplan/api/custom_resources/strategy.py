"""The rules of one version of a custom resource.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/registry/customresource`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.custom_resources import defaulting, values
from bayplan.api.custom_resources.embedded import embedded_errors
from bayplan.api.custom_resources.lists import list_errors
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.paths import JsonPath, PathError, path_of
from bayplan.api.errors import ErrorType, FieldError, invalid
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.schema import Schema
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiextensions_v1
from bayplan.api.validation.finalizers import finalizer_warnings

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
_UNCHECKED = FieldError(
    ErrorType.INVALID,
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
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
    reset_by_status = of_paths(("f:metadata",), ("f:spec",))

    def __init__(self, schema: Schema, subresources: Subresources, selectable: Mapping[str, str]) -> None:
        """selectable: name of a field in selectors -> JSON path."""
        self.schema = schema
        self.has_status = subresources.status
        self.scale = subresources.scale
        self._selectable = {name: path for name, text in selectable.items() if (path := _understood(text)) is not None}
        self.selectable_field_names = frozenset(self._selectable)

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
        return obj.content != old.content

    def validate_create(self, obj: CustomObject) -> list[FieldError]:
        """What the schema says against a new object."""
        errors = values.validate(obj.content, self._root())
        errors += [*self._scale_errors(obj.content, "spec"), *self._scale_errors(obj.content, "status")]
        errors += embedded_errors(obj.content, self.schema) + list_errors(obj.content, self.schema)
        return errors

    def validate_update(self, obj: CustomObject, old: CustomObject) -> list[FieldError]:
        """What it says against a change: what was wrong before and did not change may stay so."""
        errors = values.validate(obj.content, self._root(), old=old.content)
        errors += [*self._scale_errors(obj.content, "spec"), *self._scale_errors(obj.content, "status")]
        errors += embedded_errors(obj.content, self.schema)
        if not list_errors(old.content, self.schema):
            errors += list_errors(obj.content, self.schema)
        return errors

    def validate_status_update(self, obj: CustomObject, old: CustomObject) -> list[FieldError]:
        """What it says against a new status."""
        errors: list[FieldError] = []
        schema = self.schema.get("properties", {}).get("status")
        if "status" in obj.content and schema is not None:
            before = old.content.get("status", values.ABSENT)
            errors += values.validate(obj.content["status"], schema, "status", before)
        errors += self._scale_errors(obj.content, "status")
        if not list_errors(old.content, self.schema):
            errors += list_errors(obj.content, self.schema)
        return errors

    def warnings(self, obj: CustomObject, old: CustomObject | None) -> list[str]:
        """New finalizers whose names may be somebody else's."""
        known = old.metadata.finalizers if old is not None else ()
        return finalizer_warnings(sorted(set(obj.metadata.finalizers) - set(known)))

    def selectable_fields(self, obj: CustomObject) -> dict[str, str]:
        """The fields that the definition says can be selected by."""
        return {name: _selected(path.first(obj.content)) for name, path in self._selectable.items()}

    def _root(self) -> Schema:
        """The schema of the content: kind, apiVersion and metadata are checked by others."""
        wanted = [name for name in self.schema.get("required", ()) if name not in ("apiVersion", "kind", "metadata")]
        return {**self.schema, "required": wanted}

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


def nested(content: dict[str, Any], path: str, kind: type[Any]) -> Any:
    """The value at a path of plain names such as `.spec.replicas`; None if it is not there. Raises TypeError if it is of another type."""
    value: Any = content
    names = path.removeprefix(".").split(".")
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            shown = ".".join(names[:depth])
            raise TypeError(
                f".{'.'.join(names)} accessor error: {value} is of the type {_go_type(value)}, expected map[string]interface{{}} ({shown})"
            )
        if name not in value:
            return None
        value = value[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = {int: "int64", str: "string"}[kind]
        raise TypeError(
            f".{'.'.join(names)} accessor error: {_go_text(value)} is of the type {_go_type(value)}, expected {wanted}"
        )
    return value


def _go_type(value: Any) -> str:
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _go_text(value: Any) -> str:
    if value is None:
        return "<nil>"
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _with_status_of(content: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in content.items() if name != "status"}
    return {**rest, "status": other["status"]} if "status" in other else rest


def _understood(text: str) -> JsonPath | None:
    try:
        return path_of(text)
    except PathError:
        return None


def _selected(value: Any) -> str:
    return "" if value is None else _go_text(value)
