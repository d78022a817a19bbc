"""Zones of nodes and how fast failing nodes may be emptied: if much fails at once, the network is broken rather than the nodes, and moving pods makes it worse.

Source of the behaviour: kube-controller-manager's node-lifecycle-controller (`ComputeZoneState`, `handleDisruption`, `setLimiterInZone`).
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.types import core_v1
from bayplan.controllers.settings import ControllerSettings

NORMAL, PARTIAL, FULL = "Normal", "PartialDisruption", "FullDisruption"
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
_FEW = 2
"""So many failing nodes are no disruption of a zone that has others."""


def zone_of(node: core_v1.Node) -> str:
    """The zone of a node by its labels; nodes without are in one together."""
    labels = node.metadata.labels
    return f"{labels.get(_REGION, '')}:{labels.get(_ZONE, '')}"


def state_of(ready: int, failing: int, threshold: float) -> str:
    """How a zone with so many nodes is."""
    if not ready and failing:
        return FULL
    if failing > _FEW and failing / (failing + ready) >= threshold:
        return PARTIAL
    return NORMAL


def states_of(nodes: Iterable[tuple[str, bool]], threshold: float) -> dict[str, tuple[str, int]]:
    """(state, number of nodes) by zone, from (zone, whether it fails) of each node."""
    counts: dict[str, list[int]] = {}
    for zone, fails in nodes:
        counts.setdefault(zone, [0, 0])[fails] += 1
    return {zone: (state_of(ready, failing, threshold), ready + failing) for zone, (ready, failing) in counts.items()}


def rate_of(state: str, size: int, settings: ControllerSettings) -> float:
    """Nodes per second that may be emptied in a zone, while not all zones are lost. In one that is lost as a whole it is the usual rate: others can take over."""
    if state != PARTIAL:
        return settings.node_eviction_rate
    return settings.secondary_node_eviction_rate if size > settings.large_cluster_size_threshold else 0.0


class Limiter:
    """Lets one through at once, then `rate` per second; none at rate 0."""

    __slots__ = ("_last", "_rate", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._tokens, self._last = rate, 1.0, now

    @property
    def rate(self) -> float:
        """Per second."""
        return self._rate

    def set_rate(self, rate: float, now: float) -> None:
        """Change it from now on."""
        self._fill(now)
        self._rate = rate

    def _fill(self, now: float) -> None:
        self._tokens = min(1.0, self._tokens + (now - self._last) * self._rate)
        self._last = now

    def take(self, now: float) -> float | None:
        """Seconds to wait for, 0 if one may pass now (and has passed); None if nobody passes at this rate."""
        self._fill(now)
        if self._rate <= 0:
            return None
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate
