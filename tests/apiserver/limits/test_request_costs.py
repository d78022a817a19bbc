"""What a client can send costs bounded time, and is never answered with an internal error.

Costs are CPU time of this process: what is guarded against took from ten times as long to for ever.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from bayplan.api.custom_resources.rule_compilation import compile_rules
from bayplan.api.custom_resources.rules import Findings, check_rules
from bayplan.api.errors import MAX_ERROR_BYTES, MOST_ERRORS
from bayplan.api.json.nesting import MAX_DEPTH
from bayplan.api.kinds import Kind
from bayplan.api.schema import definition_of
from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.limits.large_objects import METADATA_OF, Measured, base_objects, collections, kinds
from tests.apiserver.serving import ADMIN, opened
from tests.cpu_time import assert_below, cpu_time_below

SECONDS = 4.0
ONE_BODY_SECONDS = 2.0
"""What one request may cost whose body is as large as bodies may be."""
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


async def ask(
    api: ApiServer, method: str, path: str, body: Any = b"", content_type: str = JSON, accept: str = "", **query: str
) -> tuple[int, dict[str, Any]]:
    """Status code and answer of a request, which costs less than the limit."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with cpu_time_below(SECONDS):
        response = await api.handle(Request(method, path, query, ADMIN, data, content_type, accept))
    answer = response.whole_body()
    if response.watcher is not None:
        response.watcher.close()
    return response.code, json.loads(answer) if answer[:1] == b"{" else {}


async def ask_much(
    api: ApiServer, method: str, path: str, body: Any, content_type: str = JSON, **query: str
) -> tuple[int, dict[str, Any]]:
    """Status code and answer of one request with a body as large as bodies may be."""
    with cpu_time_below(ONE_BODY_SECONDS):
        return await ask(api, method, path, body, content_type, **query)


def as_many_as_fit(item: Callable[[int], Any], size: int = 3_100_000) -> Iterator[Any]:
    """Numbered items, as many as make up a number of bytes as JSON: a body holds 3 MiB."""
    for index in itertools.count():
        made = item(index)
        size -= len(msgspec.json.encode(made)) + 1
        if size < 0:
            return
        yield made


def definition(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A definition of things."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


async def define(api: ApiServer, schema: Mapping[str, Any]) -> None:
    """Serve things of a schema."""
    assert (await ask(api, "POST", DEFINITIONS, definition(schema)))[0] == 201
    for _ in range(200):
        if (await ask(api, "GET", THINGS))[0] == 200:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("things are not served")


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, **fields}


VERBS_OF_TEST = ("update", "strategic")

FREE = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("method", "path", "content_type", "code", "message"),
    [
        ("POST", MAPS, JSON, 400, "couldn't get version/kind; json parse error: exceeded max depth"),
        ("POST", MAPS, YAML, 400, "yaml: exceeded max depth of 128"),
        ("PATCH", f"{MAPS}/a", JSON_PATCH, 400, "error decoding patch: exceeded max depth"),
        ("PATCH", f"{MAPS}/a", MERGE_PATCH, 400, "error decoding patch: exceeded max depth"),
        ("PATCH", f"{MAPS}/a", STRATEGIC_PATCH, 400, "exceeded max depth"),
        ("PATCH", f"{MAPS}/a", APPLY, 400, "yaml: exceeded max depth of 128"),
        ("DELETE", f"{MAPS}/a", JSON, 400, "exceeded max depth"),
    ],
)
@pytest.mark.parametrize("opened_by", [b"[", b'{"a":'])
def test_deep_bodies_are_refused(
    method: str, path: str, content_type: str, code: int, message: str, opened_by: bytes
) -> None:
    async def run() -> None:
        async with opened() as api:
            await ask(api, "POST", MAPS, {"metadata": {"name": "a"}})
            body = (
                b'{"data":' + opened_by * 400_000
                if method != "PATCH" or content_type != JSON_PATCH
                else opened_by * 400_000
            )
            answer = await ask(api, method, path, body, content_type, fieldManager="m")
            assert answer[0] == code
            assert message in answer[1]["message"]

    asyncio.run(run())


def test_objects_of_the_greatest_depth_go_through_every_step() -> None:
    async def run() -> None:
        async with opened() as api:
            await define(api, FREE)
            deep: Any = "x"
            for _ in range(MAX_DEPTH - 1):
                deep = {"a": deep}
            body = thing("deep", spec=deep)
            assert (await ask(api, "POST", THINGS, body))[0] == 201
            assert (await ask(api, "PATCH", f"{THINGS}/deep", {"spec": deep}, MERGE_PATCH))[0] == 200
            for manager in ("one", "two"):
                query = {"fieldManager": manager, "force": "true"}
                assert (await ask(api, "PATCH", f"{THINGS}/deep", body, APPLY, **query))[0] == 200
            for accept in (YAML, "application/json;as=Table;g=meta.k8s.io;v=v1"):
                assert (await ask(api, "GET", f"{THINGS}/deep", accept=accept))[0] == 200
            assert (await ask(api, "POST", THINGS, thing("deeper", spec={"a": deep})))[0] == 400

    asyncio.run(run())


def test_alias_bombs_are_refused() -> None:
    async def run() -> None:
        async with opened() as api:
            lines = [b"a: &a [x,x,x,x,x,x,x,x,x]"]
            lines += [b"%c: &%c [%b]" % (name, name, b",".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefghi"]
            for method, path, content_type in (("POST", MAPS, YAML), ("PATCH", f"{MAPS}/a", APPLY)):
                code, answer = await ask(api, method, path, b"\n".join(lines), content_type, fieldManager="m")
                assert code == 400
                assert "document contains excessive aliasing" in answer["message"]

    asyncio.run(run())


def test_json_patches_that_copy_too_much_are_refused() -> None:
    async def run() -> None:
        async with opened() as api:
            await define(api, FREE)
            await ask(api, "POST", THINGS, thing("a"))
            doubling: list[Any] = [{"op": "add", "path": "/x", "value": {"y": "z" * 1000}}]
            doubling += [{"op": "copy", "from": "/x", "path": f"/x/k{number}"} for number in range(30)]
            deepening: list[Any] = [{"op": "add", "path": "/x", "value": {"y": 1}}]
            deepening += [{"op": "copy", "from": "/x", "path": "/x" + "/y" * level} for level in range(1, 300)]
            for patch in (doubling, deepening):
                code, answer = await ask(api, "PATCH", f"{THINGS}/a", patch, JSON_PATCH)
                assert (code, answer["reason"]) == (422, "Invalid")
                assert answer["message"] == "the server rejected our request due to an error in our request"
            some = [{"op": "add", "path": "/x", "value": ["z" * 1000]}, {"op": "copy", "from": "/x", "path": "/y"}]
            assert (await ask(api, "PATCH", f"{THINGS}/a", some, JSON_PATCH))[0] == 200
            tests = [{"op": "test", "path": "/kind", "value": "Thing"}]
            assert (await ask(api, "PATCH", f"{THINGS}/a", tests * 10_001, JSON_PATCH))[0] == 413

    asyncio.run(run())


def test_thousands_of_owners_are_told_in_short() -> None:
    async def run() -> None:
        async with opened() as api:
            owners = [
                {"apiVersion": "v1", "kind": "Pod", "name": f"n{one}", "uid": f"u{one}", "controller": True}
                for one in range(20_000)
            ]
            code, answer = await ask(api, "POST", MAPS, {"metadata": {"name": "a", "ownerReferences": owners}})
            assert (code, answer["reason"]) == (422, "Invalid")
            assert answer["message"].endswith("and at least 10000 more]")
            assert len(answer["details"]["causes"]) == 1
            same = {"metadata": {"name": "b", "ownerReferences": [{**owners[0], "controller": False}] * 20_000}}
            assert len((await ask(api, "POST", MAPS, same))[1]["metadata"]["ownerReferences"]) == 1

    asyncio.run(run())


def test_thousands_of_values_outside_a_long_enum_are_told_in_short() -> None:
    async def run() -> None:
        async with opened() as api:
            allowed = [f"value-{number:04d}" for number in range(2000)]
            await define(api, {"properties": {"spec": {"type": "array", "items": {"type": "string", "enum": allowed}}}})
            code, answer = await ask(api, "POST", THINGS, thing("a", spec=[f"wrong-{one}" for one in range(5000)]))
            assert (code, answer["reason"]) == (422, "Invalid")
            assert len(json.dumps(answer)) < 2 * MAX_ERROR_BYTES
            assert answer["details"]["causes"][0]["message"].endswith('"value-1998", "value-1999"')
            assert "more]" in answer["message"]
            code, answer = await ask(api, "POST", THINGS, thing("a", spec=["wrong", allowed[5]]))
            assert [cause["field"] for cause in answer["details"]["causes"]] == ["spec[0]"]

    asyncio.run(run())


NUMBERS = ("1" * 400, "1" * 4299, "-" + "1" * 4301, "1" * 100_000, "1e400", "1e9999999", "0." + "1" * 5000, "-0")


@pytest.mark.parametrize("number", NUMBERS, ids=[f"{one[:9]} of {len(one)} letters" for one in NUMBERS])
def test_numbers_of_any_size_are_no_internal_error(number: str) -> None:
    async def run() -> None:
        async with opened() as api:
            await define(api, {**FREE, "properties": {"i": {"type": "integer"}, "n": {"type": "number"}}})
            await ask(api, "POST", THINGS, thing("t"))
            head = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t%d"},' % len(number)
            sent = number.encode()
            bodies = [
                ("POST", THINGS, head + b'"i":%b}' % sent, JSON),
                ("POST", THINGS, head + b'"x":[%b]}' % sent, JSON),
                ("POST", THINGS, head + b'"x":[%b]}' % sent, YAML),
                ("PATCH", f"{THINGS}/t", b'{"x":%b}' % sent, MERGE_PATCH),
                ("PATCH", f"{THINGS}/t", b'[{"op":"add","path":"/x","value":%b}]' % sent, JSON_PATCH),
                ("PATCH", f"{THINGS}/t", head.replace(b"t%d" % len(number), b"t") + b'"x":%b}' % sent, APPLY),
                ("DELETE", f"{THINGS}/nosuch", b'{"gracePeriodSeconds":%b}' % sent, JSON),
                ("POST", PODS, b'{"spec":{"containers":[{"resources":{"limits":{"cpu":%b}}}]}}' % sent, JSON),
                ("POST", "/apis/apps/v1/namespaces/default/controllerrevisions", b'{"data":{"a":%b}}' % sent, JSON),
                ("POST", MAPS, b'{"metadata":{"managedFields":[{"fieldsV1":{"f:a":%b}}]}}' % sent, JSON),
                ("POST", MAPS, b'{"metadata":{"name":"a","unknown":%b}}' % sent, JSON),
            ]
            for method, path, body, content_type in bodies:
                for validation in ("Warn", "Strict"):
                    query = {"fieldManager": "m", "fieldValidation": validation}
                    code, _ = await ask(api, method, path, body, content_type, **query)
                    assert code < 500, (method, path, content_type)

    asyncio.run(run())


def test_a_number_that_fits_nowhere_is_refused_in_the_words_of_go() -> None:
    async def run() -> None:
        async with opened() as api:
            body = b'{"metadata":{"name":"d"},"spec":{"replicas":%b}}' % (b"1" * 5000)
            code, answer = await ask(api, "POST", "/apis/apps/v1/namespaces/default/deployments", body)
            assert code == 400
            assert answer["message"].endswith("into Go struct field DeploymentSpec.spec.replicas of type int32")

    asyncio.run(run())


@pytest.mark.parametrize(
    "text", ["9" * 5000, "-" + "9" * 5000, "1e400", "0x10", "1_0", "٣", "", "99999999999999999999"]
)
def test_numbers_in_queries_are_no_internal_error(text: str) -> None:
    async def run() -> None:
        async with opened() as api:
            for name in ("limit", "timeoutSeconds", "gracePeriodSeconds", "resourceVersion", "continue"):
                code, answer = await ask(api, "GET", MAPS, **{name: text})
                assert code in (200, 400, 410, 504), (name, answer)
                code, answer = await ask(api, "DELETE", f"{MAPS}/a", **{name: text})
                assert code in (400, 404, 422), (name, answer)
            for name in ("sinceSeconds", "tailLines", "limitBytes"):
                assert (await ask(api, "GET", f"{PODS}/a/log", **{name: text}))[0] in (400, 404, 422)
            pointer = [{"op": "add", "path": f"/items/{text}", "value": 1}]
            await ask(api, "POST", MAPS, {"metadata": {"name": "a"}})
            assert (await ask(api, "PATCH", f"{MAPS}/a", pointer, JSON_PATCH))[0] == 422

    asyncio.run(run())


TIMES = (
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.000000-24:00",
    "0000-01-01T00:00:00.000000+24:00",
    "0001-01-01T00:00:00.000000Z",
)


def test_the_highest_generation_is_followed_by_the_lowest() -> None:
    """As in Go. Kinds whose generation the server does not count keep what a client says."""

    async def run() -> None:
        async with opened() as api:
            body = {"metadata": {"name": "a", "generation": 2**63 - 1, "finalizers": ["example.com/a"]}}
            assert (await ask(api, "POST", MAPS, body))[0] == 201
            code, answer = await ask(api, "DELETE", f"{MAPS}/a")
            assert (code, answer["metadata"]["generation"]) == (200, -(2**63))
            assert (await ask(api, "POST", MAPS, body))[0] == 409
            assert (await ask(api, "GET", MAPS))[1]["items"][0]["metadata"]["generation"] == -(2**63)

    asyncio.run(run())


@pytest.mark.parametrize("moment", TIMES)
def test_times_at_the_ends_of_time_are_accepted_and_shown(moment: str) -> None:
    async def run() -> None:
        async with opened() as api:
            leases, events = (
                "/apis/coordination.k8s.io/v1/namespaces/default/leases",
                "/api/v1/namespaces/default/events",
            )
            lease = {"metadata": {"name": "a"}, "spec": {"renewTime": moment, "leaseDurationSeconds": 2**31 - 1}}
            assert (await ask(api, "POST", leases, lease))[0] == 201
            event = {"involvedObject": {"namespace": "default"}, "firstTimestamp": moment, "lastTimestamp": moment}
            assert (await ask(api, "POST", events, {"metadata": {"name": "a"}, **event}))[0] == 201
            for path in (leases, events):
                for form in (
                    "application/json;as=Table;g=meta.k8s.io;v=v1",
                    "application/vnd.kubernetes.protobuf",
                    YAML,
                ):
                    assert (await ask(api, "GET", path, accept=form))[0] == 200

    asyncio.run(run())


def test_the_longest_grace_period_is_no_internal_error() -> None:
    async def run() -> None:
        async with opened() as api:
            await ask(api, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
            assert (await ask(api, "POST", PODS, {"metadata": {"name": "a"}, "spec": spec}))[0] == 201
            for seconds in (2**63 - 1, 2**62):
                code, answer = await ask(api, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": seconds})
                assert (code, answer["metadata"]["deletionTimestamp"]) == (200, "9999-12-31T23:59:59Z")

    asyncio.run(run())


def test_selectors_of_many_requirements_are_judged_quickly() -> None:
    async def run() -> None:
        async with opened() as api:
            for number in range(300):
                await ask(api, "POST", MAPS, {"metadata": {"name": f"m{number}", "labels": {"a": str(number)}}})
            labels = ",".join(f"k{number}!=v,a!=x{number}" for number in range(20_000))
            assert len((await ask(api, "GET", MAPS, labelSelector=labels))[1]["items"]) == 300
            assert len((await ask(api, "GET", MAPS, labelSelector=labels + ",a in (1,2)"))[1]["items"]) == 2
            fields = ",".join(f"metadata.name!=m{number}" for number in range(1, 20_000))
            assert len((await ask(api, "GET", MAPS, fieldSelector=fields))[1]["items"]) == 1
            deep = base64.urlsafe_b64encode(b'{"v":' + b"[" * 100_000).decode()
            assert (await ask(api, "GET", MAPS, **{"continue": deep}))[0] == 400

    asyncio.run(run())


def test_thousands_of_managers_are_joined_quickly() -> None:
    async def run() -> None:
        async with opened() as api:
            entry = {
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "time": "2026-01-01T00:00:00Z",
            }
            managers = [
                {**entry, "manager": f"m{one:04}", "fieldsV1": {"f:data": {f"f:k{one}": {}}}} for one in range(8000)
            ]
            body = {"metadata": {"name": "a", "managedFields": managers}}
            assert (await ask(api, "POST", MAPS, body))[0] == 201
            code, answer = await ask(api, "PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"b": "c"}})
            assert code == 200
            found = {one["manager"]: one["fieldsV1"]["f:data"] for one in answer["metadata"]["managedFields"]}
            assert len(found) == 10
            assert len(found["ancient-changes"]) == 7992

    asyncio.run(run())


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


@pytest.mark.parametrize(
    "kind", [kind for kind in kinds() if kind.kind not in ("Pod", "CustomResourceDefinition")], ids=str
)
def test_long_lists_of_any_kind_cost_time_in_proportion(kind: Kind) -> None:
    async def run() -> None:
        base = base_objects().get(f"{kind.api_version} {kind.kind}") or {"metadata": {"name": "n"}}
        skip = frozenset(("spec.template.spec", "spec.jobTemplate", "template.spec"))
        skip |= frozenset(() if kind.kind == METADATA_OF else ("metadata",))
        async with opened() as api:
            measured = Measured(api, kind)
            for collection in collections(definition_of(kind.type), skip=skip):
                if len(collection.path) <= 2:
                    for cost in await measured.costs(
                        base, collection, 30_000, variants=("equal", "distinct"), verbs=VERBS_OF_TEST
                    ):
                        assert_below(cost.seconds, 1, str(cost))
                        assert cost.code < 500 or cost.verb == "apply", str(cost)

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


CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"


@pytest.mark.parametrize(
    ("minutes", "problem"),
    [
        ("1" * 1_000_000, "value out of range"),
        ("*/" + "9" * 1_000_000, "value out of range"),
        ("0" * 5000 + "99", "above maximum (59)"),
    ],
    ids=["a minute", "a step", "leading zeros"],
)
def test_schedules_with_millions_of_digits_are_no_internal_error(minutes: str, problem: str) -> None:
    async def run() -> None:
        async with opened() as api:
            pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            spec = {"schedule": f"{minutes} * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
            code, answer = await ask(api, "POST", CRON_JOBS, {"metadata": {"name": "a"}, "spec": spec})
            assert (code, answer["reason"]) == (422, "Invalid")
            assert problem in answer["message"]

    asyncio.run(run())


POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
SERVICES = "/api/v1/namespaces/default/services"
NETWORKS: dict[str, tuple[str, Callable[[int], str]]] = {
    "IPv4": ("10.0.0.0/8", lambda one: f"10.{one >> 16}.{one >> 8 & 255}.{one & 255}/32"),
    "IPv6 in capitals": ("2001:db8::/32", lambda one: f"2001:DB8::{one >> 16:x}:{one & 0xFFFF:x}/128"),
    "IPv6 that ends as IPv4": ("::/0", lambda one: f"::1.{one >> 16}.{one >> 8 & 255}.{one & 255}/128"),
}


@pytest.mark.parametrize(("whole", "part"), NETWORKS.values(), ids=NETWORKS.keys())
def test_as_many_networks_as_fit_are_judged_quickly(whole: str, part: Callable[[int], str]) -> None:
    async def run() -> None:
        async with opened() as api:
            parts = list(as_many_as_fit(part))
            block = {"cidr": whole, "except": parts}
            policy = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
            service = {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": parts}
            for path, spec, less in (
                (POLICIES, policy, {"podSelector": {}}),
                (SERVICES, service, {**service, "loadBalancerSourceRanges": []}),
            ):
                body: dict[str, Any] = {"metadata": {"name": "a"}, "spec": less}
                assert (await ask(api, "POST", path, body))[0] == 201
                writes = [("POST", path), ("PUT", f"{path}/a")]
                for method, where in writes if whole == NETWORKS["IPv4"][0] else writes[:1]:  # the rules are the same
                    code, answer = await ask_much(api, method, where, {**body, "spec": spec})
                    assert (code, answer["message"]) == (500, "etcdserver: request is too large")

    asyncio.run(run())


def test_networks_outside_of_another_are_told_in_short() -> None:
    async def run() -> None:
        async with opened() as api:
            parts = list(as_many_as_fit(NETWORKS["IPv4"][1]))
            spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/16", "except": parts}}]}]}
            code, answer = await ask_much(api, "POST", POLICIES, {"metadata": {"name": "a"}, "spec": spec})
            assert (code, answer["reason"]) == (422, "Invalid")
            assert answer["details"]["causes"][0]["field"] == "spec.ingress[0].from[0].ipBlock.except[65536]"

    asyncio.run(run())


def test_as_many_equal_items_of_a_set_as_fit_are_told_in_short() -> None:
    async def run() -> None:
        async with opened() as api:
            count = 1_550_000
            rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1] * count}}
            pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
            body["spec"] = {"template": {"spec": pod}, "podFailurePolicy": {"rules": [rule]}}
            path = "/apis/batch/v1/namespaces/default/jobs/a"
            code, answer = await ask_much(api, "PATCH", path, body, APPLY, fieldManager="m")
            assert code == 500
            lines = answer["message"].splitlines()
            where = ".spec.podFailurePolicy.rules[0].onExitCodes.values"
            assert lines[1] == f"  {where}: duplicate entries for key [=1]"
            assert lines[-1] == f"  and {count - 1 - (len(lines) - 2)} more"

    asyncio.run(run())


def test_as_many_address_families_as_fit_are_told_in_short() -> None:
    async def run() -> None:
        async with opened() as api:
            spec = {"ports": [{"port": 80}], "ipFamilies": ["n1"] * 620_000}
            with cpu_time_below(ONE_BODY_SECONDS / 2):
                code, answer = await ask(api, "POST", SERVICES, {"metadata": {"name": "a"}, "spec": spec})
            assert (code, answer["reason"]) == (422, "Invalid")
            told = len(answer["details"]["causes"])
            assert answer["message"].endswith(f"and at least {MOST_ERRORS + 1 - told} more]")

    asyncio.run(run())


def test_a_selector_of_as_many_labels_as_fit_is_judged_quickly() -> None:
    async def run() -> None:
        async with opened() as api:
            labels = {f"n{one}": "n" for one in range(210_000)}
            pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            spec = {"template": {"spec": pod}, "selector": {"matchLabels": labels}}
            jobs = "/apis/batch/v1/namespaces/default/jobs"
            code, answer = await ask_much(api, "POST", jobs, {"metadata": {"name": "a"}, "spec": spec})
            assert (code, answer["reason"]) == (422, "Invalid")
            assert "`selector` not auto-generated" in answer["message"]

    asyncio.run(run())


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_success_policy_of_as_many_rules_as_fit_is_told_quickly(method: str) -> None:
    async def run() -> None:
        async with opened() as api:
            jobs, count = "/apis/batch/v1/namespaces/default/jobs", 1_000_000
            pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            body: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
            spec: dict[str, Any] = {"template": {"spec": pod}}
            path = jobs if method == "POST" else f"{jobs}/a"
            if method != "POST":
                answer = (await ask(api, "POST", jobs, {**body, "spec": spec}))[1]
                spec, body["metadata"] = answer["spec"], {"name": "a", "labels": answer["metadata"]["labels"]}
            changed = {**body, "spec": {**spec, "successPolicy": {"rules": [{}] * count}}}
            query = {"fieldManager": "m", "force": "true"} if method == "PATCH" else {}
            data = msgspec.json.encode(changed)
            with cpu_time_below(ONE_BODY_SECONDS):
                response = await api.handle(
                    Request(method, path, query, ADMIN, data, APPLY if method == "PATCH" else JSON)
                )
            status = json.loads(response.whole_body())
            assert (response.code, status["reason"]) == (422, "Invalid")
            (cause,) = status["details"]["causes"]
            assert cause["field"] == "spec.successPolicy"
            rules = ",".join(['{"SucceededIndexes":null,"SucceededCount":null}'] * count)
            assert cause["message"] == f'Invalid value: {{"Rules":[{rules}]}}: requires indexed completion mode'

    asyncio.run(run())


@pytest.mark.parametrize(("size", "code"), [(1_200_000, 201), (2_400_000, 500)], ids=["kept", "too many to keep"])
def test_a_node_of_many_conditions_is_applied_quickly(size: int, code: int) -> None:
    async def run() -> None:
        async with opened() as api:
            conditions = list(as_many_as_fit(lambda one: {"type": f"n{one}"}, size))
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "a", "labels": {"a": "b"}},
                "status": {"conditions": conditions},
            }
            found, answer = await ask_much(api, "PATCH", "/api/v1/nodes/a", body, APPLY, fieldManager="m")
            assert found == code
            if code == 500:
                assert answer["message"] == "etcdserver: request is too large"
            else:
                assert len(answer["status"]["conditions"]) == len(conditions)
                (entry,) = answer["metadata"]["managedFields"]
                assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {"f:a": {}}}}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("member", "content_type"),
    [
        ("finalizers", STRATEGIC_PATCH),
        ("finalizers", MERGE_PATCH),
        ("finalizers", JSON_PATCH),
        ("imagePullSecrets", STRATEGIC_PATCH),
    ],
)
def test_patches_of_long_lists_in_large_objects_are_quick(content_type: str, member: str) -> None:
    async def run() -> None:
        async with opened() as api:
            path = "/apis/apps/v1/namespaces/default/deployments"

            def template(count: int) -> dict[str, Any]:
                metadata: dict[str, Any] = {"labels": {"a": "b"}}
                pod: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
                if member == "finalizers":
                    metadata["finalizers"] = [f"n{one}" for one in range(count)]
                else:
                    pod["imagePullSecrets"] = [{"name": f"n{one}"} for one in range(count)]
                return {"metadata": metadata, "spec": pod}

            spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template(30_000)}
            assert (await ask(api, "POST", path, {"metadata": {"name": "a"}, "spec": spec}))[0] == 201
            wanted = template(120_000)
            body: Any = {"spec": {"template": wanted}}
            if content_type == JSON_PATCH:
                body = [{"op": "replace", "path": "/spec/template", "value": wanted}]
            code, answer = await ask_much(api, "PATCH", f"{path}/a", body, content_type, dryRun="All")
            found = answer["spec"]["template"]
            values = found["metadata" if member == "finalizers" else "spec"][member]
            assert (code, len(values)) == (200, 120_000)
            owned = json.dumps([entry["fieldsV1"] for entry in answer["metadata"]["managedFields"]])
            assert "n119999" in owned

    asyncio.run(run())
