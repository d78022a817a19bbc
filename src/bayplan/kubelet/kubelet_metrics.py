"""The kubelet's own metrics under Kubernetes' names, and counters that the kubelet's parts are given."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry, exponential_buckets

_START_BUCKETS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0)
_OPERATIONS = {
    "run_sandbox": "run_podsandbox",
    "stop_sandbox": "stop_podsandbox",
    "remove_sandbox": "remove_podsandbox",
    "sandboxes": "list_podsandbox",
    "sandbox_status": "podsandbox_status",
    "containers": "list_containers",
    "container_stats": "list_container_stats",
    "images": "list_images",
    "image_filesystems": "image_fs_info",
    "reopen_log": "reopen_container_log",
    "set_pod_cidr": "update_runtime_config",
}
"""Operations of the runtime that Kubernetes calls otherwise than `Runtime` does."""
_PROBE_RESULTS = {Health.SUCCESS: "successful", Health.FAILURE: "failed", Health.UNKNOWN: "unknown"}


class KubeletMetrics:
    """Families of a kubelet; `registry` is /metrics, `probes` /metrics/probes."""

    def __init__(self, node_name: str, clock: Clock) -> None:
        self._clock = clock
        self.registry = Registry()
        self.probes = Registry()
        own = self.registry
        own.gauge("kubelet_node_name", "The node's name. The value is always 1.", ("node",)).labels(node_name).set(1)
        self.running_pods = own.gauge("kubelet_running_pods", "Pods that have a running sandbox").labels()
        self.running_containers = own.gauge(
            "kubelet_running_containers", "Containers by their state", ("container_state",)
        )
        self.desired_pods = own.gauge("kubelet_desired_pods", "Pods that the kubelet is to run", ("static",))
        self.pod_start = own.histogram(
            "kubelet_pod_start_duration_seconds",
            "From when the kubelet first saw a pod until it ran",
            buckets=_START_BUCKETS,
        ).labels()
        self.relist = own.histogram(
            "kubelet_pleg_relist_duration_seconds", "How long a list of all pods of the runtime took"
        ).labels()
        self.last_seen = own.gauge(
            "kubelet_pleg_last_seen_seconds", "When the runtime last listed all pods, in seconds since 1970"
        ).labels()
        self._operations = own.counter(
            "kubelet_runtime_operations_total", "Operations of the runtime", ("operation_type",)
        )
        self._failures = own.counter(
            "kubelet_runtime_operations_errors_total", "Operations of the runtime that failed", ("operation_type",)
        )
        self._durations = own.histogram(
            "kubelet_runtime_operations_duration_seconds",
            "How long operations of the runtime took",
            ("operation_type",),
            exponential_buckets(0.005, 2.5, 14),
        )
        self._evictions = own.counter("kubelet_evictions", "Pods that were evicted, by signal", ("eviction_signal",))
        self._preemptions = own.counter(
            "kubelet_preemptions", "Pods that ended for critical pods, by the resource", ("preemption_signal",)
        )
        self._terminated = own.counter(
            "kubelet_terminated_containers_total",
            "Containers that have ended",
            ("container_type", "exit_code", "reason"),
        )
        self._shutdown_start = own.gauge(
            "kubelet_graceful_shutdown_start_time_seconds",
            "When the last graceful shutdown began, in seconds since 1970",
        ).labels()
        self._shutdown_end = own.gauge(
            "kubelet_graceful_shutdown_end_time_seconds", "When the last graceful shutdown ended, in seconds since 1970"
        ).labels()
        self._probe_total = self.probes.counter(
            "prober_probe_total",
            "Probes of containers by their result",
            ("container", "namespace", "pod", "pod_uid", "probe_type", "result"),
        )

    def evicted(self, signal: str) -> None:
        """A pod was evicted because of a signal such as memory.available."""
        self._evictions.labels(signal).inc()

    def preempted(self, resource: str) -> None:
        """A pod ended to make room for a critical one, which lacked a resource such as cpu."""
        self._preemptions.labels(resource).inc()

    def terminated(self, container_type: str, exit_code: int, reason: str) -> None:
        """A container has ended: container, init_container or ephemeral_container."""
        self._terminated.labels(container_type, str(exit_code), reason).inc()

    def shut_down(self, start: float, end: float) -> None:
        """When the last shutdown of the node began, and when all pods had ended; 0 for not yet."""
        self._shutdown_start.set(start)
        self._shutdown_end.set(end)

    def probed(self, container: str, namespace: str, pod: str, uid: str, probe_type: str, health: Health) -> None:
        """A container was probed."""
        self._probe_total.labels(container, namespace, pod, uid, probe_type, _PROBE_RESULTS[health]).inc()

    def forget_probes(self, uids: set[str]) -> None:
        """Drop the series of all pods but these."""
        for values in [each for each in self._probe_total.children if each[3] not in uids]:
            self._probe_total.remove(*values)

    def relisted(self, seconds: float) -> None:
        """All pods were listed."""
        self.relist.observe(seconds)
        self.last_seen.set(self._clock.now())

    def observed(self, runtime: Runtime) -> Runtime:
        """The same runtime, with its operations counted and timed."""
        return cast(Runtime, _ObservedRuntime(runtime, self))

    async def time_operation(self, name: str, call: Coroutine[Any, Any, Any]) -> Any:
        """Await an operation of the runtime. Raises what it raises."""
        operation = _OPERATIONS.get(name, name)
        begin = self._clock.monotonic()
        self._operations.labels(operation).inc()
        try:
            return await call
        except RuntimeRequestError:
            self._failures.labels(operation).inc()
            raise
        finally:
            self._durations.labels(operation).observe(self._clock.monotonic() - begin)


class _ObservedRuntime:
    """Gives everything on to a runtime; `events`, which only streams, is left alone."""

    def __init__(self, runtime: Runtime, metrics: KubeletMetrics) -> None:
        self._runtime = runtime
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._runtime, name)
        if name.startswith("_") or name in ("events", "close") or not callable(attribute):
            return attribute

        def call(*arguments: Any, **options: Any) -> Any:
            return self._metrics.time_operation(name, attribute(*arguments, **options))

        timed: Callable[..., Any] = call
        return timed
