"""The objects that benchmarks create: those of Kubernetes' own scheduler_perf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

CAPACITY = {"cpu": "4", "memory": "32Gi", "pods": "110"}


ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def node(index: int, *, zones: int = 1) -> dict[str, Any]:
    """A node with room for 40 basic pods, in one of so many zones in turn."""
    name = f"node-{index:05d}"
    labels = {HOSTNAME: name, ZONE: f"zone{index % zones + 1}"}
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "ready",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": conditions},
    }


def pod(index: int, *, affinity: bool = False, prefix: str = "pod") -> dict[str, Any]:
    """A basic pod (cpu 100m, memory 500Mi); with `affinity` bound to zone1 or zone2."""
    resources = {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"cpu": "100m", "memory": "500Mi"}}
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.1",
                "ports": [{"containerPort": 80}],
                "resources": resources,
            }
        ]
    }
    if affinity:
        expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone1", "zone2"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{prefix}-{index}", "namespace": "default"},
        "spec": spec,
    }


def coloured(index: int, color: str, **spec: Any) -> dict[str, Any]:
    """A basic pod with a label `color`, and with some fields of its spec given."""
    one = pod(index, prefix=color)
    one["metadata"]["labels"] = {"color": color}
    one["spec"].update(spec)
    return one


def with_affinity(index: int, color: str, kind: str, topology_key: str, *, preferred: bool = False) -> dict[str, Any]:
    """A pod with podAffinity or podAntiAffinity (`kind`) to pods of its own colour."""
    term = {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": topology_key}
    rules: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if preferred:
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    return coloured(index, color, affinity={kind: rules})


def spread(index: int, action: str) -> dict[str, Any]:
    """A pod with a constraint that spreads pods of its colour over zones with maxSkew 5."""
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return coloured(index, "blue", topologySpreadConstraints=[constraint])


def sized(index: int, prefix: str, cpu: str, *, priority: int = 0, node_name: str = "") -> dict[str, Any]:
    """A pod that requests so much cpu, perhaps with a priority and already on a node."""
    one = pod(index, prefix=prefix)
    one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "500Mi"}}
    one["spec"]["priority"] = priority
    if node_name:
        one["spec"]["nodeName"] = node_name
    return one


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one kind: `existing` are there first, then `measured` ones are timed (so many fewer `end_to_end`)."""

    name: str
    pod: Callable[[int], dict[str, Any]]
    existing: int
    measured: int
    end_to_end: int
    zones: int = 1
    peer: str = ""


WORKLOADS: Final = (
    Workload("SchedulingBasic", pod, 1_000, 40_000, 10_000, peer="298-330"),
    Workload("SchedulingNodeAffinity", lambda i: pod(i, affinity=True), 1_000, 20_000, 10_000, peer="280"),
    Workload(
        "SchedulingPodAffinity",
        lambda i: with_affinity(i, "blue", "podAffinity", ZONE),
        5_000,
        10_000,
        5_000,
        peer="43",
    ),
    Workload(
        "SchedulingPodAntiAffinity",
        lambda i: with_affinity(i, "green", "podAntiAffinity", HOSTNAME),
        1_000,
        3_000,
        2_000,
        peer="129",
    ),
    Workload(
        "SchedulingPreferredPodAffinity",
        lambda i: with_affinity(i, "red", "podAffinity", HOSTNAME, preferred=True),
        1_000,
        5_000,
        4_000,
        peer="105",
    ),
    Workload(
        "SchedulingPreferredPodAntiAffinity",
        lambda i: with_affinity(i, "yellow", "podAntiAffinity", HOSTNAME, preferred=True),
        1_000,
        5_000,
        4_000,
    ),
    Workload("TopologySpreading", lambda i: spread(i, "DoNotSchedule"), 5_000, 10_000, 5_000, zones=3, peer="134"),
    Workload(
        "PreferredTopologySpreading",
        lambda i: spread(i, "ScheduleAnyway"),
        5_000,
        10_000,
        5_000,
        zones=3,
        peer="138",
    ),
)
"""scheduler_perf's, with more measured pods."""
