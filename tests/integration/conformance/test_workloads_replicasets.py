"""ReplicaSets and ReplicationControllers as the conformance tests of sig-apps use them."""

from __future__ import annotations

from typing import Any

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, Watching, pod
from tests.integration.conformance.workloads import (
    OTHER_IMAGE,
    Space,
    Workloads,
    check_scale,
    check_status_endpoints,
    condition,
    controller,
    revision,
    template,
    workload,
)

LABELS = {"name": "sample", "pod": "web"}


def replica_set(name: str, replicas: int, labels: dict[str, str]) -> Object:
    return workload(name, labels, template(labels), replicas=replicas)


def replication_controller(name: str, replicas: int, labels: dict[str, str], **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "template": template(labels), **spec}}


def owned_by(owner: Object, one: Object) -> bool:
    """A pod belongs to the owner."""
    return bool((controller(one) or {}).get("uid") == owner["metadata"]["uid"])


async def adopted(space: Space, owner: Object, name: str) -> bool:
    """A pod belongs to the owner, or is gone."""
    path = space.core(f"pods/{name}")
    return await space.absent(path) or owned_by(owner, await space.api.get(path))


async def orphan(space: Space, labels: dict[str, str]) -> None:
    """Make a pod of that name that nobody owns, and wait until it runs."""
    alone = pod("orphan")
    alone["metadata"]["labels"] = labels
    await space.api.create(space.core("pods"), alone)
    await space.running(1, **labels)


async def check_release(space: Space, owner: Object, labels: dict[str, str]) -> None:
    """A pod that gets other labels is let go, and another takes its place."""
    (one,) = await space.created(1, **labels)
    path = space.core(f"pods/{one['metadata']['name']}")
    await space.changed(path, lambda found: found["metadata"].update(labels={"name": "another"}))
    await space.until(path, lambda found: controller(found) is None)
    (other,) = await space.running(1, **labels)
    assert other["metadata"]["name"] != one["metadata"]["name"]
    assert owned_by(owner, other)


def test_replica_set_adopts_and_releases(workloads: Workloads) -> None:
    """ReplicaSet should adopt matching pods on creation and release no longer matching pods."""

    async def scenario(space: Space) -> None:
        labels = {"name": "orphan"}
        await orphan(space, labels)
        owner = await space.api.create(space.apps("replicasets"), replica_set("orphan", 1, labels))
        assert await eventually(lambda: adopted(space, owner, "orphan"))
        await check_release(space, owner, labels)

    workloads.run(scenario)


def test_replica_set_scale(workloads: Workloads) -> None:
    """ReplicaSet Replicaset should have a working scale subresource."""

    async def scenario(space: Space) -> None:
        await space.api.create(space.apps("replicasets"), replica_set("web", 1, LABELS))
        await space.running(1, **LABELS)
        await check_scale(space, space.apps("replicasets/web"))

    workloads.run(scenario)


def test_replica_set_replace_and_patch(workloads: Workloads) -> None:
    """ReplicaSet Replace and Patch tests."""

    async def scenario(space: Space) -> None:
        path, chosen = space.apps("replicasets"), "state=patched"
        since = revision(await space.api.get("/apis/apps/v1/replicasets", labelSelector=chosen))
        await space.api.create(path, replica_set("web", 1, LABELS))
        await space.running(1, **LABELS)
        await space.changed(f"{path}/web", lambda one: one["spec"].update(replicas=2))
        pods = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "further", "image": OTHER_IMAGE}]}
        patch = {"metadata": {"labels": {"state": "patched"}}, "spec": {"replicas": 3, "template": {"spec": pods}}}
        await space.api.patch(f"{path}/web", patch, STRATEGIC_PATCH)

        def patched(one: Object) -> bool:
            pods = one["spec"]["template"]["spec"]
            counts = [one["status"].get(key) for key in ("readyReplicas", "availableReplicas")]
            return (counts, pods["containers"][0]["image"], pods["terminationGracePeriodSeconds"]) == (
                [3, 3],
                OTHER_IMAGE,
                0,
            )

        assert await space.seen(path, since, patched, labelSelector=chosen)

    workloads.run(scenario)


def test_replica_set_collection(workloads: Workloads) -> None:
    """ReplicaSet should list and delete a collection of ReplicaSets."""

    async def scenario(space: Space) -> None:
        labels = {**LABELS, "trial": space.name}
        path, everywhere, chosen = space.apps("replicasets"), "/apis/apps/v1/replicasets", f"trial={space.name}"
        await space.api.create(path, replica_set("web", 3, labels))
        await space.running(3, **labels)
        assert await space.api.names(everywhere, labelSelector=chosen) == ["web"]
        await space.api.delete(path, {"gracePeriodSeconds": 1}, labelSelector=chosen)
        assert await space.api.names(everywhere, labelSelector=chosen) == []

    workloads.run(scenario)


def test_replica_set_status(workloads: Workloads) -> None:
    """ReplicaSet should validate Replicaset Status endpoints."""

    async def scenario(space: Space) -> None:
        path, chosen = space.apps("replicasets"), ",".join(f"{key}={value}" for key, value in LABELS.items())
        since = revision(await space.api.get("/apis/apps/v1/replicasets", labelSelector=chosen))
        await space.api.create(path, replica_set("web", 1, LABELS))
        await space.running(1, **LABELS)
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await check_status_endpoints(space, path, "web", since, patch, chosen)

    workloads.run(scenario)


def test_replication_controller_adopts(workloads: Workloads) -> None:
    """ReplicationController should adopt matching pods on creation."""

    async def scenario(space: Space) -> None:
        labels = {"name": "orphan"}
        await orphan(space, labels)
        made = replication_controller("orphan", 1, labels, selector=labels)
        owner = await space.api.create(space.core("replicationcontrollers"), made)
        assert await eventually(lambda: adopted(space, owner, "orphan"))
        (one,) = await space.running(1, **labels)
        assert owned_by(owner, one)

    workloads.run(scenario)


def test_replication_controller_releases(workloads: Workloads) -> None:
    """ReplicationController should release no longer matching pods."""

    async def scenario(space: Space) -> None:
        labels = {"name": "let-go"}
        made = replication_controller("let-go", 1, labels, selector=labels)
        owner = await space.api.create(space.core("replicationcontrollers"), made)
        await check_release(space, owner, labels)

    workloads.run(scenario)


def test_replication_controller_scale(workloads: Workloads) -> None:
    """ReplicationController should get and update a ReplicationController scale."""

    async def scenario(space: Space) -> None:
        own = space.core("replicationcontrollers/web")
        await space.api.create(space.core("replicationcontrollers"), replication_controller("web", 1, {"name": "web"}))
        await space.until(own, lambda one: one["status"]["replicas"] == 1)
        scale = await space.api.get(f"{own}/scale")
        assert scale["status"]["replicas"] == 1
        assert scale["status"]["selector"] == "name=web", "the labels of the template select, if nothing else is said"
        del scale["metadata"]["resourceVersion"]
        scale["spec"]["replicas"] = 2
        await space.api.update(f"{own}/scale", scale)
        assert await space.until(own, lambda one: one["status"]["replicas"] == 2)

    workloads.run(scenario)


def test_replication_controller_shows_failure(workloads: Workloads) -> None:
    """ReplicationController should surface a failure condition on a common issue like exceeded quota."""

    async def scenario(space: Space) -> None:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
        await space.api.create(space.core("resourcequotas"), quota)
        await space.until(
            space.core("resourcequotas/few"), lambda one: one["status"].get("hard", {}).get("pods") == "2"
        )
        own = space.core("replicationcontrollers/many")
        await space.api.create(
            space.core("replicationcontrollers"), replication_controller("many", 3, {"name": "many"})
        )
        shown = await space.until(own, lambda one: condition(one, "ReplicaFailure"))
        assert shown["status"]["observedGeneration"] >= shown["metadata"]["generation"]
        changed = await space.changed(own, lambda one: one["spec"].update(replicas=2))
        generation = changed["metadata"]["generation"]

        def healed(one: Object) -> bool:
            return one["status"]["observedGeneration"] >= generation and not condition(one, "ReplicaFailure")

        assert await space.until(own, healed)

    workloads.run(scenario)


def test_replication_controller_lifecycle(workloads: Workloads) -> None:
    """ReplicationController should test the lifecycle of a ReplicationController: each change is an event of one watch, in turn."""

    async def scenario(space: Space) -> None:
        path = space.core("replicationcontrollers")
        since = revision(await space.api.get(path, labelSelector="kept=yes"))
        async with space.dynamic.watch(path, resourceVersion=since, allowWatchBookmarks="true") as watch:
            await live_and_die(space, path, watch)
        assert await space.api.names(path, labelSelector="kept=yes") == []

    workloads.run(scenario)


async def live_and_die(space: Space, path: str, watch: Watching) -> None:
    api, own = space.api, f"{path}/web"
    pods = template({"kept": "yes"}, grace=None)
    pods["metadata"]["name"] = "web"
    made = {"name": "web", "labels": {"kept": "yes"}}
    await api.create(path, {"metadata": made, "spec": {"replicas": 1, "selector": {"kept": "yes"}, "template": pods}})
    await watch.until("ADDED")

    def counts(replicas: int, ready: int) -> Any:
        return lambda one: [one["status"].get(key) for key in ("replicas", "readyReplicas")] == [replicas, ready]

    await watch.until("MODIFIED", counts(1, 1))
    patch = {
        "metadata": {"creationTimestamp": None, "labels": {"state": "patched"}},
        "spec": {},
        "status": {"replicas": 0},
    }
    assert (await api.patch(own, patch, STRATEGIC_PATCH))["metadata"]["labels"]["state"] == "patched"
    await watch.until("MODIFIED")
    patched = await api.patch(
        f"{own}/status", {"status": {"readyReplicas": 0, "availableReplicas": 0}}, STRATEGIC_PATCH
    )
    assert patched["status"].get("readyReplicas", 0) == 0
    await watch.until("MODIFIED")
    await watch.until("MODIFIED", lambda one: one["status"]["replicas"] == 1)
    assert (await space.dynamic.get(f"{own}/status"))["status"]["replicas"] == 1
    patch = {"metadata": {"creationTimestamp": None}, "spec": {"replicas": 2}, "status": {"replicas": 0}}
    await api.patch(f"{own}/scale", patch, STRATEGIC_PATCH)
    await watch.until("MODIFIED")
    await watch.until("MODIFIED", counts(2, 2))
    found = await api.get(own)
    assert found["metadata"]["labels"]["state"] == "patched"
    found["status"].update(availableReplicas=1, readyReplicas=1)
    await api.update(f"{own}/status", found)
    await watch.until("MODIFIED")
    everywhere = await api.get("/api/v1/replicationcontrollers", labelSelector="kept=yes")
    (only,) = everywhere["items"]
    assert (only["metadata"]["name"], only["metadata"]["namespace"]) == ("web", space.name)
    assert only["metadata"]["labels"] == {"kept": "yes", "state": "patched"}
    await api.delete(path, labelSelector="kept=yes")
    await watch.until("DELETED")
