"""NodeAffinity: `spec.nodeSelector`, `spec.affinity.nodeAffinity`, and affinity that the profile adds to every pod."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api.pods.execution_rules import preferred_node_terms
from bayplan.scheduler.framework.arguments import NodeAffinityArgs
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScaledScorePlugin,
    Scope,
    default_scale,
)
from bayplan.scheduler.framework.state import CycleState, Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Codes, Narrow, PluginError, Reject, Skip, Status
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.node_selector import (
    NodeAffinityMatcher,
    WeightedTerm,
    errors_of,
    preferred_terms,
)


@dataclass(slots=True)
class _Filter:
    matcher: NodeAffinityMatcher


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScaledScorePlugin):
    """Refuses nodes that do not match what is required; prefers those that match what is preferred."""

    name = "NodeAffinity"
    filter_scope = Scope.NODE
    score_scope = Scope.NODE
    equal_stays_equal = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity if isinstance(args, NodeAffinityArgs) else None
        required = added.required_during_scheduling_ignored_during_execution if added is not None else None
        preferred = added.preferred_during_scheduling_ignored_during_execution if added is not None else ()
        self.added = NodeAffinityMatcher({}, required) if required is not None else None
        self.added_preferred = preferred_terms((item.weight, item.preference) for item in preferred)
        self.prefers = bool(preferred)
        """Whether preferences are added to every pod's; they may be empty, and say nothing."""

    def reads(self, pod: PodShape) -> Hashable | None:
        return pod.node_rules

    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        matcher = NodeAffinityMatcher.of_pod(pod.spec)
        if matcher.matches_all and self.added is None:
            return SKIP
        state.data[self.name] = _Filter(matcher)
        names: frozenset[str] = frozenset()
        for term in matcher.terms or ():
            if term.node_names is None:
                return None
            names |= term.node_names
        if not matcher.terms:
            return None
        return Narrow(names) if names else Reject(Status.UNRESOLVABLE, ("pod affinity terms conflict",))

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        matcher: NodeAffinityMatcher = state.data[self.name].matcher
        code = self.reasons.code(Status.UNRESOLVABLE, self.name, "node(s) didn't match Pod's node affinity/selector")
        codes = np.where(matcher.match(self.snapshot, rows), 0, code)
        if self.added is not None:
            enforced = self.reasons.code(
                Status.UNRESOLVABLE, self.name, "node(s) didn't match scheduler-enforced node affinity"
            )
            codes = np.where(self.added.match(self.snapshot, rows), codes, enforced)
        return codes.astype(np.int32)

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        terms = self._preferred(pod)
        if any(item.term.error for item in terms):
            raise PluginError(self.name, _errors_of(pod))
        state.score_data[self.name] = [*terms, *self.added_preferred]
        return None if self._has_preferred(pod) or self.prefers else SKIP

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        scores = np.zeros(self.snapshot.select(rows), dtype=np.int64)
        terms: list[WeightedTerm] = state.score_data[self.name]
        for item in terms:
            scores += item.term.match(self.snapshot, rows) * item.weight
        return scores

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        return default_scale(scores, highest, reverse=False)

    def _has_preferred(self, pod: PodShape) -> bool:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        return bool(preferred_node_terms(affinity))

    def _preferred(self, pod: PodShape) -> list[WeightedTerm]:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        return preferred_terms((item.weight, item.preference) for item in preferred_node_terms(affinity))

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint("Node", Action.ADD | Action.NODE_LABEL, self._node_matches, per_shape=True),)

    def _node_matches(self, pod: PodInfo, old: Any, new: Any) -> bool:
        matcher = NodeAffinityMatcher.of_pod(pod.shape.spec)

        def matches(node: Any) -> bool:
            labels, name = node.metadata.labels, node.metadata.name
            return matcher.match_labels(labels, name) and (self.added is None or self.added.match_labels(labels, name))

        return matches(new) and (old is None or not matches(old))


def _errors_of(pod: PodShape) -> str:
    """What cannot be parsed in the pod's preferences, by the place where it is."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    preferred = preferred_node_terms(affinity)
    errors = {
        f"[{place}].{error}": None
        for place, item in enumerate(preferred)
        if item.weight
        for error in errors_of(item.preference)
    }
    return next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
