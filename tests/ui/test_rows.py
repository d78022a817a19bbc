"""What the tables show of objects."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.ui.rows import (
    EVENT_COLUMNS,
    NODE_COLUMNS,
    POD_COLUMNS,
    WORKLOAD_COLUMNS,
    event_row,
    node_row,
    pod_row,
    pod_status,
    waiting_place,
    workload_row,
)


def named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=True))


def meta(name: str, **fields: Any) -> meta_v1.ObjectMeta:
    return meta_v1.ObjectMeta(name=name, creation_timestamp="2026-01-02T03:04:05Z", **fields)


def test_a_node() -> None:
    node = core_v1.Node(
        metadata=meta("a", labels={"topology.kubernetes.io/zone": "z1", "karpenter.sh/nodepool": "p1"}),
        spec=core_v1.NodeSpec(
            unschedulable=True, taints=(core_v1.Taint(key="gpu", value="yes", effect="NoSchedule"), core_v1.Taint(key="x", effect="NoExecute"))
        ),
        status=core_v1.NodeStatus(
            allocatable={"cpu": "3500m", "memory": "2Gi", "pods": "110", "nvidia.com/gpu": "4", "hugepages-2Mi": "0"},
            conditions=(
                core_v1.NodeCondition(type="Ready", status="True"),
                core_v1.NodeCondition(type="DiskPressure", status="True"),
                core_v1.NodeCondition(type="MemoryPressure", status="False"),
            ),
        ),
    )  # fmt: skip
    row = named(NODE_COLUMNS, node_row(node))
    assert row["zone"] == "z1"
    assert row["pool"] == "p1"
    assert row["ready"] is True
    assert row["cordoned"] is True
    assert row["taints"] == ["gpu=yes:NoSchedule", "x:NoExecute"]
    assert row["troubles"] == ["DiskPressure"]
    assert (row["cpu"], row["memory"], row["pods"]) == (3500, 2 << 30, 110)
    assert row["extended"] == {"nvidia.com/gpu": 4}


def pod(status: core_v1.PodStatus, *, node: str = "n", deleted: bool = False, **spec: Any) -> core_v1.Pod:
    requests: dict[str, str | int | float] = {"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = core_v1.Container(name="c", resources=core_v1.ResourceRequirements(requests=requests))
    metadata = meta("p", namespace="shop", deletion_timestamp="2026-01-02T03:04:05Z" if deleted else None)
    return core_v1.Pod(
        metadata=metadata,
        spec=core_v1.PodSpec(node_name=node, containers=(container, container), **spec),
        status=status,
    )


def waiting(reason: str) -> core_v1.ContainerStatus:
    state = core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=reason))
    return core_v1.ContainerStatus(name="c", state=state, restart_count=2)


def ended(code: int, reason: str = "") -> core_v1.ContainerStatus:
    state = core_v1.ContainerState(terminated=core_v1.ContainerStateTerminated(exit_code=code, reason=reason))
    return core_v1.ContainerStatus(name="c", state=state)


def test_a_pod() -> None:
    ready = core_v1.ContainerStatus(name="c", ready=True, restart_count=1)
    row = named(POD_COLUMNS, pod_row(pod(core_v1.PodStatus(phase="Running", container_statuses=(ready, waiting(""))))))
    assert (row["ready"], row["containers"], row["restarts"]) == (1, 2, 3)
    assert (row["cpu"], row["memory"], row["extended"]) == (500, 2 << 30, {"nvidia.com/gpu": 2})
    assert row["status"] == "Running"
    assert row["ended"] is False
    assert row["waits"] == ""
    assert named(POD_COLUMNS, pod_row(pod(core_v1.PodStatus(phase="Succeeded"))))["ended"] is True


@pytest.mark.parametrize(
    ("of", "status"),
    [
        (pod(core_v1.PodStatus(phase="Running"), deleted=True), "Terminating"),
        (pod(core_v1.PodStatus(phase="Running", container_statuses=(waiting("CrashLoopBackOff"),))), "CrashLoopBackOff"),
        (pod(core_v1.PodStatus(phase="Running", container_statuses=(ended(137, "OOMKilled"),))), "OOMKilled"),
        (pod(core_v1.PodStatus(phase="Running", container_statuses=(ended(0, "Completed"),))), "Running"),
        (pod(core_v1.PodStatus(phase="Failed", reason="Evicted")), "Evicted"),
        (pod(core_v1.PodStatus(phase="Failed")), "Error"),
        (pod(core_v1.PodStatus(phase="Succeeded")), "Completed"),
        (pod(core_v1.PodStatus()), "Pending"),
    ],
)  # fmt: skip
def test_the_status_of_a_pod(of: core_v1.Pod, status: str) -> None:
    assert pod_status(of) == status


def test_where_pods_wait() -> None:
    def condition(reason: str) -> core_v1.PodStatus:
        return core_v1.PodStatus(conditions=(core_v1.PodCondition(type="PodScheduled", status="False", reason=reason),))

    assert waiting_place(pod(condition("Unschedulable"), node="")) == "unschedulable"
    assert waiting_place(pod(condition("SchedulingGated"), node="")) == "gated"
    assert waiting_place(pod(core_v1.PodStatus(), node="")) == "new"
    gated = pod(core_v1.PodStatus(), node="", scheduling_gates=(core_v1.PodSchedulingGate(name="g"),))
    assert waiting_place(gated) == "gated"
    assert pod_status(gated) == "SchedulingGated"


def test_a_deployment() -> None:
    made = apps_v1.Deployment(
        metadata=meta("web", namespace="shop"),
        spec=apps_v1.DeploymentSpec(replicas=3),
        status=apps_v1.DeploymentStatus(replicas=3, ready_replicas=2, updated_replicas=1, available_replicas=2),
    )
    row = named(WORKLOAD_COLUMNS, workload_row("Deployment", made))
    assert (row["desired"], row["ready"], row["updated"], row["available"]) == (3, 2, 1, 2)


def test_an_event_that_was_counted_as_a_series() -> None:
    event = core_v1.Event(
        metadata=meta("e", namespace="shop"),
        involved_object=core_v1.ObjectReference(kind="Pod", name="p", namespace="shop"),
        reason="FailedScheduling",
        type="Warning",
        series=core_v1.EventSeries(count=7, last_observed_time="2026-01-02T04:00:00.000000Z"),
        reporting_component="default-scheduler",
    )
    row = named(EVENT_COLUMNS, event_row(event))
    assert (row["kind"], row["about"], row["count"], row["source"]) == ("Pod", "p", 7, "default-scheduler")
    assert row["last"] == "2026-01-02T04:00:00.000000Z"
