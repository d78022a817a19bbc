"""Copies of small clusters for tests."""

from __future__ import annotations

import random
from typing import Any

from bayplan.api.types import apps_v1, core_v1, meta_v1, policy_v1
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot, unique
from bayplan.testing.builders import node, owner, pod, pod_status, replica_set, selector, taint, toleration


def copy_of(*objects: Any) -> ClusterSnapshot:
    """A copy with these objects."""
    return ClusterSnapshot(unique((KINDS.of_type(type(obj)), obj) for obj in objects), taken_at="2026-01-02T03:04:05Z")


def running(name: str, node_name: str, **fields: Any) -> core_v1.Pod:
    """A pod that runs on a node."""
    meta = {"uid": f"uid-{name}", **fields.pop("meta", {})}
    return pod(name, node_name=node_name, status=pod_status(), meta=meta, **fields)


def owned(replicas: apps_v1.ReplicaSet, name: str, node_name: str, **fields: Any) -> core_v1.Pod:
    """A pod of a replica set, which has its labels."""
    selector = replicas.spec.selector
    labels = dict(selector.match_labels) if selector is not None else {}
    meta = {"labels": labels, "owners": (owner(replicas, "ReplicaSet"),), **fields.pop("meta", {})}
    return running(name, node_name, meta=meta, **fields)


def set_of(name: str, replicas: int = 1) -> apps_v1.ReplicaSet:
    """A replica set with an identity."""
    return replica_set(name, replicas, meta={"uid": f"uid-rs-{name}"})


def budget(name: str, allowed: int, labels: dict[str, str]) -> policy_v1.PodDisruptionBudget:
    """A disruption budget that allows so many disruptions now."""
    return policy_v1.PodDisruptionBudget(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        spec=policy_v1.PodDisruptionBudgetSpec(max_unavailable=1, selector=selector(labels)),
        status=policy_v1.PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, expected_pods=3, current_healthy=3, desired_healthy=3 - allowed
        ),
    )


def random_cluster(seed: int) -> tuple[ClusterSnapshot, core_v1.Pod]:
    """A cluster with labels, taints, images, affinities and spread, and a pod that asks for some of that."""
    chance = random.Random(seed)
    zones = ("eu-1a", "eu-1b", "eu-1c")
    apps = ("shop", "mail", "db.acme.example")
    nodes = []
    for number in range(chance.randint(3, 8)):
        name = f"host{number}.acme.example"
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": chance.choice(zones),
            "acme.example/team": chance.choice(apps),
            "acme.example/cores": str(chance.randint(1, 9)),
        }
        taints = (taint("acme.example/only", "NoSchedule", chance.choice(apps)),) if chance.random() < 0.3 else ()
        one = node(
            name, cpu=str(chance.randint(1, 4)), taints=taints, meta={"labels": labels, "uid": f"node-uid-{number}"}
        )
        images = (core_v1.ContainerImage(names=("acme.example/app:1", "acme.example/app"), size_bytes=900_000_000),)
        one.status.images = images if chance.random() < 0.5 else ()
        nodes.append(one)
    pods = [
        running(
            f"p{number}",
            chance.choice(nodes).metadata.name,
            cpu=f"{chance.randint(1, 8)}00m",
            meta={"labels": {"app": chance.choice(apps)}, "uid": f"uid-{number}"},
            **({"affinity": _apart(chance.choice(apps))} if chance.random() < 0.3 else {}),
        )
        for number in range(chance.randint(0, 12))
    ]
    return copy_of(*nodes, *pods), _pending(chance, apps)


def _pending(chance: random.Random, apps: tuple[str, ...]) -> core_v1.Pod:
    spec: dict[str, Any] = {}
    if chance.random() < 0.4:
        spec["tolerations"] = (toleration("acme.example/only", value=chance.choice(apps)),)
    if chance.random() < 0.3:
        spec["node_selector"] = {"acme.example/team": chance.choice(apps)}
    if chance.random() < 0.3:
        spec["affinity"] = _apart(chance.choice(apps))
    elif chance.random() < 0.4:
        more = core_v1.NodeSelectorRequirement(key="acme.example/cores", operator="Gt", values=("4",))
        terms = core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_expressions=(more,)),))
        spec["affinity"] = core_v1.Affinity(
            node_affinity=core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
        )
    if chance.random() < 0.4:
        spread = core_v1.TopologySpreadConstraint(
            max_skew=1,
            topology_key="topology.kubernetes.io/zone",
            when_unsatisfiable="DoNotSchedule",
            label_selector=selector({"app": "shop"}),
        )
        spec["topology_spread_constraints"] = (spread,)
    labels = {"app": chance.choice(apps)}
    return pod(
        "asked",
        cpu=f"{chance.randint(1, 20)}00m",
        image="acme.example/app",
        meta={"labels": labels, "uid": "u"},
        **spec,
    )


def _apart(app: str) -> core_v1.Affinity:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": app}), topology_key="kubernetes.io/hostname")
    return core_v1.Affinity(
        pod_anti_affinity=core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
