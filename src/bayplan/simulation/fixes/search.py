"""The smallest changes that would place a pending pod.

Every proposal was tried: the scheduler decides about the changed pod in the changed cluster, and only what places the
pod is shown, the smallest intervention first. Requests and skews are changed no more than needed. If no single change
helps, pairs are tried, then three together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.controllers.base import controller_of
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.simulation.fixes.base import Candidate, Change, Fix, Supposed
from bayplan.simulation.fixes.changes import amount_of, amount_text
from bayplan.simulation.fixes.combined import pairs, together, triples
from bayplan.simulation.fixes.patches import commands_for, spec_patch
from bayplan.simulation.fixes.trial import Trial
from bayplan.simulation.questions.consolidate_rules import CONTROL_PLANE
from bayplan.simulation.snapshots.planner import NodeShape, QuestionError, fresh, node_shape, planner_of

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_SHAPES: Final = 6
_FACTORS: Final = (2, 4, 8, 16)
"""How much larger nodes may be if none of the known kinds is large enough."""


@dataclass(slots=True)
class Fixes:
    """The answer."""

    pod: str
    owner: str
    """What makes such pods, where a change of the pod has to be made; empty for a pod of its own."""
    decision: Decision
    """What the scheduler says as things are."""
    fixes: list[Fix] = field(default_factory=list)
    tried: int = 0
    """How many states of affairs the scheduler was asked about."""

    @property
    def placed(self) -> bool:
        """Whether the pod needs no fix."""
        return self.decision.scheduled

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "pod": self.pod,
            "owner": self.owner,
            "message": self.decision.message,
            "placedOn": self.decision.node,
            "waitsForEvictionsOn": self.decision.nominated_node or None,
            "fixes": [fix.to_dict() for fix in self.fixes],
            "tried": self.tried,
        }


def fixes_for(
    copy: ClusterSnapshot,
    pod: core_v1.Pod,
    *,
    config: Path | None = None,
    shape: str = "",
    amounts: Mapping[str, str] | None = None,
    most: int = 10,
) -> Fixes:
    """What would place a pod of a copy, at most so many proposals. Raises QuestionError.

    `shape`: add nodes like this one only; `amounts`: with these amounts.
    """
    finder = _Finder(copy, pod, config, shape, amounts)
    try:
        return finder.find(most)
    except SchedulerError as error:
        raise QuestionError(str(error)) from error


class _Finder:
    """Knows what might help one pod."""

    def __init__(
        self,
        copy: ClusterSnapshot,
        pod: core_v1.Pod,
        config: Path | None,
        shape: str,
        amounts: Mapping[str, str] | None,
    ) -> None:
        self.copy = copy
        self.nodes: dict[str, core_v1.Node] = {node.metadata.name: node for node in copy.of("Node")}
        self.replica_sets = {one.metadata.uid: one for one in copy.of("ReplicaSet")}
        gates = pod.spec.scheduling_gates
        anew = fresh(pod)
        self.pod = replace(anew, spec=replace(anew.spec, scheduling_gates=gates))
        still = replace(self.pod, spec=replace(self.pod.spec, preemption_policy="Never"))
        self.trial = Trial(planner_of(copy, config, without=pod), self.nodes, still, self._siblings(pod))
        self.shape, self.amounts = shape, amounts

    def find(self, most: int) -> Fixes:
        """All single changes that help, else pairs, else three together."""
        decision, trial = self.trial.planner.decide(self.pod), self.trial
        answer = Fixes(pod_key(self.pod), self._owner(), decision)
        if decision.scheduled:
            return answer
        known = self._candidates()
        found = [fix for candidate in known if (fix := trial.fix((candidate,))) is not None]
        found += trial.evictions(())
        if not (self.shape or self.amounts or any(fix.changes[0].kind == "add-node" for fix in found)):
            larger = (trial.fix((change,)) for change in self._larger_nodes())
            found += [fix for fix in (next((one for one in larger if one is not None), None),) if fix is not None]
        found = found or list(pairs(trial, known)) or triples(trial, known, most) or together(trial)
        answer.fixes = [self._with_commands(fix) for fix in _smallest(found)[:most]]
        answer.tried = trial.tried
        return answer

    def _siblings(self, pod: core_v1.Pod) -> frozenset[str]:
        """The other pods of the workload that makes this one: evicted for it, they would be pending in its place."""
        owner = self._owner_of(pod)
        if not owner[0]:
            return frozenset()
        namespace = pod.metadata.namespace
        return frozenset(
            pod_key(one)
            for one in self.copy.of("Pod")
            if one is not pod and one.metadata.namespace == namespace and self._owner_of(one) == owner
        )

    def _with_commands(self, fix: Fix) -> Fix:
        """The fix with what makes its changes."""
        patch = spec_patch(self.trial.still.spec, self.trial.after(fix.changes).pod.spec)
        commands = commands_for(self.pod, self._owner_of(self.pod), fix.changes, patch)
        return dataclasses.replace(fix, patch=patch, commands=commands)

    def _owner(self) -> str:
        """The workload that makes such pods, for people."""
        kind, name = self._owner_of(self.pod)
        return f"{kind} {self.pod.metadata.namespace}/{name}" if kind else ""

    def _owner_of(self, pod: core_v1.Pod) -> tuple[str, str]:
        """Kind and name of the workload that makes a pod: of a replica set of a deployment, the deployment. Empty if there is none."""
        owner = controller_of(pod)
        if owner is None:
            return "", ""
        replicas = self.replica_sets.get(owner.uid) if owner.kind == "ReplicaSet" else None
        above = controller_of(replicas) if replicas is not None else None
        owner = above or owner
        return owner.kind, owner.name

    # What comes into question

    def _candidates(self) -> list[Candidate]:
        return [*self.trial.candidates(Supposed(self.trial.still)), *self._added_nodes()]

    def _added_nodes(self) -> Iterator[Change]:
        """One node of each kind that the cluster has."""
        if self.shape or self.amounts:
            yield self._added(
                node_shape(self.copy, self.shape, self.amounts), f"like {self.shape}" if self.shape else "", 80
            )
            return
        kinds: dict[Any, str] = {}
        for node in sorted(self.nodes.values(), key=lambda one: one.metadata.name):
            if not any(label in node.metadata.labels for label in CONTROL_PLANE):
                kinds.setdefault(self._look(node), node.metadata.name)
        for number, name in enumerate(list(kinds.values())[:_SHAPES]):
            yield self._added(node_shape(self.copy, name), f"like {name}", 80 + number)

    def _larger_nodes(self) -> Iterator[Change]:
        """One node of the usual kind, but so many times as large."""
        offers = node_shape(self.copy).base.status.allocatable
        for factor in _FACTORS if self.nodes else (1, *_FACTORS):
            amounts: dict[str, str] = {
                name: amount_text(name, amount_of(name, offers[name]) * factor)
                for name in ("cpu", "memory")
                if name in offers
            }
            yield self._added(
                node_shape(self.copy, "", amounts), f"{factor} times as large as usual" if factor > 1 else "", 88
            )

    def _added(self, shape: NodeShape, what: str, size: int) -> Change:
        offers = shape.base.status.allocatable
        shown = ", ".join(f"{key} {offers[key]}" for key in ("cpu", "memory") if key in offers)
        detail = {"like": shape.base.metadata.name, "allocatable": {key: str(value) for key, value in offers.items()}}
        return Change(
            "add-node", f"add a node {what} ({shown})".replace("  ", " "), size, detail, partial(_with_node, shape)
        )

    def _look(self, node: core_v1.Node) -> Any:
        """What tells kinds of nodes apart for this pod."""
        keys = sorted(self.pod.spec.node_selector)
        offers = node.status.allocatable
        taints = tuple((one.key, one.value, one.effect) for one in node.spec.taints)
        amounts = tuple(
            sorted((name, str(amount)) for name, amount in offers.items() if name in ("cpu", "memory", "pods"))
        )
        return amounts, taints, tuple(node.metadata.labels.get(key) for key in keys)


def _with_node(shape: NodeShape, state: Supposed) -> Supposed:
    return Supposed(state.pod, state.nodes, state.evicted, shape)


def _smallest(found: list[Fix]) -> list[Fix]:
    """Smallest first, each once; nodes that offer the same are the same to add."""
    ordered = sorted(found, key=lambda fix: (fix.size, [change.text for change in fix.changes]))
    kept: dict[tuple[str, ...], Fix] = {}
    for fix in ordered:
        kept.setdefault(tuple(sorted(_likeness(change) for change in fix.changes)), fix)
    return list(kept.values())


def _likeness(change: Change) -> str:
    """What two changes have in common that come to the same."""
    if change.kind != "add-node":
        return change.text
    offers = change.detail["allocatable"]
    return "add a node " + ", ".join(f"{name} {amount_of(name, offers[name])}" for name in sorted(offers))
