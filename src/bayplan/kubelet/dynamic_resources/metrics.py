"""What a kubelet counts of dynamic resources, under its own names (pkg/kubelet/metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bayplan.kubelet.dynamic_resources.errors import ClaimError
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError, go_name
from bayplan.support.metrics.instruments import Registry, exponential_buckets

ANY_DRIVER: Final = "<any>"
PREPARE, UNPREPARE = "PrepareResources", "UnprepareResources"
_BUCKETS: Final = exponential_buckets(0.1, 400 ** (1 / 14), 15)
"""From 0.1 to 40 seconds: a call may take 45."""


class DraMetrics:
    """Families in a registry."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self.on_render = registry.on_render
        """Has something brought in before the text is made."""
        self._clock = clock
        self._operations = registry.histogram(
            "dra_operations_duration_seconds",
            "How long it took to prepare the claims of a pod, or to give them back",
            ("operation_name", "is_error"),
            _BUCKETS,
        )
        self._calls = registry.histogram(
            "dra_grpc_operations_duration_seconds",
            "How long calls of drivers took",
            ("driver_name", "method_name", "grpc_status_code"),
            _BUCKETS,
        )
        self.in_use = registry.gauge(
            "dra_resource_claims_in_use",
            "Claims that are prepared on this node, by driver, and all under <any>",
            ("driver_name",),
        )

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count what is done for the claims of a pod. name: `PREPARE` or `UNPREPARE`."""
        began, is_error = self._clock.monotonic(), "false"
        try:
            yield
        except ClaimError:
            is_error = "true"
            raise
        finally:
            self._operations.labels(name, is_error).observe(self._clock.monotonic() - began)

    @contextmanager
    def call(self, driver: str, method: str) -> Iterator[None]:
        """Count a call of a driver. method: its full name."""
        began, code = self._clock.monotonic(), "OK"
        try:
            yield
        except RpcError as error:
            code = error.code
            raise
        finally:
            self._calls.labels(driver, method, go_name(code)).observe(self._clock.monotonic() - began)
