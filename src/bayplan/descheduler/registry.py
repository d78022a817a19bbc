"""All strategies, in the order of upstream's page. A new one is a file under `plugins/` and a line here."""

from __future__ import annotations

from typing import Final

from bayplan.descheduler.framework import Strategy
from bayplan.descheduler.plugins.high_node_utilization import HighNodeUtilization
from bayplan.descheduler.plugins.low_node_utilization import LowNodeUtilization
from bayplan.descheduler.plugins.pod_life_time import PodLifeTime
from bayplan.descheduler.plugins.remove_duplicates import RemoveDuplicates
from bayplan.descheduler.plugins.remove_failed_pods import RemoveFailedPods
from bayplan.descheduler.plugins.remove_pods_having_too_many_restarts import RemovePodsHavingTooManyRestarts
from bayplan.descheduler.plugins.remove_pods_violating_inter_pod_anti_affinity import (
    RemovePodsViolatingInterPodAntiAffinity,
)
from bayplan.descheduler.plugins.remove_pods_violating_node_affinity import RemovePodsViolatingNodeAffinity
from bayplan.descheduler.plugins.remove_pods_violating_node_taints import RemovePodsViolatingNodeTaints
from bayplan.descheduler.plugins.remove_pods_violating_topology_spread_constraint import (
    RemovePodsViolatingTopologySpreadConstraint,
)

_ORDER: Final[tuple[type[Strategy], ...]] = (
    RemoveDuplicates,
    LowNodeUtilization,
    HighNodeUtilization,
    RemovePodsViolatingInterPodAntiAffinity,
    RemovePodsViolatingNodeAffinity,
    RemovePodsViolatingNodeTaints,
    RemovePodsViolatingTopologySpreadConstraint,
    RemovePodsHavingTooManyRestarts,
    PodLifeTime,
    RemoveFailedPods,
)

STRATEGIES: Final = {strategy.name: strategy for strategy in _ORDER}
"""By name."""
