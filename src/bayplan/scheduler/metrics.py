"""Metrics of the scheduler, under kube-scheduler's names, with its labels, help and buckets.

Of kube-scheduler 1.36's own metrics these are left out, since what they count does not exist here:

- `batch_attempts_total`, `batch_cache_flushed_total`, `get_node_hint_duration_seconds` and
  `store_schedule_results_duration_seconds`: hints from one pod for the next of its kind. Here equal pods share their
  evaluation; nothing is stored and no hint is missed;
- `scheduler_volume_binder_cache_requests_total`: a cache that kube-scheduler itself does not have any more.

`plugin_evaluation_total` counts what plugins were really asked, which is less than in kube-scheduler: the answers about
nodes on which nothing has changed are kept. `bayplan_scheduler_compiled_kernels` is Bayplan's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.kernels.choice import KERNELS
from bayplan.support.metrics.instruments import Counter, Registry, exponential_buckets

_QUEUES = ("active", "backoff", "unschedulable", "gated")
_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_MANY_ATTEMPTS = 15


class Clock(Protocol):
    """What timing needs of a clock."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""


class Queue(Protocol):
    """What the queue tells when metrics are read."""

    @property
    def in_flight(self) -> Sized:
        """The pods that are being scheduled, and may miss events."""

    def sizes(self) -> Mapping[str, int]:
        """Number of pods per place."""

    def rejected_by(self, plugin: str, scheduler_name: str) -> int:
        """How many unschedulable pods of a scheduler a plugin has rejected."""


class SchedulerMetrics(Meter):
    """Counts and times attempts; what can be read from the queue is read when asked for."""

    def __init__(
        self, registry: Registry, queue: Queue, cache_sizes: Mapping[str, Callable[[], int]], clock: Clock
    ) -> None:
        self._clock = clock
        self._queue = queue
        pending = registry.gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means "
            "number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler "
            "attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never "
            "attempted to schedule because they are gated.",
            ("queue",),
        )
        for place in _QUEUES:
            pending.labels(place).set_function(lambda place=place: float(queue.sizes()[place]))  # type: ignore[misc]
        cache = registry.gauge(
            "scheduler_cache_size", "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", ("type",)
        )
        for kind, size in cache_sizes.items():
            cache.labels(kind).set_function(lambda size=size: float(size()))  # type: ignore[misc]
        self._unschedulable = registry.gauge(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all "
            "plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
            ("plugin", "profile"),
        )
        self.goroutines = registry.gauge(
            "scheduler_goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            ("operation",),
        )
        self._count_attempts(registry)
        self._time_plugins(registry)
        self._watch_the_queue(registry)
        self._count_groups(registry)
        self._count_calls(registry)
        self._watch_storage_and_devices(registry)

    def _count_attempts(self, registry: Registry) -> None:
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
            "while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._durations = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=_ATTEMPT_BUCKETS,
        )
        self._algorithm = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=_ATTEMPT_BUCKETS,
        ).labels()
        self._end_to_end = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
            "involve multiple scheduling attempts.",
            ("attempts",),
            buckets=exponential_buckets(0.01, 2, 20),
        )
        self._attempts_needed = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=exponential_buckets(1, 2, 5),
        ).labels()
        self._preemptions = registry.counter(
            "scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"
        ).labels()
        self._victims = registry.histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=exponential_buckets(1, 2, 7),
        ).labels()
        self._incoming = registry.counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
        )

    def _time_plugins(self, registry: Registry) -> None:
        self._points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            buckets=exponential_buckets(0.0001, 2, 12),
        )
        self._plugins = registry.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            ("plugin", "extension_point", "status"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
        )
        self._evaluations = registry.counter(
            "scheduler_plugin_evaluation_total",
            "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
            "Filter, PreScore, and Score).",
            ("plugin", "extension_point", "profile"),
        )
        compiled = registry.gauge(
            "bayplan_scheduler_compiled_kernels", "Whether compiled loops give scores (1), or NumPy does (0).", ()
        )
        compiled.labels().set_function(lambda: float(KERNELS.loops is not None))
        self._permit_waits = registry.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            buckets=_ATTEMPT_BUCKETS,
        )

    def _watch_the_queue(self, registry: Registry) -> None:
        self._events = registry.histogram(
            "scheduler_event_handling_duration_seconds",
            "Event handling latency in seconds.",
            ("event",),
            buckets=exponential_buckets(0.0001, 2, 12),
        )
        self._hints = registry.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
        )
        self._tracked = registry.gauge(
            "scheduler_inflight_events", "Number of events currently tracked in the scheduling queue.", ("event",)
        )
        self._tracked.labels("PodPopped").set_function(lambda: float(len(self._queue.in_flight)))
        self._after_flush = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
            "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
        ).labels()
        self._evictions = registry.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            ("result",),
            buckets=exponential_buckets(0.01, 2, 20),
        )
        self._eviction_runs = registry.counter(
            "scheduler_preemption_goroutines_execution_total",
            "Number of preemption goroutines executed.",
            ("result",),
        )

    def _count_groups(self, registry: Registry) -> None:
        self._group_attempts = registry.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._group_durations = registry.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds",
            ("result", "profile"),
            buckets=_ATTEMPT_BUCKETS,
        )
        self._group_algorithm = registry.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds",
            buckets=_ATTEMPT_BUCKETS,
        ).labels()

    def _count_calls(self, registry: Registry) -> None:
        self._calls = registry.counter(
            "scheduler_async_api_call_execution_total",
            "Total number of API calls executed by the async dispatcher.",
            ("call_type", "result"),
        )
        self._call_durations = registry.histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "Duration in seconds for executing API call in the async dispatcher.",
            ("call_type", "result"),
            buckets=_ATTEMPT_BUCKETS,
        )
        self.pending_calls = registry.gauge(
            "scheduler_pending_async_api_calls",
            "Number of API calls currently pending in the async queue.",
            ("call_type",),
        )

    def _watch_storage_and_devices(self, registry: Registry) -> None:
        self._volume_errors = registry.counter(
            "scheduler_volume_scheduling_stage_error_total", "Volume scheduling stage error count", ("operation",)
        )
        self._device_waits = registry.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
            ("profile", "driver", "status"),
        )
        self._device_wait_durations = registry.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            ("profile", "driver", "status"),
            buckets=exponential_buckets(0.1, 2, 14),
        )
        self._claim_creates = registry.counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            ("status",),
        )

    # Attempts

    def decided(self, decision: Decision, seconds: float) -> None:
        """A scheduling cycle has ended."""
        self._algorithm.observe(seconds)
        outcome = decision.post_filter
        if outcome is not None:
            self._preemptions.inc()
            if outcome.nominated is not None:
                self._victims.observe(len(outcome.nominated.victims))
        for plugin in decision.unschedulable_plugins if not decision.scheduled else ():
            labels = (plugin, decision.profile)
            if labels not in self._unschedulable.children:
                self._unschedulable.labels(*labels).set_function(
                    lambda labels=labels: float(self._queue.rejected_by(*labels))  # type: ignore[misc]
                )

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """One attempt is over (`scheduled`, `unschedulable` or `error`), binding included."""
        self._attempts.labels(result, profile).inc()
        self._durations.labels(result, profile).observe(seconds)

    def group_decided(self, result: str, profile: str, seconds: float) -> None:
        """The cycle of a pod group has ended: `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`."""
        self._group_algorithm.observe(seconds)
        self._group_attempts.labels(result, profile).inc()
        self._group_durations.labels(result, profile).observe(seconds)

    def bound(self, attempts: int, seconds: float, *, flushed: bool = False) -> None:
        """A pod was bound, after so many attempts and so long after it was first seen.

        `flushed`: no event had brought it back for its last attempt, only the time that it had waited.
        """
        if flushed:
            self._after_flush.inc()
        self._end_to_end.labels(str(attempts) if attempts < _MANY_ATTEMPTS else "15+").observe(seconds)
        self._attempts_needed.observe(attempts)

    def incoming(self, queue: str, event: str) -> None:
        """A pod came to a queue because of an event."""
        self._incoming.labels(queue, event).inc()

    def handled(self, event: str, seconds: float) -> None:
        """An event from the cluster was taken in."""
        self._events.labels(event).observe(seconds)

    def tracked(self, event: str, more: int) -> None:
        """So many more events are kept for pods that are being scheduled."""
        self._tracked.labels(event).inc(more)

    def called(self, call_type: str, result: str, seconds: float) -> None:
        """A call of the API that scheduling does not wait for has ended: `success` or `error`."""
        self._calls.labels(call_type, result).inc()
        self._call_durations.labels(call_type, result).observe(seconds)

    def hinted(self, plugin: str, event: str, may_help: bool, seconds: float) -> None:
        """A plugin's hints have said whether an event may help pods that wait."""
        self._hints.labels(plugin, event, "Queue" if may_help else "QueueSkip").observe(seconds)

    def evicted(self, result: str, seconds: float) -> None:
        """The victims of one pod have been evicted (`success`), or some could not be (`error`)."""
        self._evictions.labels(result).observe(seconds)
        self._eviction_runs.labels(result).inc()

    def claim_created(self, status: str) -> None:
        """A resource claim was created for a pod (`success`), or could not be (`failure`)."""
        self._claim_creates.labels(status).inc()

    def waited_on_permit(self, result: str, seconds: float) -> None:
        """A pod has waited for its Permit plugins."""
        self._permit_waits.labels(result).observe(seconds)

    def evaluations(self, profile: str, counters: Mapping[tuple[str, str], Counter]) -> None:
        for (plugin, point), counter in counters.items():
            self._evaluations.children[plugin, point, profile] = counter

    def devices_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        self._device_waits.labels(profile, driver, status).inc()
        self._device_wait_durations.labels(profile, driver, status).observe(seconds)

    def volumes_failed(self, stage: str) -> None:
        self._volume_errors.labels(stage).inc()

    # Times

    def now(self) -> float:
        return self._clock.monotonic()

    def wall_time(self) -> float:
        return self._clock.now()

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points.labels(point, status, profile).observe(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins.labels(plugin, point, status).observe(seconds)
