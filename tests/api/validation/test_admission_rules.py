"""Rules, conditions and parameters of webhooks and policies. Expected values are those of `pkg/apis/admissionregistration/validation`."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.validation.admission_rules import (
    check_match_conditions,
    check_mutated_operations,
    check_param_kind,
    check_param_ref,
    check_rules,
    default_rules,
)


def rule(**fields: Any) -> types.RuleWithOperations:
    tree = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], **fields}
    return codec.from_tree(types.RuleWithOperations, tree)


def told(errors: list[FieldError]) -> list[str]:
    return [f"{error.field} {error.type.name}" for error in errors]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"operations": []}, ["operations REQUIRED"]),
        ({"operations": ["*"]}, []),
        ({"operations": ["CREATE", "UPDATE"]}, []),
        ({"operations": ["*", "UPDATE"]}, ["operations INVALID"]),
        ({"operations": ["create"]}, ["operations[0] NOT_SUPPORTED"]),
        ({"apiGroups": ["*"], "apiVersions": ["*"]}, []),
        ({"apiGroups": ["a", "b"], "apiVersions": ["a", "b"]}, []),
        ({"apiGroups": ["a", "*"]}, ["apiGroups INVALID"]),
        ({"apiVersions": ["*", "b"]}, ["apiVersions INVALID"]),
        ({"apiVersions": [""]}, ["apiVersions[0] REQUIRED"]),
        ({"apiGroups": [], "apiVersions": []}, ["apiGroups REQUIRED", "apiVersions REQUIRED"]),
        ({"resources": []}, ["resources REQUIRED"]),
        ({"resources": [""]}, ["resources[0] REQUIRED"]),
        ({"resources": ["*"]}, []),
        ({"resources": ["*/*"]}, []),
        ({"resources": ["a", "b/c"]}, []),
        ({"resources": ["*/*", "a"]}, ["resources INVALID"]),
        ({"resources": ["*", "a"]}, ["resources INVALID"]),
        ({"resources": ["*", "a/b"]}, []),
        ({"resources": ["a", "*"]}, []),  # as in Kubernetes, which looks at the last one only
        ({"resources": ["a/*", "a/b"]}, ["resources[1] INVALID"]),
        ({"resources": ["a/*", "b/c"]}, []),
        ({"resources": ["a/b", "a/c"]}, []),
        ({"resources": ["*/b", "a/b"]}, ["resources[1] INVALID"]),
        ({"resources": ["*/b", "a/c"]}, []),
        ({"resources": ["a/b", "c/b"]}, []),
        ({"scope": "*"}, []),
        ({"scope": "Cluster"}, []),
        ({"scope": "Else"}, ["scope NOT_SUPPORTED"]),
    ],
)
def test_rules(fields: dict[str, Any], expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_rules(errors, "rules", [rule(**fields)])
    assert told(errors) == [f"rules[0].{one}" for one in expected]


@pytest.mark.parametrize(
    ("names", "expected"), [(["a", "b"], []), (["a", "a"], ["rules[0].resourceNames[1] DUPLICATE"])]
)
def test_names_of_resources(names: list[str], expected: list[str]) -> None:
    tree = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "resourceNames": names}
    errors: list[FieldError] = []
    check_rules(errors, "rules", [codec.from_tree(types.NamedRuleWithOperations, tree)])
    assert told(errors) == expected


@pytest.mark.parametrize(("given", "expected"), [(None, "*"), ("Cluster", "Cluster")])
def test_rules_hold_for_every_scope(given: str | None, expected: str) -> None:
    one = rule(**({} if given is None else {"scope": given}))
    default_rules([one])
    assert one.scope == expected


@pytest.mark.parametrize(("operation", "is_allowed"), [("CREATE", True), ("*", True), ("DELETE", False)])
def test_mutating_policies_see_no_deletions(operation: str, is_allowed: bool) -> None:
    errors: list[FieldError] = []
    check_mutated_operations(errors, "rules", [rule(operations=[operation])])
    assert told(errors) == ([] if is_allowed else ["rules.operations NOT_SUPPORTED"])


@pytest.mark.parametrize(("count", "expected"), [(64, []), (65, ["conditions TOO_MANY"])])
def test_how_many_conditions_there_are(count: int, expected: list[str]) -> None:
    conditions = [types.MatchCondition(name=f"c{index}", expression="true") for index in range(count)]
    errors: list[FieldError] = []
    check_match_conditions(errors, "conditions", conditions)
    assert told(errors) == expected


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        ("v1", "Limit", []),
        ("a.b/v1", "Limit", []),
        ("a.b/c/v1", "Limit", ["kind.apiVersion INVALID"]),
        ("A/v1", "Limit", ["kind.apiVersion INVALID"]),
        ("a.b/", "Limit", ["kind.apiVersion INVALID"]),
        ("a.b/1", "Limit", ["kind.apiVersion INVALID"]),
        ("", "Limit", ["kind.apiVersion REQUIRED"]),
        ("v1", "", ["kind.kind REQUIRED"]),
        ("v1", "1", ["kind.kind INVALID"]),
    ],
)
def test_kinds_of_parameters(version: str, name: str, expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_param_kind(errors, "kind", types.ParamKind(api_version=version, kind=name))
    assert told(errors) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"name": "a", "parameterNotFoundAction": "Allow"}, []),
        ({"selector": {}, "parameterNotFoundAction": "Deny"}, []),
        ({"name": "a", "parameterNotFoundAction": "Else"}, ["ref.parameterNotFoundAction NOT_SUPPORTED"]),
        ({"name": "a"}, ["ref.parameterNotFoundAction REQUIRED"]),
        ({"parameterNotFoundAction": "Deny"}, ["ref REQUIRED"]),
        (
            {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"},
            ["ref.name FORBIDDEN", "ref.selector FORBIDDEN"],
        ),
    ],
)
def test_references_to_parameters(reference: dict[str, Any], expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_param_ref(errors, "ref", codec.from_tree(types.ParamRef, reference))
    assert told(errors) == expected
