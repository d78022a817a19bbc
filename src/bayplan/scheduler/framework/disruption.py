"""Whom preemption may disrupt: disruption budgets, and pods that are about to go already."""

from __future__ import annotations

from bayplan.scheduler.snapshot.catalog import Catalog
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import compiled_or_nothing


class DisruptionLimits:
    """What disruption budgets allow still, used up pod by pod."""

    def __init__(self, catalog: Catalog) -> None:
        self._budgets = [
            (budget, compiled_or_nothing(budget.spec.selector), [budget.status.disruptions_allowed])
            for budget in catalog.disruption_budgets.values()
        ]

    def is_violated_by(self, pod: PodInfo) -> bool:
        """Count an eviction; True if a budget does not allow it."""
        metadata = pod.pod.metadata
        violated = False
        for budget, selector, left in self._budgets if metadata.labels else ():
            if budget.metadata.namespace != metadata.namespace or selector.is_everything():
                continue
            if not selector.matches(metadata.labels) or metadata.name in budget.status.disrupted_pods:
                continue
            left[0] -= 1
            violated = violated or left[0] < 0
        return violated


def is_being_preempted(pod: PodInfo) -> bool:
    """Whether a pod terminates because the scheduler evicted it."""
    return pod.pod.metadata.deletion_timestamp is not None and any(
        item.type == "DisruptionTarget" and item.status == "True" and item.reason == "PreemptionByScheduler"
        for item in pod.pod.status.conditions
    )
