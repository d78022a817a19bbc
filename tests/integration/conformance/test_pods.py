"""The life of pods as clients see it. Conformance: Pods, Pods Extended (pod generation), RuntimeClass."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import (
    OTHER_IMAGE,
    PAUSE,
    SERVER_IMAGE,
    Space,
    Workloads,
    condition,
    is_ready,
    revision,
)

TOOL = "registry.k8s.io/e2e-test-images/agnhost:2.56"
"""Without a command it waits to be stopped."""
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str, labels: dict[str, str] | None = None, image: str = PAUSE, **spec: object) -> Object:
    """A pod that the strictest standard allows."""
    container = {"name": "main", "image": image, "securityContext": RESTRICTED}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


async def submit(space: Space, made: Object) -> Object:
    """Create a pod and wait until it is ready; returns it as it is then."""
    path = space.core("pods")
    await space.api.create(path, made)
    return await space.until(
        f"{path}/{made['metadata']['name']}", lambda one: one["status"]["phase"] == "Running" and is_ready(one)
    )


async def none_left(space: Space, **labels: str) -> bool:
    """No pod with these labels is there any more."""
    return not await space.pods(**labels)


def test_a_pod_tells_the_address_of_its_host(workloads: Workloads) -> None:
    """Pods should get a host IP."""

    async def scenario(space: Space) -> None:
        strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        await space.api.patch(f"/api/v1/namespaces/{space.name}", strict, STRATEGIC_PATCH)
        status = (await submit(space, pod("somewhere")))["status"]
        assert ipaddress.ip_address(status["hostIP"])
        assert status["hostIPs"] == [{"ip": status["hostIP"]}]

    workloads.run(scenario)


def test_a_pod_is_submitted_and_removed(workloads: Workloads) -> None:
    """Pods should be submitted and removed."""

    async def scenario(space: Space) -> None:
        path, chosen = space.core("pods"), "time=now"
        assert not (await space.api.get(path, labelSelector=chosen))["items"]
        stream = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with space.api.watch(path, labelSelector=chosen, **stream) as watch:
            kind, mark = await watch.next()
            assert (kind, mark["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
            await space.api.create(path, pod("passing", {"name": "passing", "time": "now"}))
            assert await space.api.names(path, labelSelector=chosen) == ["passing"]
            kind, seen = await watch.next()
            assert (kind, seen["metadata"]["name"]) == ("ADDED", "passing")
            await space.until(f"{path}/passing", lambda one: one["status"]["phase"] == "Running")
            await space.api.delete(f"{path}/passing", {"gracePeriodSeconds": 30})
            last = await watch.until("DELETED")
        assert "deletionTimestamp" in last["metadata"]
        assert last["spec"]["terminationGracePeriodSeconds"] == 30
        assert not (await space.api.get(path, labelSelector=chosen))["items"]

    workloads.run(scenario)


def test_a_pod_is_updated(workloads: Workloads) -> None:
    """Pods should be updated."""

    async def scenario(space: Space) -> None:
        path = space.core("pods")
        await submit(space, pod("relabelled", {"time": "before"}))
        assert await space.api.names(path, labelSelector="time=before") == ["relabelled"]
        await space.changed(f"{path}/relabelled", lambda one: one["metadata"]["labels"].update(time="after"))
        await space.until(f"{path}/relabelled", lambda one: one["status"]["phase"] == "Running")
        assert await space.api.names(path, labelSelector="time=after") == ["relabelled"]

    workloads.run(scenario)


def test_pods_are_deleted_as_a_collection(workloads: Workloads) -> None:
    """Pods should delete a collection of pods."""

    async def scenario(space: Space) -> None:
        labels = {"type": "together"}
        for number in (1, 2, 3):
            made = pod(f"pod-{number}", labels, TOOL, terminationGracePeriodSeconds=1, restartPolicy="Never")
            await space.api.create(space.core("pods"), made)
        assert all(is_ready(one) for one in await space.running(3, **labels))
        await space.api.delete(space.core("pods"), {"gracePeriodSeconds": 1}, labelSelector="type=together")
        assert await eventually(lambda: none_left(space, **labels))

    workloads.run(scenario)


def test_the_life_of_a_pod_and_its_status(workloads: Workloads) -> None:
    """Pods should run through the lifecycle of Pods and PodStatus."""

    async def scenario(space: Space) -> None:
        path, chosen = space.core("pods"), "life=whole"
        own = f"{path}/living"
        since = revision(await space.api.get("/api/v1/pods", labelSelector=chosen))
        await space.api.create(path, pod("living", {"life": "whole"}, TOOL, terminationGracePeriodSeconds=1))
        await space.seen(path, since, lambda one: one["status"]["phase"] == "Running", labelSelector=chosen)
        since = revision(await space.api.get(own))

        containers = [{"name": "main", "image": OTHER_IMAGE, "resources": {}}]
        patch = {
            "metadata": {"creationTimestamp": None, "labels": {"phase-of-life": "patched"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": containers},
            "status": {},
        }
        await space.api.patch(own, patch, STRATEGIC_PATCH)
        await space.seen(path, since, lambda one: True, ("MODIFIED",), labelSelector=chosen)
        patched = await space.api.get(own)
        assert patched["metadata"]["labels"]["phase-of-life"] == "patched"
        assert patched["spec"]["containers"][0]["image"] == OTHER_IMAGE

        updated = await space.changed(f"{own}/status", unready)
        assert [condition(updated, kind)["status"] for kind in ("Ready", "ContainersReady")] == ["False", "False"]

        await space.api.delete(path, {"gracePeriodSeconds": 1}, labelSelector=chosen)
        await space.seen(path, revision(updated), lambda one: True, ("DELETED",), labelSelector=chosen)
        assert await space.absent(own)

    def unready(one: Object) -> None:
        """Both conditions must have been true: the new image makes no difference to that at once."""
        for kind in ("Ready", "ContainersReady"):
            assert condition(one, kind)["status"] == "True"
            condition(one, kind)["status"] = "False"

    workloads.run(scenario)


def test_the_status_of_a_pod_is_patched(workloads: Workloads) -> None:
    """Pods should patch a pod status."""

    async def scenario(space: Space) -> None:
        await submit(space, pod("told", {"trial": "told"}, TOOL, terminationGracePeriodSeconds=1))
        status = {"message": "somebody wrote this", "reason": "Trial"}
        patch = {"metadata": {"annotations": {"told": "true"}}, "status": status}
        patched = await space.api.patch(space.core("pods/told/status"), patch, MERGE_PATCH)
        assert status.items() <= patched["status"].items()

    workloads.run(scenario)


async def observed(space: Space, name: str, generation: int) -> Object:
    """The metadata of a pod when the kubelet has seen a generation of its spec."""
    found = await space.until(
        space.core(f"pods/{name}"), lambda one: one["status"].get("observedGeneration") == generation
    )
    metadata: Object = found["metadata"]
    return metadata


def _tolerate(one: Object) -> None:
    one["spec"]["tolerations"] = [{"key": "mine", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]


CHANGES: list[tuple[Callable[[Object], object], bool]] = [
    (lambda one: None, False),
    (_tolerate, True),
    (lambda one: one["spec"].update(activeDeadlineSeconds=5000), True),
    (lambda one: one["spec"]["containers"][0].update(image=SERVER_IMAGE), True),
    (lambda one: one["spec"]["initContainers"][0].update(image=PAUSE), True),
    (lambda one: one["metadata"].update(annotations={"key": "value"}), False),
    (lambda one: one["metadata"].update(generation=1), False),
]
"""Changes of a pod, and whether they make a new generation."""


def test_the_generation_of_a_pod_counts_changes_of_its_spec(workloads: Workloads) -> None:
    """Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per update."""

    async def scenario(space: Space) -> None:
        before = {
            "name": "before",
            "image": "registry.k8s.io/e2e-test-images/busybox:1.37",
            "securityContext": RESTRICTED,
        }
        made = await submit(space, pod("counted", image=TOOL, initContainers=[before]))
        generation = 1
        assert made["metadata"]["generation"] == generation
        own = space.core("pods/counted")
        for change, counts in CHANGES:
            await space.changed(own, lambda one, change=change: change(one))  # type: ignore[misc]
            generation += counts
            assert (await space.api.get(own))["metadata"]["generation"] == generation
            assert (await observed(space, "counted", generation))["generation"] == generation

    workloads.run(scenario)


def test_a_graceful_deletion_makes_a_new_generation(workloads: Workloads) -> None:
    """Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete."""

    async def scenario(space: Space) -> None:
        chosen = pod("chosen", image=TOOL)
        chosen["metadata"]["generation"] = 100
        made = await submit(space, chosen)
        assert made["metadata"]["generation"] == 1
        own = space.core("pods/chosen")
        await space.api.delete(own, gracePeriodSeconds="60")
        assert (await space.api.get(own))["metadata"]["generation"] == 2

    workloads.run(scenario)


def test_what_is_observed_follows_five_hundred_updates(workloads: Workloads) -> None:
    """Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and observedGeneration eventually converge."""

    def sooner(one: Object) -> None:
        one["spec"]["activeDeadlineSeconds"] -= 1

    async def scenario(space: Space) -> None:
        await submit(space, pod("hurried", image=TOOL, activeDeadlineSeconds=5000))
        for _ in range(499):
            await space.changed(space.core("pods/hurried"), sooner)
        assert (await observed(space, "hurried", 500))["generation"] == 500

    workloads.run(scenario)


async def scheduled_with_class(space: Space, **fields: object) -> Object:
    """The spec of a pod that names a runtime class, when it is on a node."""
    name = f"{space.name}-class"
    await space.api.create(
        "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": name}, "handler": "trial-handler", **fields}
    )
    try:
        made = pod("classed", restartPolicy="Never", runtimeClassName=name, automountServiceAccountToken=False)
        await space.api.create(space.core("pods"), made)
        found = await space.until(space.core("pods/classed"), lambda one: one["spec"].get("nodeName"))
        assert len(await space.pods()) == 1
        spec: Object = found["spec"]
        return spec
    finally:
        await space.api.delete(f"/apis/node.k8s.io/v1/runtimeclasses/{name}")


def test_a_runtime_class_without_overhead(workloads: Workloads) -> None:
    """RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead."""

    async def scenario(space: Space) -> None:
        assert "overhead" not in await scheduled_with_class(space)

    workloads.run(scenario)


def test_a_runtime_class_with_overhead(workloads: Workloads) -> None:
    """RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead."""

    async def scenario(space: Space) -> None:
        overhead = {"cpu": "10m", "memory": "1Mi"}
        assert (await scheduled_with_class(space, overhead={"podFixed": overhead}))["overhead"] == overhead

    workloads.run(scenario)
