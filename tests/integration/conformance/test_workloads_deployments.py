"""Deployments as the conformance tests of sig-apps use them."""

from __future__ import annotations

import pytest

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, pod
from tests.integration.conformance.workloads import (
    MISSING_IMAGE,
    OTHER_IMAGE,
    PAUSE,
    SERVER_IMAGE,
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

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


def deployment(name: str, replicas: int, labels: dict[str, str], image: str = SERVER_IMAGE, **spec: object) -> Object:
    return workload(name, labels, template(labels, image), replicas=replicas, **spec)


def orphan(name: str, labels: dict[str, str], **annotations: str) -> Object:
    """A ReplicaSet of one pod that a deployment with fewer labels adopts."""
    more = {**labels, "made": "by-hand"}
    obj = workload(name, more, template(more, container="first"), replicas=1)
    obj["metadata"]["annotations"] = annotations
    return obj


def surge(number: int, unavailable: int) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": number, "maxUnavailable": unavailable}}


def image_of(obj: Object) -> str:
    return str(obj["spec"]["template"]["spec"]["containers"][0]["image"])


async def sets_of(space: Space, name: str) -> list[Object]:
    found = (await space.api.get(space.apps("replicasets")))["items"]
    return [one for one in found if (owner := controller(one)) is not None and owner["name"] == name]


async def new_set(space: Space, name: str) -> Object:
    """The ReplicaSet of the current template."""
    one = await space.api.get(space.apps(f"deployments/{name}"))
    found = [each for each in await sets_of(space, name) if image_of(each) == image_of(one)]
    assert len(found) == 1, found
    return found[0]


async def shows(space: Space, name: str, number: str, image: str) -> Object:
    """Wait for the revision of a deployment and of its newest ReplicaSet."""

    async def look() -> Object:
        one = await space.api.get(space.apps(f"deployments/{name}"))
        newest = await new_set(space, name)
        revisions = [each["metadata"].get("annotations", {}).get(REVISION) for each in (one, newest)]
        assert revisions == [number, number]
        assert image_of(one) == image_of(newest) == image
        assert newest["metadata"]["labels"][HASH] == newest["spec"]["selector"]["matchLabels"][HASH]
        assert newest["spec"]["template"]["metadata"]["labels"][HASH] == newest["metadata"]["labels"][HASH]
        return newest

    return await eventually(look)


def is_complete(one: Object) -> bool:
    status, wanted = one["status"], one["spec"]["replicas"]
    counts = [status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [wanted] * 3 and bool(status["observedGeneration"] >= one["metadata"]["generation"])


async def complete(space: Space, name: str) -> Object:
    return await space.until(space.apps(f"deployments/{name}"), is_complete)


async def set_image(space: Space, name: str, image: str, container: str = "web") -> Object:
    def change(one: Object) -> None:
        one["spec"]["template"]["spec"]["containers"][0].update(name=container, image=image)

    return await space.changed(space.apps(f"deployments/{name}"), change)


def test_lifecycle(workloads: Workloads) -> None:
    """Deployment should run the lifecycle of a Deployment."""
    static, chosen = {"kept": "yes"}, "kept=yes"

    async def scenario(space: Space) -> None:
        api, path = space.api, space.apps("deployments")
        own = f"{path}/web"
        since = revision(await api.get("/apis/apps/v1/deployments", labelSelector=chosen))
        made = workload("web", static, template(static, grace=1), replicas=2, strategy={"type": "RollingUpdate"})
        await api.create(path, made)
        await space.seen(path, since, lambda one: one["metadata"]["name"] == "web", ("ADDED",), labelSelector=chosen)
        await space.seen(path, since, lambda one: one["status"].get("readyReplicas") == 2, labelSelector=chosen)

        pods = {"terminationGracePeriodSeconds": 2, "containers": [{"name": "web", "image": PAUSE}]}
        patch = {"metadata": {"labels": {"state": "patched"}}, "spec": {"replicas": 1, "template": {"spec": pods}}}
        await api.patch(own, patch, STRATEGIC_PATCH)

        def scaled(one: Object) -> bool:
            counts = [one["status"].get(key, 0) for key in ("readyReplicas", "updatedReplicas", "unavailableReplicas")]
            pods = one["spec"]["template"]["spec"]
            return counts == [1, 1, 0] and (image_of(one), pods["terminationGracePeriodSeconds"]) == (PAUSE, 2)

        await space.seen(path, since, scaled, labelSelector=chosen)
        found = (await api.get("/apis/apps/v1/deployments", labelSelector=chosen))["items"]
        assert [one["metadata"]["namespace"] for one in found] == [space.name]

        since = revision(await api.get("/apis/apps/v1/deployments", labelSelector=chosen))
        made["metadata"]["labels"]["state"] = "updated"
        made["spec"]["template"]["spec"]["containers"][0]["image"] = OTHER_IMAGE
        made["metadata"]["creationTimestamp"] = made["spec"]["template"]["metadata"]["creationTimestamp"] = None
        await space.dynamic.update(own, {**made, "status": {}})
        await space.seen(path, since, lambda one: image_of(one) == OTHER_IMAGE, ("MODIFIED",), labelSelector=chosen)
        shown = await space.dynamic.get(f"{own}/status")
        assert (image_of(shown), shown["metadata"]["labels"]["state"]) == (OTHER_IMAGE, "updated")

        def settled(one: Object) -> bool:
            counts = [one["status"].get(key, 0) for key in ("readyReplicas", "updatedReplicas", "unavailableReplicas")]
            return counts == [2, 2, 0] and image_of(one) == OTHER_IMAGE

        await space.seen(path, since, settled, labelSelector=chosen)

        since = revision(await api.get("/apis/apps/v1/deployments", labelSelector=chosen))
        counts = {"readyReplicas": 0, "availableReplicas": 0}
        patch = {"metadata": {"labels": {"state": "through-status"}}, "status": counts}
        patched = await space.dynamic.patch(f"{own}/status", patch, STRATEGIC_PATCH)
        assert patched["status"].get("readyReplicas", 0) == 0
        await space.seen(path, since, lambda one: True, ("MODIFIED",), labelSelector=chosen)
        shown = await space.dynamic.get(f"{own}/status")
        assert shown["metadata"]["labels"]["state"] == "updated", "the labels are not part of the status"
        await space.seen(path, since, settled, labelSelector=chosen)

        await api.delete(path, {"gracePeriodSeconds": 1}, labelSelector=chosen)
        await space.seen(path, since, lambda one: True, ("DELETED",), labelSelector=chosen)

    workloads.run(scenario)


def test_status(workloads: Workloads) -> None:
    """Deployment should validate Deployment Status endpoints."""
    labels = {"name": "web", "kind-of": "trial"}

    async def scenario(space: Space) -> None:
        path, chosen = space.apps("deployments"), "kind-of=trial"
        since = revision(await space.api.get("/apis/apps/v1/deployments", labelSelector=chosen))
        await space.api.create(path, deployment("web", 1, labels))
        await shows(space, "web", "1", SERVER_IMAGE)
        await complete(space, "web")
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await check_status_endpoints(space, path, "web", since, patch, chosen)

    workloads.run(scenario)


def test_scale(workloads: Workloads) -> None:
    """Deployment Deployment should have a working scale subresource."""

    async def scenario(space: Space) -> None:
        own = space.apps("deployments/web")
        await space.api.create(space.apps("deployments"), deployment("web", 1, {"name": "web"}))
        await shows(space, "web", "1", SERVER_IMAGE)
        await complete(space, "web")
        await check_scale(space, own)

    workloads.run(scenario)


def test_rolling_update(workloads: Workloads) -> None:
    """Deployment RollingUpdateDeployment should delete old pods and create new ones."""

    async def scenario(space: Space) -> None:
        labels, big = {"name": "roll"}, 4611686018427387904
        await space.api.create(space.apps("replicasets"), orphan("by-hand", labels, **{REVISION: str(big)}))
        await space.running(1, **labels)
        await space.api.create(space.apps("deployments"), deployment("roll", 1, labels, OTHER_IMAGE))
        await shows(space, "roll", str(big + 1), OTHER_IMAGE)
        await complete(space, "roll")
        newest = await new_set(space, "roll")
        old = [one for one in await sets_of(space, "roll") if one["metadata"]["uid"] != newest["metadata"]["uid"]]
        assert [one["metadata"]["name"] for one in old] == ["by-hand"]
        await space.running(1, **labels)

    workloads.run(scenario)


def test_recreate(workloads: Workloads) -> None:
    """Deployment RecreateDeployment should delete old pods and create new ones."""

    async def scenario(space: Space) -> None:
        path, labels = space.apps("deployments"), {"name": "again"}
        await space.api.create(path, deployment("again", 1, labels, strategy={"type": "Recreate"}))
        await shows(space, "again", "1", SERVER_IMAGE)
        await complete(space, "again")
        updated = await set_image(space, "again", OTHER_IMAGE, "other")

        def done(one: Object) -> bool:
            status = one["status"]
            total, new = status.get("replicas", 0), status.get("updatedReplicas", 0)
            assert not new or new == total, f"old and new pods side by side: {status}"
            seen = status["observedGeneration"] >= one["metadata"]["generation"]
            return bool(total == new == one["spec"]["replicas"] and seen)

        await space.seen(path, revision(updated), done, fieldSelector="metadata.name=again")

    workloads.run(scenario)


def test_history_limit(workloads: Workloads) -> None:
    """Deployment deployment should delete old replica sets."""

    async def scenario(space: Space) -> None:
        labels = {"name": "tidy"}
        await space.api.create(space.apps("replicasets"), orphan("by-hand", labels))
        await space.running(1, **labels)
        since = revision(await space.api.get(space.core("pods")))
        made = workload("tidy", labels, template(labels, OTHER_IMAGE, "second"), replicas=1, revisionHistoryLimit=0)
        await space.api.create(space.apps("deployments"), made)
        await space.gone(space.apps("replicasets/by-hand"))
        await complete(space, "tidy")
        await space.api.create(space.core("pods"), pod("last"))
        created: list[str] = []
        async with space.api.watch(space.core("pods"), resourceVersion=since) as watch:
            while (made := await watch.until("ADDED"))["metadata"]["name"] != "last":
                created.append(made["spec"]["containers"][0]["name"])
        assert created == ["second"]

    workloads.run(scenario)


async def rolled(space: Space, name: str) -> bool:
    """Whether a roll-out with one pod more is complete; on the way one pod is always available, and no more than two are wanted."""
    one = await space.api.get(space.apps(f"deployments/{name}"))
    wanted = sum(each["spec"]["replicas"] for each in await sets_of(space, name))
    if one["status"].get("availableReplicas", 0) < 1 or wanted > 2:
        pytest.fail(f"bounds are not kept: {wanted} pods wanted, {one['status']}")
    return is_complete(one)


def test_rollover(workloads: Workloads) -> None:
    """Deployment deployment should support rollover."""

    async def scenario(space: Space) -> None:
        api, labels = space.api, {"name": "over"}
        await api.create(space.apps("replicasets"), orphan("by-hand", labels))
        await space.running(1, **labels)
        await space.until(space.apps("replicasets/by-hand"), lambda one: one["status"].get("readyReplicas") == 1)
        made = deployment("over", 1, labels, MISSING_IMAGE, strategy=surge(1, 0), minReadySeconds=2)
        await api.create(space.apps("deployments"), made)
        own = space.apps("deployments/over")
        await space.until(own, lambda one: one["status"].get("updatedReplicas", 0) >= 1)
        stuck = await shows(space, "over", "1", MISSING_IMAGE)
        first = await api.get(space.apps("replicasets/by-hand"))
        for one in (first, stuck):
            assert (one["spec"]["replicas"], one["status"]["replicas"]) == (1, 1)

        updated = await set_image(space, "over", OTHER_IMAGE, "other")
        generation = updated["metadata"]["generation"]
        await space.until(own, lambda one: one["status"]["observedGeneration"] >= generation)
        await shows(space, "over", "2", OTHER_IMAGE)
        await eventually(lambda: rolled(space, "over"))
        for old in ("by-hand", stuck["metadata"]["name"]):
            one = await api.get(space.apps(f"replicasets/{old}"))
            assert (one["spec"]["replicas"], one["status"]["replicas"]) == (0, 0)

    workloads.run(scenario)


def test_proportional_scaling(workloads: Workloads) -> None:
    """Deployment deployment should support proportional scaling."""

    async def scenario(space: Space) -> None:
        labels, own = {"name": "share"}, space.apps("deployments/share")
        await space.api.create(space.apps("deployments"), deployment("share", 10, labels, strategy=surge(3, 2)))
        await space.running(10, **labels)
        await complete(space, "share")
        first = space.apps(f"replicasets/{(await new_set(space, 'share'))['metadata']['name']}")

        updated = await set_image(space, "share", MISSING_IMAGE)
        generation = updated["metadata"]["generation"]
        await space.until(own, lambda one: one["status"]["observedGeneration"] >= generation)
        await space.until(first, lambda one: one["status"]["availableReplicas"] == one["spec"]["replicas"] == 8)
        await space.until(first, lambda one: one["status"]["replicas"] == 8)
        newest = await eventually(lambda: new_set(space, "share"))
        second = space.apps(f"replicasets/{newest['metadata']['name']}")
        assert newest["status"].get("availableReplicas", 0) == 0
        await space.until(second, lambda one: one["spec"]["replicas"] == one["status"]["replicas"] == 5)
        assert (await space.api.get(own))["status"]["availableReplicas"] >= 8

        await space.changed(own, lambda one: one["spec"].update(replicas=30))
        await space.until(first, lambda one: one["spec"]["replicas"] == 20)
        await space.until(second, lambda one: one["spec"]["replicas"] == 13)
        shown = await space.until(own, lambda one: one["status"]["replicas"] == 33)
        assert condition(shown, "Progressing")["status"] == "True"

    workloads.run(scenario)
