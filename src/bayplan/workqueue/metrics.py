"""A queue's metrics under Kubernetes' names."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.support.metrics.instruments import Registry, exponential_buckets

_DURATIONS = exponential_buckets(10e-9, 10, 12)
"""Seconds: 10 ns to 1000 s, Kubernetes' buckets for queues."""


class WorkQueueMetrics:
    """The series of one queue (label `name`) in a registry."""

    def __init__(self, registry: Registry, name: str) -> None:
        label = ("name",)
        self.depth = registry.gauge("workqueue_depth", "Current depth of workqueue", label).labels(name)
        self.adds = registry.counter("workqueue_adds_total", "Total number of adds handled by workqueue", label).labels(
            name
        )
        self.queue_duration = registry.histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            label,
            _DURATIONS,
        ).labels(name)
        self.work_duration = registry.histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            label,
            _DURATIONS,
        ).labels(name)
        self.retries = registry.counter(
            "workqueue_retries_total", "Total number of retries handled by workqueue", label
        ).labels(name)
        self.unfinished = registry.gauge(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work is in progress and has not been observed by work_duration",
            label,
        ).labels(name)
        self.longest_running = registry.gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            label,
        ).labels(name)

    def attach(
        self, depth: Callable[[], float], unfinished: Callable[[], float], longest_running: Callable[[], float]
    ) -> None:
        """Where the gauges get their values when they are scraped."""
        self.depth.set_function(depth)
        self.unfinished.set_function(unfinished)
        self.longest_running.set_function(longest_running)
