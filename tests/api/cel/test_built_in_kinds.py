"""Warnings about policies for built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.cel.policies import GroupVersionKind, expression_warnings, known_kinds
from bayplan.api.codec import from_tree
from bayplan.api.kinds import DEFAULT_KINDS, Kind, KindTable
from bayplan.api.types.admissionregistration_v1 import ValidatingAdmissionPolicySpec

KINDS = known_kinds(DEFAULT_KINDS)


def warnings(text: str, group: str = "apps", resource: str = "deployments", **fields: Any) -> list[str]:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}
    tree = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": text}], **fields}
    return [one.warning for one in expression_warnings(from_tree(ValidatingAdmissionPolicySpec, tree), KINDS)]


@pytest.mark.parametrize(
    ("group", "version", "resource", "expected"),
    [
        ("apps", "v1", "deployments", [("apps", "Deployment")]),
        ("apps", "v1", "deployment", [("apps", "Deployment")]),
        ("apps", "v1", "Deployments", [("apps", "Deployment")]),
        ("apps", "v2", "deployments", []),
        ("batch", "v1", "deployments", []),
        ("", "v1", "pods", [("", "Pod")]),
        ("", "v1", "events", [("", "Event"), ("events.k8s.io", "Event")]),
        ("", "v1", "deployments", [("apps", "Deployment")]),
    ],
)
def test_kinds_of_a_resource(group: str, version: str, resource: str, expected: list[tuple[str, str]]) -> None:
    found = [(one.group, one.kind) for one in KINDS.of_resource(group, version, resource)]
    assert sorted(found) == expected


def test_kinds_that_are_not_built_in_have_no_schema() -> None:
    widgets = known_kinds(KindTable([Kind("example.com", "v1", "Widget", "widgets", namespaced=True)]))
    (widget,) = widgets.of_resource("example.com", "v1", "widgets")
    assert widgets.schema(widget) is None
    assert KINDS.schema(widget) is None
    assert KINDS.schema(GroupVersionKind("apps", "v1", "Deployment")) == {"$ref": "io.k8s.api.apps.v1.Deployment"}


@pytest.mark.parametrize(
    ("text", "group", "resource"),
    [
        ("object.spec.replicas > 1 && object.metadata.namespace != 'kube-system'", "apps", "deployments"),
        ("object.spec.template.spec.containers.all(c, c.image.startsWith('registry/') && !has(c.lifecycle))", "apps", "deployments"),
        ("object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '1'", "apps", "deployments"),
        ("object.metadata.?labels['app'].orValue('') != ''", "", "pods"),
        ("object.data.all(k, size(object.data[k]) < 10)", "", "secrets"),
        ("params.data['max'] == '3'", "", "pods"),
    ],
)  # fmt: skip
def test_expressions_that_fit_built_in_kinds(text: str, group: str, resource: str) -> None:
    assert warnings(text, group, resource, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "object.spec.replicas > '1'",
            "1:22: found no matching overload for '_>_' applied to '(int, string)'\n"
            " | object.spec.replicas > '1'\n | .....................^\n",
        ),
        (
            "object.spec.containers.size() > 1",
            "1:12: undefined field 'containers'\n | object.spec.containers.size() > 1\n | ...........^\n",
        ),
    ],
)
def test_expressions_that_do_not_fit_built_in_kinds(text: str, expected: str) -> None:
    assert warnings(text) == [f"apps/v1, Kind=Deployment: ERROR: <input>:{expected}"]


def test_parameters_have_the_type_of_their_kind() -> None:
    text = warnings("params.data['max'] > 3", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})[0]
    assert "found no matching overload for '_>_' applied to '(string, int)'" in text
    assert warnings("params.what.ever", paramKind={"apiVersion": "example.com/v1", "kind": "Limit"}) == []
