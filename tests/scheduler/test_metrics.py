"""The scheduler's metrics: kube-scheduler's names and labels, and figures that follow what happened."""

from __future__ import annotations

from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.support.metrics import Registry
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup


class Measured(Setup):
    """A core whose metrics can be read."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        core = self.core
        sizes = {"nodes": lambda: core.snapshot.node_count, "pods": lambda: len(core.snapshot.pods)}
        self.metrics = SchedulerMetrics(self.registry, core.queue, sizes, self.clock)
        core.measure(self.metrics)
        core.queue.incoming = self.metrics.incoming
        core.queue.waiting.hinted = self.metrics.hinted

    def attempt(self) -> None:
        outcome = self.core.schedule_one()
        assert outcome is not None
        self.metrics.decided(outcome.decision, 0.002)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a name: label values -> value."""
        return {
            tuple(sample.labels.values()): sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == name
        }


def measured() -> Measured:
    setup = Measured()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("fits", cpu="500m"))
    setup.see("Pod", pod("too-big", cpu="2"))
    setup.see("Pod", pod("gated", schedulingGates=[{"name": "later"}]))
    setup.attempt()
    setup.attempt()
    return setup


def test_pending_pods_are_told_by_queue() -> None:
    found = measured().values("scheduler_pending_pods")
    assert found == {("active",): 0, ("backoff",): 0, ("unschedulable",): 1, ("gated",): 1}


def test_unschedulable_pods_are_told_by_plugin() -> None:
    found = measured().values("scheduler_unschedulable_pods")
    assert found[("NodeResourcesFit", "default-scheduler")] == 1


def test_pods_that_come_to_a_queue_are_counted_by_event() -> None:
    setup = measured()
    found = setup.values("scheduler_queue_incoming_pods_total")
    assert found[("active", "PodAdd")] == 2
    assert found[("gated", "PodAdd")] == 1
    assert found[("unschedulable", "ScheduleAttemptFailure")] == 1
    setup.see("Node", node("b", cpu="4"))
    assert setup.values("scheduler_queue_incoming_pods_total")[("backoff", "NodeAdd")] == 1
    setup.clock.seconds += 10
    setup.attempt()
    assert setup.values("scheduler_queue_incoming_pods_total")[("active", "BackoffComplete")] == 1


def test_every_extension_point_and_plugin_is_timed() -> None:
    setup = measured()
    points = setup.values("scheduler_framework_extension_point_duration_seconds_count")
    assert points[("Filter", "Success", "default-scheduler")] == 2
    assert points[("PostFilter", "Unschedulable", "default-scheduler")] == 1
    plugins = setup.values("scheduler_plugin_execution_duration_seconds_count")
    assert plugins[("NodeResourcesFit", "Filter", "Success")] == 2
    assert plugins[("DefaultPreemption", "PostFilter", "Unschedulable")] == 1


def test_preemption_is_counted_by_attempt_and_victim() -> None:
    setup = measured()
    before = setup.values("scheduler_preemption_attempts_total")[()]
    setup.see("Pod", pod("low", cpu="400m", on="a"))
    setup.see("Pod", pod("urgent", cpu="900m", priority=10))
    setup.attempt()
    assert setup.values("scheduler_preemption_attempts_total")[()] == before + 1
    assert setup.values("scheduler_preemption_victims_sum")[()] == 2


def test_attempts_and_waits_are_timed_by_result() -> None:
    setup = measured()
    setup.metrics.attempt("scheduled", "default-scheduler", 0.004)
    setup.metrics.bound(20, 1.5)
    setup.metrics.waited_on_permit("Success", 0.5)
    assert setup.values("scheduler_schedule_attempts_total") == {("scheduled", "default-scheduler"): 1}
    assert setup.values("scheduler_pod_scheduling_sli_duration_seconds_count") == {("15+",): 1}
    assert setup.values("scheduler_pod_scheduling_attempts_sum") == {(): 20}
    assert setup.values("scheduler_permit_wait_duration_seconds_sum") == {("Success",): 0.5}
    assert setup.values("scheduler_scheduling_algorithm_duration_seconds_count") == {(): 2}


def test_hints_are_timed_once_for_all_pods_of_a_shape() -> None:
    setup = Measured()
    setup.see("Node", node("a", cpu="1"))
    for number in range(5):
        setup.see("Pod", pod(f"big-{number}", cpu="2"))
    for _ in range(5):
        setup.attempt()
    setup.see("Node", node("small", cpu="1"))
    setup.see("Node", node("large", cpu="4"))
    found = setup.values("scheduler_queueing_hint_execution_duration_seconds_count")
    assert found[("NodeResourcesFit", "NodeAdd", "QueueSkip")] == 1
    assert found[("NodeResourcesFit", "NodeAdd", "Queue")] == 1


def test_pods_that_only_time_brought_back_are_counted_once_bound() -> None:
    setup = Measured()
    setup.metrics.bound(1, 0.5)
    setup.metrics.bound(2, 300.5, flushed=True)
    assert setup.values("scheduler_pod_scheduled_after_flush_total") == {(): 1}


def test_what_the_scheduler_does_besides_is_counted_by_its_result() -> None:
    setup = Measured()
    setup.metrics.handled("NodeAdd", 0.001)
    setup.metrics.evicted("success", 0.02)
    setup.metrics.claim_created("failure")
    assert setup.values("scheduler_event_handling_duration_seconds_count") == {("NodeAdd",): 1}
    assert setup.values("scheduler_preemption_goroutines_execution_total") == {("success",): 1}
    assert setup.values("scheduler_resourceclaim_creates_total") == {("failure",): 1}
