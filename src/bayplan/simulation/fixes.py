"""The smallest changes that would place a pending pod.

Every proposal was tried: the scheduler decides about the changed pod in the changed cluster, and only what places the
pod is shown, the smallest intervention first. Requests and skews are changed no more than needed. If no single change
helps, pairs are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.controllers.base import controller_of
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.snapshot.pods import pod_key
from bayplan.simulation.consolidate_rules import CONTROL_PLANE, belongs_to_node
from bayplan.simulation.copies_planner import NodeShape, QuestionError, fresh, node_shape, planner_of
from bayplan.simulation.fixes_base import Candidate, Change, Range, Supposed
from bayplan.simulation.fixes_changes import amount_of, amount_text, candidates
from bayplan.simulation.fixes_selectors import labelled, with_terms

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.simulation.copies import ClusterCopy

_ABOVE_ALL: Final = 2_000_001_000
"""A priority above every other: whoever has it could evict anybody."""
_SHOWN_EVICTIONS: Final = 3
_SHAPES: Final = 6
_FACTORS: Final = (2, 4, 8, 16)
"""How much larger nodes may be if none of the known kinds is large enough."""
_PAIRED: Final = 25
"""Candidates that are tried in pairs."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Changes that together place the pod on `node`."""

    changes: tuple[Change, ...]
    node: str

    @property
    def size(self) -> int:
        """How much they touch; see `fixes_changes`."""
        return sum(change.size for change in self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"size": self.size, "node": self.node, "changes": [change.to_dict() for change in self.changes]}


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
    copy: ClusterCopy,
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
    """Tries changes on one planner."""

    def __init__(
        self,
        copy: ClusterCopy,
        pod: core_v1.Pod,
        config: Path | None,
        shape: str,
        amounts: Mapping[str, str] | None,
    ) -> None:
        self.copy = copy
        self.planner = planner_of(copy, config, without=pod)
        self.nodes: dict[str, core_v1.Node] = {node.metadata.name: node for node in copy.of("Node")}
        gates = pod.spec.scheduling_gates
        anew = fresh(pod)
        self.pod = replace(anew, spec=replace(anew.spec, scheduling_gates=gates))
        self.still = replace(self.pod, spec=replace(self.pod.spec, preemption_policy="Never"))
        """The same pod, which evicts nobody by itself."""
        self.shape, self.amounts = shape, amounts
        self.tried = 0

    def find(self, most: int) -> Fixes:
        """All single changes that help, else pairs."""
        decision = self.planner.decide(self.pod)
        answer = Fixes(pod_key(self.pod), self._owner(), decision)
        if decision.scheduled:
            return answer
        known = self._candidates()
        found = [fix for candidate in known if (fix := self._single(candidate)) is not None]
        found += self._evictions(Supposed(self.still), ())
        if not (self.shape or self.amounts or any(fix.changes[0].kind == "add-node" for fix in found)):
            larger = (self._single(change) for change in self._larger_nodes())
            found += [fix for fix in (next((one for one in larger if one is not None), None),) if fix is not None]
        if not found:
            found = list(self._pairs(known))
        answer.fixes = _smallest(found)[:most]
        answer.tried = self.tried
        return answer

    def _owner(self) -> str:
        """The workload that makes such pods: of a replica set of a deployment, the deployment."""
        owner = controller_of(self.pod)
        if owner is not None and owner.kind == "ReplicaSet":
            for one in self.copy.of("ReplicaSet"):
                if one.metadata.uid == owner.uid and one.metadata.namespace == self.pod.metadata.namespace:
                    owner = controller_of(one) or owner
        return f"{owner.kind} {self.pod.metadata.namespace}/{owner.name}" if owner is not None else ""

    # What comes into question

    def _candidates(self) -> list[Candidate]:
        decision = self._decide(Supposed(self.still))
        known = list(candidates(self.still, decision, self.nodes))
        spec = with_terms(self.still.spec, ())
        if spec is not self.still.spec or spec.node_selector:
            anywhere = self._decide(Supposed(replace(self.still, spec=replace(spec, node_selector={}))))
            fits = [
                name for name, code in zip(anywhere.names, anywhere.codes.tolist(), strict=False) if code == 0 and name
            ]
            known += labelled(self.still, self.nodes, sorted(fits))
        known += self._added_nodes()
        return known

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

    # Trying

    def _decide(self, state: Supposed) -> Decision:
        self.tried += 1
        with self._supposing(state):
            return self.planner.decide(state.pod)

    @contextmanager
    def _supposing(self, state: Supposed) -> Iterator[None]:
        planner, snapshot = self.planner, self.planner.snapshot
        for node in state.nodes.values():
            planner.add("Node", node)
        gone = [info for key in state.evicted if (info := snapshot.remove_pod(key)) is not None]
        places = [info.node_name for info in gone]
        daemons = []
        if state.added is not None:
            planner.add("Node", state.added.node(1))
            for pod in state.added.pods(1):
                planner.add("Pod", pod)
                daemons.append(pod_key(pod))
        try:
            yield
        finally:
            for key in daemons:
                planner.remove(key)
            if state.added is not None:
                snapshot.remove_node(state.added.node(1).metadata.name)
            for info, node_name in zip(gone, places, strict=True):
                snapshot.place(info, node_name)
            for name in state.nodes:
                planner.add("Node", self.nodes[name])

    def _works(self, changes: Iterable[Change]) -> str:
        """The node on which the pod is placed after some changes; empty if there is none."""
        state = Supposed(self.still)
        for change in changes:
            state = change.apply(state)
        decision = self._decide(state)
        return decision.node or ""

    def _single(self, candidate: Candidate) -> Fix | None:
        strongest = _strongest(candidate)
        node = self._works((strongest,))
        if not node:
            return None
        change = self._softened(candidate, ())
        return Fix((change,), self._works((change,)) if change is not strongest else node)

    def _softened(self, candidate: Candidate, others: tuple[Change, ...]) -> Change:
        """The weakest form of a change that helps together with others."""
        if isinstance(candidate, Change):
            return candidate
        works, fails = candidate.strongest, candidate.weakest - 1
        while works - fails > 1:
            middle = (works + fails) // 2
            if self._works((*others, candidate.at(middle))):
                works = middle
            else:
                fails = middle
        return candidate.at(works)

    def _pairs(self, known: list[Candidate]) -> Iterator[Fix]:
        """Two changes together. The second may come into question only once the first is made: a node says one thing at a time."""
        tried: set[frozenset[str]] = set()
        first_ones = sorted(known, key=lambda one: _strongest(one).size)[:_PAIRED]
        for first in first_ones:
            a = _strongest(first)
            state = a.apply(Supposed(self.still))
            further = [*first_ones, *candidates(state.pod, self._decide(state), self.nodes)]
            for second in further:
                b = _strongest(second)
                pair = frozenset((a.text, b.text))
                if pair in tried or len(pair) < 2 or _same_target(a, b):
                    continue
                tried.add(pair)
                if self._works((a, b)):
                    softer = self._softened(first, (b,))
                    both = (softer, self._softened(second, (softer,)))
                    yield Fix(both, self._works(both))
            if a.kind not in ("lower-request", "add-node"):
                yield from self._evictions(state, (a,))

    def _evictions(self, state: Supposed, changes: tuple[Change, ...]) -> Iterator[Fix]:
        """Pods whose eviction makes room, as preemption would choose them if the pod were above all others."""
        spec = replace(state.pod.spec, priority=_ABOVE_ALL, preemption_policy="PreemptLowerPriority")
        self.tried += 1
        with self._supposing(state):
            decision = self.planner.decide(replace(state.pod, spec=spec))
        outcome = decision.post_filter
        if outcome is None or outcome.nominated is None:
            return
        ordered = sorted(outcome.candidates, key=lambda one: (one.cost, decision.names[one.row]))
        evictable = [one for one in ordered if not any(belongs_to_node(victim.pod) for victim in one.victims)]
        for one in evictable[:_SHOWN_EVICTIONS]:
            change = _eviction([victim.pod for victim in one.victims], decision.names[one.row], one.violations)
            node = self._works((*changes, change))
            if node:
                yield Fix((*changes, change), node)


def _with_node(shape: NodeShape, state: Supposed) -> Supposed:
    return Supposed(state.pod, state.nodes, state.evicted, shape)


def _strongest(candidate: Candidate) -> Change:
    return candidate.at(candidate.strongest) if isinstance(candidate, Range) else candidate


def _same_target(one: Change, other: Change) -> bool:
    """Whether two changes exclude each other."""
    both_add = one.kind == other.kind == "add-node"
    node = one.detail.get("node")
    return both_add or (node is not None and node == other.detail.get("node"))


def _eviction(pods: list[core_v1.Pod], node: str, violations: int) -> Change:
    keys = tuple(pod_key(pod) for pod in pods)
    against = f", {violations} of them against their disruption budget" if violations else ""
    shown = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    critical = any((pod.spec.priority or 0) >= 2_000_000_000 for pod in pods)
    return Change(
        "evict",
        f"evict {shown} from {node}{against}",
        50 + 8 * len(keys) + 30 * violations + (100 if critical else 0),
        {"from": node, "pods": list(keys), "budgetViolations": violations},
        lambda state: Supposed(state.pod, state.nodes, (*state.evicted, *keys), state.added),
    )


def _smallest(found: list[Fix]) -> list[Fix]:
    """Smallest first, each once."""
    ordered = sorted(found, key=lambda fix: (fix.size, [change.text for change in fix.changes]))
    kept: dict[tuple[str, ...], Fix] = {}
    for fix in ordered:
        kept.setdefault(tuple(sorted(change.text for change in fix.changes)), fix)
    return list(kept.values())
