"""Rules of schemas: what they say of objects, at what cost, and what of it counts after a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.custom_resources.correlation import Before
from bayplan.api.custom_resources.rule_compilation import compile_node, compile_rules
from bayplan.api.custom_resources.rules import Findings, check_rules

Tree = dict[str, Any]
CASES: list[Tree] = json.loads(Path(__file__).with_name("rule_cases.json").read_text())
"""After the tests of Kubernetes' own evaluation of rules: schema and object with rules that hold (and what that costs) or fail (and what is said then)."""


def object_of(**properties: Any) -> Tree:
    return {"type": "object", "properties": properties}


def ruled(schema: Tree, rule: str, **more: Any) -> Tree:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def findings(schema: Tree, value: Any, old: Any = None, **more: Any) -> Findings:
    node = compile_node(schema, schema, is_root=False)
    assert node is not None
    return check_rules(node, value, None if old is None else Before(old, value, schema), **more)


def told(schema: Tree, value: Any, old: Any = None, **more: Any) -> list[str]:
    return [str(error) for error in findings(schema, value, old, **more).errors]


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


@pytest.mark.parametrize("case", CASES, ids=[f"{index}" for index in range(len(CASES))])
def test_rules_hold_fail_and_cost_as_in_kubernetes(case: Tree) -> None:
    def checked(rule: str, *, is_root: bool) -> Findings:
        schema = ruled(case["schema"], rule)
        node = compile_node(schema, schema, is_root=is_root)
        assert node is not None
        old = case.get("old")
        return check_rules(node, case["object"], None if old is None else Before(old, case["object"], schema))

    for rule, cost in case.get("costs", {}).items():
        found = checked(rule, is_root=case["root"])
        assert (rule, found.errors, found.cost) == (rule, [], cost)
    for rule in case.get("holds", ()):
        assert (rule, checked(rule, is_root=case["root"]).errors) == (rule, [])
    for rule, text in case.get("fails", {}).items():
        errors = [str(error) for error in checked(rule, is_root=True).errors]
        assert errors, rule
        assert all(text in error for error in errors), (rule, errors)


MESSAGES = {
    "a message": ({"message": " as it should be\n"}, "a: Invalid value: 1: as it should be"),
    "no message": ({}, "a: Invalid value: 1: failed rule: self > 1"),
    "a made one": ({"message": "no", "messageExpression": "'not ' + string(self)"}, "a: Invalid value: 1: not 1"),
    "one that is no text": ({"messageExpression": "self"}, "a: Invalid value: 1: failed rule: self > 1"),
    "one that cannot be made": ({"message": "m", "messageExpression": "['a'][self + 3]"}, "a: Invalid value: 1: m"),
    "an empty one": ({"message": "m", "messageExpression": "' '"}, "a: Invalid value: 1: m"),
    "one with two lines": ({"message": "m", "messageExpression": "'a\\nb'"}, "a: Invalid value: 1: m"),
    "one that is too long": ({"message": "m", "messageExpression": f"'{'x' * 5121}'"}, "a: Invalid value: 1: m"),
    "forbidden": ({"reason": "FieldValueForbidden", "message": "m"}, "a: Forbidden: m"),
    "required": ({"reason": "FieldValueRequired", "message": "m"}, "a: Required value: m"),
    "duplicate": ({"reason": "FieldValueDuplicate", "message": "m"}, "a: Duplicate value: 1"),
}


@pytest.mark.parametrize(("more", "expected"), MESSAGES.values(), ids=MESSAGES.keys())
def test_what_is_said_of_a_value(more: Tree, expected: str) -> None:
    assert told(object_of(a=ruled(NUMBER, "self > 1", **more)), {"a": 1}) == [expected]


def test_objects_are_not_shown_and_paths_lead_below_them() -> None:
    schema = ruled(object_of(a=object_of(b=NUMBER)), "self.a.b > 1", fieldPath=".a.b")
    assert told({"type": "object", "properties": {"spec": schema}}, {"spec": {"a": {"b": 1}}}) == [
        "spec.a.b: Invalid value: failed rule: self.a.b > 1"
    ]


def test_rules_of_the_whole_object_have_no_field() -> None:
    schema = ruled({"type": "object"}, "self.metadata.name.startsWith('r')", message="names start with r")
    node = compile_rules(schema)
    assert node is not None
    tree = {"apiVersion": "v1", "kind": "Rule", "metadata": {"name": "a", "labels": {}}}
    assert [str(error) for error in check_rules(node, tree).errors] == ["<nil>: Invalid value: names start with r"]


def test_schemas_without_rules_have_nothing_to_check() -> None:
    assert compile_rules(object_of(a=NUMBER)) is None


PLACES = {
    "items": (ruled(NUMBER, "self > 0"), [1, 0], ["a[1]: Invalid value: 0: failed rule: self > 0"]),
    "values of a map": (ruled(NUMBER, "self > 0"), {"k": 0}, ["a[k]: Invalid value: 0: failed rule: self > 0"]),
}


@pytest.mark.parametrize(("inner", "value", "expected"), PLACES.values(), ids=PLACES.keys())
def test_rules_below_lists_and_maps(inner: Tree, value: Any, expected: list[str]) -> None:
    holder = (
        {"type": "array", "items": inner}
        if isinstance(value, list)
        else {"type": "object", "additionalProperties": inner}
    )
    assert told(object_of(a=holder), {"a": value}) == expected


def test_nulls_are_not_checked() -> None:
    assert told(object_of(a=ruled({**NUMBER, "nullable": True}, "self > 0")), {"a": None}) == []


def test_rules_of_all_of_are_checked() -> None:
    schema = {**object_of(a=NUMBER), "allOf": [{"properties": {"a": ruled({}, "self > 1")}}]}
    assert told(schema, {"a": 1}) == ["a: Invalid value: 1: failed rule: self > 1"]


def test_lists_under_keys_remember_their_items() -> None:
    items = ruled(object_of(k=TEXT, v=NUMBER), "self.v >= oldSelf.v")
    schema = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    old = [{"k": "a", "v": 1}, {"k": "b", "v": 5}]
    now = [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 2}]
    assert told(schema, now, old) == ["[0]: Invalid value: failed rule: self.v >= oldSelf.v"]
    plain = {**schema, "x-kubernetes-list-type": "atomic"}
    assert told(plain, now, old) == []


TRANSITIONS: dict[str, tuple[Tree, Any, list[str]]] = {
    "created": ({}, None, []),
    "changed": ({}, 3, ["a: Invalid value: 1: failed rule: self == oldSelf"]),
    "as it was": ({}, 1, []),
}


@pytest.mark.parametrize(("more", "old", "expected"), TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_rules_about_changes_need_an_old_value(more: Tree, old: Any, expected: list[str]) -> None:
    schema = object_of(a=ruled(NUMBER, "self == oldSelf", **more))
    assert told(schema, {"a": 1}, None if old is None else {"a": old}) == expected


def test_old_values_may_be_optional() -> None:
    rule = "oldSelf.hasValue() ? self >= oldSelf.value() : self < 10"
    schema = object_of(a=ruled(NUMBER, rule, optionalOldSelf=True, message="m"))
    assert told(schema, {"a": 12}) == ["a: Invalid value: 12: m"]
    assert told(schema, {"a": 12}, {"a": 11}) == []
    assert told(schema, {"a": 10}, {"a": 11}) == ["a: Invalid value: 10: m"]


def test_messages_see_old_values_as_they_are() -> None:
    rule = "oldSelf.hasValue() && self >= oldSelf.value()"
    more = {"optionalOldSelf": True, "message": "m", "messageExpression": "'was ' + string(oldSelf.value())"}
    assert told(object_of(a=ruled(NUMBER, rule, **more)), {"a": 1}, {"a": 2}) == ["a: Invalid value: 1: m"]


def test_what_did_not_change_is_only_warned_about() -> None:
    schema = object_of(a=ruled(TEXT, "self == 'x'", message="m"), b=TEXT)
    found = findings(schema, {"a": "y", "b": "2"}, {"a": "y", "b": "1"})
    assert (found.errors, found.warnings) == ([], ['a: Invalid value: "y": m'])
    assert told(schema, {"a": "z", "b": "2"}, {"a": "y", "b": "1"}) == ['a: Invalid value: "z": m']


def test_items_of_an_unchanged_list_are_only_warned_about() -> None:
    schema = object_of(a={"type": "array", "items": ruled(NUMBER, "self > 1")}, b=TEXT)
    found = findings(schema, {"a": [1, 2], "b": "2"}, {"a": [1, 2], "b": "1"})
    assert (found.errors, len(found.warnings)) == ([], 1)
    assert len(told(schema, {"a": [1, 3]}, {"a": [1, 2]})) == 1


def test_a_budget_ends_all_checks() -> None:
    schema = object_of(a=ruled(NUMBER, "self + self + self > 100"), b=ruled(NUMBER, "self > 100"))
    over = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert told(schema, {"a": 1, "b": 1}, budget=4) == [f'a: Invalid value: "integer": {over}']
    found = findings(schema, {"a": 1, "b": 1}, budget=6)
    assert [str(error) for error in found.errors][1:] == [f'b: Invalid value: "integer": {over}']
    assert found.cost == 6


def test_a_message_can_use_up_the_budget() -> None:
    schema = object_of(a=ruled(NUMBER, "self > 100", messageExpression="string(self) + 'a' + 'b'"))
    expected = (
        'a: Invalid value: "integer": messageExpression evaluation failed due to running out of cost budget, no further '
        "validation rules will be run"
    )
    assert told(schema, {"a": 1}, budget=3) == [expected]


def test_loops_without_end_are_cut_off() -> None:
    many = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    schema = object_of(a=ruled({"type": "array", "items": NUMBER}, many, message="m"))
    expected = (
        "a: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run "
        "due to call cost exceeds limit for rule: m"
    )
    assert told(schema, {"a": list(range(200))}) == [expected]


def test_errors_are_told_with_their_rule() -> None:
    schema = object_of(q=ruled({"x-kubernetes-int-or-string": True}, "self.size() > 1 || self > 2", message="m"))
    start = (
        "'no such overload: size(int)': call arguments did not match a supported operator, function or macro signature"
    )
    assert told(schema, {"q": 1}) == [f'q: Invalid value: "": {start} for rule: m']
    divided = object_of(a=ruled(NUMBER, "1 / self > 0"))
    assert told(divided, {"a": 0}) == ['a: Invalid value: "integer": division by zero evaluating rule: 1 / self > 0']


def test_rules_that_do_not_compile_are_told() -> None:
    assert told(object_of(a=ruled(NUMBER, "self")), {"a": 1}) == [
        'a: Invalid value: "integer": rule compile error: cel expression must evaluate to a bool'
    ]
    [error] = told(ruled({"x-kubernetes-preserve-unknown-fields": True}, "true"), {"a": 1})
    assert error.endswith("initialization error: failed to convert to declType for CEL validation rules")
