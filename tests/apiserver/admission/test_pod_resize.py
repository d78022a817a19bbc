"""Resizes of pods, as far as their nodes can give what they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from tests.apiserver.admission.running import container, pod, run


def node(name: str, system: str = "linux") -> core_v1.Node:
    metadata = meta_v1.ObjectMeta(name=name, labels={"kubernetes.io/os": system})
    return core_v1.Node(metadata=metadata, status=core_v1.NodeStatus(allocatable={"cpu": "4", "memory": "1Gi"}))


async def resize(client: Client, **requests: str) -> core_v1.Pod:
    patch: dict[str, Any] = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    found: core_v1.Pod = await client.patch(
        core_v1.Pod, "p", "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize"
    )
    return found


def small(node_name: str) -> core_v1.Pod:
    asked = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return pod(node_name=node_name, containers=(container(resources=asked),))


@pytest.mark.parametrize(
    ("requests", "message", "cause"),
    [
        ({"cpu": "64"}, "resources: cpu, requested: 64000, allocatable: 4000", "NodeCapacity"),
        (
            {"cpu": "4001m", "memory": "3Gi"},
            "cpu, requested: 4001, allocatable: 4000; memory, requested: 3221225472, allocatable: 1073741824",
            "NodeCapacity",
        ),
    ],
)
def test_no_more_than_the_node_has(requests: dict[str, str], message: str, cause: str) -> None:
    async def case(client: Client) -> None:
        await client.create(node("n"))
        await client.create(small("n"))
        with pytest.raises(ApiError, match=message) as refused:
            await resize(client, **requests)
        assert refused.value.status.details is not None
        assert [one.reason for one in refused.value.status.details.causes] == [cause]
        assert (await resize(client, cpu="4")).spec.containers[0].resources.requests["cpu"] == "4"

    run(case)


def test_other_systems_cannot_resize() -> None:
    async def case(client: Client) -> None:
        await client.create(node("w", "windows"))
        await client.create(small("w"))
        with pytest.raises(ApiError, match='only supported on linux nodes, node "w" is "windows"'):
            await resize(client, cpu="200m")

    run(case)


def test_the_node_has_to_be_there() -> None:
    async def case(client: Client) -> None:
        await client.create(small("nowhere"))
        with pytest.raises(ApiError, match='pods "p" is forbidden: node "nowhere" not found'):
            await resize(client, cpu="200m")

    run(case)


def test_policies_of_resizing_stay() -> None:
    async def case(client: Client) -> None:
        await client.create(node("n"))
        await client.create(small("n"))
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        patch = {"spec": {"containers": [{"name": "c", "resizePolicy": policy}]}}
        with pytest.raises(ApiError, match="only cpu and memory resources are mutable"):
            await client.patch(core_v1.Pod, "p", "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize")

    run(case)
