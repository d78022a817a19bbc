"""Whether a pod would be better off elsewhere: the question behind `requireBetterNode`, which upstream does not have.

A node is not worse than the pod's own if the pod fits there by `nodeFit`, affinity between pods and hard topology spread allow
it, the pod's preferred node affinity is satisfied as well, no more PreferNoSchedule taints speak against it, and it is not
fuller with the pod than the pod's node is now. A node that does not take the pod any more is worse than any other; strategies
that pack pods do not mind fuller nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bayplan.api.pods.tolerations import untolerated
from bayplan.api.types import core_v1
from bayplan.descheduler.node_fit import misfit, preferred_weight, refusal_of
from bayplan.descheduler.pod_affinity import AffinityRules
from bayplan.descheduler.snapshot import SnapshotIndex
from bayplan.descheduler.spread import SpreadRules

_COMPUTE = ("cpu", "memory")


class Standing(NamedTuple):
    """What speaks for a node; larger is better."""

    weight: int
    """Of preferred node affinity."""
    taints: int
    """Minus one if the node would rather not have the pod."""
    share: float
    """Minus the largest share of cpu, memory and number of pods that is taken with the pod there."""


def better_node(
    pod: core_v1.Pod, nodes: Iterable[core_v1.Node], snapshot: SnapshotIndex, *, packs: bool
) -> core_v1.Node | None:
    """The best node for a pod that is not worse than its own; None if there is none."""
    affinity, spread = AffinityRules(pod, snapshot), SpreadRules(pod, snapshot)
    own = snapshot.nodes.get(pod.spec.node_name)
    floor = None
    if own is not None and not refusal_of(pod, own) and affinity.allow(own) and spread.allow(own):
        floor = _standing(pod, own, snapshot)
    found: list[tuple[Standing, core_v1.Node]] = []
    for node in nodes:
        if node.metadata.name == pod.spec.node_name or misfit(pod, node, snapshot):
            continue
        if not (affinity.allow(node) and spread.allow(node)):
            continue
        standing = _standing(pod, node, snapshot)
        if floor is None or _is_not_worse(standing, floor, packs):
            found.append((standing, node))
    if not found:
        return None
    sign = -1 if packs else 1
    return max(found, key=lambda one: (one[0].weight, one[0].taints, sign * one[0].share))[1]


def _is_not_worse(one: Standing, floor: Standing, packs: bool) -> bool:
    return one.weight >= floor.weight and one.taints >= floor.taints and (packs or one.share >= floor.share)


def _standing(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> Standing:
    reluctant = untolerated(pod.spec.tolerations, node.spec.taints, ("PreferNoSchedule",)) is not None
    return Standing(preferred_weight(pod, node), -int(reluctant), -_share(pod, node, snapshot))


def _share(pod: core_v1.Pod, node: core_v1.Node, snapshot: SnapshotIndex) -> float:
    """The largest share of cpu, memory and number of pods that is taken on a node with a pod there."""
    offered, used = snapshot.capacity_of(node), snapshot.requested_on(node.metadata.name)
    own = {} if pod.spec.node_name == node.metadata.name else snapshot.requests(pod)
    shares = [0.0]
    for name in _COMPUTE:
        amounts = [source[name].milli_value() for source in (used, own) if name in source]
        offer = offered[name].milli_value() if name in offered else 0
        if amounts and offer > 0:
            shares.append(sum(amounts) / offer)
    if "pods" in offered and (most := offered["pods"].milli_value()) > 0:
        count = snapshot.count_on(node.metadata.name) + int(pod.spec.node_name != node.metadata.name)
        shares.append(count * 1000 / most)
    return max(shares)
