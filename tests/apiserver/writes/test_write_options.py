"""Options of writes and of requests, and who is recorded as the writer on less usual ways in."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened

MAPS = "/api/v1/namespaces/default/configmaps"
JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
MAP = {"metadata": {"name": "c"}}


async def send(
    api: ApiServer, method: str, path: str, body: Any = None, media_type: str = JSON, **query: str
) -> tuple[int, dict[str, Any]]:
    data = b"" if body is None else msgspec.json.encode(body)
    response = await api.handle(Request(method, path, query, ADMIN, data, media_type, user_agent="tester/1"))
    return response.code, msgspec.json.decode(response.body)


def answered(method: str, path: str, body: Any, media_type: str = JSON, **query: str) -> tuple[int, dict[str, Any]]:
    async def run() -> tuple[int, dict[str, Any]]:
        async with opened() as api:
            return await send(api, method, path, body, media_type, **query)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {"fieldManager": "a" * 129},
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            {"fieldManager": "a\nb"},
            r'fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)',
        ),
        ({"dryRun": "x"}, 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        (
            {"fieldValidation": "x"},
            'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "kind"), [("POST", MAPS, "CreateOptions"), ("PUT", f"{MAPS}/c", "UpdateOptions")]
)
def test_options_that_are_wrong(method: str, path: str, kind: str, query: dict[str, str], said: str) -> None:
    code, body = answered(method, path, MAP, **query)
    assert (code, body["message"]) == (422, f'{kind}.meta.k8s.io "" is invalid: {said}')


@pytest.mark.parametrize(
    ("media_type", "query", "said"),
    [
        (APPLY, {}, "fieldManager: Required value: is required for apply patch"),
        (MERGE, {"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_options_of_patches(media_type: str, query: dict[str, str], said: str) -> None:
    code, body = answered("PATCH", f"{MAPS}/c", {}, media_type, **query)
    assert (code, body["message"]) == (422, f'PatchOptions.meta.k8s.io "" is invalid: {said}')


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1", 'missing unit in duration "1"'),
        ("x", 'invalid duration "x"'),
        ("1y", 'unknown unit "y" in duration "1y"'),
        ("1h2", 'missing unit in duration "1h2"'),
    ],
)
def test_a_timeout_is_a_duration(given: str, said: str) -> None:
    code, body = answered("GET", MAPS, None, timeout=given)
    assert (code, body["message"]) == (400, f"invalid timeout specified in the request URL - time: {said}")
    for fine in ("1m30s", "0", ".5s", "-1h"):
        assert answered("GET", MAPS, None, timeout=fine)[0] == 200


def test_what_only_the_server_sets_is_taken_out_of_new_objects() -> None:
    given = {"name": "c", "uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}
    code, body = answered("POST", MAPS, {"metadata": {**given, "deletionTimestamp": "2020-01-01T00:00:00Z"}})
    assert code == 201
    metadata = body["metadata"]
    assert metadata.keys() == {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}
    assert metadata["uid"] != "x"
    assert not metadata["creationTimestamp"].startswith("2020")


def owned(tree: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """What each manager owns, by manager and subresource."""
    entries = tree["metadata"].get("managedFields", [])
    return {(one["manager"], one.get("subresource", "")): one["fieldsV1"] for one in entries}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {"metadata": {"name": "r"}, "rules": []},
            {"f:rules": {}},
        ),
        (
            "/apis/storage.k8s.io/v1/csinodes",
            {"metadata": {"name": "n"}, "spec": {"drivers": []}},
            {"f:spec": {"f:drivers": {}}},
        ),
    ],
)
def test_a_list_that_is_given_as_empty_is_owned(path: str, body: dict[str, Any], field: dict[str, Any]) -> None:
    code, made = answered("POST", path, body)
    assert code == 201
    assert owned(made) == {("tester", ""): field}


def test_who_scales_owns_the_replicas() -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}

    async def run() -> None:
        async with opened() as api:
            assert (await send(api, "POST", deployments, {"metadata": {"name": "d"}, "spec": spec}))[0] == 201
            way = f"{deployments}/d/scale"
            change = {"spec": {"replicas": 3}}
            assert (await send(api, "PATCH", way, change, MERGE, fieldManager="scaler"))[0] == 200
            managers = owned((await send(api, "GET", f"{deployments}/d"))[1])
            assert managers[("scaler", "scale")] == {"f:spec": {"f:replicas": {}}}
            assert "f:replicas" not in managers[("tester", "")]["f:spec"]
            scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, **change}
            code, refused = await send(
                api, "PATCH", way, {**scale, "spec": {"replicas": 4}}, APPLY, fieldManager="other"
            )
            assert code == 409
            assert (
                'conflict with "scaler" with subresource "scale" using autoscaling/v1: .spec.replicas'
                in (refused["message"])
            )

    asyncio.run(run())


def test_the_server_manages_the_status_that_it_keeps() -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"

    async def run() -> None:
        async with opened() as api:
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}}
            assert (await send(api, "POST", quotas, quota))[0] == 201
            status = {"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}}
            assert (await send(api, "PATCH", f"{quotas}/q/status", status, MERGE))[0] == 200
            assert (await send(api, "POST", MAPS, MAP))[0] == 201
            managers = owned((await send(api, "GET", f"{quotas}/q"))[1])
            assert managers[("kube-apiserver", "status")] == {"f:status": {"f:used": {"f:configmaps": {}}}}

    asyncio.run(run())


def test_an_eviction_is_counted_by_the_server() -> None:
    budgets, pods = "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "/api/v1/namespaces/default/pods"

    async def run() -> None:
        async with opened() as api:
            await send(api, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            spec = {"containers": [{"name": "c", "image": "i"}]}
            made = await send(api, "POST", pods, {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
            assert made[0] == 201
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            assert (await send(api, "PATCH", f"{pods}/p/status", ready, MERGE))[0] == 200
            budget = {
                "metadata": {"name": "b"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            }
            assert (await send(api, "POST", budgets, budget))[0] == 201
            counts = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
            status = {"status": {**counts, "observedGeneration": 1}}
            assert (await send(api, "PATCH", f"{budgets}/b/status", status, MERGE))[0] == 200
            assert (await send(api, "POST", f"{pods}/p/eviction", {"metadata": {"name": "p"}}))[0] == 201
            managers = owned((await send(api, "GET", f"{budgets}/b"))[1])
            assert managers[("kube-apiserver", "status")]["f:status"].keys() == {
                "f:conditions",
                "f:disruptedPods",
                "f:disruptionsAllowed",
            }

    asyncio.run(run())


def test_api_services_of_the_server_itself_are_available_at_once() -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    code, made = answered("POST", path, {"metadata": {"name": "v1.a.example.com"}, "spec": spec})
    assert code == 201
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]
    assert [subresource for _, subresource in owned(made)] == [""]


def test_a_collection_may_be_deleted_page_by_page() -> None:
    async def run() -> None:
        async with opened() as api:
            for name in "abc":
                assert (await send(api, "POST", MAPS, {"metadata": {"name": name}}))[0] == 201
            code, deleted = await send(api, "DELETE", MAPS, limit="1")
            assert (code, [one["metadata"]["name"] for one in deleted["items"]]) == (200, ["a"])
            assert deleted["metadata"]["remainingItemCount"] == 2
            token = deleted["metadata"]["continue"]
            _, rest = await send(api, "DELETE", MAPS, **{"continue": token, "limit": "1"})
            assert [one["metadata"]["name"] for one in rest["items"]] == ["b"]
            _, left = await send(api, "GET", MAPS)
            assert [one["metadata"]["name"] for one in left["items"]] == ["c"]

    asyncio.run(run())
