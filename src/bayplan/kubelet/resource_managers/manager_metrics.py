"""Metrics of the managers of CPUs, memory and devices, under Kubernetes' names (pkg/kubelet/metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.support.metrics.instruments import Counter, Registry, exponential_buckets

CONTAINER_SCOPE, POD_SCOPE = "container", "pod"
NUMA_NODE, PHYSICAL_CPU, UNCORE_CACHE = "numa_node", "physical_cpu", "uncore_cache"
"""Boundaries that resources may be aligned with."""


class ManagerMetrics:
    """Families in a registry. Counters whose names do not end in `_total` are gauges in the text format, which demands that ending."""

    def __init__(self, registry: Registry | None = None) -> None:
        """registry: where they are shown; None for nowhere."""
        registry = registry if registry is not None else Registry()
        self._cpu_requests = registry.counter(
            "kubelet_cpu_manager_pinning_requests_total", "Allocations of CPUs to one container alone"
        ).labels()
        self._cpu_errors = registry.counter(
            "kubelet_cpu_manager_pinning_errors_total", "Allocations of CPUs to one container alone that failed"
        ).labels()
        self.shared_pool = registry.gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores", "CPUs that no container has for itself, in millicores"
        ).labels()
        self.exclusive_cpus = registry.gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count", "CPUs that containers have for themselves"
        ).labels()
        self.cpus_per_numa_node = registry.gauge(
            "kubelet_cpu_manager_allocation_per_numa",
            "CPUs that containers have for themselves, by NUMA node",
            ("numa_node",),
        )
        self._memory_requests = registry.counter(
            "kubelet_memory_manager_pinning_requests_total", "Allocations of memory to one container alone"
        ).labels()
        self._memory_errors = registry.counter(
            "kubelet_memory_manager_pinning_errors_total", "Allocations of memory to one container alone that failed"
        ).labels()
        self.admissions = registry.counter(
            "kubelet_topology_manager_admission_requests_total", "Pods whose resources were to be aligned"
        ).labels()
        self.admission_errors = registry.counter(
            "kubelet_topology_manager_admission_errors_total", "Pods whose resources could not be aligned"
        ).labels()
        self.admission_milliseconds = registry.histogram(
            "kubelet_topology_manager_admission_duration_ms",
            "How long it took to admit a pod, in milliseconds",
            buckets=exponential_buckets(0.05, 2, 15),
        ).labels()
        self._aligned = registry.counter(
            "kubelet_container_aligned_compute_resources_count",
            "Allocations of resources that are aligned",
            ("scope", "boundary"),
        )
        self._not_aligned = registry.counter(
            "kubelet_container_aligned_compute_resources_failure_count",
            "Allocations of resources that could not be aligned",
            ("scope", "boundary"),
        )
        self.registrations = registry.counter(
            "kubelet_device_plugin_registration_total", "Registrations of device plugins", ("resource_name",)
        )
        self.device_allocation_seconds = registry.histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "How long device plugins took for allocations",
            ("resource_name",),
        )
        for scope, boundary in (
            (CONTAINER_SCOPE, NUMA_NODE),
            (POD_SCOPE, NUMA_NODE),
            (CONTAINER_SCOPE, PHYSICAL_CPU),
        ):
            self._aligned.labels(scope, boundary)
            self._not_aligned.labels(scope, boundary)
        self._aligned.labels(CONTAINER_SCOPE, UNCORE_CACHE)

    def aligned(self, scope: str, boundary: str) -> None:
        """Resources of a container or pod were allocated within a boundary."""
        self._aligned.labels(scope, boundary).inc()

    def not_aligned(self, scope: str, boundary: str) -> None:
        """They were to be within a boundary, and could not."""
        self._not_aligned.labels(scope, boundary).inc()

    @contextmanager
    def pinning_cpus(self, *, full_cores: bool) -> Iterator[None]:
        """Count an allocation of CPUs. full_cores: whether it is one of whole cores, or fails."""
        try:
            with _counted(self._cpu_requests, self._cpu_errors):
                yield
        except AllocationError:
            if full_cores:
                self.not_aligned(CONTAINER_SCOPE, PHYSICAL_CPU)
            raise
        if full_cores:
            self.aligned(CONTAINER_SCOPE, PHYSICAL_CPU)

    @contextmanager
    def pinning_memory(self) -> Iterator[None]:
        """Count an allocation of memory."""
        with _counted(self._memory_requests, self._memory_errors):
            yield


@contextmanager
def _counted(requests: Counter, errors: Counter) -> Iterator[None]:
    requests.inc()
    try:
        yield
    except AllocationError:
        errors.inc()
        raise
