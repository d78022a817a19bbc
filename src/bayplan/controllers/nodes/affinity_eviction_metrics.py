"""Metrics of the eviction for broken affinity rules: KEP-4328's names for node affinity, the like for pod affinity and anti-affinity."""

from __future__ import annotations

from typing import Final

from bayplan.controllers.nodes.affinity_eviction_terms import AFFINITY, ANTI_AFFINITY, NODE
from bayplan.support.metrics.instruments import Registry

_NAMES: Final = {NODE: "node_affinity", AFFINITY: "pod_affinity", ANTI_AFFINITY: "pod_anti_affinity"}


class AffinityEvictionMetrics:
    """Counts evictions by kind of rule, and failed ones by pod for as long as the pod is there."""

    def __init__(self, registry: Registry) -> None:
        self._evictions = {
            kind: registry.counter(
                f"evictions_{name}_total",
                f"Number of evictions that were created because a rule of {kind} ceased to hold",
            ).labels()
            for kind, name in _NAMES.items()
        }
        self._failed = {
            kind: registry.counter(
                f"pod_failed_eviction_{name}_total",
                f"Number of times that a pod could not be evicted though a rule of {kind} does not hold",
                ("pod",),
            )
            for kind, name in _NAMES.items()
        }

    def evicted(self, kind: str) -> None:
        """A pod was evicted because of a rule of this kind."""
        self._evictions[kind].inc()

    def failed(self, kind: str, pod: str) -> None:
        """A pod (`namespace/name`) could not be evicted."""
        self._failed[kind].labels(pod).inc()

    def forget(self, pod: str) -> None:
        """A pod is gone."""
        for family in self._failed.values():
            family.remove(pod)
