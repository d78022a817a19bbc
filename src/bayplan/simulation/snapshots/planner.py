"""A copy as the scheduler sees it, and the nodes that one might add to it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from bayplan.api.codec import DecodeError
from bayplan.api.quantity import canonical, parse
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.cluster.manifests.unserved import UnservedKinds
from bayplan.controllers.workloads.daemonset_rules import daemon_tolerations, fits
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.library import Planner
from bayplan.simulation.questions.quota_limits import with_defaults
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, SnapshotError, defaulted

HOST_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
NEW_NODE: Final = "new-node"
"""What names of added nodes begin with."""


class QuestionError(Exception):
    """A question that cannot be answered as it was put; the message says what to change."""


def planner_of(copy: ClusterSnapshot, config: Path | str | None = None, *, without: Any = None) -> Planner:
    """The copy in memory, one object left out if wanted. Raises QuestionError."""
    try:
        return Planner((obj for obj in copy.flat() if obj is not without), str(config) if config else None)
    except (SchedulerError, DecodeError) as error:
        raise QuestionError(str(error)) from error


def pod_named(copy: ClusterSnapshot, name: str, namespace: str = "default") -> core_v1.Pod:
    """The pod of a copy with this name, which may be `NAMESPACE/NAME`. Raises QuestionError."""
    if "/" in name:
        namespace, _, name = name.partition("/")
    for pod in copy.of("Pod"):
        if pod.metadata.name == name and (pod.metadata.namespace or "default") == namespace:
            found: core_v1.Pod = pod
            return found
    raise QuestionError(f"there is no pod {name} in namespace {namespace}; {_pod_hint(copy, name, namespace)}")


def _pod_hint(copy: ClusterSnapshot, name: str, namespace: str) -> str:
    """What somebody may have meant who named a pod that is not there: a pod of a workload, one elsewhere, one written alike."""
    import difflib

    pods = [(pod.metadata.namespace or "default", pod.metadata.name) for pod in copy.of("Pod")]
    names = [one for home, one in pods if home == namespace]
    elsewhere = [home for home, one in pods if one == name]
    near = [one for one in names if one.startswith(f"{name}-")] or difflib.get_close_matches(name, names, 1)
    if elsewhere:
        return f"there is one in namespace {elsewhere[0]}"
    if near:
        return f"did you mean {near[0]}?"
    return f"it has {len(names)} pod{'s' * (len(names) != 1)}"


def fresh(pod: core_v1.Pod) -> core_v1.Pod:
    """The pod as its owner would make it again: without node, status and identity."""
    metadata = replace(pod.metadata, uid="", deletion_timestamp=None, resource_version="")
    return replace(pod, metadata=metadata, spec=unplaced(pod.spec), status=core_v1.PodStatus())


def unplaced(spec: core_v1.PodSpec) -> core_v1.PodSpec:
    """A spec before a node was found for it, gates lifted."""
    return replace(spec, node_name="", scheduling_gates=())


def pod_of_file(path: str, cluster: ClusterSnapshot, unserved: UnservedKinds) -> core_v1.Pod:
    """The pod, or the pod that a workload makes, which a manifest shows, as the cluster would take it. Raises QuestionError.

    unserved: counts what the manifest has of custom kinds.
    """
    try:
        copy = read(path)
    except SnapshotError as error:
        raise QuestionError(str(error)) from error
    unserved.add_all(copy.unserved)
    pods = [fresh(pod) for pod in copy.of("Pod")] + list(_of_workloads(copy))
    if len(pods) != 1:
        raise QuestionError(f"{path}: has {len(pods)} pods and workloads; give a file with one")
    return with_defaults(cluster, pods[0])


def _of_workloads(copy: ClusterSnapshot) -> Iterator[core_v1.Pod]:
    for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "ReplicationController"):
        for one in copy.of(kind):
            template = one.spec.template
            if template is not None:
                yield pod_of_template(template, one.metadata.namespace, one.metadata.name)


def pod_of_template(template: core_v1.PodTemplateSpec, namespace: str, name: str) -> core_v1.Pod:
    """A pod as a template makes it."""
    labels = dict(template.metadata.labels)
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace=namespace, labels=labels), spec=template.spec)


def pod_of_requests(requests: Mapping[str, str]) -> core_v1.Pod:
    """A pod that asks for these amounts and nothing else. Raises QuestionError."""
    resources = core_v1.ResourceRequirements(requests=_amounts(requests))
    container = core_v1.Container(name="main", image="example", resources=resources)
    pod = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="pod", namespace="default"), spec=core_v1.PodSpec(containers=(container,))
    )
    found: core_v1.Pod = defaulted({"Pod": [pod]})["Pod"][0]
    return found


def _amounts(given: Mapping[str, str]) -> dict[str, Any]:
    """Amounts of resources. Raises QuestionError."""
    amounts: dict[str, Any] = {}
    for name, amount in given.items():
        try:
            amounts[name] = canonical(amount)
        except ValueError as error:
            raise QuestionError(f"{name}={amount}: {error}") from error
        if parse(amount).sign() < 0:
            raise QuestionError(f"{name}={amount}: give an amount that is not negative")
    return amounts


# Nodes that are not there yet


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Nodes that could be added: alike but for name, host name and zone."""

    base: core_v1.Node
    zones: tuple[str, ...] = ()
    """Zones that get nodes in turn; none: all as the base."""
    daemons: tuple[core_v1.Pod, ...] = ()
    """What daemon sets would run on each."""

    def node(self, number: int) -> core_v1.Node:
        """The `number`-th such node, from 1."""
        name = f"{NEW_NODE}-{number:04d}"
        labels = {**self.base.metadata.labels, HOST_LABEL: name}
        if self.zones:
            labels[ZONE_LABEL] = self.zones[(number - 1) % len(self.zones)]
        metadata = meta_v1.ObjectMeta(name=name, uid=name, labels=labels)
        return replace(self.base, metadata=metadata)

    def pods(self, number: int) -> Iterator[core_v1.Pod]:
        """The daemons' pods on that node."""
        name = f"{NEW_NODE}-{number:04d}"
        for index, pod in enumerate(self.daemons):
            metadata = replace(pod.metadata, name=f"{name}-daemon-{index}", uid=f"{name}-daemon-{index}")
            yield replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=name))

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        allocatable = self.base.status.allocatable
        return {
            "allocatable": {name: str(amount) for name, amount in allocatable.items()},
            "daemonPods": len(self.daemons),
            **({"zones": list(self.zones)} if self.zones else {}),
        }


def node_shape(copy: ClusterSnapshot, like: str = "", amounts: Mapping[str, str] | None = None) -> NodeShape:
    """Nodes like one of the copy (by default, like most of them are), with other amounts if given. Raises QuestionError."""
    nodes: Sequence[core_v1.Node] = copy.of("Node")
    base = _named_node(nodes, like) if like else _usual_node(nodes)
    if amounts:
        exact = _amounts(amounts)
        status = replace(
            base.status, allocatable={**base.status.allocatable, **exact}, capacity={**base.status.capacity, **exact}
        )
        base = replace(base, status=status)
    zones = (
        ()
        if like
        else tuple(sorted({node.metadata.labels[ZONE_LABEL] for node in nodes if ZONE_LABEL in node.metadata.labels}))
    )
    base = replace(base, spec=replace(base.spec, unschedulable=False, taints=_lasting(base.spec.taints)))
    shape = NodeShape(base, zones)
    first = shape.node(1)
    daemons = tuple(_daemon_pod(copy, one) for one in copy.of("DaemonSet") if fits(one.spec.template, first)[0])
    return dataclasses.replace(shape, daemons=daemons)


def _lasting(taints: Sequence[core_v1.Taint]) -> tuple[core_v1.Taint, ...]:
    """The taints that are not about the present condition of a node."""
    return tuple(one for one in taints if not one.key.startswith(("node.kubernetes.io/", "node.cloudprovider.")))


def _daemon_pod(copy: ClusterSnapshot, one: apps_v1.DaemonSet) -> core_v1.Pod:
    pod = with_defaults(copy, pod_of_template(one.spec.template, one.metadata.namespace, one.metadata.name))
    return replace(pod, spec=replace(pod.spec, tolerations=daemon_tolerations(pod.spec)))


def _named_node(nodes: Sequence[core_v1.Node], name: str) -> core_v1.Node:
    for node in nodes:
        if node.metadata.name == name:
            return node
    raise QuestionError(f"there is no node {name}; the cluster has {len(nodes)} nodes")


def _usual_node(nodes: Sequence[core_v1.Node]) -> core_v1.Node:
    """One of the most frequent kind of nodes that take pods; of a plain one if there are no nodes."""
    if not nodes:
        amounts: dict[str, Any] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        ready = core_v1.NodeCondition(type="Ready", status="True")
        status = core_v1.NodeStatus(capacity=amounts, allocatable=amounts, conditions=(ready,))
        return core_v1.Node(metadata=meta_v1.ObjectMeta(name="node", labels={}), status=status)
    kinds = Counter(_look(node) for node in nodes)
    usual = max(kinds, key=lambda look: (not look[0], kinds[look], look))
    return min((node for node in nodes if _look(node) == usual), key=lambda node: node.metadata.name)


def _look(node: core_v1.Node) -> tuple[bool, tuple[tuple[str, str], ...]]:
    """Whether a node keeps ordinary pods out, and what it offers."""
    closed = node.spec.unschedulable or any(one.effect != "PreferNoSchedule" for one in node.spec.taints)
    return closed, tuple(sorted((name, str(amount)) for name, amount in node.status.allocatable.items()))
