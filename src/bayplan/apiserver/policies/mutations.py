"""What a MutatingAdmissionPolicy makes of an object: JSON patches, and configurations that are merged as in server-side apply. Pure.

Source: `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.api.cel.evaluation import OBJECT_BUDGET
from bayplan.api.cel.moments import duration_text, timestamp_text
from bayplan.api.cel.values import Duration, Map, StructValue, Timestamp, is_list, type_name
from bayplan.api.managedfields.merge import merge, validate
from bayplan.api.managedfields.typed import LIST, MAP, Type, TypedError
from bayplan.api.patching.json_patches import FailedTest, PatchError, apply_json_patch
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.apiserver.policies.expressions import (
    OVER_BUDGET,
    Expression,
    OutOfBudget,
    PolicyExpressions,
    Round,
    compiled,
)

Tree = dict[str, Any]
_ROOT = "Object"


class MutationError(Exception):
    """A mutation cannot be made."""


class CompiledMutations(PolicyExpressions):
    """The expressions of a policy."""

    def __init__(self, spec: types.MutatingAdmissionPolicySpec) -> None:
        super().__init__(spec)
        self.may_be_repeated = spec.reinvocation_policy == "IfNeeded"
        self.mutations = [self._mutation(one) for one in spec.mutations]

    def _mutation(self, one: types.Mutation) -> tuple[bool, Expression]:
        """Whether it is a JSON patch, and its expression."""
        if one.json_patch is not None:
            return True, compiled(self.compiler, one.json_patch.expression, makes_patches=True)
        text = one.apply_configuration.expression if one.apply_configuration is not None else ""
        return False, compiled(self.compiler, text, makes_patches=True)

    def mutated(self, index: int, tree: Tree, kind: Type, bindings: Mapping[str, Any]) -> Tree:
        """The object after a mutation. Raises MutationError."""
        is_patch, expression = self.mutations[index]
        try:
            value, problem = Round(self, bindings, OBJECT_BUDGET).evaluate(expression)
        except OutOfBudget as error:
            raise MutationError(OVER_BUDGET) from error
        if problem:
            raise MutationError(problem)
        return _patched(tree, value) if is_patch else _merged(tree, value, kind)


def _patched(tree: Tree, operations: Any) -> Tree:
    """The object with a JSON patch applied; as it was if a test of the patch fails."""
    current: Tree = tree
    for one in operations:
        operation = {key: json_of(one.find(key)) for key in one.keys()}  # noqa: SIM118  # maps of the language are not Python's
        _check_names(one)
        try:
            current = apply_json_patch(current, [operation])
        except FailedTest:
            return tree
        except PatchError as error:
            raise MutationError(f"JSON Patch: {error.detail or error}") from error
    return current


def _merged(tree: Tree, value: Any, kind: Type) -> Tree:
    """The object with a configuration laid over it."""
    _check_names(value)
    applied = {**json_of(value), "apiVersion": tree["apiVersion"], "kind": tree["kind"]}
    head = "error applying patch:"
    try:
        validate(applied, kind)
    except TypedError as error:
        raise MutationError(f"{head} failed to convert patch object to typed object: {error}") from error
    atomic = list(_atomic_parts(applied, kind, ""))
    if atomic:
        what = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise MutationError(f"{head} invalid ApplyConfiguration: {what}")
    merged: Tree = merge(tree, applied, kind)
    return merged


def _atomic_parts(value: Any, kind: Type | None, path: str) -> Iterator[str]:
    """Paths of lists and maps that are owned as a whole, so that setting a part would remove the rest."""
    if kind is None or not isinstance(value, dict | list):
        return
    if kind.atomic and kind.kind in (LIST, MAP):
        yield path
    if isinstance(value, dict) and kind.is_struct:
        for name, item in value.items():
            yield from _atomic_parts(item, kind.field(name), f"{path}.{name}")
    elif isinstance(value, list) and kind.kind == LIST:
        for index, item in enumerate(value):
            yield from _atomic_parts(item, kind.element, f"{path}[{index}]")


def _check_names(value: Any) -> None:
    """Whether objects are named after where they stand: `Object.spec` at `spec`. Raises MutationError."""
    if isinstance(value, StructValue) and (value.type_name == _ROOT or value.type_name.startswith(f"{_ROOT}.")):
        _check_fields(value, value.type_name)
    elif isinstance(value, Map):
        for key in value.keys():  # noqa: SIM118
            _check_names(value.find(key))


def _check_fields(value: Any, name: str) -> None:
    if isinstance(value, StructValue):
        if value.type_name != name:
            text = f'unexpected type name "{value.type_name}", expected "{name}", which matches field name path from root Object type'
            raise MutationError(f"type mismatch: {text}")
        for key in value.keys():  # noqa: SIM118
            _check_fields(value.find(key), f"{name}.{key}")
    elif is_list(value):
        for item in value:
            _check_fields(item, name)
    elif isinstance(value, Map):
        for key in value.keys():  # noqa: SIM118
            _check_fields(value.find(key), name)


def json_of(value: Any) -> Any:
    """A value of an expression as JSON. Raises MutationError for what has none."""
    if value is None or type(value) in (bool, str, int, float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if is_list(value):
        return [json_of(one) for one in value]
    if isinstance(value, Map):
        return {str(key): json_of(value.find(key)) for key in value.keys()}  # noqa: SIM118
    raise MutationError(
        f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {type_name(value)}"
    )
