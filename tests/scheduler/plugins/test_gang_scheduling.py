"""What GangScheduling tells pods that it keeps out, and how long it lets others wait for them."""

from __future__ import annotations

import pytest

from bayplan.scheduler.framework.events import COMPOSITE, Action, ClusterEvent
from bayplan.scheduler.framework.verdicts import PluginError, Reject, Status
from bayplan.scheduler.library import typed
from bayplan.scheduler.plugins.gang_scheduling import PERMIT_SECONDS, GangScheduling
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.pods import PodInfo
from tests.scheduler.gangs.test_composite_groups import Trees, leaf
from tests.scheduler.gangs.test_gangs import gang_of, group, member
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup


def plugin_of(setup: Setup) -> GangScheduling:
    plugin = setup.core.cycles["default-scheduler"].profile.plugins["GangScheduling"]
    assert isinstance(plugin, GangScheduling)
    return plugin


def queued(setup: Setup, name: str) -> PodInfo:
    found = setup.core.queue.get(f"default/{name}")
    assert found is not None
    return found.pod


def told(setup: Setup, plugin: GangScheduling, pod: PodInfo) -> str:
    rejection = plugin.pre_enqueue(pod)
    assert isinstance(rejection, Reject)
    return plugin.explained(pod, rejection).rpartition("; ")[2]


def test_a_pod_is_told_how_many_of_its_gang_exist() -> None:
    setup = Setup()
    setup.see("Pod", member("g0", "g"))
    plugin, pod = plugin_of(setup), queued(setup, "g0")
    assert "are needed" not in told(setup, plugin, pod), "nobody knows how many"
    setup.see("PodGroup", group("g", 3))
    assert told(setup, plugin, pod) == "1 of the 3 pods that are needed exist"
    setup.see("Pod", member("g1", "g"))
    assert told(setup, plugin, pod) == "2 of the 3 pods that are needed exist"
    setup.see("Pod", member("g2", "g"))
    assert plugin.pre_enqueue(pod) is None
    assert "are needed" not in plugin.explained(pod, Reject(Status.UNRESOLVABLE, ("a tree lacks a group",)))


@pytest.mark.parametrize("seconds", [None, 9.0])
def test_pods_wait_for_the_rest_of_their_gang_as_long_as_it_says(seconds: float | None) -> None:
    setup = Setup()
    setup.see("Node", node("a"))
    gang_of(setup, "g", 2)
    plugin, pod = plugin_of(setup), queued(setup, "g0")
    state = setup.core.cycles["default-scheduler"].evaluation(pod.shape).state
    if seconds is not None:
        known = setup.core.snapshot.catalog.pod_groups["default/g"]
        setup.core.snapshot.catalog.pod_groups["default/g"] = CustomPodGroup(
            metadata=known.metadata, spec=known.spec, permit_seconds=seconds
        )
    assert plugin.permit(state, pod, "a") == (seconds or PERMIT_SECONDS)
    setup.see("Pod", member("g0", "g", on="a"))
    setup.see("Pod", member("g1", "g", on="a"))
    assert plugin.permit(state, pod, "a") is None
    del setup.core.snapshot.catalog.pod_groups["default/g"]
    with pytest.raises(PluginError, match='"default/g" not found'):
        plugin.permit(state, pod, "a")


@pytest.mark.parametrize(
    ("name", "before", "now", "helps"),
    [("g", 3, 2, True), ("g", 3, 3, False), ("g", 2, 3, False), ("other", 3, 2, False)],
)
def test_a_group_that_needs_fewer_pods_than_before_helps_its_own(name: str, before: int, now: int, helps: bool) -> None:
    setup = Setup()
    setup.see("Pod", member("g0", "g"))
    plugin, pod = plugin_of(setup), queued(setup, "g0")
    old, new = (typed("PodGroup", group(name, count)) for count in (before, now))
    event = ClusterEvent("PodGroup", Action.UPDATE)
    assert any(hint.may_help(event, pod, old, new) for hint in plugin.events()) is helps


@pytest.mark.parametrize(
    ("there", "of", "helps"),
    [(1, "g", False), (2, "g", True), (3, "g", True), (2, "other", False), (2, "", False)],
)
def test_a_further_pod_helps_its_own_gang_once_there_are_enough(there: int, of: str, helps: bool) -> None:
    setup = Setup()
    setup.see("PodGroup", group("g", 2))
    for index in range(there):
        setup.see("Pod", member(f"g{index}", "g"))
    plugin, waiting = plugin_of(setup), queued(setup, "g0")
    new = typed("Pod", member("new", of) if of else pod("new"))
    for resource in ("Pod", "UnscheduledPod"):
        event = ClusterEvent(resource, Action.ADD)
        assert any(hint.may_help(event, waiting, None, new) for hint in plugin.events()) is helps


def test_pods_that_belong_to_no_gang_do_not_help_each_other() -> None:
    setup = Setup()
    plugin, waiting = plugin_of(setup), setup.core.snapshot.pod_info(typed("Pod", pod("p")), pending=True)
    event = ClusterEvent("Pod", Action.ADD)
    assert not any(hint.may_help(event, waiting, None, typed("Pod", pod("q"))) for hint in plugin.events())


def test_what_completes_a_tree_helps_all_groups_in_it() -> None:
    setup = Trees()
    setup.composite("job", 2)
    setup.group("a", 1, "job")
    setup.group("alone", 1)
    plugin = plugin_of(setup)

    def helped(name: str) -> list[bool]:
        """Whether a pod of group b helps, that group, one that is in no tree, and a change of a composite group."""
        waiting = queued(setup, name)
        events = [
            (ClusterEvent("UnscheduledPod", Action.ADD), typed("Pod", member("b-0", "b"))),
            (ClusterEvent("PodGroup", Action.ADD), leaf("b", 1, "job")),
            (ClusterEvent("PodGroup", Action.ADD), leaf("c", 1)),
            (ClusterEvent(COMPOSITE, Action.UPDATE), None),
        ]
        return [any(hint.may_help(event, waiting, None, new) for hint in plugin.events()) for event, new in events]

    assert helped("a-0") == [False, False, False, False]
    setup.group("b", 1, "job", pods=0)
    assert helped("a-0") == [False, False, False, False]
    setup.see("Pod", member("b-0", "b"))
    assert helped("a-0") == [True, True, False, True]
    assert helped("alone-0") == [False, False, False, False]
    own = ClusterEvent("PodGroup", Action.ADD)
    assert any(hint.may_help(own, queued(setup, "alone-0"), None, leaf("alone", 1)) for hint in plugin.events())
