"""Settings of the controllers, under the names of kube-controller-manager's flags where it has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How patient the controllers are. All times are in seconds."""

    node_monitor_period: float = 5.0
    """Between two looks at all nodes."""
    node_monitor_grace_period: float = 50.0
    """Without a renewed lease after which a node counts as unreachable. Longer than the nodes' renewal interval."""
    node_startup_grace_period: float = 60.0
    """The same for a node that has never reported its status."""
    orphaned_pod_period: float = 20.0
    """Between two looks for pods whose node is gone."""
    terminated_pod_threshold: int = 12_500
    """Pods that have ended are kept up to this number, the latest; 0 keeps all."""
