"""A copy of a large cluster."""

from __future__ import annotations

from bayplan.api.types import core_v1, meta_v1
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_POOLS = ("general",) * 7 + ("memory",) * 2 + ("gpu",)


def large_copy(nodes: int, pods: int) -> ClusterSnapshot:
    """So many nodes in three zones with three pools each, and pods of forty applications on them."""
    names = [f"node-{'abc'[number % 3]}-{number}" for number in range(nodes)]
    made = [_node(name, number) for number, name in enumerate(names)]
    placed = [_pod(number, names[(number * 7919 + number * number % 37) % nodes]) for number in range(pods)]
    return ClusterSnapshot({"Node": made, "Pod": placed}, taken_at="2026-01-02T03:04:05Z", source="a large cluster")


def _node(name: str, number: int) -> core_v1.Node:
    pool = _POOLS[number % 10]
    offers: dict[str, str | int | float] = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    if pool == "gpu":
        offers["nvidia.com/gpu"] = "8"
    taints = (core_v1.Taint(key="gpu", value="true", effect="NoSchedule"),) if pool == "gpu" else ()
    labels = {"topology.kubernetes.io/zone": f"zone-{'abc'[number % 3]}", "karpenter.sh/nodepool": pool}
    ready = core_v1.NodeCondition(type="Ready", status="False" if number % 211 == 0 else "True")
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name, uid=name, labels=labels),
        spec=core_v1.NodeSpec(taints=taints, unschedulable=number % 97 == 0),
        status=core_v1.NodeStatus(allocatable=offers, capacity=offers, conditions=(ready,)),
    )


def _pod(number: int, node: str) -> core_v1.Pod:
    requests: dict[str, str | int | float] = {
        "cpu": f"{200 + number % 9 * 150}m",
        "memory": f"{256 * (1 + number % 7)}Mi",
    }
    container = core_v1.Container(name="main", image="app", resources=core_v1.ResourceRequirements(requests=requests))
    app = f"app-{number % 40}"
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=f"{app}-{number:05d}", namespace=f"team-{number % 8}", uid=f"pod-{number}", labels={"app": app}
        ),
        spec=core_v1.PodSpec(node_name=node, containers=(container,)),
        status=core_v1.PodStatus(
            phase="Running", container_statuses=(core_v1.ContainerStatus(name="main", ready=True),)
        ),
    )
