"""DaemonSets: on which nodes a pod is to run, which pods are too many, and how an update goes from node to node. Pure functions.

    layout(set, nodes, pods) -> Layout     per node: whether a pod should run or may stay, and the pods there
    plan(set, layout, hash)  -> Plan       nodes that lack a pod, pods to delete

Source of the behaviour: kube-controller-manager's daemon controller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from bayplan.api.pods.execution_rules import with_annotation_spec
from bayplan.api.pods.tolerations import untolerated
from bayplan.api.selectors.nodes import pod_may_run_on, required_of
from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.pods import POD_LABEL, is_available, is_ready

_NAME_FIELD = "metadata.name"
_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TAINT = ("node.kubernetes.io/network-unavailable", "NoSchedule")


LONGEST_BACK_OFF = 900.0
"""Seconds that a failed pod stays at most before it is replaced."""


def failure_back_off(failures: int) -> float:
    """Seconds before the next failed pod of a node is replaced: 1, doubled with each failure."""
    return min(2.0 ** (min(failures, 20) - 1), LONGEST_BACK_OFF) if failures else 0.0


def daemon_tolerations(spec: core_v1.PodSpec) -> tuple[core_v1.Toleration, ...]:
    """Tolerations of a daemon's pod: those of its template and what every daemon has to live with."""
    wanted = (*_TAINTS, _HOST_NETWORK_TAINT) if spec.host_network else _TAINTS
    known = {(one.key, one.effect) for one in spec.tolerations if one.operator == "Exists"}
    more = [
        core_v1.Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in wanted
        if (key, effect) not in known
    ]
    return (*spec.tolerations, *more)


def placed_on(spec: core_v1.PodSpec, node: str) -> core_v1.Affinity:
    """The affinity of a pod for one node: required terms by label were looked at when the node was chosen, so the name replaces them."""
    requirement = core_v1.NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node,))
    required = core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_fields=(requirement,)),))
    old = spec.affinity
    rules = (old.node_affinity if old is not None else None) or core_v1.NodeAffinity()
    return core_v1.Affinity(
        node_affinity=msgspec.structs.replace(rules, required_during_scheduling_ignored_during_execution=required),
        pod_affinity=old.pod_affinity if old is not None else None,
        pod_anti_affinity=old.pod_anti_affinity if old is not None else None,
    )


def node_of(pod: core_v1.Pod) -> str:
    """The node that a daemon's pod is on or was made for; "" if none can be told."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = required_of(pod.spec)
    for term in required.node_selector_terms if required is not None else ():
        for item in term.match_fields:
            if item.key == _NAME_FIELD and item.operator == "In" and len(item.values) == 1:
                return item.values[0]
    return ""


def fits(template: core_v1.PodTemplateSpec, node: core_v1.Node) -> tuple[bool, bool]:
    """Whether a daemon's pod should run on a node, and whether one that is there may stay."""
    spec = with_annotation_spec(template.spec, template.metadata.annotations)
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not pod_may_run_on(spec, node):
        return False, False
    tolerations, taints = daemon_tolerations(spec), node.spec.taints
    if untolerated(tolerations, taints, ("NoSchedule", "NoExecute")) is None:
        return True, True
    return False, untolerated(tolerations, taints, ("NoExecute",)) is None


@dataclass(slots=True)
class Place:
    """One node as the set sees it."""

    should_run: bool = False
    may_stay: bool = False
    exists: bool = True
    pods: list[core_v1.Pod] = field(default_factory=list)


Layout = dict[str, Place]


def layout(one: apps_v1.DaemonSet, nodes: Iterable[core_v1.Node], pods: Iterable[core_v1.Pod]) -> Layout:
    """All nodes, and those that are gone but still have pods, by name."""
    found: Layout = {}
    for node in nodes:
        should_run, may_stay = fits(one.spec.template, node)
        found[node.metadata.name] = Place(should_run, may_stay)
    for pod in pods:
        found.setdefault(node_of(pod), Place(exists=False)).pods.append(pod)
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done for a set now."""

    create: tuple[str, ...] = ()
    """Nodes that get a pod."""
    delete: tuple[core_v1.Pod, ...] = ()
    failed: tuple[core_v1.Pod, ...] = ()
    """Pods among those that have ended by themselves and are replaced."""


def limits(one: apps_v1.DaemonSet, wanted: int) -> tuple[int, int]:
    """How many pods may be above (surge) and missing (unavailable) during an update; never both 0."""
    rolling = one.spec.update_strategy.rolling_update
    surge = _number(rolling.max_surge if rolling is not None else 0, wanted)
    unavailable = _number(rolling.max_unavailable if rolling is not None else 1, wanted)
    return surge, unavailable if surge or unavailable else 1


def _number(value: int | str | None, of: int) -> int:
    if isinstance(value, str):
        return math.ceil(of * int(value.rstrip("%")) / 100)
    return value or 0


def plan(one: apps_v1.DaemonSet, places: Mapping[str, Place], digest: str, now: float) -> Plan:
    """Which nodes lack a pod and which pods go, for placement alone. An update comes after that, see `update`."""
    create: list[str] = []
    delete: list[core_v1.Pod] = []
    failed: list[core_v1.Pod] = []
    for name, place in places.items():
        if not place.exists:
            continue  # the pod garbage collector clears pods of nodes that are gone
        staying = []
        for pod in place.pods:
            if pod.metadata.deletion_timestamp:
                staying.append(pod)
            elif pod.status.phase in ("Failed", "Succeeded") and place.may_stay:
                failed.append(pod)
            else:
                staying.append(pod)
        if place.should_run and not place.pods:
            create.append(name)
        elif not place.may_stay:
            delete += [pod for pod in place.pods if not pod.metadata.deletion_timestamp]
        else:
            delete += _surplus(one, staying, digest, now)
    return Plan(tuple(create), (*delete, *failed), tuple(failed))


def _surplus(one: apps_v1.DaemonSet, pods: list[core_v1.Pod], digest: str, now: float) -> list[core_v1.Pod]:
    """Pods of a node beyond the first; during an update with surge the new one may stand beside the old one."""
    active = [pod for pod in pods if not pod.metadata.deletion_timestamp]
    if len(active) <= 1:
        return []
    active.sort(key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name))
    rolling = one.spec.update_strategy.rolling_update
    surging = one.spec.update_strategy.type != "OnDelete" and rolling is not None and bool(rolling.max_surge)
    if not surging:
        return active[1:]
    new = [pod for pod in active if is_updated(pod, digest)]
    old = [pod for pod in active if not is_updated(pod, digest)]
    if not new or not old:
        return active[1:]
    done = is_available(new[0], one.spec.min_ready_seconds, now)
    return [*new[1:], *old[1:], *(old[:1] if done else ())]


def is_updated(pod: core_v1.Pod, digest: str) -> bool:
    """Whether a pod is of the newest template."""
    return pod.metadata.labels.get(POD_LABEL) == digest


def update(one: apps_v1.DaemonSet, places: Mapping[str, Place], digest: str, now: float) -> Plan:
    """The next step of a rolling update: old pods to delete, or nodes that get a new pod beside the old one."""
    wanted = [(name, place) for name, place in places.items() if place.should_run]
    surge, unavailable = limits(one, len(wanted))
    free: list[tuple[str, core_v1.Pod]] = []
    costly: list[tuple[str, core_v1.Pod]] = []
    missing = surging = 0
    done: list[core_v1.Pod] = []
    for name, place in wanted:
        new = next((pod for pod in place.pods if is_updated(pod, digest)), None)
        old = next((pod for pod in place.pods if not is_updated(pod, digest)), None)
        if old is not None and new is None:
            if old.metadata.deletion_timestamp:
                missing += 1
            elif is_available(old, one.spec.min_ready_seconds, now):
                costly.append((name, old))
            else:
                free.append((name, old))
                missing += 1
        elif old is not None and new is not None:
            surging += 1
            if not old.metadata.deletion_timestamp and is_available(new, one.spec.min_ready_seconds, now):
                done.append(old)
        elif new is None or new.metadata.deletion_timestamp or not is_available(new, one.spec.min_ready_seconds, now):
            missing += 1
    if surge:
        chosen = [*free, *costly[: max(surge - surging, 0)]]
        return Plan(create=tuple(name for name, _ in chosen), delete=tuple(done))
    chosen = [*free, *costly[: max(unavailable - missing, 0)]]
    return Plan(delete=tuple(pod for _, pod in chosen))


def status_of(one: apps_v1.DaemonSet, places: Mapping[str, Place], digest: str, now: float) -> apps_v1.DaemonSetStatus:
    """The status that nodes and pods make. A node counts with its oldest pod; one that is surging with its new one as well."""
    status = apps_v1.DaemonSetStatus(
        observed_generation=one.metadata.generation,
        collision_count=one.status.collision_count,
        conditions=one.status.conditions,
    )
    for place in places.values():
        if not place.exists:
            continue
        if not place.should_run:
            status.number_misscheduled += bool(place.pods)
            continue
        status.desired_number_scheduled += 1
        if not place.pods:
            continue
        status.current_number_scheduled += 1
        pods = sorted(place.pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        ready = [pod for pod in pods if is_ready(pod)]
        if ready:
            status.number_ready += 1
            status.number_available += any(is_available(pod, one.spec.min_ready_seconds, now) for pod in ready)
        status.updated_number_scheduled += any(is_updated(pod, digest) for pod in pods)
    status.number_unavailable = status.desired_number_scheduled - status.number_available
    return status
