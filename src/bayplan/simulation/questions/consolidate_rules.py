"""What may be moved, and what keeps a node from going away.

The rules are those by which the cluster autoscaler removes nodes, under the names that it has for them: the annotations
`cluster-autoscaler.kubernetes.io/safe-to-evict` and `scale-down-disabled`, pods without owner, local storage, system
pods, disruption budgets.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bayplan.api.selectors.labels import LabelSelector, compile_selector
from bayplan.api.types import core_v1, policy_v1
from bayplan.api.validation.profiles import MIRROR
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import SAFE_TO_EVICT, SAFE_VOLUMES, SCALE_DOWN_DISABLED
from bayplan.controllers.base import controller_of
from bayplan.controllers.workloads.disruption import Scales, healthy_needed

CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is let pass."""

    bare_pods: bool = False
    """Pods that nobody makes again may go."""
    local_storage: bool = False
    """What pods keep on their node may be lost."""
    system_pods: bool = False
    """Pods of kube-system may be moved even if no disruption budget says so."""
    control_plane: bool = False
    """Nodes of the control plane may go."""


class Fate(enum.Enum):
    """What becomes of a pod when its node goes."""

    STAYS_BEHIND = "stays behind"
    """It belongs to the node (daemon, mirror) or has ended, and goes with it."""
    MOVES = "moves"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The fate of a pod, and why if it blocks."""

    fate: Fate
    why: str = ""


def node_blocker(node: core_v1.Node, rules: Rules) -> str:
    """Why a node cannot go whatever runs on it; empty if it can."""
    if node.metadata.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return f"annotation {SCALE_DOWN_DISABLED}"
    if not rules.control_plane and any(label in node.metadata.labels for label in CONTROL_PLANE):
        return "it is of the control plane"
    return ""


def belongs_to_node(pod: core_v1.Pod) -> bool:
    """Whether a pod is there for the sake of its node: a mirror pod, or one of a daemon set."""
    owner = controller_of(pod)
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))


def judge(pod: core_v1.Pod, budgets: Budgets, rules: Rules) -> Judgement:
    """What becomes of a pod when its node goes."""
    metadata = pod.metadata
    ended = pod.status.phase in ("Succeeded", "Failed") or metadata.deletion_timestamp is not None
    if ended or belongs_to_node(pod):
        return Judgement(Fate.STAYS_BEHIND)
    covering = budgets.of(pod)
    if len(covering) > 1:
        return Judgement(Fate.BLOCKS, "more than one disruption budget covers it, so that it cannot be evicted")
    if covering and not budgets.allows(covering[0]):
        return Judgement(Fate.BLOCKS, f"disruption budget {'/'.join(_key(covering[0]))} allows no disruption")
    safe = metadata.annotations.get(SAFE_TO_EVICT)
    if safe == "false":
        return Judgement(Fate.BLOCKS, f"annotation {SAFE_TO_EVICT}: false")
    if safe == "true":
        return Judgement(Fate.MOVES)
    if controller_of(pod) is None and not rules.bare_pods:
        return Judgement(Fate.BLOCKS, "nobody would make it again")
    if metadata.namespace == "kube-system" and not rules.system_pods and not covering:
        return Judgement(Fate.BLOCKS, "it is of kube-system, and no disruption budget says that it may be moved")
    local = None if rules.local_storage else local_volume(pod)
    if local:
        return Judgement(Fate.BLOCKS, f"volume {local} is kept on the node")
    return Judgement(Fate.MOVES)


def local_volume(pod: core_v1.Pod) -> str:
    """The first volume whose content would be lost; empty if there is none. Memory-backed ones keep nothing worth keeping."""
    safe = {name.strip() for name in pod.metadata.annotations.get(SAFE_VOLUMES, "").split(",")}
    for volume in pod.spec.volumes:
        kept = volume.host_path is not None or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")
        if kept and volume.name not in safe:
            return volume.name
    return ""


class Budgets:
    """Disruption budgets as they stand: a pod that moves is healthy again before the next one of its budget is taken."""

    def __init__(self, budgets: Iterable[policy_v1.PodDisruptionBudget], pods: Iterable[core_v1.Pod] = ()) -> None:
        self._by_namespace: dict[str, list[tuple[policy_v1.PodDisruptionBudget, LabelSelector]]] = {}
        self._allowed: dict[tuple[str, str], int] = {}
        unseen = []
        for budget in budgets:
            if budget.spec.selector is None:
                continue
            selector = compile_selector(budget.spec.selector)
            self._by_namespace.setdefault(budget.metadata.namespace, []).append((budget, selector))
            self._allowed[_key(budget)] = budget.status.disruptions_allowed
            if not budget.status.observed_generation and not budget.status.expected_pods:
                unseen.append((budget, selector))
        if unseen:
            known = list(pods)
            for budget, selector in unseen:
                self._allowed[_key(budget)] = _allowed(budget, selector, known)

    def of(self, pod: core_v1.Pod) -> list[policy_v1.PodDisruptionBudget]:
        """The budgets that a pod counts for."""
        known = self._by_namespace.get(pod.metadata.namespace, [])
        return [budget for budget, selector in known if selector.matches(pod.metadata.labels)]

    def allows(self, budget: policy_v1.PodDisruptionBudget) -> bool:
        """Whether a budget allows a pod to be disrupted now."""
        return self._allowed[_key(budget)] >= 1


def _key(budget: policy_v1.PodDisruptionBudget) -> tuple[str, str]:
    return budget.metadata.namespace, budget.metadata.name


def _allowed(budget: policy_v1.PodDisruptionBudget, selector: LabelSelector, pods: Iterable[core_v1.Pod]) -> int:
    """How many disruptions a budget allows to which no controller has looked yet, as in manifests."""
    own = [
        pod
        for pod in pods
        if pod.metadata.namespace == budget.metadata.namespace
        and pod.status.phase not in ("Succeeded", "Failed")
        and selector.matches(pod.metadata.labels)
    ]
    healthy = sum(bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None for pod in own)
    return healthy - healthy_needed(budget, len(own), Scales(len(own)))[1]
