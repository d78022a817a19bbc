"""Expressions of admission policies and webhooks: which are looked at when they are written, and where mistakes are told."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.strategies.admissionregistration import (
    mutatingadmissionpolicies,
    validatingadmissionpolicies,
    validatingwebhookconfigurations,
)
from bayplan.api.types import admissionregistration_v1 as types

PARAMETERS = {"apiVersion": "v1", "kind": "ConfigMap"}
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}


def told(**spec: Any) -> list[str]:
    """What is said of a policy."""
    strategy = validatingadmissionpolicies.STRATEGY
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}
    policy = from_tree(types.ValidatingAdmissionPolicy, {"metadata": {"name": "policy"}, "spec": spec})
    strategy.default(policy)
    return [str(one) for one in strategy.validate(policy)]


def only(errors: list[str]) -> str:
    (one,) = errors
    return one.partition("\n")[0]


@pytest.mark.parametrize(
    "spec",
    [
        {"validations": [{"expression": "object.a > 1", "messageExpression": "'too much: ' + string(object.a)"}]},
        {"auditAnnotations": [{"key": "a", "valueExpression": "object.a > 1 ? 'a' : 'b'"}]},
        {"auditAnnotations": [{"key": "a", "valueExpression": "null"}]},
        {"variables": [{"name": "a", "expression": "object.a"}], "validations": [{"expression": "variables.a == 1"}]},
        {"matchConditions": [{"name": "a", "expression": "params.a == 1"}], "paramKind": PARAMETERS},
    ],
)
def test_policies_whose_expressions_compile(spec: dict[str, Any]) -> None:
    assert told(**spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        ({"validations": [{"expression": "foo"}]}, "spec.validations[0].expression", "undeclared reference to 'foo'"),
        (
            {"matchConditions": [{"name": "a", "expression": "params.on"}], "paramKind": PARAMETERS},
            "spec.matchConditions[0].expression",
            "must evaluate to bool but got dyn",
        ),
        ({"validations": [{"expression": "1"}]}, "spec.validations[0].expression", "must evaluate to bool but got int"),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "spec.validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": " "}]},
            "spec.validations[0].messageExpression",
            "must be non-empty if specified",
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "variables.a"}], "variables": [{"name": "a", "expression": "true"}]},
            "spec.matchConditions[0].expression",
            "undeclared reference to 'variables'",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "params.on == 1"}]},
            "spec.matchConditions[0].expression",
            "undeclared reference to 'params'",
        ),
        ({"variables": [{"name": "a", "expression": "foo"}]}, "spec.variables[0].expression", "undeclared reference to 'foo'"),
    ],
)  # fmt: skip
def test_expressions_that_are_refused(spec: dict[str, Any], path: str, text: str) -> None:
    found = only(told(**spec))
    assert found.startswith(f"{path}: Invalid value: ")
    assert text in found


def told_of_mutating(mutation: dict[str, Any], **spec: Any) -> list[str]:
    """What is said of a mutating policy."""
    needed = {"matchConstraints": {"resourceRules": [RULE]}, "mutations": [mutation], "reinvocationPolicy": "Never"}
    tree = {"metadata": {"name": "policy"}, "spec": {**needed, **spec}}
    policy = from_tree(types.MutatingAdmissionPolicy, tree)
    mutatingadmissionpolicies.STRATEGY.default(policy)
    return [str(one) for one in mutatingadmissionpolicies.STRATEGY.validate(policy)]


def applied(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def test_conditions_and_variables_of_mutating_policies_are_looked_at() -> None:
    first, second = told_of_mutating(
        applied("Object{}"),
        matchConditions=[{"name": "a", "expression": "foo"}],
        variables=[{"name": "a", "expression": "bar"}],
    )
    assert "spec.matchConditions[0].expression" in first
    assert "spec.variables[0].expression" in second


@pytest.mark.parametrize(
    "mutation",
    [
        applied("Object{metadata: Object.metadata{labels: {'a': 'b'}, anything: object.spec}}"),
        applied("has(object.spec.x) ? Object{spec: variables.made} : Object{}"),
        patched("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: {'k': 'v'}}]"),
        patched("object.on == 1 ? [JSONPatch{op: 'test', path: '/a', value: 1}] : []"),
    ],
)
def test_mutations_that_compile(mutation: dict[str, Any]) -> None:
    assert told_of_mutating(mutation, variables=[{"name": "made", "expression": "object.made"}]) == []


@pytest.mark.parametrize(
    ("mutation", "path", "text"),
    [
        (applied("object"), "applyConfiguration.expression", "must evaluate to Object but got dyn"),
        (applied("Other{}"), "applyConfiguration.expression", "undeclared reference to 'Other'"),
        (patched("[]"), "jsonPatch.expression", "must evaluate to list(JSONPatch) but got list(dyn)"),
        (patched("JSONPatch{}"), "jsonPatch.expression", "must evaluate to list(JSONPatch) but got JSONPatch"),
        (
            patched("[JSONPatch{op: 1}]"),
            "jsonPatch.expression",
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        (
            applied("Object{"),
            "applyConfiguration.expression",
            "1:8: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
        ),
    ],
)
def test_mutations_that_are_refused(mutation: dict[str, Any], path: str, text: str) -> None:
    found = "".join(told_of_mutating(mutation))
    assert found.startswith(f"spec.mutations[0].{path}: Invalid value: ")
    assert text in found


def test_only_mutations_make_patches() -> None:
    assert "undeclared reference to 'Object'" in only(told(validations=[{"expression": "Object{} == null"}]))
    expression = "jsonpatch.escapeKey('a') == ''"
    assert "undeclared reference to 'jsonpatch'" in told(validations=[{"expression": expression}])[0]


def test_conditions_of_webhooks_are_looked_at() -> None:
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [
            {"name": "right", "expression": "authorizer.requestResource.check('breakglass').allowed()"},
            {"name": "wrong", "expression": " params.on == 1 "},
        ],
    }
    tree = {"metadata": {"name": "hooks"}, "webhooks": [webhook]}
    configuration = from_tree(types.ValidatingWebhookConfiguration, tree)
    validatingwebhookconfigurations.STRATEGY.default(configuration)
    found = only([str(one) for one in validatingwebhookconfigurations.STRATEGY.validate(configuration)])
    assert found == (
        'webhooks[0].matchConditions[1].expression: Invalid value: "params.on == 1": compilation failed:'
        " ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"
    )
