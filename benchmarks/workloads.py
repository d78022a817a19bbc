"""The objects that benchmarks create: those of Kubernetes' own scheduler_perf."""

from __future__ import annotations

from typing import Any

CAPACITY = {"cpu": "4", "memory": "32Gi", "pods": "110"}


def node(index: int) -> dict[str, Any]:
    """A node of zone1 with room for 40 basic pods."""
    name = f"node-{index:05d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "zone1"}
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
