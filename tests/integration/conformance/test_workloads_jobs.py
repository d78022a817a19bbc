"""Jobs as the conformance tests of sig-apps use them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import (
    PAUSE,
    Space,
    Workloads,
    condition,
    controller,
    revision,
)

BUSYBOX = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
INDEX = "batch.kubernetes.io/job-completion-index"
ENDS = ["/bin/sh", "-c", "exit 0"]


def job(name: str, image: str = PAUSE, command: list[str] | None = None, **spec: Any) -> Object:
    """Four completions, two at a time, in pods that are never restarted."""
    mount = {"name": "data", "mountPath": "/data"}
    container = {"name": "main", "image": image, "command": command or [], "volumeMounts": [mount]}
    pods = {
        "metadata": {"labels": {"job": name}},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{**container, "securityContext": {}}],
        },
    }
    wanted = {"parallelism": 2, "completions": 4, "backoffLimit": 6, "manualSelector": False, "template": pods}
    return {"metadata": {"name": name}, "spec": {**wanted, **spec}}


async def running(space: Space, name: str) -> list[Object]:
    """Wait until two pods of a job run; there are no others."""
    return await space.running(2, job=name)


def has(kind: str, reason: str) -> Any:
    """A condition that is true, for a reason."""
    return lambda one: (condition(one, kind).get("status"), condition(one, kind).get("reason")) == ("True", reason)


async def completed(space: Space, name: str, successes: int, reason: str) -> Object:
    """Wait until a job is complete for a reason; at no time it has failed."""
    path = space.batch(f"jobs/{name}")

    async def look() -> Object:
        found: Object = await space.api.get(path)
        if condition(found, "Failed").get("status") == "True":
            pytest.fail("the job has failed")
        assert found["status"].get("succeeded") == successes
        return found

    await eventually(look)
    return await space.until(path, has("Complete", reason))


def test_indexed(workloads: Workloads) -> None:
    """Job should create pods for an Indexed job with completion indexes and specified hostname."""

    async def scenario(space: Space) -> None:
        made = job("count", BUSYBOX, ENDS, completionMode="Indexed")
        await space.api.create(space.batch("jobs"), made)
        await completed(space, "count", 4, "CompletionsReached")
        found = []
        for pod in await space.pods(job="count"):
            assert pod["status"]["phase"] == "Succeeded"
            index = int(pod["metadata"]["annotations"][INDEX])
            assert pod["metadata"]["labels"][INDEX] == str(index)
            assert pod["spec"]["hostname"] == f"count-{index}"
            found.append(index)
        assert sorted(found) == [0, 1, 2, 3]

    workloads.run(scenario)


def test_success_policy(workloads: Workloads) -> None:
    """Job with successPolicy should succeeded when all indexes succeeded; the containers run what their image says."""

    async def scenario(space: Space) -> None:
        policy = {"rules": [{"succeededCount": 2}]}
        made = job("enough", BUSYBOX, completions=2, completionMode="Indexed", successPolicy=policy)
        await space.api.create(space.batch("jobs"), made)
        path = space.batch("jobs/enough")
        await space.until(path, has("SuccessCriteriaMet", "SuccessPolicy"))
        done = await completed(space, "enough", 2, "SuccessPolicy")
        status = done["status"]
        assert (status.get("active", 0), status["ready"], status["terminating"], status.get("failed", 0)) == (0,) * 4

    workloads.run(scenario)


def test_deletion(workloads: Workloads) -> None:
    """Job should delete a job: its pods stop and go."""

    async def scenario(space: Space) -> None:
        await space.api.create(space.batch("jobs"), job("endless"))
        await running(space, "endless")
        await space.remove_with_pods(space.batch("jobs/endless"))
        assert not await space.pods(job="endless")

    workloads.run(scenario)


def test_adoption_and_release(workloads: Workloads) -> None:
    """Job should adopt matching orphans and release non-matching pods."""

    async def scenario(space: Space) -> None:
        owner = await space.api.create(space.batch("jobs"), job("parent"))
        pods = await running(space, "parent")
        path = space.core(f"pods/{pods[0]['metadata']['name']}")
        await space.changed(path, lambda pod: pod["metadata"].pop("ownerReferences"))
        found = controller(await space.until(path, controller))
        assert found is not None
        assert (found["kind"], found["name"], found["uid"]) == ("Job", "parent", owner["metadata"]["uid"])
        await space.changed(path, lambda pod: pod["metadata"].pop("labels"))
        await space.until(path, lambda pod: controller(pod) is None)
        assert path not in [space.core(f"pods/{pod['metadata']['name']}") for pod in await running(space, "parent")]

    workloads.run(scenario)


def test_status(workloads: Workloads) -> None:
    """Job should apply changes to a job status: what somebody adds stays, with the times that they gave it."""
    first, second = "2026-03-01T10:00:00Z", "2026-03-01T10:05:00Z"

    async def scenario(space: Space) -> None:
        made = await space.api.create(space.batch("jobs"), job("shown"))
        await running(space, "shown")
        path = space.batch("jobs/shown")
        mine = {"type": "Mine", "status": "True", "lastProbeTime": None, "lastTransitionTime": first}
        patch = {"metadata": {"annotations": {"through": "status"}}, "status": {"conditions": [mine]}}
        patched = await space.api.patch(f"{path}/status", patch)
        assert condition(patched, "Mine")["lastTransitionTime"] == first
        assert patched["metadata"]["annotations"]["through"] == "status"

        def later(one: Object) -> None:
            condition(one, "Mine")["lastTransitionTime"] = second

        updated = await space.changed(f"{path}/status", later)
        assert condition(updated, "Mine")["lastTransitionTime"] == second
        assert (await space.dynamic.get(f"{path}/status"))["metadata"]["uid"] == made["metadata"]["uid"]

    workloads.run(scenario)


def test_lifecycle(workloads: Workloads) -> None:
    """Job should manage the lifecycle of a job."""

    async def scenario(space: Space) -> None:
        api, path, chosen = space.api, space.batch("jobs"), "trial=life"
        own, everywhere = f"{path}/life", "/apis/batch/v1/jobs"
        since = revision(await api.get(path, labelSelector=chosen))
        made = job("life", BUSYBOX, ENDS, suspend=True)
        made["metadata"]["labels"] = {"trial": "life"}
        await api.create(path, made)
        patched = await api.patch(own, {"metadata": {"labels": {"life": "patched"}}}, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"]["life"] == "patched"
        labelled = ("MODIFIED",)
        await space.seen(path, since, lambda one: one["metadata"]["labels"].get("life"), labelled, labelSelector=chosen)
        assert not await space.pods(job="life"), "it is suspended"

        def resume(one: Object) -> None:
            one["spec"]["suspend"] = False
            one["metadata"].setdefault("annotations", {})["updated"] = "yes"

        before = await api.get(own)
        updated = await space.changed(own, resume)
        assert updated["metadata"]["annotations"]["updated"] == "yes"

        def annotated(one: Object) -> Any:
            return one["metadata"].get("annotations", {}).get("updated")

        await space.seen(path, revision(before), annotated, ("MODIFIED",), labelSelector=chosen)
        assert await api.names(everywhere, labelSelector=chosen) == ["life"]
        await completed(space, "life", 4, "CompletionsReached")
        await api.delete(path, {"propagationPolicy": "Background"}, labelSelector=chosen)
        await space.seen(path, revision(updated), lambda one: True, ("DELETED",), labelSelector=chosen)
        assert await api.names(everywhere, labelSelector=chosen) == []

    workloads.run(scenario)
