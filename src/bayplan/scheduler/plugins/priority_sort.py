"""PrioritySort: higher priority first, then who came first."""

from __future__ import annotations

from bayplan.scheduler.framework.extension_points import QueueSortPlugin
from bayplan.scheduler.snapshot.pods import PodInfo


class PrioritySort(QueueSortPlugin):
    """Orders the queue by `spec.priority`, then by the time a pod was queued."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at)
