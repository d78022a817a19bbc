"""SelectorSpreadPriority and ServiceSpreadingPriority as `Policy` files have them: nodes with few pods of the same services and controller.

A node's score is 100 * (most - pods there) / most, most being the pods on the feasible node with the most. Where nodes have zones, two thirds of it are the same of
zones. Pods with spreading constraints of their own are left to these. Source: `selector_spread.go` of Kubernetes 1.22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np

from bayplan.api.selectors.labels import LabelSelector
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, PreScorePlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.framework.verdicts import SKIP, Skip
from bayplan.scheduler.framework.workload_selectors import default_selector, pods_selected, services_selector
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.labels import Ints, Rows

_ZONE_WEIGHT: Final = 2.0 / 3.0
_ZONE: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_NO_ZONE: Final = -1


class SelectorSpreadPriority(PreScorePlugin, ScorePlugin):
    """Spreads the pods that a pod's services and its controller select."""

    name = "SelectorSpreadPriority"
    score_scope = Scope.CLUSTER
    normalizes = True
    looks_at_controllers: ClassVar[bool] = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._structure = -1
        self._zone_of: Ints = np.zeros(0, dtype=np.int64)
        """Per row, the number of its zone, `_NO_ZONE` if it has none."""

    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        if pod.spec.topology_spread_constraints:
            return SKIP
        find = default_selector if self.looks_at_controllers else services_selector
        selector = find(self.snapshot, pod)
        state.score_data[self.name] = None if selector.is_everything() else self._counter(pod.namespace, selector)
        return None

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return pods_selected(self.snapshot, state.score_data[self.name], rows)

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        most = int(scores.max(initial=0))
        shares = np.full(len(scores), float(MAX_NODE_SCORE))
        if most > 0:
            shares = MAX_NODE_SCORE * ((most - scores).astype(np.float64) / float(most))
        zones = self._zones()[feasible]
        zoned = zones != _NO_ZONE
        if zoned.any():
            counts = np.bincount(zones[zoned], weights=scores[zoned]).astype(np.int64)
            most_in_zone = int(counts.max())
            of_zones = np.full(len(scores), float(MAX_NODE_SCORE))
            if most_in_zone > 0:
                of_zones = MAX_NODE_SCORE * ((most_in_zone - counts[zones]).astype(np.float64) / float(most_in_zone))
            shares = np.where(zoned, shares * (1.0 - _ZONE_WEIGHT) + _ZONE_WEIGHT * of_zones, shares)
        return shares.astype(np.int64)

    def _counter(self, namespace: str, selector: LabelSelector) -> PodCounter:
        def matches(other: str, labels: Mapping[str, str]) -> bool:
            return other == namespace and selector.matches(labels)

        key = ("spread", namespace, selector)
        return self.snapshot.counts.counter(key, matches, live_only=True, anchor=selector.anchor)

    def _zones(self) -> Ints:
        """Per row, the number of its region and zone."""
        snapshot = self.snapshot
        if self._structure != snapshot.structure:
            self._structure = snapshot.structure
            numbers: dict[tuple[str, str], int] = {("", ""): _NO_ZONE}
            found = []
            for node in snapshot.nodes:
                labels = node.metadata.labels if node is not None else {}
                place = (_first(labels, _REGION), _first(labels, _ZONE))
                found.append(numbers.setdefault(place, len(numbers) - 1))
            self._zone_of = np.array(found, dtype=np.int64)
        return self._zone_of


class ServiceSpreadingPriority(SelectorSpreadPriority):
    """Spreads the pods that a pod's services select."""

    name = "ServiceSpreadingPriority"
    looks_at_controllers = False


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    """The value of the first of these labels that is there."""
    return next((labels[key] for key in keys if key in labels), "")
