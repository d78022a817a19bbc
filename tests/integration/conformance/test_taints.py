"""Pods on nodes that get a taint which drives them out. Conformance: NoExecuteTaintManager."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import PAUSE, Space, Workloads

TAINT = {"key": "example.com/leave", "value": "now", "effect": "NoExecute"}


def tolerant(name: str, seconds: int, **spec: object) -> Object:
    """A pod that bears the taint for so long. The grace period in its metadata is the server's business and is not taken over."""
    metadata = {"name": name, "labels": {"group": "tolerant"}, "deletionGracePeriodSeconds": 1}
    toleration = {**TAINT, "tolerationSeconds": seconds}
    containers = [{"name": "pause", "image": PAUSE}]
    return {"metadata": metadata, "spec": {"containers": containers, "tolerations": [toleration], **spec}}


async def run(space: Space, pod: Object) -> str:
    """Run a pod; returns the name of its node."""
    created = await space.api.create(space.core("pods"), pod)
    assert "deletionGracePeriodSeconds" not in created["metadata"]
    own = space.core(f"pods/{pod['metadata']['name']}")
    found = await space.until(own, lambda one: one["status"]["phase"] == "Running")
    return str(found["spec"]["nodeName"])


async def set_taints(space: Space, name: str, taints: list[Object]) -> None:
    """Replace the taints of a node."""
    node = await space.api.get(f"/api/v1/nodes/{name}")
    patch = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints or None}}
    patched = await space.api.patch(f"/api/v1/nodes/{name}", patch, STRATEGIC_PATCH)
    assert len(patched["spec"].get("taints", ())) == len(taints)


@contextlib.asynccontextmanager
async def tainted(space: Space, name: str) -> AsyncIterator[None]:
    """A node has the taint for a while."""
    await set_taints(space, name, [{**TAINT, "timeAdded": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}])
    try:
        yield
    finally:
        await set_taints(space, name, [])


def test_a_taint_that_is_taken_away_drives_nobody_out(workloads: Workloads) -> None:
    """NoExecuteTaintManager Single Pod removing taint cancels eviction."""

    async def scenario(space: Space) -> None:
        node = await run(space, tolerant("waiting", 2))
        async with tainted(space, node):
            await asyncio.sleep(0.2)  # time enough to plan the eviction
        await asyncio.sleep(2.5)
        assert "deletionTimestamp" not in (await space.api.get(space.core("pods/waiting")))["metadata"]

    workloads.run(scenario)


def test_each_pod_goes_when_its_time_is_over(workloads: Workloads) -> None:
    """NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds."""

    async def scenario(space: Space) -> None:
        name = await run(space, tolerant("sooner", 1))
        host = (await space.api.get(f"/api/v1/nodes/{name}"))["metadata"]["labels"]["kubernetes.io/hostname"]
        later = tolerant("later", 3, nodeSelector={"kubernetes.io/hostname": host})
        assert await run(space, later) == name
        async with tainted(space, name):
            await space.gone(space.core("pods/sooner"))
            assert "deletionTimestamp" not in (await space.api.get(space.core("pods/later")))["metadata"]
            await space.gone(space.core("pods/later"))

    workloads.run(scenario)
