"""Changes of pods that their node's kubelet must be able to follow."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from tests.apiserver.admission.running import container, pod, run

INIT, POD = "InPlacePodVerticalScalingInitContainers", "InPlacePodLevelResourcesVerticalScaling"
SMALL = {"requests": {"cpu": "100m"}}
LARGER: dict[str, Any] = {"requests": {"cpu": "200m"}}


def node(name: str, *features: str) -> core_v1.Node:
    status = core_v1.NodeStatus(allocatable={"cpu": "4", "memory": "1Gi"}, declared_features=features)
    return core_v1.Node(metadata=meta_v1.ObjectMeta(name=name), status=status)


async def resize(client: Client, name: str, spec: dict[str, Any]) -> core_v1.Pod:
    found: core_v1.Pod = await client.patch(
        core_v1.Pod, name, "default", {"spec": spec}, patch_type=STRATEGIC_PATCH, subresource="resize"
    )
    return found


@pytest.mark.parametrize(
    ("feature", "spec"),
    [
        (INIT, {"initContainers": [{"name": "i", "resources": LARGER}]}),
        (POD, {"resources": {"requests": {"cpu": "300m"}}}),
    ],
    ids=["init containers", "the pod as a whole"],
)
def test_only_a_node_that_declares_it_resizes(feature: str, spec: dict[str, Any]) -> None:
    async def case(client: Client) -> None:
        await client.create(node("new", feature))
        await client.create(node("old"))
        for name in ("new", "old", "lost"):
            containers = {
                "containers": (container(resources=SMALL),),
                "init_containers": (container("i", resources=SMALL),),
            }
            level = core_v1.ResourceRequirements(requests={"cpu": "200m"})
            await client.create(pod(name, node_name=name, resources=level, **containers))
        changed = await resize(client, "new", spec)
        assert changed.metadata.generation == 2
        text = (
            f'^pods "old" is forbidden: pod update requires features {feature} which are not available on node "old"$'
        )
        with pytest.raises(ApiError, match=text):
            await resize(client, "old", spec)
        with pytest.raises(ApiError, match=r'^pods "lost" is forbidden: node "lost" not found$'):
            await resize(client, "lost", spec)

    run(case)


def test_a_change_of_containers_alone_needs_no_feature() -> None:
    async def case(client: Client) -> None:
        await client.create(node("old"))
        await client.create(pod("p", node_name="old", containers=(container("c", resources=SMALL),)))
        changed = await resize(client, "p", {"containers": [{"name": "c", "resources": LARGER}]})
        assert changed.metadata.generation == 2

    run(case)


def test_init_containers_that_would_start_again_are_not_resized() -> None:
    async def case(client: Client) -> None:
        await client.create(node("new", INIT))
        containers = {"containers": (container(),), "init_containers": (container("i", resources=SMALL),)}
        await client.create(pod("p", node_name="new", **containers))
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        with pytest.raises(ApiError, match="only cpu and memory resources for init or sidecar containers are mutable"):
            await resize(client, "p", {"initContainers": [{"name": "i", "resizePolicy": policy}]})

    run(case)
