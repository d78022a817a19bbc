"""Metrics of the scheduler, under kube-scheduler's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.scheduler.decision import Decision
from bayplan.support.metrics import Registry, exponential_buckets

_QUEUES = {"active": "active", "backoff": "backoff", "unschedulable": "unschedulable", "gated": "gated"}


class SchedulerMetrics:
    """Counts attempts and times them; the queue's sizes are read when asked for."""

    def __init__(self, registry: Registry, sizes: Callable[[], Mapping[str, int]]) -> None:
        pending = registry.gauge("scheduler_pending_pods", "Number of pending pods, by the queue type.", ("queue",))
        for label, place in _QUEUES.items():
            pending.labels(label).set_function(lambda place=place: float(sizes()[place]))  # type: ignore[misc]
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ("result", "profile"),
        )
        self._durations = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds.",
            ("result", "profile"),
            buckets=exponential_buckets(0.00001, 2, 20),
        )
        self._end_to_end = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Latency from the moment a pod enters the queue until it is bound.",
            buckets=exponential_buckets(0.01, 2, 20),
        ).labels()
        self._preemptions = registry.counter("scheduler_preemption_attempts_total", "Victims of preemption.").labels()

    def attempt(self, decision: Decision, seconds: float) -> None:
        """One attempt was made."""
        result = "scheduled" if decision.scheduled else "error" if decision.error else "unschedulable"
        self._attempts.labels(result, decision.profile).inc()
        self._durations.labels(result, decision.profile).observe(seconds)

    def bound(self, seconds: float) -> None:
        """A pod was bound, so long after it was first seen."""
        self._end_to_end.observe(seconds)

    def preempted(self) -> None:
        """A victim was evicted."""
        self._preemptions.inc()
