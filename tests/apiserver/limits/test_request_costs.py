"""What a client can send costs bounded time, and is never answered with an internal error.

Costs are CPU time of this process: what is guarded against took from ten times as long to for ever.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.api.errors import MAX_ERROR_BYTES
from bayplan.api.json import decode_problems
from bayplan.api.json.decode_problems import first_problem_of
from bayplan.api.json.nesting import MAX_DEPTH
from tests.apiserver.limits.bounded_requests import (
    APPLY,
    JSON,
    JSON_PATCH,
    MAPS,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    THINGS,
    YAML,
    ask,
    define,
    thing,
)
from tests.apiserver.serving import opened

NO_TEXT = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
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


@pytest.mark.parametrize(
    ("content_type", "patch", "words"),
    [
        (MERGE_PATCH, {"data": {"a": 1}}, NO_TEXT),
        (JSON_PATCH, [{"op": "add", "path": "/data/a", "value": 1}], NO_TEXT),
        (STRATEGIC_PATCH, {"data": {"a": 1}}, "cannot convert int64 to string"),
    ],
)
def test_what_a_patch_spoils_is_put_into_words_at_most_once(
    content_type: str, patch: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bytes] = []

    def counted(definition: str, data: bytes) -> str | None:
        looks.append(data)
        return first_problem_of(definition, data)

    monkeypatch.setattr(decode_problems, "first_problem_of", counted)

    async def run() -> None:
        async with opened() as api:
            await ask(api, "POST", MAPS, {"metadata": {"name": "a"}, "data": {"b": "c"}})
            code, answer = await ask(api, "PATCH", f"{MAPS}/a", patch, content_type)
            assert (code, answer["reason"]) == (422, "Invalid")
            assert answer["message"].endswith(words)

    asyncio.run(run())
    assert len(looks) <= 1


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
