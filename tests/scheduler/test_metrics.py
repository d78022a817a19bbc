"""The scheduler's metrics: kube-scheduler's names and labels, and figures that follow what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.client.errors import TransportError
from bayplan.client.transport import SentRequest
from bayplan.scheduler.binding import Changes, ClientActions
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, PluginError
from bayplan.scheduler.gangs.gang_cycle import INCOMPLETE, PREEMPTING, GroupResult
from bayplan.scheduler.library import typed
from bayplan.scheduler.metrics import SchedulerMetrics
from bayplan.scheduler.reporting import Reporter
from bayplan.support.metrics.instruments import Registry
from tests.scheduler.devices import claim, device, device_class, exactly, slice_of, user
from tests.scheduler.kernels.loaded import use
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.test_volume_binding import claim as volume_claim
from tests.scheduler.plugins.test_volume_binding import storage_class, volume
from tests.scheduler.plugins.test_volume_binding import user as volume_user
from tests.scheduler.queueing.test_queue import Clock
from tests.scheduler.test_core import Setup

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.support.clock import Clock as RealClock


class Measured(Setup):
    """A core whose metrics can be read."""

    def __init__(self, config: Tree | None = None) -> None:
        super().__init__(config)
        self.registry = Registry()
        core = self.core
        sizes = {"nodes": lambda: core.snapshot.node_count, "pods": lambda: len(core.snapshot.pods)}
        self.metrics = SchedulerMetrics(self.registry, core.queue, sizes, self.clock)
        core.measure(self.metrics)
        core.queue.incoming = self.metrics.incoming
        core.queue.waiting.hinted = self.metrics.hinted
        core.queue.in_flight.tracked = self.metrics.tracked

    def attempt(self) -> None:
        outcome = self.core.schedule_one()
        assert outcome is not None
        self.metrics.decided(outcome.decision, 0.002)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a name: label values -> value."""
        families = self.registry._families
        family = families.get(name) or families[name.rpartition("_")[0]]
        text = self.registry.render().decode()
        samples = [sample for metric in text_string_to_metric_families(text) for sample in metric.samples]
        return {
            tuple(sample.labels[label] for label in (*family.label_names, "le") if label in sample.labels): sample.value
            for sample in samples
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


def test_whether_loops_are_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = measured()
    for means, told in (("numpy", 0), ("python", 1)):
        use(monkeypatch, means)
        assert setup.values("bayplan_scheduler_compiled_kernels") == {(): told}


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


def test_events_that_pods_in_flight_may_have_missed_are_told_by_name() -> None:
    setup = Measured()
    setup.see("Pod", pod("p"))
    assert setup.values("scheduler_inflight_events") == {("PodPopped",): 0}
    setup.core.queue.pop()
    setup.see("Node", node("a"))
    setup.see("Node", node("b"))
    assert setup.values("scheduler_inflight_events") == {("PodPopped",): 1, ("NodeAdd",): 2}
    setup.core.queue.done("default/p")
    assert setup.values("scheduler_inflight_events") == {("PodPopped",): 0, ("NodeAdd",): 0}


def test_pod_groups_are_counted_by_what_became_of_them() -> None:
    setup = Measured()
    preempting = GroupResult("default/g", False, "Unschedulable", PREEMPTING)
    unfit = GroupResult("default/g", False, "Unschedulable", INCOMPLETE)
    failed = GroupResult("default/g", False, "SchedulerError", "no")
    for result in (GroupResult("default/g", True, "Scheduled", ""), preempting, unfit, failed):
        setup.metrics.group_decided(result.outcome, "one", 0.01)
    assert setup.values("scheduler_podgroup_schedule_attempts_total") == {
        (result, "one"): 1 for result in ("scheduled", "waiting_on_preemption", "unschedulable", "error")
    }
    assert setup.values("scheduler_podgroup_scheduling_attempt_duration_seconds_count")["error", "one"] == 1
    assert setup.values("scheduler_podgroup_scheduling_algorithm_duration_seconds_count") == {(): 4}


class Scripted(Actions):
    """Writes succeed or fail, and waits end, as the test says."""

    def __init__(self, *, writes: bool = True, wait: bool | Exception = True) -> None:
        self.writes = writes
        self.wait = wait

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        if not self.writes:
            raise ActionError("no")
        return obj

    def now(self) -> float:
        return 0.0

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        if isinstance(self.wait, Exception):
            raise self.wait
        return self.wait

    async def bind(self, pod: Any, node_name: str) -> None:
        raise AssertionError("nothing is to be bound")

    async def get(self, cls: type[Any], name: str, namespace: str = "") -> Any:
        raise AssertionError("nothing is to be read")

    async def create(self, obj: Any) -> Any:
        raise AssertionError("nothing is to be created")

    async def delete(self, obj: Any) -> None:
        raise AssertionError("nothing is to be deleted")


def prepared(setup: Measured, actions: Actions) -> bool:
    """Take the next pod through PreBind; whether that succeeds."""
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.binding_cycle is not None
    return asyncio.run(outcome.binding_cycle.prepare(actions)) is None


@pytest.mark.parametrize(
    ("wait", "status"), [(True, "success"), (False, "timeout"), (PluginError("DynamicResources", "broken"), "failure")]
)
def test_a_wait_for_devices_is_counted_once_per_driver_by_its_end(wait: bool | Exception, status: str) -> None:
    setup = Measured()
    two = [device(name) | {"bindingConditions": ["ready"]} for name in ("gpu-0", "gpu-1")]
    for tree in (node("a"), device_class(), slice_of("a", *two), claim("c", exactly(count=2)), user("p", "c")):
        setup.see(tree["kind"], tree)
    assert prepared(setup, Scripted(wait=wait)) is (status == "success")
    labels = ("default-scheduler", "gpu.example.com", status)
    assert setup.values("scheduler_dra_bindingconditions_allocations_total") == {labels: 1}
    assert setup.values("scheduler_dra_bindingconditions_wait_duration_seconds_count") == {labels: 1}


def test_devices_without_conditions_are_not_waited_for() -> None:
    setup = Measured()
    for tree in (node("a"), device_class(), slice_of("a", device("gpu-0")), claim("c"), user("p", "c")):
        setup.see(tree["kind"], tree)
    assert prepared(setup, Scripted(wait=AssertionError("nobody waits")))
    assert setup.values("scheduler_dra_bindingconditions_allocations_total") == {}


@pytest.mark.parametrize(
    ("actions", "expected"),
    [(Scripted(), {}), (Scripted(writes=False), {("bind",): 1}), (Scripted(wait=False), {("bind",): 1})],
)
def test_volumes_that_cannot_be_bound_are_counted(actions: Actions, expected: dict[tuple[str], float]) -> None:
    setup = Measured()
    for tree in (storage_class(), volume("disk", "a"), volume_claim("one"), node("a"), volume_user("p", "one")):
        setup.see(tree["kind"], tree)
    assert prepared(setup, actions) is not bool(expected)
    assert setup.values("scheduler_volume_scheduling_stage_error_total") == expected


class Api:
    """An API that is slow to answer, and refuses what is named `bad`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.transport = self

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        await self._answer(name)

    async def send(self, requests: Sequence[SentRequest]) -> None:
        for ask in requests:
            await self._answer(ask.path.split("/")[-2])

    async def _answer(self, name: str) -> None:
        await asyncio.sleep(0)
        self.clock.seconds += 2
        if name == "bad":
            raise TransportError("gone")


def test_bindings_and_patches_are_counted_by_result_and_those_that_wait_told() -> None:
    async def story(setup: Measured) -> None:
        api = cast("Client", Api(setup.clock))
        clock = cast("RealClock", setup.clock)
        actions = ClientActions(api, Changes(clock), clock)
        reporter = Reporter(api, clock, {}, lambda key: None)
        actions.called = reporter.called = setup.metrics.called
        actions.slots = asyncio.Semaphore(1)
        good, bad = (setup.core.snapshot.pod_info(typed("Pod", pod(name))) for name in ("good", "bad"))
        first, second = (asyncio.create_task(actions.bind(one, "a")) for one in (good, bad))
        await asyncio.sleep(0)
        assert actions.pending == 1
        await first
        with pytest.raises(ActionError):
            await second
        assert actions.pending == 0
        await reporter.patch_status(good.pod, {})
        await reporter.patch_status(bad.pod, {})

    setup = Measured()
    asyncio.run(story(setup))
    calls = [(kind, result) for kind in ("pod_binding", "pod_status_patch") for result in ("success", "error")]
    assert setup.values("scheduler_async_api_call_execution_total") == dict.fromkeys(calls, 1)
    assert setup.values("scheduler_async_api_call_execution_duration_seconds_sum") == dict.fromkeys(calls, 2)
