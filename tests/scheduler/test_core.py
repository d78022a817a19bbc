"""The scheduler core: events in any order, decisions, assumptions and their end."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.binding_cycle import failed
from bayplan.scheduler.configuration.settings import load
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.library import typed
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.queueing.test_queue import Clock


class Setup:
    """A core with its clock."""

    def __init__(self, config: Tree | None = None) -> None:
        self.clock = Clock()
        self.core = SchedulerCore(load(config), self.clock, random.Random(1))

    def see(self, kind: str, tree: Tree) -> Any:
        made = typed(kind, tree)
        self.core.handle(kind, None, made)
        return made

    def gone(self, kind: str, made: Any) -> None:
        self.core.handle(kind, made, None)

    def bound(self, pending: Pod, node_name: str) -> Pod:
        spec = msgspec.structs.replace(pending.spec, node_name=node_name)
        made = msgspec.structs.replace(pending, spec=spec)
        self.core.handle("Pod", pending, made)
        return made


def test_a_pod_is_scheduled_assumed_and_confirmed() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    pending = setup.see("Pod", pod("p", cpu="600m"))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.node == "a"
    assert setup.core.cache.is_assumed("default/p")
    setup.core.bound(outcome.queued.pod)
    setup.bound(pending, "a")
    assert not setup.core.cache.is_assumed("default/p")
    assert setup.core.snapshot.requested[0, 0] == 600
    assert setup.core.schedule_one() is None


def test_a_failed_binding_frees_the_node_and_is_tried_again() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("p", cpu="600m"))
    first = setup.core.schedule_one()
    assert first is not None
    setup.core.binding_failed(first.queued.pod, failed("Bind", "DefaultBinder", RuntimeError("no")))
    assert setup.core.snapshot.requested[0, 0] == 0
    assert setup.core.schedule_one() is None
    setup.clock.seconds += 1
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert (outcome.decision.node, outcome.queued.attempts) == ("a", 2)


def test_a_pod_seen_before_its_node_counts_when_the_node_comes() -> None:
    setup = Setup()
    setup.see("Pod", pod("early", cpu="600m", on="a"))
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("p", cpu="600m"))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_removed_and_returned_node_still_has_its_pods() -> None:
    setup = Setup()
    made = setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("q", cpu="600m", on="a"))
    setup.gone("Node", made)
    assert setup.core.snapshot.node_count == 0
    setup.see("Node", node("b"))
    setup.see("Node", node("a", cpu="1"))
    row = setup.core.snapshot.row_of["a"]
    assert setup.core.snapshot.requested[0, row] == 600
    assert setup.core.snapshot.requested[0, setup.core.snapshot.row_of["b"]] == 0


def test_a_deleted_pod_wakes_one_that_waits_for_room() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    old = setup.see("Pod", pod("old", cpu="800m", on="a"))
    setup.see("Pod", pod("new", cpu="800m"))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert not outcome.decision.scheduled
    setup.gone("Pod", old)
    setup.clock.seconds += 1
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.node == "a"


def test_preemption_nominates_and_names_victims() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    victim = setup.see("Pod", pod("victim", cpu="800m", on="a"))
    setup.see("Pod", pod("urgent", cpu="800m", priority=10))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.victims == ("default/victim",)
    assert setup.core.nominator.node_of("default/urgent") == "a"
    setup.gone("Pod", victim)
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.core.queue.release("default/urgent")
    setup.see("Pod", pod("sneak", cpu="800m"))
    sneak = setup.core.schedule_one()
    assert sneak is not None
    assert not sneak.decision.scheduled
    setup.clock.seconds += 1
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert (outcome.decision.pod, outcome.decision.node) == ("default/urgent", "a")


def test_a_pod_waits_for_its_victims_instead_of_making_room_again() -> None:
    setup = Setup()
    for name in ("a", "b"):
        setup.see("Node", node(name, cpu="1"))
        setup.see("Pod", pod(f"on-{name}", cpu="800m", on=name))
    pending = setup.see("Pod", pod("urgent", cpu="800m", priority=10))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    chosen = outcome.decision.nominated_node
    nominated = msgspec.structs.replace(pending.status, nominated_node_name=chosen)
    setup.core.handle("Pod", pending, msgspec.structs.replace(pending, status=nominated))
    tree = pod(f"on-{chosen}", cpu="800m", on=chosen)
    victim = typed("Pod", tree)
    tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    tree["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    going = typed("Pod", tree)
    setup.core.handle("Pod", victim, going)
    setup.core.queue.release("default/urgent", again=True)
    setup.clock.seconds += 1
    again = setup.core.schedule_one()
    assert again is not None
    assert again.decision.victims == ()
    assert "not eligible due to a terminating pod on the nominated node" in again.decision.message
    setup.gone("Pod", going)
    setup.clock.seconds += 10
    last = setup.core.schedule_one()
    assert last is not None
    assert last.decision.node == chosen


def test_pods_of_other_schedulers_are_left_alone() -> None:
    setup = Setup()
    setup.see("Node", node("a"))
    setup.see("Pod", pod("p") | {"spec": {"schedulerName": "other", "containers": []}})
    assert setup.core.schedule_one() is None


def test_profiles_are_chosen_by_scheduler_name() -> None:
    config = {"profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}]}
    setup = Setup(config)
    setup.see("Node", node("a"))
    tree = pod("p")
    tree["spec"]["schedulerName"] = "two"
    setup.see("Pod", tree)
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.decision.profile == "two"


def test_a_heartbeat_moves_no_pod() -> None:
    setup = Setup()
    made = setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("p", cpu="2"))
    assert setup.core.schedule_one() is not None
    structure = setup.core.snapshot.structure
    annotated = msgspec.structs.replace(made.metadata, resource_version="2")
    setup.core.handle("Node", made, msgspec.structs.replace(made, metadata=annotated))
    assert setup.core.snapshot.structure == structure
    assert setup.core.queue.sizes()["unschedulable"] == 1


def test_a_node_that_is_too_small_wakes_nobody_and_a_large_one_does() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("p", cpu="2"))
    assert setup.core.schedule_one() is not None
    setup.see("Node", node("small", cpu="1"))
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.see("Node", node("large", cpu="4"))
    assert setup.core.queue.sizes()["unschedulable"] == 0


def test_assuming_twice_is_an_error() -> None:
    setup = Setup()
    setup.see("Node", node("a"))
    setup.see("Pod", pod("p"))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    with pytest.raises(ValueError, match="already counted on node a"):
        setup.core.cache.assume(outcome.queued.pod, "a")


def test_a_deleted_pod_wakes_those_whom_its_node_can_take_now() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="2"))
    setup.see("Node", node("b", cpu="1"))
    on_a = setup.see("Pod", pod("on-a", cpu="1500m", on="a"))
    on_b = setup.see("Pod", pod("on-b", cpu="800m", on="b"))
    setup.see("Pod", pod("waits", cpu="1800m"))
    assert setup.core.schedule_one() is not None
    setup.gone("Pod", on_b)
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.gone("Pod", on_a)
    assert setup.core.queue.sizes()["unschedulable"] == 0


def test_a_deleted_pod_wakes_those_who_can_evict_what_is_left() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="2"))
    setup.see("Pod", pod("low", cpu="1", on="a"))
    high = setup.see("Pod", pod("high", cpu="1", on="a", priority=100))
    setup.see("Pod", pod("waits", cpu="1500m", priority=10))
    assert setup.core.schedule_one() is not None
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.gone("Pod", high)
    assert setup.core.queue.sizes()["unschedulable"] == 0


def test_a_deleted_pod_wakes_those_who_can_have_what_it_was_promised() -> None:
    setup = Setup()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("low", cpu="800m", on="a"))
    reserved = pod("urgent", cpu="800m", priority=10)
    reserved["status"] = {"nominatedNodeName": "a"}
    urgent = setup.see("Pod", reserved)
    setup.see("Pod", pod("small", cpu="150m"))
    for _ in range(2):
        outcome = setup.core.schedule_one()
        assert outcome is not None
        assert not outcome.decision.scheduled
    setup.gone("Pod", urgent)
    setup.clock.seconds += 1
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert (outcome.decision.pod, outcome.decision.node) == ("default/small", "a")
