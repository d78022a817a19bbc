"""StatefulSets as the conformance tests of sig-apps use them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import (
    OTHER_IMAGE,
    SERVER_IMAGE,
    Space,
    Workloads,
    check_scale,
    check_status_endpoints,
    is_ready,
    revision,
    template,
    workload,
)

REVISION = "controller-revision-hash"
LABELS = {"tier": "store", "app": "books"}


def stateful_set(name: str, replicas: int, labels: dict[str, str], **spec: Any) -> Object:
    """A set whose containers are asked over HTTP whether they are ready, with a headless service."""
    pods = template(labels, grace=None)
    probe = {"httpGet": {"path": "/alive", "port": 80}, "periodSeconds": 1, "failureThreshold": 1}
    pods["spec"]["containers"][0]["readinessProbe"] = probe
    return workload(name, labels, pods, replicas=replicas, serviceName="books", **spec)


def partition(number: int) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


async def up(space: Space, number: int) -> None:
    """Wait until the set's pods run and are ready; at no time there are more than wanted."""

    async def look() -> bool:
        pods = await space.pods(app="books")
        if len(pods) > number:
            pytest.fail(f"{len(pods)} pods where {number} are wanted")
        return len(pods) == number and all(one["status"]["phase"] == "Running" and is_ready(one) for one in pods)

    await eventually(look)


async def observed(space: Space, one: Object) -> Object:
    """The set when the controller has seen this generation of it."""
    path = space.apps(f"statefulsets/{one['metadata']['name']}")
    generation = one["metadata"]["generation"]
    return await space.until(path, lambda found: found["status"].get("observedGeneration", 0) >= generation)


async def begin(space: Space, one: Object) -> Object:
    """Make the headless service and the set; returns it when its pods are up."""
    service = {"clusterIP": "None", "selector": LABELS, "ports": [{"name": "http", "port": 80}]}
    await space.api.create(space.core("services"), {"metadata": {"name": "books"}, "spec": service})
    made = await space.api.create(space.apps("statefulsets"), one)
    await up(space, one["spec"]["replicas"])
    return await observed(space, made)


async def retire(space: Space) -> None:
    """Scale the set down to nothing before it goes, as the conformance tests leave it."""
    own = space.apps("statefulsets/books")
    one = await space.changed(own, lambda found: found["spec"].update(replicas=0))

    async def empty() -> bool:
        return not await space.pods(app="books")

    await eventually(empty)
    await observed(space, one)
    await space.until(own, lambda found: found["status"].get("replicas", 0) == 0)
    await space.api.delete(own, {"orphanDependents": False})
    assert await space.absent(own)


def check_revisions(pods: list[Object], first: int, old: str, new: str) -> None:
    """Pods from the partition on are of the new revision, those before of the old one; the list is in the order of their numbers."""
    assert [pod["metadata"]["name"] for pod in pods] == ["books-0", "books-1", "books-2"]
    for number, pod in enumerate(pods):
        found = pod["metadata"]["labels"][REVISION], pod["spec"]["containers"][0]["image"]
        assert found == ((old, SERVER_IMAGE) if number < first else (new, OTHER_IMAGE))


async def rolled(space: Space, first: int) -> list[Object]:
    """Wait until the pods from the partition on have the update's revision, and the roll-out is over if that is all of them."""

    async def look() -> list[Object]:
        one, pods = await space.api.get(space.apps("statefulsets/books")), await space.pods(app="books")
        status = one["status"]
        assert len(pods) >= one["spec"]["replicas"]
        assert first or status["currentRevision"] == status["updateRevision"]
        for pod in pods[first:]:
            assert pod["metadata"]["labels"][REVISION] == status["updateRevision"]
        return pods

    return await eventually(look)


def test_canary_and_phased_updates(workloads: Workloads) -> None:
    """StatefulSet should perform canary updates and phased rolling updates of template modifications."""

    async def scenario(space: Space) -> None:
        own = space.apps("statefulsets/books")
        one = await begin(space, stateful_set("books", 3, LABELS, updateStrategy=partition(3)))
        old = one["status"]["currentRevision"]
        assert one["status"]["updateRevision"] == old
        pods = await space.pods(app="books")
        check_revisions(pods, 3, old, "")

        def renew(found: Object) -> None:
            found["spec"]["template"]["spec"]["containers"][0]["image"] = OTHER_IMAGE

        one = await observed(space, await space.changed(own, renew))
        new = one["status"]["updateRevision"]
        assert (one["status"]["currentRevision"], new == old) == (old, False)
        check_revisions(await space.pods(app="books"), 3, old, new)

        await space.changed(own, lambda found: found["spec"].update(updateStrategy=partition(2)))
        check_revisions(await rolled(space, 2), 2, old, new)
        for number in (0, 2):
            path = space.core(f"pods/books-{number}")
            await space.api.delete(path, {"gracePeriodSeconds": 0})
        await up(space, 3)
        check_revisions(await space.pods(app="books"), 2, old, new)
        for number in (1, 0):
            change = {"updateStrategy": partition(number)}
            await space.changed(own, lambda found, change=change: found["spec"].update(change))  # type: ignore[misc]
            check_revisions(await rolled(space, number), number, old, new)
        assert (await space.api.get(own))["status"]["currentRevision"] == new
        await retire(space)

    workloads.run(scenario)


def test_scale(workloads: Workloads) -> None:
    """StatefulSet should have a working scale subresource."""

    async def scenario(space: Space) -> None:
        await begin(space, stateful_set("books", 1, LABELS))
        await check_scale(space, space.apps("statefulsets/books"))
        await retire(space)

    workloads.run(scenario)


def test_collection(workloads: Workloads) -> None:
    """StatefulSet should list, patch and delete a collection of StatefulSets."""

    async def scenario(space: Space) -> None:
        own, chosen = space.apps("statefulsets/books"), "state=patched"
        everywhere = "/apis/apps/v1/statefulsets"
        await begin(space, stateful_set("books", 1, LABELS))
        pods = {"TerminationGracePeriodSeconds": 1, "containers": [{"name": "further", "image": OTHER_IMAGE}]}
        patch = {"metadata": {"labels": {"state": "patched"}}, "spec": {"replicas": 2, "template": {"spec": pods}}}
        await space.api.patch(own, patch, STRATEGIC_PATCH)
        patched = await space.api.get(own)
        assert patched["spec"]["replicas"] == 2
        assert patched["spec"]["template"]["spec"]["containers"][0]["image"] == OTHER_IMAGE
        await up(space, 2)
        await observed(space, patched)
        assert await space.api.names(everywhere, labelSelector=chosen) == ["books"]
        await space.api.delete(space.apps("statefulsets"), {"gracePeriodSeconds": 1}, labelSelector=chosen)
        assert await space.api.names(everywhere, labelSelector=chosen) == []

    workloads.run(scenario)


def test_status(workloads: Workloads) -> None:
    """StatefulSet should validate Statefulset Status endpoints."""

    async def scenario(space: Space) -> None:
        path, chosen = space.apps("statefulsets"), "kind-of=trial"
        since = revision(await space.api.get("/apis/apps/v1/statefulsets", labelSelector=chosen))
        await begin(space, stateful_set("books", 1, LABELS))
        await space.api.patch(f"{path}/books", {"metadata": {"labels": {"kind-of": "trial"}}}, STRATEGIC_PATCH)
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await check_status_endpoints(space, path, "books", since, patch, chosen)

    workloads.run(scenario)
