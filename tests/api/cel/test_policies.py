"""Type checks of policies: the cases of Kubernetes' own tests, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bayplan.api.cel.policies import GroupVersionKind, KnownKinds, expression_warnings, kinds_to_check
from bayplan.api.codec import from_tree
from bayplan.api.types.admissionregistration_v1 import ValidatingAdmissionPolicySpec

DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
RESOURCES = {"deployments": GroupVersionKind("apps", "v1", "Deployment"), "pods": GroupVersionKind("", "v1", "Pod")}
for _number in range(12):
    RESOURCES[f"things{_number:02}"] = GroupVersionKind("apps", "v1", f"Thing{_number:02}")
TEXT = {"type": "string"}
NUMBER = {"type": "integer", "format": "int64"}


def known(schema: dict[str, Any] | None) -> KnownKinds:
    """Kinds that all have one schema."""

    def of_resource(group: str, version: str, resource: str) -> Iterator[GroupVersionKind]:
        if resource in RESOURCES:
            yield RESOURCES[resource]

    return KnownKinds(of_resource, lambda kind: schema, dict[str, Any]().__getitem__)


def spec(*validations: dict[str, str], rules: list[Any] | None = None, **fields: Any) -> ValidatingAdmissionPolicySpec:
    constraints = {"resourceRules": [DEPLOYMENTS] if rules is None else rules}
    tree = {"matchConstraints": constraints, "validations": list(validations), **fields}
    return from_tree(ValidatingAdmissionPolicySpec, tree)


def expression(text: str, **more: str) -> dict[str, str]:
    return {"expression": text, **more}


def warnings(policy: ValidatingAdmissionPolicySpec, **properties: Any) -> dict[str, str]:
    """The warnings about objects with these fields, by the expression's path."""
    schema = {"type": "object", "properties": properties}
    return {one.field_ref: one.warning for one in expression_warnings(policy, known(schema))}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([DEPLOYMENTS], ["Deployment"], id="one kind"),
        pytest.param([DEPLOYMENTS, PODS], ["Pod", "Deployment"], id="several, in order of group, version and kind"),
        pytest.param([{**DEPLOYMENTS, "resources": ["*"]}], [], id="all resources"),
        pytest.param([{**DEPLOYMENTS, "resources": ["pods/*", "pods/status"]}], [], id="subresources"),
        pytest.param([{**DEPLOYMENTS, "resources": ["pods/*", "pods"]}], ["Pod"], id="a subresource beside a resource"),
        pytest.param(
            [{**DEPLOYMENTS, "apiVersions": ["*"]}, DEPLOYMENTS], ["Deployment"], id="one rule has a wildcard"
        ),
        pytest.param([{**DEPLOYMENTS, "apiVersions": ["v1", "*"]}], [], id="a wildcard among versions"),
        pytest.param([{**DEPLOYMENTS, "apiGroups": ["*"]}], [], id="all groups"),
        pytest.param([], [], id="no rules"),
        pytest.param(
            [{**DEPLOYMENTS, "resources": [f"things{number:02}" for number in range(12)]}],
            [f"Thing{number:02}" for number in range(10)],
            id="ten at most",
        ),
    ],
)
def test_which_kinds_a_policy_is_checked_against(rules: list[Any], expected: list[str]) -> None:
    assert [one.kind for one in kinds_to_check(spec(rules=rules), known(None))] == expected


def test_a_policy_without_constraints_is_about_nothing() -> None:
    assert kinds_to_check(ValidatingAdmissionPolicySpec(), known(None)) == []


FOO_IS_BAR = spec(expression("object.foo == 'bar'"))


@pytest.mark.parametrize(
    ("policy", "properties"),
    [
        pytest.param(FOO_IS_BAR, {"foo": TEXT}, id="the field has the type"),
        pytest.param(
            spec(expression("authorizer.group('').resource('endpoints').check('create').allowed()")),
            {},
            id="authorizer",
        ),
        pytest.param(
            spec(expression("has(object.spec.text)")),
            {
                "spec": {"type": "object", "properties": {"text": TEXT}},
                "status": {"type": "object", "properties": {"x": {"type": "object", "additionalProperties": True}}},
            },
            id="objects with any fields beside",
        ),
        pytest.param(
            spec(expression("variables.works"), variables=[{"name": "works", "expression": "true"}]), {}, id="variables"
        ),
        pytest.param(
            spec(
                expression("variables.name == object.foo"),
                variables=[{"name": "name", "expression": "object.foo == 'str'"}],
            ),
            {"foo": NUMBER},
            id="what is wrong with variables is not told, and they fit everywhere",
        ),
        pytest.param(
            spec(expression("variables.whole.anything == 1"), variables=[{"name": "whole", "expression": "object"}]),
            {},
            id="of objects in variables nothing is known",
        ),
        pytest.param(
            spec(
                expression("variables.second == 2"),
                variables=[
                    {"name": "first", "expression": "1"},
                    {"name": "second", "expression": "variables.first + 1"},
                ],
            ),
            {},
            id="variables of variables",
        ),
        pytest.param(
            spec(
                expression("request.userInfo.extra['a'][0] == namespaceObject.metadata.labels['b'] && request.dryRun")
            ),
            {},
            id="the request and the namespace",
        ),
        pytest.param(
            spec(expression("oldObject == null || oldObject.foo == object.foo")), {"foo": TEXT}, id="the old object"
        ),
        pytest.param(spec(expression("false", messageExpression="'no'")), {}, id="messages"),
    ],
)
def test_nothing_is_told_of_what_fits(policy: ValidatingAdmissionPolicySpec, properties: dict[str, Any]) -> None:
    assert warnings(policy, **properties) == {}


@pytest.mark.parametrize(
    ("policy", "properties", "expected"),
    [
        pytest.param(FOO_IS_BAR, {"bar": TEXT}, "undefined field 'foo'", id="undefined field"),
        pytest.param(FOO_IS_BAR, {"foo": NUMBER}, "found no matching overload for '_==_' applied to '(int, string)'", id="other type"),
        pytest.param(
            spec(expression("object.foo == params.bar"), paramKind={"apiVersion": "v1", "kind": "DoesNotMatter"}),
            {"foo": TEXT},
            "undefined field 'bar'",
            id="parameters",
        ),
        pytest.param(
            spec(expression("params != null")), {}, "undeclared reference to 'params' (in container '')", id="no parameters"
        ),
        pytest.param(
            spec(expression("authorizer.allowed()")),
            {},
            "found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer.()'",
            id="authorizer",
        ),
        pytest.param(
            spec(expression("variables.nonExisting"), variables=[{"name": "works", "expression": "true"}]),
            {},
            "undefined field 'nonExisting'",
            id="no such variable",
        ),
        pytest.param(
            spec(expression("variables.name == object.foo"), variables=[{"name": "name", "expression": "'something'"}]),
            {"foo": NUMBER},
            "found no matching overload for '_==_' applied to '(string, int)'",
            id="a variable of another type",
        ),
        pytest.param(
            spec(expression("variables.names[0] > 1"), variables=[{"name": "names", "expression": "object.names"}]),
            {"names": {"type": "array", "items": TEXT}},
            "found no matching overload for '_>_' applied to '(string, int)'",
            id="a list in a variable",
        ),
        pytest.param(
            spec(expression("'%d'.format([object.foo]) == ''")),
            {"foo": TEXT},
            "error during formatting: decimal clause can only be used on integers, was given string",
            id="formatted text",
        ),
        pytest.param(spec(expression("request.foo == 1")), {}, "undefined field 'foo'", id="no such field of a request"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(
    policy: ValidatingAdmissionPolicySpec, properties: dict[str, Any], expected: str
) -> None:
    found = warnings(policy, **properties)
    assert list(found) == ["spec.validations[0].expression"]
    assert expected in found["spec.validations[0].expression"]


def test_each_expression_has_a_warning_of_its_own() -> None:
    policy = spec(
        expression("object.foo == 'bar'"), expression("object.bar == 'foo'", messageExpression="object.foo + 1")
    )
    assert list(warnings(policy, foo=TEXT)) == [
        "spec.validations[1].expression",
        "spec.validations[1].messageExpression",
    ]


def test_a_warning_names_each_kind() -> None:
    policy = spec(expression("object.replicas > 1"), rules=[DEPLOYMENTS, PODS])
    text = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"
    assert warnings(policy) == {
        "spec.validations[0].expression": f"/v1, Kind=Pod: {text}\napps/v1, Kind=Deployment: {text}"
    }


@pytest.mark.parametrize("schema", [None, {}])
@pytest.mark.parametrize("text", ["object.foo == 'bar'", "params != null"])
def test_of_kinds_without_schema_or_type_nothing_is_known(schema: dict[str, Any] | None, text: str) -> None:
    policy = spec(expression(text), paramKind={"apiVersion": "v1", "kind": "Config"})
    assert expression_warnings(policy, known(schema)) == ()
