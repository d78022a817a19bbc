"""Which of the pods that wait are looked at when something happens."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.framework.events import Action, ClusterEvent, EventHint
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.queueing.waiting_pods import Waiting
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.testing.clock import ManualClock
from tests.scheduler.objects import pod

ADDED = ClusterEvent("Pod", Action.ADD)


class Divided:
    """Pods of one plugin, which are divided by the first letter of their name and helped by pods with the same one; notes who is looked at."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []
        self.partitions: Collection[Hashable] | None = ()
        hint = EventHint("Pod", Action.ADD, self._is_alike, per_shape=True, partitions=lambda old, new: self.partitions)
        self.waiting = Waiting(ManualClock(), {"P": (hint,)}, {"P": self.partition_of})
        self.snapshot = Snapshot()

    def partition_of(self, one: PodInfo) -> Hashable:
        letter = one.pod.metadata.name[0]
        return None if letter == "?" else letter

    def _is_alike(self, one: PodInfo, old: Any, new: Any) -> bool:
        self.looked_at.append(one.pod.metadata.name)
        return bool(one.pod.metadata.name[0] == new[0])

    def add(self, *names: str) -> list[QueuedPod]:
        found = []
        for name in names:
            queued = QueuedPod(self.snapshot.pod_info(from_tree(Pod, pod(name, labels={"own": name}))), (), 0.0)
            queued.rejected_by = ("P",)
            self.waiting.add(queued)
            found.append(queued)
        return found

    def helped(self, new: str) -> list[str]:
        self.looked_at.clear()
        return [queued.pod.pod.metadata.name for queued, _ in self.waiting.helped(ADDED, None, new)]


def test_only_pods_of_the_partitions_that_an_event_is_about_are_looked_at() -> None:
    divided = Divided()
    divided.add("a1", "b1", "a2", "c1")
    for partitions, new, looked_at, helped in (
        (("a",), "a9", ["a1", "a2"], ["a1", "a2"]),
        (("c", "b"), "b9", ["c1", "b1"], ["b1"]),
        (("d",), "d9", [], []),
        ((), "a9", [], []),
        (None, "a9", ["a1", "b1", "a2", "c1"], ["a1", "a2"]),
    ):
        divided.partitions = partitions
        assert (divided.helped(new), divided.looked_at) == (helped, looked_at)


def test_pods_without_a_partition_are_always_looked_at() -> None:
    divided = Divided()
    divided.add("?1", "a1", "b1")
    divided.partitions = ("a",)
    divided.helped("a9")
    assert divided.looked_at == ["?1", "a1"]


def test_pods_that_wait_no_more_are_not_looked_at() -> None:
    divided = Divided()
    first, second = divided.add("a1", "a2")
    divided.partitions = ("a",)
    divided.waiting.discard(first)
    assert divided.helped("a9") == ["a2"]
    divided.waiting.discard(second)
    assert divided.helped("a9") == []
    divided.add("a1")
    assert divided.helped("a9") == ["a1"]


@pytest.mark.parametrize("is_divided", [False, True])
def test_pods_that_wait_are_found_by_what_other_plugins_say(is_divided: bool) -> None:
    divided = Divided()
    divided.add("a1", "b1")
    hint = EventHint("Pod", Action.ADD, divided._is_alike, partitions=lambda old, new: (len(new),))
    divided.waiting.use({"P": (hint,)}, {"P": lambda one: 2} if is_divided else {})
    assert (divided.helped("b9"), divided.looked_at) == (["b1"], ["a1", "b1"])
    assert (divided.helped("b99"), divided.looked_at) == (([], []) if is_divided else (["b1"], ["a1", "b1"]))
