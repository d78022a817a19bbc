"""What a policy says of a request, by its expressions alone."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.cel.values import from_json
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.apiserver.policies.verdicts import CompiledPolicy, Denial

OBJECT = {"kind": "ConfigMap", "metadata": {"name": "web", "labels": {"a": "b"}}, "data": {"size": "5"}}


def denials(*validations: dict[str, Any], **spec: Any) -> list[Denial]:
    policy = types.ValidatingAdmissionPolicySpec(
        validations=tuple(types.Validation(**one) for one in validations), **spec
    )
    bindings = {"object": from_json(OBJECT), "oldObject": None, "params": None, "namespaceObject": None}
    bindings["request"] = from_json({"operation": "CREATE", "name": "web"})
    return CompiledPolicy(policy).judge(bindings)


def conditions(*expressions: str) -> tuple[types.MatchCondition, ...]:
    return tuple(types.MatchCondition(name=f"c{index}", expression=one) for index, one in enumerate(expressions))


@pytest.mark.parametrize(
    ("validation", "expected"),
    [
        ({"expression": "true"}, []),
        ({"expression": " false "}, [Denial("failed expression: false", "Invalid")]),
        ({"expression": "false", "message": " no "}, [Denial("no", "Invalid")]),
        (
            {"expression": "false", "message": "no", "message_expression": "'not ' + object.metadata.name"},
            [Denial("not web", "Invalid")],
        ),
        ({"expression": "false", "message": "no", "message_expression": "object.missing"}, [Denial("no", "Invalid")]),
        ({"expression": "false", "message": "no", "message_expression": "'a\\nb'"}, [Denial("no", "Invalid")]),
        ({"expression": "false", "message": "no", "message_expression": "' '"}, [Denial("no", "Invalid")]),
        ({"expression": "false", "reason": "Forbidden", "message": "no"}, [Denial("no", "Forbidden")]),
        (
            {"expression": "object.missing == 1"},
            [Denial("expression 'object.missing == 1' resulted in error: no such key: missing")],
        ),
        ({"expression": "request.operation == 'CREATE' && oldObject == null && namespaceObject == null"}, []),
    ],
)
def test_what_is_said_of_a_violation(validation: dict[str, Any], expected: list[Denial]) -> None:
    assert denials(validation) == expected


def test_failures_may_be_ignored_while_violations_are_not() -> None:
    found = denials({"expression": "object.missing == 1"}, {"expression": "false"}, failure_policy="Ignore")
    assert [one.message for one in found] == ["failed expression: false"]


@pytest.mark.parametrize(
    ("expressions", "messages"),
    [
        (("true", "true"), ["failed expression: false"]),
        (("true", "false"), []),
        (("object.missing == 1", "false"), []),
        (
            ("object.missing == 1", "true"),
            ["expression 'object.missing == 1' resulted in error: no such key: missing"],
        ),
        (
            ("object.a == 1", "object.b == 1"),
            [
                "[expression 'object.a == 1' resulted in error: no such key: a, "
                "expression 'object.b == 1' resulted in error: no such key: b]"
            ],
        ),
    ],
)
def test_conditions_decide_whether_a_policy_applies(expressions: tuple[str, ...], messages: list[str]) -> None:
    found = denials({"expression": "false"}, match_conditions=conditions(*expressions))
    assert [one.message for one in found] == messages


def test_conditions_that_fail_may_be_ignored() -> None:
    given = conditions("object.missing == 1")
    assert denials({"expression": "false"}, match_conditions=given, failure_policy="Ignore") == []


def variables(**expressions: str) -> tuple[types.Variable, ...]:
    return tuple(types.Variable(name=name, expression=one) for name, one in expressions.items())


def test_variables_see_those_before_them() -> None:
    given = variables(size="int(object.data.size)", double="variables.size * 2")
    assert denials({"expression": "variables.double == 10"}, variables=given) == []


def test_variables_without_value_are_errors_only_where_they_are_used() -> None:
    given = variables(bad="int(object.metadata.name)", good="1")
    assert denials({"expression": "variables.good == 1"}, variables=given) == []
    [found] = denials({"expression": "variables.bad == 1"}, variables=given)
    assert found.message == (
        "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: "
        "type conversion error from 'string' to 'int'"
    )


def test_what_variables_cost_counts_once() -> None:
    costly = "lists.range(900).map(x, lists.range(1000).size()).size()"
    given = variables(**{f"v{index}": costly for index in range(12)})
    assert denials(*[{"expression": "variables.v0 > 0"}] * 12, variables=given) == []
    [found] = denials(*[{"expression": f"variables.v{index} > 0"} for index in range(12)], variables=given)
    assert (
        found.message == "validation failed due to running out of cost budget, no further validation rules will be run"
    )


def test_all_validations_share_one_budget() -> None:
    costly = "lists.range(80000).all(x, x >= 0 && x >= 0)"
    found = denials(*[{"expression": costly}] * 16)
    assert [one.message for one in found] == [
        "validation failed due to running out of cost budget, no further validation rules will be run"
    ]


def test_annotations_that_cannot_be_made_deny_whatever_the_actions_are() -> None:
    def annotated(expression: str, **spec: Any) -> list[Denial]:
        given = (types.AuditAnnotation(key="k", value_expression=expression),)
        return denials({"expression": "true"}, audit_annotations=given, **spec)

    assert annotated("'fine'") == []
    [found] = annotated("object.missing")
    assert found == Denial("expression 'object.missing' resulted in error: no such key: missing", always_denies=True)
    assert annotated("object.missing", failure_policy="Ignore") == []
