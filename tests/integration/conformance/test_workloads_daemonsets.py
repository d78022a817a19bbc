"""DaemonSets and ControllerRevisions as the conformance tests of sig-apps use them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import (
    NODES,
    OTHER_IMAGE,
    SERVER_IMAGE,
    Space,
    Workloads,
    check_status_endpoints,
    controller,
    is_ready,
    revision,
    template,
    workload,
)

NAME, COLOR = "daemon-name", "daemon-color"
HASH = "controller-revision-hash"
LABELS = {NAME: "agent"}
CHOSEN = f"{NAME}=agent"
UNKNOWN_IMAGE = "made-up:non-existent"


def daemon_set(**spec: Any) -> Object:
    pods = template(LABELS, grace=None)
    pods["spec"].update(spec)
    pods["spec"]["containers"][0]["ports"] = [{"containerPort": 9376}]
    return workload("agent", LABELS, pods)


async def begin(space: Space, one: Object | None = None) -> Object:
    """Make a set in a namespace without node selector; returns it when it runs on all nodes."""
    selector = {"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/node-selector": ""}}}
    await space.api.patch(f"/api/v1/namespaces/{space.name}", selector, STRATEGIC_PATCH)
    made = await space.api.create(space.apps("daemonsets"), one or daemon_set())
    await runs_everywhere(space, made)
    return await checked(space)


async def checked(space: Space) -> Object:
    """The set, with numbers in its status that agree."""
    found: Object = await space.api.get(space.apps("daemonsets/agent"))
    status = found["status"]
    numbers = [status[key] for key in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")]
    assert numbers[0] in numbers[1:]
    return found


async def staying(space: Space, one: Object) -> list[Object]:
    """The pods of the set that are not on their way out."""
    owned = [pod for pod in await space.pods() if (controller(pod) or {}).get("uid") == one["metadata"]["uid"]]
    return [pod for pod in owned if "deletionTimestamp" not in pod["metadata"]]


async def runs_on(space: Space, one: Object, nodes: list[str]) -> bool:
    """Wait until exactly one available pod of the set is on each of these nodes, and none elsewhere."""

    async def look() -> bool:
        found = sorted(pod["spec"]["nodeName"] for pod in await staying(space, one) if is_ready(pod))
        assert found == sorted(nodes)
        return True

    return await eventually(look)


async def runs_everywhere(space: Space, one: Object) -> bool:
    """Wait until exactly one available pod of the set is on each node."""
    nodes = await space.api.names("/api/v1/nodes")
    assert len(nodes) == NODES
    return await runs_on(space, one, nodes)


async def has_image(space: Space, one: Object, image: str) -> None:
    """Wait until every node has a pod with an image; meanwhile at most one of those that stay is not available."""

    async def look() -> bool:
        pods = await staying(space, one)
        if sum(not is_ready(pod) for pod in pods) > 1:
            pytest.fail("more than one pod is not available")
        nodes = {pod["spec"].get("nodeName") for pod in pods if pod["spec"]["containers"][0]["image"] == image}
        return len(nodes - {None}) == NODES

    await eventually(look)


async def has_hash_of(space: Space, current: Object) -> bool:
    """Whether all pods of the set are of a revision."""
    hashes = {pod["metadata"]["labels"][HASH] for pod in await space.pods(**LABELS)}
    return hashes == {current["metadata"]["labels"][HASH]}


async def history(space: Space, number: int) -> Object:
    """Wait for so many revisions; returns the newest."""

    async def look() -> Object:
        found = (await space.api.get(space.apps("controllerrevisions"), labelSelector=CHOSEN))["items"]
        assert len(found) == number, [one["metadata"]["name"] for one in found]
        newest: Object = max(found, key=lambda one: one["revision"])
        return newest

    return await eventually(look)


async def color(space: Space, node: str, value: str | None) -> None:
    """Label a node, or take the label away."""

    def change(found: Object) -> None:
        labels = {key: each for key, each in found["metadata"]["labels"].items() if key != COLOR}
        found["metadata"]["labels"] = {**labels, **({COLOR: value} if value else {})}

    await space.changed(f"/api/v1/nodes/{node}", change)


def test_simple(workloads: Workloads) -> None:
    """Daemon set should run and stop simple daemon."""

    async def scenario(space: Space) -> None:
        one = await begin(space)
        victim = (await space.pods(**LABELS))[0]["metadata"]
        await space.api.delete(space.core(f"pods/{victim['name']}"))
        await runs_everywhere(space, one)
        assert await space.gone(space.core(f"pods/{victim['name']}"))
        assert await runs_everywhere(space, one)
        await space.remove_with_pods(space.apps("daemonsets/agent"))
        assert not await space.pods(**LABELS)

    workloads.run(scenario)


def test_node_selection(workloads: Workloads) -> None:
    """Daemon set should run and stop complex daemon."""

    async def scenario(space: Space) -> None:
        node = (await space.api.names("/api/v1/nodes"))[0]
        one = await space.api.create(space.apps("daemonsets"), daemon_set(nodeSelector={COLOR: "blue"}))
        assert await runs_on(space, one, [])
        await color(space, node, "blue")
        assert await runs_on(space, one, [node])
        await checked(space)
        await color(space, node, "green")
        assert await runs_on(space, one, [])
        spec = {"template": {"spec": {"nodeSelector": {COLOR: "green"}}}, "updateStrategy": {"type": "RollingUpdate"}}
        one = await space.api.patch(space.apps("daemonsets/agent"), {"spec": spec}, STRATEGIC_PATCH)
        assert await runs_on(space, one, [node])
        await checked(space)
        await color(space, node, None)
        assert await runs_on(space, one, [])

    workloads.run(scenario)


def test_failed_pods_come_again(workloads: Workloads) -> None:
    """Daemon set should retry creating failed daemon pods: what somebody else writes as a pod's phase stands."""

    async def scenario(space: Space) -> None:
        one = await begin(space)
        victim = (await space.pods(**LABELS))[0]
        own = space.core(f"pods/{victim['metadata']['name']}")
        del victim["metadata"]["resourceVersion"]
        victim["status"]["phase"] = "Failed"
        failed = await space.api.update(f"{own}/status", victim)
        assert failed["status"]["phase"] == "Failed"
        await runs_everywhere(space, one)
        assert await space.gone(own)
        assert await runs_everywhere(space, one)

    workloads.run(scenario)


def test_rolling_update(workloads: Workloads) -> None:
    """Daemon set should update pod when spec was updated and update strategy is RollingUpdate."""

    async def scenario(space: Space) -> None:
        made = daemon_set()
        made["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
        one = await begin(space, made)
        current = await history(space, 1)
        assert current["revision"] == 1
        assert await has_hash_of(space, current)
        pods = {"containers": [{"name": "web", "image": OTHER_IMAGE}]}
        patch = {"spec": {"template": {"spec": pods}}}
        await space.api.patch(space.apps("daemonsets/agent"), patch, STRATEGIC_PATCH)
        await has_image(space, one, OTHER_IMAGE)
        await runs_everywhere(space, one)
        current = await history(space, 2)
        assert current["revision"] == 2
        assert await has_hash_of(space, current)

    workloads.run(scenario)


def test_rollback(workloads: Workloads) -> None:
    """Daemon set should rollback without unnecessary restarts."""

    async def scenario(space: Space) -> None:
        made = daemon_set()
        made["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
        one = await begin(space, made)
        own = space.apps("daemonsets/agent")

        def renew(image: str) -> Any:
            return lambda found: found["spec"]["template"]["spec"]["containers"][0].update(image=image)

        await space.changed(own, renew(UNKNOWN_IMAGE))

        async def stuck() -> list[Object]:
            pods = await space.pods(**LABELS)
            assert UNKNOWN_IMAGE in [pod["spec"]["containers"][0]["image"] for pod in pods]
            return pods

        pods = await eventually(stuck)
        kept = {pod["metadata"]["name"] for pod in pods if pod["spec"]["containers"][0]["image"] != UNKNOWN_IMAGE}
        assert len(kept) == NODES - 1
        await space.changed(own, renew(SERVER_IMAGE))
        await has_image(space, one, SERVER_IMAGE)
        assert kept <= {pod["metadata"]["name"] for pod in await space.pods(**LABELS)}

    workloads.run(scenario)


def test_collection(workloads: Workloads) -> None:
    """Daemon set should list and delete a collection of DaemonSets."""

    async def scenario(space: Space) -> None:
        await begin(space)
        everywhere = "/apis/apps/v1/daemonsets"
        assert await space.api.names(everywhere, labelSelector=CHOSEN) == ["agent"]
        await space.api.delete(space.apps("daemonsets"), {"gracePeriodSeconds": 1}, labelSelector=CHOSEN)
        assert await space.api.names(everywhere, labelSelector=CHOSEN) == []

    workloads.run(scenario)


def test_status(workloads: Workloads) -> None:
    """Daemon set should verify changes to a daemon set status: its patch is a whole object as Go writes one, with the status set."""

    async def scenario(space: Space) -> None:
        path = space.apps("daemonsets")
        since = revision(await space.api.get("/apis/apps/v1/daemonsets", labelSelector=CHOSEN))
        await begin(space)
        pods = {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}}
        keys = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        patch = {
            "metadata": {"creationTimestamp": None},
            "spec": {"selector": None, "template": pods, "updateStrategy": {}},
            "status": {
                **dict.fromkeys(keys, 0),
                "conditions": [{"type": "StatusPatched", "status": "True", "lastTransitionTime": None}],
            },
        }
        await check_status_endpoints(space, path, "agent", since, patch, CHOSEN)
        assert await runs_everywhere(space, await space.api.get(f"{path}/agent"))

    workloads.run(scenario)


def test_controller_revision(workloads: Workloads) -> None:
    """ControllerRevision should manage the lifecycle of a ControllerRevision."""

    async def scenario(space: Space) -> None:
        api, path = space.api, space.apps("controllerrevisions")
        one = await begin(space)
        (first,) = (await api.get("/apis/apps/v1/controllerrevisions", labelSelector=CHOSEN))["items"]
        owner, name = first["metadata"]["ownerReferences"][0], first["metadata"]["name"]
        assert (owner["kind"], owner["uid"]) == ("DaemonSet", one["metadata"]["uid"])
        patched = await api.patch(f"{path}/{name}", {"metadata": {"labels": {name: "patched"}}}, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"][name] == "patched"

        second = {
            "metadata": {"name": "agent-more", "labels": {**LABELS, HASH: "more"}, "ownerReferences": [owner]},
            "data": first["data"],
            "revision": first["revision"] + 1,
        }
        await api.create(path, second)
        await history(space, 2)
        await api.delete(f"{path}/{name}")
        await history(space, 1)
        (only,) = (await api.get(path))["items"]
        assert only["metadata"]["name"] == "agent-more"
        updated = await space.changed(
            f"{path}/agent-more", lambda found: found["metadata"]["labels"].update({"agent-more": "updated"})
        )
        assert updated["metadata"]["labels"]["agent-more"] == "updated"

        spec = {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}
        patch = {"spec": spec, "updateStrategy": {"type": "RollingUpdate"}}
        await api.patch(space.apps("daemonsets/agent"), patch, STRATEGIC_PATCH)
        await history(space, 2)
        await api.delete(path, labelSelector="agent-more=updated")
        await history(space, 1)
        (only,) = (await api.get(path))["items"]
        assert only["revision"] == 3
        await space.remove_with_pods(space.apps("daemonsets/agent"))

    workloads.run(scenario)
