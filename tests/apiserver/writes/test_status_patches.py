"""Patches of a status by way of `status`: alone, they leave the rest of the object untouched and unread, and mean the same as with the rest named."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from bayplan.api.codec import to_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import MERGE_PATCH, STRATEGIC_PATCH
from tests.apiserver.serving import client_of, opened

PATH = "/api/v1/namespaces/default/pods/{}/status"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
TARGET = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
PATCHES: list[tuple[str, dict[str, Any]]] = [
    (STRATEGIC_PATCH, {"status": {"conditions": [TARGET], "phase": "Running"}}),
    (STRATEGIC_PATCH, {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
    (STRATEGIC_PATCH, {"status": {"$patch": "replace", "phase": "Failed"}}),
    (STRATEGIC_PATCH, {"status": {"nominatedNodeName": "n1"}}),
    (STRATEGIC_PATCH, {"status": None}),
    (MERGE_PATCH, {"status": {"conditions": [TARGET], "message": "gone"}}),
    (MERGE_PATCH, {"status": {"conditions": None}}),
]


async def new_pod(client: Client, name: str) -> core_v1.Pod:
    """A pod that is ready."""
    spec = core_v1.PodSpec(containers=(core_v1.Container(name="app", image="app:1"),))
    metadata = meta_v1.ObjectMeta(name=name, namespace="default", labels={"app": "web"})
    await client.create(core_v1.Pod(metadata=metadata, spec=spec))
    await patch(client, name, STRATEGIC_PATCH, {"status": {"conditions": [READY], "podIP": "10.1.0.1"}})
    return await client.get(core_v1.Pod, name, "default")


async def patch(client: Client, name: str, content_type: str, body: Any) -> None:
    await client.raw("PATCH", PATH.format(name), {}, json.dumps(body).encode(), content_type)


async def ready_pod(client: Client, name: str) -> core_v1.Pod:
    account = core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
    await client.create(account)
    return await new_pod(client, name)


def tree_without_identity(pod: core_v1.Pod) -> Any:
    tree = to_tree(pod)
    for name in ("name", "uid", "resourceVersion", "creationTimestamp"):
        del tree["metadata"][name]
    for entry in tree["metadata"]["managedFields"]:
        del entry["time"]
    tree["spec"]["volumes"] = tree["spec"]["containers"][0]["volumeMounts"] = []  # with names made at random
    return tree


@pytest.mark.parametrize(("content_type", "body"), PATCHES)
def test_a_status_alone_is_patched_as_with_the_rest(content_type: str, body: dict[str, Any]) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await ready_pod(client, "alone")
            await new_pod(client, "whole")
            await patch(client, "alone", content_type, body)
            await patch(client, "whole", content_type, {"metadata": {"labels": {"app": "web"}}, **body})
            alone, whole = [await client.get(core_v1.Pod, name, "default") for name in ("alone", "whole")]
            assert tree_without_identity(alone) == tree_without_identity(whole)

    asyncio.run(run())


@pytest.mark.parametrize(("content_type", "body"), PATCHES)
def test_equal_patches_of_equal_pods_come_to_the_same(content_type: str, body: dict[str, Any]) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await ready_pod(client, "first")
            await new_pod(client, "second")
            await new_pod(client, "changed")
            for name in ("first", "second", "changed"):
                await patch(client, name, content_type, body)
            await patch(client, "changed", STRATEGIC_PATCH, {"status": {"reason": "Other", "conditions": [TARGET]}})
            first, second, changed = [
                await client.get(core_v1.Pod, name, "default") for name in ("first", "second", "changed")
            ]
            assert tree_without_identity(first) == tree_without_identity(second)
            assert changed.status.reason == "Other"
            assert second.status.reason == ""

    asyncio.run(run())


def test_the_uid_is_a_condition() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            pod = await ready_pod(client, "web")
            body = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Running"}}
            await patch(client, "web", STRATEGIC_PATCH, body)
            with pytest.raises(ApiError) as refused:
                await patch(client, "web", STRATEGIC_PATCH, {**body, "metadata": {"uid": "another"}})
            assert "metadata.uid" in refused.value.message
            kept = await client.get(core_v1.Pod, "web", "default")
            assert (kept.status.phase, kept.metadata.uid) == ("Running", pod.metadata.uid)

    asyncio.run(run())


def test_a_status_that_cannot_be_is_refused_with_the_patch() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await ready_pod(client, "web")
            said = 'Invalid value: "map[status:map[phase:5]]": cannot convert int64 to v1.PodPhase'
            with pytest.raises(ApiError, match=re.escape(said)) as refused:
                await patch(client, "web", STRATEGIC_PATCH, {"status": {"phase": 5}})
            assert refused.value.code == 422

    asyncio.run(run())


def test_managed_fields_in_a_template_are_no_obstacle_to_updates() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            managed = {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
            body = {
                "metadata": {"name": "t", "namespace": "default"},
                "template": {
                    "metadata": {"managedFields": [managed]},
                    "spec": {"containers": [{"name": "a", "image": "a"}]},
                },
            }
            path = "/api/v1/namespaces/default/podtemplates"
            await client.raw("POST", path, {}, json.dumps(body).encode(), "application/json")
            change = json.dumps({"template": {"metadata": {"managedFields": None}}}).encode()
            await client.raw("PATCH", path + "/t", {}, change, MERGE_PATCH)
            found = await client.get(core_v1.PodTemplate, "t", "default")
            assert found.template.metadata.managed_fields == ()

    asyncio.run(run())
