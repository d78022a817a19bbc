"""Type checks of admission policies: do their expressions fit the kinds that they are about?

Kubernetes stores what it finds as warnings in the status of a policy; nothing depends on them. Only rules that name groups, versions and resources outright are
looked at, and at most ten kinds. Source: `k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bayplan.api.cel.checker import Environment, check
from bayplan.api.cel.environments import AUTHORIZER, Composed
from bayplan.api.cel.issues import display
from bayplan.api.cel.schema_types import Schema, SchemaTypes
from bayplan.api.cel.types import DYN, Type
from bayplan.api.cel.validators import validate
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.pruning import METADATA_DEFINITION
from bayplan.api.kinds import KindTable
from bayplan.api.schema import definition_of, definitions
from bayplan.api.types import admissionregistration_v1 as types

_MOST_KINDS = 10
_HEAD: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": METADATA_DEFINITION},
}


class GroupVersionKind(NamedTuple):
    """A kind in a version."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class KnownKinds(NamedTuple):
    """What is known of kinds."""

    of_resource: Callable[[str, str, str], Iterable[GroupVersionKind]]
    """The kinds of a group, version and resource; the empty group stands for every group, as in Kubernetes' REST mapper."""
    schema: Callable[[GroupVersionKind], Schema | None]
    """The schema of a kind; None if it has none."""
    definition: Callable[[str], Schema]
    """The schema that a `$ref` means."""


def expression_warnings(
    spec: types.ValidatingAdmissionPolicySpec, kinds: KnownKinds
) -> tuple[types.ExpressionWarning, ...]:
    """What is wrong with the validations of a policy: one warning per expression that does not fit all kinds."""
    environments = list(_environments(spec, kinds))
    found = []
    for path, expression in _expressions(spec):
        texts = [_problem(kind, environment, expression) for kind, environment in environments]
        if any(texts):
            found.append(types.ExpressionWarning(field_ref=path, warning="\n".join(filter(None, texts))))
    return tuple(found)


def _expressions(spec: types.ValidatingAdmissionPolicySpec) -> Iterator[tuple[str, str]]:
    """The expressions that are checked, with their paths."""
    for index, one in enumerate(spec.validations):
        path = f"spec.validations[{index}]"
        yield f"{path}.expression", one.expression
        if one.message_expression:
            yield f"{path}.messageExpression", one.message_expression


def _problem(kind: GroupVersionKind, environment: Environment, expression: str) -> str:
    """What is wrong with an expression about one kind, as text with a line end; empty if nothing is."""
    checked = check(expression, environment)
    issues = checked.issues
    if checked.root is not None and not issues:
        issues = validate(checked.root, checked.types)
    return f"{kind}: {display(expression, issues)}\n" if issues else ""


def kinds_to_check(spec: types.ValidatingAdmissionPolicySpec, kinds: KnownKinds) -> list[GroupVersionKind]:
    """The kinds that a policy names, in order of group, version and kind."""
    found: set[GroupVersionKind] = set()
    for rule in spec.match_constraints.resource_rules if spec.match_constraints is not None else ():
        for count, kind in enumerate(_kinds_of_rule(rule, kinds), start=1):
            found.add(kind)
            if count == _MOST_KINDS:
                return sorted(found)
    return sorted(found)


def _kinds_of_rule(rule: types.NamedRuleWithOperations, kinds: KnownKinds) -> Iterator[GroupVersionKind]:
    """The kinds of a rule without wildcards; resources with wildcards and subresources are passed over."""
    if any("*" in one for one in (*rule.api_groups, *rule.api_versions)):
        return
    resources = sorted(one for one in rule.resources if "*" not in one and "/" not in one)
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for resource in resources:
                yield from kinds.of_resource(group, version, resource)


def _environments(
    spec: types.ValidatingAdmissionPolicySpec, kinds: KnownKinds
) -> Iterator[tuple[GroupVersionKind, Environment]]:
    """What expressions can refer to when the policy is about a kind, for each kind that has a schema."""
    for kind in kinds_to_check(spec, kinds):
        schema = kinds.schema(kind)
        if schema is None:
            continue
        made = SchemaTypes(kinds.definition)
        # Kubernetes adds a number to the names of types that only tells them apart; here it is the same every time.
        found = made.root(schema, f"{kind.kind}0") or DYN
        variables = {"object": found, "oldObject": found, "authorizer": AUTHORIZER, **_parameters(spec, kinds, made)}
        composed = Composed(Environment(variables, made.structs))
        for one in spec.variables:
            composed.add(one.name, check(one.expression, composed.environment).type)
        yield kind, composed.environment


def _parameters(spec: types.ValidatingAdmissionPolicySpec, kinds: KnownKinds, made: SchemaTypes) -> dict[str, Type]:
    """The variable `params`, which only policies with a kind of parameters have."""
    if spec.param_kind is None:
        return {}
    group, _, version = spec.param_kind.api_version.rpartition("/")
    schema = kinds.schema(GroupVersionKind(group, version, spec.param_kind.kind))
    found = None if schema is None else made.root(schema, f"{spec.param_kind.kind}1")
    return {"params": found or DYN}


def known_kinds(table: KindTable) -> KnownKinds:
    """What a table of kinds says: of built-in ones, and of custom ones, which bring their schema."""

    def of_resource(group: str, version: str, resource: str) -> Iterator[GroupVersionKind]:
        wanted = resource.lower()
        for kind in table:
            in_group = kind.group == group if group else True
            if in_group and kind.version == version and wanted in (kind.plural, kind.singular):
                yield GroupVersionKind(kind.group, kind.version, kind.kind)

    def schema_of(wanted: GroupVersionKind) -> Schema | None:
        api_version = f"{wanted.group}/{wanted.version}" if wanted.group else wanted.version
        kind = table.of_kind(api_version, wanted.kind)
        if isinstance(kind, CustomKind):
            properties = {**kind.schema.get("properties", {}), **_HEAD}
            return {**kind.schema, "properties": properties}
        return {"$ref": definition_of(kind.type)} if kind is not None and kind.module else None

    return KnownKinds(of_resource, schema_of, lambda reference: definitions()[reference])
