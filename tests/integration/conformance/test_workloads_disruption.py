"""PodDisruptionBudgets and evictions as the conformance tests of sig-apps use them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import Object, Refused, pod
from tests.integration.conformance.workloads import (
    PAUSE,
    Space,
    Workloads,
    is_ready,
    template,
    workload,
)

LABELS = {"guarded": "yes"}
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


async def processed(space: Space, name: str = "guard") -> Object:
    """The budget when the controller has seen it as it is."""
    path = space.policy(f"poddisruptionbudgets/{name}")
    return await space.until(
        path, lambda one: one["status"].get("observedGeneration", 0) >= one["metadata"]["generation"]
    )


async def guard(space: Space, minimum: int | str, name: str = "guard", labels: dict[str, str] | None = None) -> None:
    spec = {"selector": {"matchLabels": LABELS}, "minAvailable": minimum}
    made = {"metadata": {"name": name, "labels": labels or LABELS}, "spec": spec}
    await space.api.create(space.policy("poddisruptionbudgets"), made)
    await processed(space, name)


async def ready(space: Space, number: int) -> list[Object]:
    """Wait until so many pods are ready and not on their way out."""

    async def look() -> list[Object]:
        found = [one for one in await space.pods(**LABELS) if is_ready(one)]
        staying = [one for one in found if "deletionTimestamp" not in one["metadata"]]
        assert len(staying) >= number
        return staying

    return await eventually(look)


async def evict(space: Space, one: Object) -> None:
    name = one["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space.name}}
    await space.api.create(space.core(f"pods/{name}/eviction"), body)


async def refused(space: Space, one: Object) -> None:
    """An eviction is refused because of a budget."""
    with pytest.raises(Refused) as refusal:
        await evict(space, one)
    assert refusal.value.code == 429
    assert [cause["reason"] for cause in refusal.value.status["details"]["causes"]] == ["DisruptionBudget"]


async def three_pods(space: Space, number: int = 3) -> None:
    """Pods that nobody controls."""
    for index in range(number):
        made = pod(f"pod-{index}", restartPolicy="Always")
        made["metadata"]["labels"] = LABELS
        await space.api.create(space.core("pods"), made)
    await ready(space, number)


def test_collection(workloads: Workloads) -> None:
    """DisruptionController should list and delete a collection of PodDisruptionBudgets, in one namespace of two."""

    async def scenario(space: Space) -> None:
        special, chosen = {"special": "yes"}, "special=yes"
        other = Space(space.api, f"{space.name}-other")
        await space.api.create("/api/v1/namespaces", {"metadata": {"name": other.name}})
        await guard(space, 2, "first", special)
        await guard(space, "1%", "second", special)
        await guard(other, 2, "third", special)
        assert sorted(await space.api.names(BUDGETS, labelSelector=chosen)) == ["first", "second", "third"]
        path = space.policy("poddisruptionbudgets")
        assert await space.api.names(path, labelSelector=chosen) == ["first", "second"]
        await space.api.delete(path)
        assert await space.api.names(path) == []
        assert await space.api.names(BUDGETS, labelSelector=chosen) == ["third"]
        await space.api.delete(f"/api/v1/namespaces/{other.name}")

    workloads.run(scenario)


def test_lifecycle(workloads: Workloads) -> None:
    """DisruptionController should create a PodDisruptionBudget, and change, patch and delete it."""

    async def scenario(space: Space) -> None:
        path = space.policy("poddisruptionbudgets/guard")
        await guard(space, "1%")
        updated = await space.changed(path, lambda one: one["spec"].update(minAvailable="2%"))
        assert updated["spec"]["minAvailable"] == "2%"
        await processed(space)
        patched = await space.api.patch(path, {"spec": {"minAvailable": "3%"}})
        assert patched["spec"]["minAvailable"] == "3%"
        await processed(space)
        await space.api.delete(path)
        assert await space.absent(path)

    workloads.run(scenario)


def test_status_follows_pods(workloads: Workloads) -> None:
    """DisruptionController should observe PodDisruptionBudget status updated: pods without a controller count where a number is wanted."""

    async def scenario(space: Space) -> None:
        await guard(space, 1)
        await three_pods(space)
        path = space.policy("poddisruptionbudgets/guard")
        found = await space.until(path, lambda one: one["status"]["disruptionsAllowed"] == 2)
        assert (found["status"]["currentHealthy"], found["status"]["expectedPods"]) == (3, 3)

    workloads.run(scenario)


def test_status_endpoints(workloads: Workloads) -> None:
    """DisruptionController should update/patch PodDisruptionBudget status: the controller keeps pods that somebody lists as disrupted."""

    async def scenario(space: Space) -> None:
        path = space.policy("poddisruptionbudgets/guard")
        await guard(space, 1)
        await three_pods(space, 1)
        now = (await space.api.get(space.core("pods/pod-0")))["status"]["startTime"]
        await space.changed(f"{path}/status", lambda one: one["status"].update(disruptedPods={"pod-0": now}))
        await processed(space)
        await space.until(path, lambda one: one["status"]["currentHealthy"] == 0)
        assert "pod-0" in (await space.dynamic.get(f"{path}/status"))["status"]["disruptedPods"]
        patched = await space.api.patch(f"{path}/status", {"status": {"disruptedPods": None}})
        assert not patched["status"].get("disruptedPods")
        await space.until(path, lambda one: one["status"]["currentHealthy"] == 1)

    workloads.run(scenario)


def test_evictions_wait_for_the_budget(workloads: Workloads) -> None:
    """DisruptionController should block an eviction until the PDB is updated to allow it."""

    async def scenario(space: Space) -> None:
        path = space.policy("poddisruptionbudgets/guard")
        await guard(space, 3)
        pods = template(LABELS, PAUSE, grace=None)
        await space.api.create(space.apps("replicasets"), workload("three", LABELS, pods, replicas=3))
        one = (await ready(space, 3))[0]
        await refused(space, one)

        await space.changed(path, lambda found: found["spec"].update(minAvailable=2))
        await processed(space)
        await ready(space, 3)

        def healthy(found: Object) -> Any:
            return [found["status"][key] for key in ("currentHealthy", "desiredHealthy")] == [3, 2]

        await space.until(path, healthy)
        await evict(space, one)

        await space.api.patch(path, {"spec": {"minAvailable": None, "maxUnavailable": 0}})
        await processed(space)
        one = (await ready(space, 3))[0]
        await refused(space, one)

        await space.api.delete(path)
        assert await space.absent(path)
        await ready(space, 3)
        await evict(space, one)

    workloads.run(scenario)
