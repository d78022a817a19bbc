"""What happens while things go wrong, and what has to hold: at every moment, and when all is quiet again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.pods.execution_rules import ANNOTATION
from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.controllers.pods import is_ready
from bayplan.testing.builders import deployment, rolling, selector, template
from tests.controllers.faults.world import Broken, World

Scenario = Callable[[World], Awaitable[None]]


def image(name: str) -> dict[str, Any]:
    """A patch of a pod template's image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def runs(world: World, count: int, name: str, **labels: str) -> bool:
    """Whether exactly so many ready pods with this image are there."""
    pods = world.pods(**labels)
    return len(pods) == count and all(is_ready(pod) and pod.spec.containers[0].image == name for pod in pods)


async def roll_out(world: World) -> None:
    """A deployment is rolled out, scaled and changed again in the middle; there are never more pods than surge allows."""
    client = world.client
    await client.create(deployment("web", 4, strategy=rolling(1, 1)))
    await world.some_time()
    await client.patch(apps_v1.Deployment, "web", "default", image("app:2"))
    await world.some_time()
    scaled = await client.patch(apps_v1.Deployment, "web", "default", {"spec": {"replicas": 6}})
    await world.some_time()
    await client.patch(apps_v1.Deployment, "web", "default", image("app:3"))
    await world.some_time()
    await world.calm()

    async def done() -> bool:
        status = (await client.get(apps_v1.Deployment, "web", "default")).status
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        return counts == (6, 6, 6) and runs(world, 6, "app:3", app="web")

    await world.eventually(done, "the roll-out")
    sets = (await client.list(apps_v1.ReplicaSet, "default")).items
    if sum(bool(one.spec.replicas) for one in sets) != 1:
        raise Broken("more than one ReplicaSet has pods")
    for when, asked in world.sizes_at():
        most = 5 if when < int(scaled.metadata.resource_version) else 7
        if asked > most:
            raise Broken(f"{asked} pods were asked for, at most {most} may be")
    if len(sets) > 3:
        raise Broken(f"{len(sets)} ReplicaSets for three templates")


async def stateful(world: World) -> None:
    """A StatefulSet comes up, is rolled and shrinks, one pod at a time and in order."""
    client = world.client
    made = apps_v1.StatefulSet(
        metadata=deployment("db").metadata,
        spec=apps_v1.StatefulSetSpec(
            replicas=3, service_name="db", selector=selector({"app": "db"}), template=template({"app": "db"})
        ),
    )
    world.at_most(lambda: 3, "StatefulSet db", app="db")

    def in_order() -> str:
        """A pod is there only if all before it are: those are taken away from the end, and replaced one after the other."""
        there = {int(pod.metadata.name.rpartition("-")[2]) for pod in world.pods(app="db")}
        missing = {number for number in range(max(there, default=-1)) if number not in there}
        return f"pods {sorted(there)}: more than one is missing in between" if len(missing) > 1 else ""

    world.limits.append(in_order)
    await client.create(made)
    await world.some_time(40)
    await client.patch(apps_v1.StatefulSet, "db", "default", image("app:2"))
    await world.some_time(40)
    await client.patch(apps_v1.StatefulSet, "db", "default", {"spec": {"replicas": 2}})
    await world.some_time()
    await world.calm()

    async def done() -> bool:
        status = (await client.get(apps_v1.StatefulSet, "db", "default")).status
        same = status.current_revision == status.update_revision
        return same and status.ready_replicas == 2 and runs(world, 2, "app:2", app="db")

    await world.eventually(done, "the StatefulSet")


async def on_every_node(world: World) -> None:
    """A DaemonSet has one pod on each node and is rolled."""
    client = world.client
    made = apps_v1.DaemonSet(
        metadata=deployment("agent").metadata,
        spec=apps_v1.DaemonSetSpec(selector=selector({"app": "agent"}), template=template({"app": "agent"})),
    )

    def one_each() -> str:
        nodes = Counter(_node_of(pod) for pod in world.pods(app="agent"))
        return f"pods per node: {dict(nodes)}" if max(nodes.values(), default=0) > 1 else ""

    world.limits.append(one_each)
    await client.create(made)
    await world.some_time()
    await client.patch(apps_v1.DaemonSet, "agent", "default", image("app:2"))
    await world.some_time(40)
    await world.calm()

    async def done() -> bool:
        status = (await client.get(apps_v1.DaemonSet, "agent", "default")).status
        return status.updated_number_scheduled == status.number_available == 3 and runs(world, 3, "app:2", app="agent")

    await world.eventually(done, "the DaemonSet")


def _node_of(pod: core_v1.Pod) -> str:
    """The node that a daemon's pod is for, also before it has been bound."""
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution  # type: ignore[union-attr]
    return str(required.node_selector_terms[0].match_fields[0].values[0])  # type: ignore[union-attr]


async def work(world: World) -> None:
    """A Job does its work exactly once."""
    spec = {"completions": 5, "parallelism": 2}
    pod = {"containers": [{"name": "main", "image": "app"}], "restartPolicy": "Never"}
    metadata = {"name": "work", "namespace": "default"}
    job = from_tree(batch_v1.Job, {"metadata": metadata, "spec": {**spec, "template": {"spec": pod}}})
    world.at_most(lambda: 2, "job work", **{"batch.kubernetes.io/job-name": "work"})
    await world.client.create(job)
    await world.some_time(40)
    await world.calm()

    async def done() -> bool:
        status = (await world.client.get(batch_v1.Job, "work", "default")).status
        return any(one.type == "Complete" and one.status == "True" for one in status.conditions)

    await world.eventually(done, "the job")
    status = (await world.client.get(batch_v1.Job, "work", "default")).status
    pods = (await world.client.list(core_v1.Pod, "default", label_selector="job-name=work")).items
    if (status.succeeded, status.failed, status.active) != (5, 0, 0) or len(pods) != 5:
        raise Broken(f"the job counts {status.succeeded} done and {status.failed} failed, it has {len(pods)} pods")

    async def released() -> bool:
        found = (await world.client.list(core_v1.Pod, "default", label_selector="job-name=work")).items
        return not any(one.metadata.finalizers for one in found)

    await world.eventually(released, "finalizers of the job's pods")


async def emptied(world: World) -> None:
    """A namespace goes with all that is in it."""
    client = world.client
    await client.create(from_tree(core_v1.Namespace, {"metadata": {"name": "doomed"}}))

    async def account() -> Any:
        return await client.get(core_v1.ServiceAccount, "default", "doomed")

    await world.eventually(account, "the account of pods")
    await client.create(deployment("web", 3, namespace="doomed"))
    for number in range(3):
        metadata = {"name": f"map-{number}", "namespace": "doomed"}
        await client.create(from_tree(core_v1.ConfigMap, {"metadata": metadata}))
    await world.some_time()
    await client.delete(core_v1.Namespace, "doomed")
    await world.some_time()
    await world.calm()
    await world.eventually(lambda: world.gone(core_v1.Namespace, "doomed", ""), "the namespace")
    for cls in (core_v1.Pod, core_v1.ConfigMap, core_v1.ServiceAccount, apps_v1.ReplicaSet, apps_v1.Deployment):
        if (await client.list(cls, "doomed")).items:
            raise Broken(f"objects of {cls.__name__} are left in a namespace that is gone")


async def orphaned(world: World) -> None:
    """What is orphaned stays, what is owned goes: one deployment of each kind."""
    client = world.client
    for name in ("kept", "dropped"):
        await client.create(deployment(name, 3))

    async def up() -> bool:
        return len(world.pods(app="kept")) == 3

    await world.eventually(up, "the pods")
    kept = {pod.metadata.uid for pod in world.pods(app="kept")}
    await client.delete(apps_v1.Deployment, "kept", "default", propagation_policy="Orphan")
    await world.some_time()
    policy = world.chance.choice(("Foreground", "Background"))
    await client.delete(apps_v1.Deployment, "dropped", "default", propagation_policy=policy)
    await world.some_time()
    await world.calm()

    async def gone() -> bool:
        left = await world.gone(apps_v1.Deployment, "kept") and await world.gone(apps_v1.Deployment, "dropped")
        return left and not world.pods(app="dropped")

    await world.eventually(gone, "the deployments")

    async def free() -> bool:
        sets = (await client.list(apps_v1.ReplicaSet, "default")).items
        return len(sets) == 1 and not sets[0].metadata.owner_references

    await world.eventually(free, "the orphan")
    if not kept <= set(world.live):
        raise Broken("pods of an orphaned ReplicaSet were deleted")


async def relabelled(world: World) -> None:
    """Pods have to be on nodes with a label, which goes from one node to another; no pod leaves a node that has it."""
    client = world.client

    async def label(node: str, value: str | None) -> None:
        await client.patch(core_v1.Node, node, "", {"metadata": {"labels": {"disk": value}}})

    await label("node-1", "ssd")
    await label("node-2", "ssd")
    made = deployment("web", 4)
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    rules = {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [term]}}}
    made.spec.template.metadata.annotations = {ANNOTATION: json.dumps(rules)}
    await client.create(made)

    async def up() -> bool:
        return runs(world, 4, "app:1", app="web")

    await world.eventually(up, "the pods")
    stay = {pod.metadata.uid for pod in world.pods(app="web") if pod.spec.node_name == "node-2"}
    await label("node-1", None)
    await world.some_time()
    await world.calm()

    async def moved() -> bool:
        return await up() and all(pod.spec.node_name == "node-2" for pod in world.pods(app="web"))

    await world.eventually(moved, "the pods on the node with the label")
    if not stay <= set(world.live):
        raise Broken("a pod left a node where its rule holds")


SCENARIOS: dict[str, Scenario] = {
    "roll-out": roll_out,
    "stateful set": stateful,
    "daemon set": on_every_node,
    "job": work,
    "namespace": emptied,
    "orphans": orphaned,
    "relabelled node": relabelled,
}
