"""Figures of one moment of a replay: how much is asked for, how evenly nodes are filled, what of the rest is of use."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from bayplan.api.quantity import milli_value, value
from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.library import Planner
from bayplan.scheduler.planning.capacity import capacity_for
from bayplan.scheduler.planning.relocation import NodeUse
from bayplan.scheduler.snapshot.resources import pod_requests
from bayplan.simulation.replay.gpu_fragmentation import room_with_gpus
from bayplan.simulation.replay.gpu_shares import GpuShares, shares_of


def unevenness(uses: Sequence[NodeUse]) -> float:
    """The standard deviation of how full nodes are."""
    return statistics.pstdev(use.fullness for use in uses) if uses else 0.0


def asked_for(pod: Pod) -> dict[str, int]:
    """What a pod asks for, in the units of `NodeUse`."""
    amounts = pod_requests(pod.spec, pod.status)
    return {name: one.milli_value() if name == "cpu" else one.value() for name, one in amounts.items()}


def amounts_of(nodes: Iterable[Node]) -> dict[str, float]:
    """What nodes offer in all, in the units of `asked_for`."""
    total: dict[str, float] = {}
    for node in nodes:
        for name, amount in node.status.allocatable.items():
            total[name] = total.get(name, 0.0) + (milli_value(amount) if name == "cpu" else value(amount))
    return total


def dominant_share(pod: Pod, total: Mapping[str, float]) -> float:
    """The largest of the shares of these amounts that a pod asks for."""
    asks = asked_for(pod)
    return max((asks[name] / amount for name, amount in total.items() if amount and asks.get(name)), default=0.0)


def shares(uses: Iterable[NodeUse]) -> dict[str, float]:
    """Resource -> share of all nodes' amount that is asked for."""
    asked: dict[str, int] = {}
    offered: dict[str, int] = {}
    for use in uses:
        for name, amount in use.allocatable.items():
            offered[name] = offered.get(name, 0) + amount
            asked[name] = asked.get(name, 0) + use.requested.get(name, 0)
    return {name: asked[name] / amount for name, amount in offered.items()}


def split(uses: Iterable[NodeUse]) -> dict[str, float]:
    """Resource -> share of the nodes that have it of which some is asked for and some is left."""
    nodes: dict[str, int] = {}
    partly: dict[str, int] = {}
    for use in uses:
        for name, amount in use.allocatable.items():
            nodes[name] = nodes.get(name, 0) + (amount > 0)
            partly[name] = partly.get(name, 0) + (0 < use.requested.get(name, 0) < amount)
    return {name: partly[name] / count for name, count in nodes.items() if count}


def looks_of(pods: Iterable[Pod]) -> list[tuple[Pod, int]]:
    """The first pod of each look, and how many have it, in the order in which they come."""
    counts: dict[str, int] = {}
    first: dict[str, Pod] = {}
    for pod in pods:
        spec = pod.spec
        look = repr((spec.containers, spec.affinity, spec.node_selector, spec.tolerations))
        counts[look] = counts.get(look, 0) + 1
        first.setdefault(look, pod)
    return [(pod, counts[look]) for look, pod in first.items()]


def usual_pod(looks: Sequence[tuple[Pod, int]]) -> Pod | None:
    """A pod of the look that comes most often, under a name of its own."""
    if not looks:
        return None
    pod, _ = max(looks, key=lambda one: one[1])
    return replace(pod, metadata=replace(pod.metadata, name="usual", uid="usual"))


def fragmentation(planner: Planner, uses: Sequence[NodeUse], pod: Pod, gpus: GpuShares | None) -> float:
    """Of what is free of the resource that is scarcest for pods like this one: the share that none of them can use."""
    asks = {name: amount for name, amount in asked_for(pod).items() if amount}
    could = {
        name: sum(use.allocatable.get(name, 0) - use.requested.get(name, 0) for use in uses) // amount
        for name, amount in asks.items()
    }
    most = min(could.values(), default=0)
    if not most:
        return 0.0
    shared = gpus is not None and shares_of(pod.spec)
    room = room_with_gpus(planner, gpus, pod) if gpus is not None and shared else capacity_for(planner, pod).total
    return 1.0 - min(room, most) / most
