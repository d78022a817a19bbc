"""What a kubelet counts of calls of storage drivers, under its own names (csi_metrics.go)."""

from __future__ import annotations

from typing import Final

from bayplan.csi.client import Observer
from bayplan.support.grpc.errors import go_name
from bayplan.support.metrics.instruments import Registry

_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)


def call_observer(registry: Registry, driver_name: str) -> Observer:
    """Records how long calls of a driver take, by their names and codes."""
    seconds = registry.histogram(
        "csi_operations_seconds",
        "Container Storage Interface operation duration with gRPC error code status total",
        ("driver_name", "method_name", "grpc_status_code", "migrated"),
        _BUCKETS,
    )

    def observe(method: str, code: str, duration: float) -> None:
        seconds.labels(driver_name, method, go_name(code), "false").observe(duration)

    return observe
