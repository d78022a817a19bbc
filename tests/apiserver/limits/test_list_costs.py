"""Objects with as many items as fit are judged, and told of, in bounded time.

Costs are CPU time of this process: what is guarded against took from ten times as long to for ever.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import MOST_ERRORS
from bayplan.api.kinds import Kind
from bayplan.api.schema import definition_of
from bayplan.apiserver.requests import Request
from tests.apiserver.limits.bounded_requests import (
    APPLY,
    JSON,
    JSON_PATCH,
    MAPS,
    MERGE_PATCH,
    ONE_BODY_SECONDS,
    STRATEGIC_PATCH,
    as_many_as_fit,
    ask,
    ask_much,
)
from tests.apiserver.limits.large_objects import METADATA_OF, Measured, base_objects, collections, kinds
from tests.apiserver.serving import ADMIN, opened
from tests.cpu_time import assert_below, cpu_time_below

VERBS_OF_TEST = ("update", "strategic")


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
