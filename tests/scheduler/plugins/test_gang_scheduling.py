"""What GangScheduling tells pods that it keeps out, and how long it lets others wait for them."""

from __future__ import annotations

import pytest

from bayplan.scheduler.framework.events import Action, ClusterEvent
from bayplan.scheduler.framework.verdicts import PluginError, Reject, Status
from bayplan.scheduler.library import typed
from bayplan.scheduler.plugins.gang_scheduling import PERMIT_SECONDS, GangScheduling
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.scheduler.snapshot.pods import PodInfo
from tests.scheduler.gangs.test_gangs import gang_of, group, member
from tests.scheduler.objects import node
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
