"""What the page's tables show of an object: one tuple per object, in the order of the table's columns. Pure.

Amounts are whole numbers: cpu in thousandths, memory in bytes, everything else in units. Times are RFC 3339 as the API has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayplan.api.pods.resources import pod_total
from bayplan.api.quantity import milli_value, value
from bayplan.api.quota.amounts import Amounts
from bayplan.api.types import core_v1
from bayplan.controllers.base import controller_of

Row = tuple[Any, ...]

NODE_COLUMNS: Final = (
    "name", "zone", "pool", "ready", "cordoned", "taints", "troubles", "cpu", "memory", "pods", "extended", "version", "created",
)  # fmt: skip
POD_COLUMNS: Final = (
    "namespace", "name", "node", "status", "ended", "ready", "containers", "restarts", "cpu", "memory", "extended", "owner", "priority",
    "nominated", "waits", "created",
)  # fmt: skip
WORKLOAD_COLUMNS: Final = ("kind", "namespace", "name", "desired", "ready", "updated", "available", "created")
EVENT_COLUMNS: Final = ("namespace", "name", "type", "reason", "kind", "about", "count", "last", "source", "message")

_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_POOLS: Final = (
    "bayplan.dev/node-group",
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/pool",
    "pool",
    "node.kubernetes.io/instance-type",
)
"""Labels that say which pool a node belongs to, the first that is there counts."""
_COUNTED_APART: Final = frozenset({"cpu", "memory", "pods"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def node_row(node: core_v1.Node) -> Row:
    """A node."""
    labels, offers, status = node.metadata.labels, node.status.allocatable, node.status
    conditions = {one.type: one.status for one in status.conditions}
    return (
        node.metadata.name,
        _first(labels, _ZONES),
        _first(labels, _POOLS),
        conditions.get("Ready") == "True",
        bool(node.spec.unschedulable),
        [taint_text(one) for one in node.spec.taints],
        [name for name, state in conditions.items() if name != "Ready" and state == "True"],
        milli_value(offers.get("cpu", 0)),
        value(offers.get("memory", 0)),
        value(offers.get("pods", 0)),
        {name: value(amount) for name, amount in offers.items() if _is_extended(name)},
        status.node_info.kubelet_version,
        node.metadata.creation_timestamp,
    )


def taint_text(taint: core_v1.Taint) -> str:
    """`key=value:Effect`, as kubectl writes taints."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _is_extended(name: str) -> bool:
    return name not in _COUNTED_APART and "/" in name and not name.startswith("kubernetes.io/")


def pod_row(pod: core_v1.Pod) -> Row:
    """A pod."""
    spec, status = pod.spec, pod.status
    cpu, memory, extended = _amounts(pod_total(spec, "requests", overhead=True))
    owner = controller_of(pod)
    states = status.container_statuses
    return (
        pod.metadata.namespace,
        pod.metadata.name,
        spec.node_name,
        pod_status(pod),
        status.phase in _ENDED,
        sum(one.ready for one in states),
        len(spec.containers),
        sum(one.restart_count for one in states),
        cpu,
        memory,
        extended,
        f"{owner.kind}/{owner.name}" if owner is not None else "",
        spec.priority or 0,
        status.nominated_node_name,
        "" if spec.node_name or status.phase in _ENDED else waiting_place(pod),
        pod.metadata.creation_timestamp,
    )


def _amounts(requests: Amounts) -> tuple[int, int, dict[str, int] | None]:
    """Thousandths of a CPU, bytes of memory, and units of what else nodes offer."""
    cpu, memory = requests.get("cpu"), requests.get("memory")
    extended = {name: amount.value() for name, amount in requests.items() if _is_extended(name)}
    return cpu.milli_value() if cpu else 0, memory.value() if memory else 0, extended or None


def waiting_place(pod: core_v1.Pod) -> str:
    """Where a pod without a node waits, as its conditions tell: gated, unschedulable, or new (not tried yet)."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False":
            return "gated" if one.reason == "SchedulingGated" else "unschedulable"
    return "gated" if pod.spec.scheduling_gates else "new"


def pod_status(pod: core_v1.Pod) -> str:
    """One word for the state of a pod, after the column STATUS of kubectl."""
    status = pod.status
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if status.phase in _ENDED:
        return status.reason or ("Completed" if status.phase == "Succeeded" else "Error")
    for one in (*status.init_container_statuses, *status.container_statuses):
        state = one.state
        if state.waiting is not None and state.waiting.reason:
            return state.waiting.reason
        if state.terminated is not None and state.terminated.exit_code:
            return state.terminated.reason or "Error"
    if not pod.spec.node_name and waiting_place(pod) == "gated":
        return "SchedulingGated"
    return status.reason or status.phase or "Pending"


def workload_row(kind: str, obj: Any) -> Row:
    """A workload of one of the kinds that `cluster_source` follows."""
    desired, ready, updated, available = _replicas(kind, obj)
    metadata = obj.metadata
    return kind, metadata.namespace, metadata.name, desired, ready, updated, available, metadata.creation_timestamp


def _replicas(kind: str, obj: Any) -> tuple[int, int, int, int]:
    """Instances that are wanted, ready, of the newest template, available."""
    spec, status = obj.spec, obj.status
    if kind == "DaemonSet":
        return (
            status.desired_number_scheduled,
            status.number_ready,
            status.updated_number_scheduled,
            status.number_available,
        )
    if kind == "Job":
        wanted = spec.completions if spec.completions is not None else spec.parallelism or 0
        return wanted, status.ready or 0, status.active, status.succeeded
    if kind == "CronJob":
        return 0, len(status.active), 0, 0
    wanted = 1 if spec.replicas is None else spec.replicas
    updated = getattr(status, "updated_replicas", status.replicas)
    return wanted, status.ready_replicas, updated, status.available_replicas


def event_row(event: core_v1.Event) -> Row:
    """An event."""
    about, series = event.involved_object, event.series
    last = series.last_observed_time if series is not None else event.last_timestamp or event.event_time
    return (
        about.namespace,
        event.metadata.name,
        event.type,
        event.reason,
        about.kind,
        about.name,
        series.count if series is not None else event.count or 1,
        last or event.metadata.creation_timestamp,
        event.source.component or event.reporting_component,
        event.message,
    )
