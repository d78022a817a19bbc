"""Clusters and pods to decide about: those of the recorded cases, with pods of other cases, and such as come of chance."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayplan.testing.golden import cases
from tests.scheduler.reference.generator import Generator

Tree = dict[str, Any]
_RECORDED: Final = Path(__file__).parents[1] / "golden" / "scheduler"
_TOPICS: Final = (
    *("resources", "taints-tolerations", "node-selection", "pod-affinity", "topology-spread", "ports", "images"),
    *("volumes", "preemption", "mixed", "sequences"),
)
_KINDS: Final = {
    "namespaces": "Namespace", "priorityclasses": "PriorityClass", "services": "Service", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet",
    "replicationcontrollers": "ReplicationController", "storageclasses": "StorageClass", "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim", "csidrivers": "CSIDriver", "csinodes": "CSINode", "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment", "poddisruptionbudgets": "PodDisruptionBudget", "nodes": "Node", "pods": "Pod",
}  # fmt: skip
"""Plural -> kind, in the order in which objects are made."""
_NAMESPACES: Final = ("default", "shop")
_PRIORITIES: Final = {"low": -10, "middle": 100, "high": 10_000}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is, and the pods that come."""

    name: str
    objects: list[tuple[str, Tree]]
    """Kind and object."""
    queue: list[Tree]


def clusters(seed: int, largest: int) -> Iterator[Cluster]:
    """Clusters without end. largest: most nodes of those that come of chance."""
    chance = random.Random(seed)
    recorded = {topic: list(cases(_RECORDED / f"{topic}.jsonl.gz")) for topic in _TOPICS}
    number = 0
    while True:
        number += 1
        if chance.random() < 0.6:
            yield _of_recorded(chance, recorded, f"{seed}-{number}")
        else:
            yield _of_chance(chance, f"{seed}-{number}", largest)


def _of_recorded(chance: random.Random, recorded: Mapping[str, list[Any]], name: str) -> Cluster:
    topic = chance.choice(_TOPICS)
    case = chance.choice(recorded[topic])
    objects = [
        (kind, each)
        for plural, kind in _KINDS.items()
        for each in case["objects"].get(plural, ())
        if kind != "Pod" or each["spec"].get("nodeName")
    ]
    known = {each["metadata"]["name"] for kind, each in objects if kind == "PersistentVolumeClaim"}
    classes = {each["metadata"]["name"] for kind, each in objects if kind == "PriorityClass"}
    candidates = [
        pod
        for other in [case, *chance.sample(recorded[topic], 6), *chance.sample(recorded["mixed"], 3)]
        for pod in [*other.get("queue", ()), *([other["pod"]] if "pod" in other else ()), *other["objects"]["pods"]]
        if _claims(pod) <= known and pod["spec"].get("priorityClassName", "") in {"", *classes}
    ]
    namespaces = {"default", *(each["metadata"]["name"] for kind, each in objects if kind == "Namespace")}
    queue = [_fresh(chance.choice(candidates), f"pod-{index}") for index in range(60)]
    for pod in queue:
        if pod["metadata"]["namespace"] not in namespaces:
            pod["metadata"]["namespace"] = "default"
    return Cluster(f"{name} {case['id']}", objects, queue)


def _claims(pod: Tree) -> set[str]:
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    } | {
        f"{pod['metadata']['name']}-{volume['name']}"
        for volume in pod["spec"].get("volumes", ())
        if "ephemeral" in volume
    }


def _fresh(pod: Tree, name: str) -> Tree:
    """A pod like another one, of its own name, that nobody has scheduled yet."""
    given, spec = (
        pod["metadata"],
        {**pod["spec"], "terminationGracePeriodSeconds": 0, "schedulerName": "default-scheduler"},
    )
    for field in ("nodeName", "priority", "preemptionPolicy") if spec.get("priorityClassName") else ("nodeName",):
        spec.pop(field, None)
    metadata = {"name": name, "namespace": given["namespace"], "labels": given.get("labels", {})}
    owners = given.get("ownerReferences")
    return {"metadata": {**metadata, **({"ownerReferences": owners} if owners else {})}, "spec": spec}


def _of_chance(chance: random.Random, name: str, largest: int) -> Cluster:
    generator = Generator(chance.randrange(1 << 60))
    size = chance.choice((8, 8, 40, largest))
    world = generator.world(size)
    objects: list[tuple[str, Tree]] = [
        ("Namespace", {"metadata": {"name": each, "labels": labels}}) for each, labels in world.namespaces.items()
    ]
    objects += [("PriorityClass", {"metadata": {"name": each}, "value": value}) for each, value in _PRIORITIES.items()]
    for index in range(chance.randint(0, 2)):
        objects.append(("PodDisruptionBudget", _budget(chance, f"budget-{index}")))
    objects += [("Node", node) for node in world.nodes]
    with_priorities = chance.random() < 0.5
    queue = []
    for index in range(min(400, 20 + 8 * len(world.nodes))):
        pod = generator.pod(f"pod-{index}")
        spec = {**pod["spec"], "terminationGracePeriodSeconds": 0}
        for number, container in enumerate([*spec["containers"], *spec.get("initContainers", ())]):
            container["name"] = f"c{number}"
        if with_priorities and chance.random() < 0.6:
            spec["priorityClassName"] = chance.choice(list(_PRIORITIES))
        queue.append({"metadata": {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}, "spec": spec})
    return Cluster(name, objects, queue)


def _budget(chance: random.Random, name: str) -> Tree:
    selector = {"matchLabels": {"app": chance.choice(("web", "db", "job"))}}
    return {
        "metadata": {"name": name, "namespace": chance.choice(_NAMESPACES)},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": {
            "disruptionsAllowed": chance.choice((0, 1, 2)),
            "observedGeneration": 1,
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "expectedPods": 3,
        },
    }
