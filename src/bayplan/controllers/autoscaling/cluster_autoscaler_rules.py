"""When nodes come and go: the rules of cluster autoscaling, as pure functions.

    pods that fit nowhere ─▶ per group: how many more nodes, for which pods ─▶ the best option, by what expanders say ─▶ grow
    nodes used less than half ─▶ do their pods fit elsewhere, and may they move? ─▶ unneeded for ten minutes ─▶ drain and delete

Where a pod fits is the scheduler's own judgement, reached through a `Sandbox`: a copy of the cluster in which pods are placed and nodes come and go.

Source of the behaviour, of annotations, taints, reasons and messages: the Kubernetes cluster autoscaler with its default settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from bayplan.api.codec import encode
from bayplan.api.nodes import GROUP_LABEL
from bayplan.api.pods.resources import pod_total
from bayplan.api.quantity import milli_value, value
from bayplan.api.quota.amounts import ZERO
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import apps_v1, core_v1, meta_v1, policy_v1
from bayplan.controllers.base import condition_of, controller_of
from bayplan.controllers.pods import has_ended
from bayplan.support.timestamps import parse_rfc3339

TO_BE_DELETED, CANDIDATE = "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"
"""Taints of nodes that are about to go, and of those that may go soon; their values are unix times."""
_PREFIX = "cluster-autoscaler.kubernetes.io"
SAFE_TO_EVICT = f"{_PREFIX}/safe-to-evict"
SAFE_VOLUMES = f"{_PREFIX}/safe-to-evict-local-volumes"
SCALE_DOWN_DISABLED = f"{_PREFIX}/scale-down-disabled"
_MIRROR = "kubernetes.io/config.mirror"
_STARTUP_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class NodeGroupError(Exception):
    """A group could not do what was asked; the message says why."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one shape that come and go together with demand."""

    name: str
    minimum: int
    maximum: int
    template: core_v1.Node
    """A node as the group makes them."""


class NodeProvider(Protocol):
    """Who makes and removes nodes. Methods raise NodeGroupError and are tried again later."""

    @property
    def groups(self) -> Sequence[NodeGroup]:
        """All groups, by name."""

    async def grow(self, group: str, count: int) -> Sequence[str]:
        """Make more nodes of a group; returns their names. They are ready a while later."""

    async def remove(self, node: core_v1.Node) -> None:
        """Take a node away for good."""


class Sandbox(Protocol):
    """A copy of the cluster, with the judgement of its scheduler."""

    def add_node(self, node: core_v1.Node) -> None:
        """A node comes."""

    def remove_node(self, name: str) -> None:
        """A node without pods goes."""

    def add_pod(self, pod: core_v1.Pod) -> None:
        """A pod comes, on the node that its spec names."""

    def remove_pod(self, pod: core_v1.Pod) -> None:
        """A pod goes."""

    def place(self, pod: core_v1.Pod) -> str:
        """Put a pod without node where the scheduler would put it; the name of the node, or "" if it fits nowhere."""

    def refusal(self, pod: core_v1.Pod, node: str) -> tuple[str, ...]:
        """Why a pod cannot be on a node, in the scheduler's words; nothing if it can."""


MakeSandbox = Callable[[Iterable[core_v1.Node], Iterable[core_v1.Pod], Mapping[str, Iterable[Any]]], Sandbox]
"""From nodes, pods that have a node, and other objects by kind, to a sandbox."""


def requests(pod: core_v1.Pod) -> dict[str, int]:
    """Milli-cpu and bytes that a pod requests."""
    total = pod_total(pod.spec, "requests", overhead=True)
    return {"cpu": total.get("cpu", ZERO).milli_value(), "memory": total.get("memory", ZERO).value()}


def allocatable(node: core_v1.Node) -> dict[str, int]:
    """Milli-cpu and bytes that a node offers."""
    given = node.status.allocatable
    return {"cpu": milli_value(given.get("cpu", "0")), "memory": value(given.get("memory", "0"))}


def utilization(node: core_v1.Node, pods: Iterable[core_v1.Pod]) -> float:
    """The larger part of cpu or memory that is requested."""
    used = Counter[str]()
    for pod in pods:
        used.update(requests(pod))
    return max((used[name] / have for name, have in allocatable(node).items() if have), default=0.0)


def is_pending(pod: core_v1.Pod, cutoff: int) -> bool:
    """Whether a pod waits for a node that is not there. Pods of a lower priority than the cutoff are not worth one."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp or pod.status.phase not in ("", "Pending"):
        return False
    if pod.status.nominated_node_name:
        return False  # others are making room for it
    scheduled = condition_of(pod.status.conditions, "PodScheduled")
    unschedulable = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    return unschedulable and (pod.spec.priority is None or pod.spec.priority >= cutoff)


def is_coming(node: core_v1.Node) -> bool:
    """Whether a node has not been ready yet, as far as one can see."""
    ready = condition_of(node.status.conditions, "Ready")
    return ready is None or ready.status == "False"


def has_taint(node: core_v1.Node, key: str) -> bool:
    """Whether a node has a taint with this key."""
    return any(one.key == key for one in node.spec.taints)


def as_if_ready(node: core_v1.Node) -> core_v1.Node:
    """A node that is on its way, as it will be."""
    taints = tuple(one for one in node.spec.taints if one.key not in _STARTUP_TAINTS and one.key != CANDIDATE)
    return node if taints == node.spec.taints else _tainted(node, taints)


def _tainted(node: core_v1.Node, taints: Sequence[core_v1.Taint]) -> core_v1.Node:
    changed: core_v1.Node = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=tuple(taints)))
    return changed


def from_template(group: NodeGroup, number: int) -> core_v1.Node:
    """A node that the group could make, for a sandbox."""
    name = f"template-node-for-{group.name}-{number}"
    metadata = group.template.metadata
    labels = {**metadata.labels, "kubernetes.io/hostname": name, GROUP_LABEL: group.name}
    node: core_v1.Node = msgspec.structs.replace(
        group.template, metadata=msgspec.structs.replace(metadata, name=name, labels=labels)
    )
    return node


def unbound(pod: core_v1.Pod) -> core_v1.Pod:
    """A pod as its owner would make it again."""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    copied: core_v1.Pod = msgspec.structs.replace(pod, spec=spec, status=core_v1.PodStatus())
    return copied


def bound(pod: core_v1.Pod, node: str) -> core_v1.Pod:
    """A pod on a node; a pod of a DaemonSet under a name of its own there."""
    metadata, owner = pod.metadata, controller_of(pod)
    if owner is not None and owner.kind == "DaemonSet":
        metadata = msgspec.structs.replace(metadata, name=f"{owner.name}-{node}")
    copied: core_v1.Pod = msgspec.structs.replace(
        pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node)
    )
    return copied


def daemon_pod(daemons: apps_v1.DaemonSet) -> core_v1.Pod:
    """A pod as a DaemonSet makes them for a new node."""
    template, metadata = daemons.spec.template, daemons.metadata
    owner = meta_v1.OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name=metadata.name, uid=metadata.uid, controller=True
    )
    new = (core_v1.Toleration(key=key, operator="Exists", effect="NoSchedule") for key in _STARTUP_TAINTS)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name=metadata.name, namespace=metadata.namespace, labels=template.metadata.labels, owner_references=(owner,)
        ),
        spec=msgspec.structs.replace(template.spec, tolerations=(*template.spec.tolerations, *new)),
    )


def likeness(pod: core_v1.Pod) -> Hashable:
    """Equal for pods that the scheduler treats alike: those that one owner makes of one template."""
    owner = controller_of(pod)
    if owner is None:
        return pod.metadata.uid
    labels = tuple(sorted(pod.metadata.labels.items()))
    return pod.metadata.namespace, owner.uid, labels, encode(pod.spec)


@dataclass(frozen=True, slots=True)
class Option:
    """A group that could help."""

    group: NodeGroup
    nodes: int
    pods: tuple[core_v1.Pod, ...]
    """Those that would find a place."""

    @property
    def waste(self) -> float:
        """Parts of cpu and memory of the new nodes that would stay free, added."""
        used = Counter[str]()
        for pod in self.pods:
            used.update(requests(pod))
        offered = {name: have * self.nodes for name, have in allocatable(self.group.template).items()}
        return sum((have - used[name]) / have for name, have in offered.items() if have)


@dataclass(frozen=True, slots=True)
class Drain:
    """What a drain may do, under the names of cluster-autoscaler's flags."""

    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True


def obstacle(pod: core_v1.Pod, budgets: Iterable[policy_v1.PodDisruptionBudget], rules: Drain, now: float) -> str:
    """Why a pod cannot be moved, as "reason: text"; "" if it can or need not."""
    if not needs_moving(pod, now):
        return ""
    annotations, name = pod.metadata.annotations, f"{pod.metadata.namespace}/{pod.metadata.name}"
    covering = [one for one in budgets if _covers(one, pod)]
    if annotations.get(SAFE_TO_EVICT) != "true":
        if annotations.get(SAFE_TO_EVICT) == "false":
            return f"NotSafeToEvictAnnotation: pod annotated as not safe to evict present: {name}"
        if controller_of(pod) is None:
            return f"NotReplicated: {name} is not replicated"
        if rules.skip_nodes_with_system_pods and pod.metadata.namespace == "kube-system" and not covering:
            return (
                f"UnmovableKubeSystemPod: non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}"
            )
        if rules.skip_nodes_with_local_storage and _has_local_storage(pod):
            return f"LocalStorageRequested: pod with local storage present: {name}"
    if any(one.status.disruptions_allowed < 1 for one in covering):
        return f"NotEnoughPdb: not enough pod disruption budget to move {name}"
    return ""


def needs_moving(pod: core_v1.Pod, now: float) -> bool:
    """Whether a pod has to find another place when its node goes: not those of DaemonSets or the node itself, and not those that have ended or are going."""
    if _MIRROR in pod.metadata.annotations or has_ended(pod):
        return False
    if pod.metadata.deletion_timestamp and parse_rfc3339(pod.metadata.deletion_timestamp) < now:
        return False
    owner = controller_of(pod)
    return owner is None or owner.kind != "DaemonSet"


def _covers(budget: policy_v1.PodDisruptionBudget, pod: core_v1.Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or budget.spec.selector is None:
        return False
    return compile_selector(budget.spec.selector).matches(pod.metadata.labels)


def _has_local_storage(pod: core_v1.Pod) -> bool:
    safe = {one.strip() for one in pod.metadata.annotations.get(SAFE_VOLUMES, "").split(",")}
    return any(
        one.host_path is not None or (one.empty_dir is not None and one.empty_dir.medium != "Memory")
        for one in pod.spec.volumes
        if one.name not in safe
    )


def why_not(reasons: Iterable[str]) -> str:
    """The message of NotTriggerScaleUp: what keeps groups from helping, counted."""
    counted = Counter(reasons)
    return f"pod didn't trigger scale-up: {', '.join(f'{counted[one]} {one}' for one in sorted(counted))}"
