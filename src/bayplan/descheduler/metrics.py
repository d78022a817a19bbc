"""Metrics of the descheduler, under upstream's names, with its labels, help and buckets.

Of the names that upstream keeps twice, only `descheduler_pods_evicted` is here besides its successor
`descheduler_pods_evicted_total`.
"""

from __future__ import annotations

import platform
from typing import Final

from bayplan import __version__
from bayplan.support.metrics.instruments import Registry

SUCCESS: Final = "success"
ERROR: Final = "error"
_EVICTED = "Number of total evicted pods, by the result, by the strategy, by the namespace, by the node name. 'error' result means a pod could not be evicted"
_LABELS: Final = ("result", "strategy", "profile", "namespace", "node")
_STRATEGY_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
_LOOP_BUCKETS: Final = (*_STRATEGY_BUCKETS, 250.0, 500.0)


class DeschedulerMetrics:
    """Counts evictions and times passes."""

    def __init__(self, registry: Registry) -> None:
        self._evicted = [
            registry.counter(name, _EVICTED, _LABELS)
            for name in ("descheduler_pods_evicted", "descheduler_pods_evicted_total")
        ]
        help_text = "Time taken to complete a full descheduling cycle"
        self._loop = registry.histogram("descheduler_loop_duration_seconds", help_text, (), _LOOP_BUCKETS).labels()
        self._strategy = registry.histogram(
            "descheduler_strategy_duration_seconds",
            "Time taken to complete Each strategy of the descheduling operation",
            ("strategy", "profile"),
            _STRATEGY_BUCKETS,
        )
        build = registry.gauge(
            "descheduler_build_info",
            "Build info about descheduler, with the versions of Bayplan and Python",
            ("AppVersion", "DeschedulerVersion", "PythonVersion"),
        )
        build.labels(__version__, f"bayplan-{__version__}", platform.python_version()).set(1.0)

    def count(self, result: str, strategy: str, profile: str, namespace: str, node: str) -> None:
        """Count an eviction: success, error, or what limit forbade it."""
        for family in self._evicted:
            family.labels(result, strategy, profile, namespace, node).inc()

    def strategy_took(self, strategy: str, profile: str, seconds: float) -> None:
        """Time a strategy."""
        self._strategy.labels(strategy, profile).observe(seconds)

    def pass_took(self, seconds: float) -> None:
        """Time a pass."""
        self._loop.observe(seconds)
