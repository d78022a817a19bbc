"""Schemas and rules of custom resources cost bounded time, whatever objects they judge.

Costs are CPU time of this process: what is guarded against took from ten times as long to for ever.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from bayplan.api.custom_resources.rule_compilation import compile_rules
from bayplan.api.custom_resources.rules import Findings, check_rules
from bayplan.api.errors import MOST_ERRORS
from tests.apiserver.limits.bounded_requests import (
    APPLY,
    DEFINITIONS,
    JSON,
    MAPS,
    PODS,
    SECONDS,
    THINGS,
    ask,
    ask_much,
    define,
    definition,
    thing,
)
from tests.apiserver.serving import opened
from tests.cpu_time import cpu_time_below

_FAILING: dict[str, Any] = {
    "bounds": {"minimum": 10**9},
    "patterns": {"pattern": "^x$"},
    "required fields": {"required": ["b"]},
    "fields": {"properties": {"a": {"minimum": 10**9}}},
}


@pytest.mark.parametrize(
    ("failing", "combination"),
    [
        pytest.param(_FAILING[name], combination, id=f"{name}-{combination}")
        for name, combination in (
            ("fields", "anyOf"),
            ("patterns", "oneOf"),
            ("required fields", "oneOf"),
            ("required fields", "allOf"),
            ("bounds", "anyOf"),
        )
    ],
)
def test_many_items_of_many_alternatives_are_judged_quickly(failing: dict[str, Any], combination: str) -> None:
    def alternative(number: int) -> dict[str, Any]:
        return failing if "minimum" not in failing else {"minimum": 10**9 + number}

    async def run() -> None:
        async with opened() as api:
            is_object, is_text = "required" in failing or "properties" in failing, "pattern" in failing
            item: dict[str, Any] = {"type": "string" if is_text else "integer"}
            if is_object:
                item = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
            alternatives = [alternative(number) for number in range(50)]
            schema = {"type": "array", "items": {**item, combination: alternatives}}
            fitting = {"type": "array", "items": {**item, combination: [*alternatives[1:], {"not": {"enum": [-1]}}]}}
            await define(api, {"properties": {"spec": schema, "status": fitting}})
            values = [{"a": one} if is_object else f"a{one}" if is_text else one for one in range(20_000)]
            code, answer = await ask(api, "POST", THINGS, thing("a", spec=values))
            assert (code, answer["reason"]) == (422, "Invalid")
            assert (
                "some validation rules were not checked because the object was invalid" in answer["message"]
                or "more]" in answer["message"]
            )
            if combination != "allOf":
                assert (await ask(api, "POST", THINGS, thing("a", status=values)))[0] == 201
                assert (await ask(api, "PUT", f"{THINGS}/a", thing("a", status=values[1:])))[0] in (200, 409, 422)

    asyncio.run(run())


def judged(schema: dict[str, Any], tree: Any) -> Findings:
    rules = compile_rules(schema)
    assert rules is not None
    return check_rules(rules, tree)


def test_many_claim_templates_and_spread_constraints_are_judged_quickly() -> None:
    async def run() -> None:
        async with opened() as api:
            await ask(api, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            template: dict[str, Any] = {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            spec: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "serviceName": "s"}
            path = "/apis/apps/v1/namespaces/default/statefulsets"
            spec["volumeClaimTemplates"] = [{}] * 1_000_000
            body: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}}
            for method, where, content_type in (("POST", path, JSON), ("PATCH", f"{path}/a", APPLY)):
                query = {"fieldManager": "m"} if method == "PATCH" else {}
                code, answer = await ask_much(api, method, where, {**body, "spec": spec}, content_type, **query)
                assert (code, answer["message"]) == (500, "etcdserver: request is too large")
            spec["volumeClaimTemplates"] = [{}] * 100_000
            code, answer = await ask(api, "POST", path, {"metadata": {"name": "a"}, "spec": spec})
            assert (code, answer["reason"]) == (422, "Invalid")
            assert "more]" in answer["message"]
            spread = [
                {"maxSkew": 1, "topologyKey": f"k{one}", "whenUnsatisfiable": "DoNotSchedule"} for one in range(20_000)
            ]
            pod: dict[str, Any] = {**template["spec"], "topologySpreadConstraints": [*spread, spread[7]]}
            code, answer = await ask(api, "POST", PODS, {"metadata": {"name": "a"}, "spec": pod})
            assert [cause["field"] for cause in answer["details"]["causes"]] == [
                "spec.topologySpreadConstraints[7].{topologyKey, whenUnsatisfiable}"
            ]

    asyncio.run(run())


_LONG = [
    ("self.all(x, x >= {})", "integer"),
    ("self.all(x, !isIP(string(x)) || x == {})", "integer"),
    ("self.filter(x, x.find('s{}') == 'z').size() >= 0", "string"),
    ("self.all(x, !x.matches('q{}'))", "string"),
    ("self.min() <= self.max() + {}", "integer"),
    ("self.isSorted() || {} > 0", "integer"),
    ("self == self || {} > 0", "object"),
    ("(self + self).size() > {}", "object"),
    ("self.map(x, self + self).size() > {}", "object"),
    ("self.all(x, self == self && {} >= 0)", "object"),
]


@pytest.mark.parametrize(("rule", "kind"), _LONG, ids=[rule for rule, _ in _LONG])
def test_rules_about_long_lists_end_within_a_budget(rule: str, kind: str) -> None:
    items: dict[str, Any] = (
        {"type": kind, "properties": {"a": {"type": "integer"}}} if kind == "object" else {"type": kind}
    )
    schema = {
        "type": "array",
        "items": items,
        "x-kubernetes-validations": [{"rule": rule.format(number)} for number in range(60)],
    }
    values = [{"a": one} if kind == "object" else f"s{one}" if kind == "string" else one for one in range(100_000)]
    with cpu_time_below(SECONDS):
        found = judged(schema, values)
    assert all("cost" in error.detail or "failed rule" in error.detail for error in found.errors), found.errors[:3]


@pytest.mark.parametrize("pattern", ["(a)|(b)", ""])
def test_a_million_matches_of_a_pattern_cost_too_much(pattern: str) -> None:
    schema = {"type": "string", "x-kubernetes-validations": [{"rule": f"self.findAll('{pattern}').size() >= 0"}] * 9}
    with cpu_time_below(SECONDS):
        errors = judged(schema, "a" * 1_000_000).errors
    assert [error.detail for error in errors] == [
        "validation failed due to running out of cost budget, no further validation rules will be run"
    ]
    assert judged(schema, "aä" * 1000).errors == []


@pytest.mark.parametrize(
    "rule", ["1" * 5000 + " == 1", "(" * 20_000, "!" * 100_000 + "true", "self" + ".a" * 5000, "1e999999 > 1.0"]
)
def test_expressions_that_are_too_long_or_large_are_no_internal_error(rule: str) -> None:
    async def run() -> None:
        async with opened() as api:
            spec = {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule}],
            }
            assert (await ask(api, "POST", DEFINITIONS, definition({"properties": {"spec": spec}})))[0] == 422

    asyncio.run(run())


def test_rules_stop_at_many_errors_and_a_configuration_that_no_store_holds_is_refused_first() -> None:
    async def run() -> None:
        async with opened() as api:
            finalizers = [f"wrong {one}" for one in range(100_000)]
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers}}
            code, answer = await ask(api, "POST", MAPS, body)
            assert (code, answer["message"]) == (500, "etcdserver: request is too large")
            code, answer = await ask(api, "PATCH", f"{MAPS}/a", body, APPLY, fieldManager="m")
            assert (code, answer["message"]) == (500, "etcdserver: request is too large")
            body["metadata"] = {"name": "a", "finalizers": finalizers[:20_000]}
            code, answer = await ask(api, "POST", MAPS, body)
            assert (code, answer["reason"]) == (422, "Invalid")
            told = len(answer["details"]["causes"])
            assert answer["message"].endswith(f"and at least {MOST_ERRORS + 1 - told} more]")
            body["metadata"] = {"name": "a", "finalizers": ["example.com/a"] * 20_000}
            code, answer = await ask(api, "PATCH", f"{MAPS}/a", body, APPLY, fieldManager="m")
            assert code == 500
            assert re.search(r"and \d+ more$", answer["message"])

    asyncio.run(run())
