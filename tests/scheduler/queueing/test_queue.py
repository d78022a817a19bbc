"""The scheduling queue, driven by a clock that stands still until told."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.framework.events import Action, ClusterEvent, EventHint
from bayplan.scheduler.library import typed
from bayplan.scheduler.queueing.queue import FLUSH_AFTER, SchedulingQueue
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import pod

NODE_ADDED = ClusterEvent("Node", Action.ADD)
POD_DELETED = ClusterEvent("Pod", Action.DELETE)
HINTS = {
    "Fit": (EventHint("Node", Action.ADD), EventHint("Pod", Action.DELETE)),
    "Affinity": (EventHint("Node", Action.NODE_LABEL),),
    "Picky": (EventHint("Node", Action.ADD, lambda pod, old, new: new == "helpful"),),
    "Alike": (EventHint("Node", Action.ADD, lambda pod, old, new: _look(pod, new), per_shape=True),),
    "Gates": (EventHint("Pod", Action.POD_GATES),),
}


LOOKS: list[str] = []


def _look(pod: PodInfo, new: Any) -> bool:
    LOOKS.append(pod.key)
    return bool(new == "helpful")


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> float:
        return self.seconds


class Setup:
    """A queue with its clock, and pods by name."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.snapshot = Snapshot()
        self.gated: set[str] = set()
        self.queue = SchedulingQueue(self.clock, lambda info, at: (-info.priority, at), HINTS, self.gate)

    def gate(self, info: PodInfo) -> str | None:
        return "Gates" if info.key in self.gated else None

    def pod(self, name: str, **spec: Any) -> PodInfo:
        made: Pod = typed("Pod", pod(name, **spec))
        return self.snapshot.pod_info(made, pending=True)

    def add(self, *names: str, priority: int = 0) -> None:
        for name in names:
            self.queue.add(self.pod(name, priority=priority))
            self.clock.seconds += 0.001

    def popped(self) -> list[str]:
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.pod.metadata.name)
        return names

    def rejected(self, name: str, *plugins: str, held: bool = False) -> None:
        assert self.queue.pop() is not None
        self.queue.reject(f"default/{name}", plugins, held=held)


def test_higher_priority_comes_first_then_who_came_first() -> None:
    setup = Setup()
    setup.add("first", "second")
    setup.add("urgent", priority=10)
    assert setup.popped() == ["urgent", "first", "second"]
    assert setup.queue.pop() is None


def test_a_rejected_pod_waits_for_an_event_that_may_help() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Fit")
    assert setup.queue.sizes()["unschedulable"] == 1
    assert setup.queue.move(ClusterEvent("Node", Action.NODE_LABEL), None, None) == 0
    setup.clock.seconds += 5
    assert setup.queue.move(POD_DELETED, None, None) == 1
    assert setup.popped() == ["pod"]


def test_a_hint_that_looks_closer_decides() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Picky")
    assert setup.queue.move(NODE_ADDED, None, "useless") == 0
    assert setup.queue.move(NODE_ADDED, None, "helpful") == 1


def test_any_event_may_help_what_a_plugin_without_hints_rejected() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Unknown")
    assert setup.queue.move(ClusterEvent("StorageClass", Action.ADD), None, None) == 1


def test_back_off_doubles_up_to_ten_seconds() -> None:
    setup = Setup()
    assert [setup.queue.backoff(attempts) for attempts in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    setup.add("pod")
    assert setup.popped() == ["pod"]
    setup.queue.reject("default/pod", (), error=True)
    assert setup.queue.sizes()["backoff"] == 1
    assert setup.queue.pop() is None
    wake = setup.queue.next_wake()
    assert wake is not None
    assert wake - setup.clock.seconds == 1
    setup.clock.seconds += 1
    assert setup.popped() == ["pod"]


def test_after_five_minutes_a_pod_is_tried_again_in_any_case() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Fit")
    setup.clock.seconds += FLUSH_AFTER - 1
    assert setup.queue.pop() is None
    setup.clock.seconds += 1
    assert setup.popped() == ["pod"]


def test_an_event_during_the_attempt_is_not_missed() -> None:
    setup = Setup()
    setup.add("pod")
    assert setup.queue.pop() is not None
    setup.queue.move(NODE_ADDED, None, None)
    setup.queue.reject("default/pod", ("Fit",))
    assert setup.queue.sizes() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0, "in-flight": 0}


def test_an_error_is_retried_after_back_off_without_any_event() -> None:
    setup = Setup()
    setup.add("pod")
    assert setup.queue.pop() is not None
    setup.queue.reject("default/pod", (), error=True)
    setup.clock.seconds += 1
    assert setup.popped() == ["pod"]


def test_a_gated_pod_enters_when_its_gate_is_gone() -> None:
    setup = Setup()
    setup.gated.add("default/pod")
    setup.add("pod")
    assert setup.queue.sizes()["gated"] == 1
    assert setup.queue.pop() is None
    setup.gated.clear()
    setup.queue.update(setup.pod("pod"))
    assert setup.popped() == ["pod"]


def test_a_changed_priority_changes_the_order() -> None:
    setup = Setup()
    setup.add("one", "two")
    setup.queue.update(setup.pod("two", priority=5))
    assert setup.popped() == ["two", "one"]


def test_a_removed_pod_is_not_scheduled() -> None:
    setup = Setup()
    setup.add("pod")
    setup.queue.remove("default/pod")
    assert setup.queue.pop() is None
    assert len(setup.queue) == 0


def test_activating_skips_the_back_off() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Fit")
    setup.queue.activate(["default/pod"])
    assert setup.popped() == ["pod"]


def test_events_nobody_waits_for_cost_nothing_however_many_pods_wait() -> None:
    setup = Setup()
    names = [f"pod-{number}" for number in range(20_000)]
    for name in names:
        setup.queue.add(setup.pod(name))
    while (queued := setup.queue.pop()) is not None:
        setup.queue.reject(queued.pod.key, ("Fit",))
    asked = []
    setup.queue.waiting.hinted = lambda *args: asked.append(args)
    for _ in range(1000):
        assert setup.queue.move(ClusterEvent("Node", Action.NODE_LABEL), None, None) == 0
        assert setup.queue.pop() is None
    assert asked == []
    assert setup.queue.sizes()["unschedulable"] == 20_000


def test_one_look_serves_all_pods_of_a_shape() -> None:
    setup = Setup()
    LOOKS.clear()
    for number in range(100):
        setup.queue.add(setup.pod(f"p{number}", labels={"app": "web" if number < 60 else "db"}))
    for _ in range(100):
        queued = setup.queue.pop()
        assert queued is not None
        setup.queue.reject(queued.pod.key, ["Alike"])
    assert setup.queue.move(NODE_ADDED, None, "useless") == 0
    assert len(LOOKS) == 2
    assert setup.queue.move(NODE_ADDED, None, "helpful") == 100
    assert setup.queue.move(NODE_ADDED, None, "helpful") == 0


def test_a_pod_in_back_off_is_tried_at_once_if_there_is_nothing_else_to_do() -> None:
    setup = Setup()
    setup.add("waits")
    setup.rejected("waits", "Fit")
    setup.queue.move(NODE_ADDED, None, None)
    setup.add("fresh")
    assert setup.popped() == ["fresh", "waits"]


def test_pods_in_back_off_whose_like_was_rejected_since_sit_it_out() -> None:
    setup = Setup()
    for name in ("one", "two", "three"):
        setup.add(name)
    for name in ("one", "two", "three"):
        setup.rejected(name, "Fit")
    setup.queue.move(NODE_ADDED, None, None)
    first = setup.queue.pop()
    assert first is not None
    setup.queue.reject(first.pod.key, ("Fit",))
    assert setup.queue.pop() is None
    setup.queue.move(NODE_ADDED, None, None)
    again = setup.queue.pop()
    assert again is not None
    assert again.pod.key == first.pod.key
    setup.clock.seconds += 10
    assert len(setup.popped()) == 2


def test_a_pod_for_which_room_is_being_made_is_not_tried_before_that_is_done() -> None:
    setup = Setup()
    setup.add("urgent")
    setup.rejected("urgent", "Fit", held=True)
    setup.queue.move(POD_DELETED, None, None)
    assert setup.queue.pop() is None
    setup.queue.release("default/urgent")
    assert setup.popped() == ["urgent"]


def test_releasing_a_pod_that_nothing_has_helped_leaves_it_waiting() -> None:
    setup = Setup()
    setup.add("urgent")
    setup.rejected("urgent", "Fit", held=True)
    setup.queue.release("default/urgent")
    assert setup.queue.pop() is None
    assert setup.queue.sizes()["unschedulable"] == 1


def test_a_held_pod_is_not_tried_before_room_is_made_though_events_helped_while_it_was_tried() -> None:
    setup = Setup()
    setup.add("urgent")
    assert setup.queue.pop() is not None
    setup.queue.move(NODE_ADDED, None, None)
    setup.queue.reject("default/urgent", ("Fit",), held=True)
    setup.queue.update(setup.pod("urgent", labels={"app": "changed"}))
    assert setup.queue.pop() is None
    setup.queue.release("default/urgent")
    assert setup.popped() == ["urgent"]


def test_a_held_pod_that_was_helped_is_not_asked_about_again() -> None:
    setup = Setup()
    setup.add("urgent")
    setup.rejected("urgent", "Picky", held=True)
    asked = []
    setup.queue.waiting.hinted = lambda *args: asked.append(args)
    for _ in range(10):
        setup.queue.move(NODE_ADDED, None, "helpful")
    assert len(asked) == 1
    setup.queue.release("default/urgent")
    assert setup.popped() == ["urgent"]


def test_a_new_status_of_a_waiting_pod_is_known_and_moves_nothing() -> None:
    setup = Setup()
    setup.add("p")
    setup.rejected("p", "Fit")
    refreshed = setup.pod("p")
    setup.queue.refresh(refreshed)
    queued = setup.queue.get("default/p")
    assert queued is not None
    assert queued.pod is refreshed
    assert setup.queue.pop() is None
    setup.queue.refresh(setup.pod("unknown"))
    assert len(setup.queue) == 1


def test_a_pod_for_which_not_all_room_could_be_made_is_tried_again_after_its_back_off() -> None:
    setup = Setup()
    setup.add("urgent")
    setup.rejected("urgent", "Fit", held=True)
    setup.queue.release("default/urgent", again=True)
    assert setup.queue.pop() is None
    setup.clock.seconds += 1
    assert setup.popped() == ["urgent"]


WOKEN = """
from tests.scheduler.queueing.test_queue import NODE_ADDED, Setup

setup = Setup()
for plugins in (("Fit", "Picky", "Alike", "Other"), ("Alike",), ("Fit",), ("Picky",), ("Other",)):
    setup.queue.add(setup.pod("-".join(plugins).lower()))
while (queued := setup.queue.pop()) is not None:
    setup.queue.reject(queued.pod.key, [name.title() for name in queued.pod.pod.metadata.name.split("-")])
setup.clock.seconds += 10
setup.queue.move(NODE_ADDED, None, "helpful")
print(*setup.popped())
"""


def test_pods_are_woken_in_one_order_whatever_the_seed_of_hashes() -> None:
    orders = {
        subprocess.run(
            [sys.executable, "-c", WOKEN],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in "1234"
    }
    assert len(orders) == 1
    assert len(orders.pop().split()) == 5


def test_a_pod_with_room_made_for_it_does_not_sit_out_its_back_off_because_its_like_was_rejected() -> None:
    setup = Setup()
    setup.add("urgent")
    setup.rejected("urgent", "Fit", held=True)
    setup.queue.move(POD_DELETED, None, None)
    setup.add("like-it")
    setup.rejected("like-it", "Fit")
    setup.queue.release("default/urgent")
    assert setup.popped() == ["urgent"]


def test_a_pod_whose_attempt_after_a_flush_failed_was_not_flushed_the_next_time() -> None:
    setup = Setup()
    setup.add("pod")
    setup.rejected("pod", "Fit")
    setup.clock.seconds += FLUSH_AFTER
    flushed = setup.queue.pop()
    assert flushed is not None
    assert flushed.flushed
    setup.queue.reject("default/pod", ("Fit",))
    setup.queue.move(NODE_ADDED, None, None)
    woken = setup.queue.pop()
    assert woken is not None
    assert not woken.flushed
