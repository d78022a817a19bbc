"""What DynamicResources keeps for a pod from Reserve on, how it ends, and which pods it has nothing to do with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework.state import CycleState, PodInfo
from bayplan.scheduler.framework.verdicts import PluginError
from bayplan.scheduler.library import typed
from bayplan.scheduler.plugins.dynamic_resources import DynamicResources
from tests.scheduler.devices import allocated, attempt, claim, cluster, device, device_class, slice_of, user
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.test_devices_in_use import binding, condition
from tests.scheduler.plugins.test_extended_resources import standing_for, two_devices, wanting
from tests.scheduler.test_core import Setup


def plugin_of(setup: Setup) -> DynamicResources:
    plugin = setup.core.cycles["default-scheduler"].profile.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    return plugin


def info(setup: Setup, tree: Tree) -> PodInfo:
    return setup.core.snapshot.pod_info(typed("Pod", tree), pending=True)


def prepared(setup: Setup, tree: Tree) -> tuple[DynamicResources, CycleState, PodInfo]:
    """The plugin after PreFilter, for a pod that has got no further."""
    plugin, found, state = plugin_of(setup), info(setup, tree), CycleState(setup.core.snapshot)
    plugin.pre_filter(state, found.shape)
    return plugin, state.for_pod(), found


@pytest.mark.parametrize("classes", [(), (device_class(),)])
def test_pods_share_its_answers_if_they_have_no_claims_and_nothing_can_be_a_device(classes: tuple[Tree, ...]) -> None:
    setup = cluster(classes=classes)
    plugin = plugin_of(setup)
    assert plugin.reads(info(setup, user("p", "c")).shape) is None
    assert plugin.reads(info(setup, wanting("p", "1")).shape) == (None if classes else ())


@pytest.mark.parametrize(
    ("tree", "concerned"),
    [(pod("p"), False), (pod("p", cpu="1"), False), (wanting("p", "1"), True), (user("p", "c"), True)],
)
def test_it_has_to_do_with_pods_that_have_claims_or_extended_resources(tree: Tree, concerned: bool) -> None:
    setup = cluster()
    assert plugin_of(setup).concerns(info(setup, tree).shape) is concerned


@pytest.mark.parametrize(("tree", "on"), [(wanting("p", "1"), "a"), (pod("p"), "a"), (user("p", "c"), "gone")])
def test_of_pods_without_devices_nothing_is_kept(tree: Tree, on: str) -> None:
    setup = cluster(slice_of("a", device("gpu-0")), claim("c"))
    plugin, state, found = prepared(setup, tree)
    nothing: Any = None
    assert plugin.reserve(state, found, on) is None
    assert state.own == {}
    assert not plugin.has_work(state, found, on)
    plugin.conclude(state, found, on)
    plugin.unreserve(state, found, on)
    assert asyncio.run(plugin.pre_bind(state, found, on, nothing)) is None
    asyncio.run(plugin.release(state, found, nothing))
    assert setup.core.snapshot.catalog.pending_allocations == {}


@pytest.mark.parametrize(
    ("objects", "new", "works"),
    [
        ((slice_of("a", device("gpu-0")), claim("c")), user("p", "c"), True),
        ((allocated("c", "a"),), user("p", "c"), True),
        ((allocated("c", "a", "p"),), user("p", "c"), False),
        ((allocated("c", "a", "p"), allocated("d", "a")), user("p", "c", "d"), True),
        ((two_devices("a"),), wanting("p", "1"), True),
    ],
)
def test_there_is_work_before_a_pod_is_bound_unless_it_uses_its_claims_already(
    objects: tuple[Tree, ...], new: Tree, works: bool
) -> None:
    setup = cluster(*objects, new, nodes="a", classes=(standing_for(),))
    cycle = attempt(setup).binding_cycle
    assert cycle is not None
    assert plugin_of(setup).has_work(cycle.state, cycle.pod, "a") is works


def test_in_a_plan_the_claim_is_allocated_to_its_pods_until_they_are_taken_back() -> None:
    planner = Planner([node("a"), node("b"), slice_of("b", device("gpu-0")), device_class(), claim("c")])

    def users() -> list[str] | None:
        found = planner.snapshot.catalog.resource_claims["default/c"]
        return [one.name for one in found.status.reserved_for] if found.status.allocation is not None else None

    assert users() is None
    assert planner.schedule(user("p", "c")).node == "b"
    assert users() == ["p"]
    assert planner.schedule(user("q", "c")).node == "b"
    assert users() == ["p", "q"]
    planner.take_back("default/q")
    assert users() == ["p"]
    planner.take_back("default/p")
    assert users() is None


def test_a_claim_that_another_pod_was_given_meanwhile_keeps_that_user() -> None:
    setup = cluster(slice_of("a", device("gpu-0")), claim("c"), user("p", "c"), nodes="a")
    cycle = attempt(setup).binding_cycle
    assert cycle is not None
    setup.core.snapshot.put_object("ResourceClaim", typed("ResourceClaim", allocated("c", "a", "other")))
    plugin_of(setup).conclude(cycle.state, cycle.pod, "a")
    found = setup.core.snapshot.catalog.resource_claims["default/c"]
    assert [one.name for one in found.status.reserved_for] == ["other", "p"]


class Waiting:
    """The API while a pod waits for devices: something happens, and then the condition is asked."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self.happens = happens

    async def wait_until(self, until: Callable[[], bool], seconds: float) -> bool:
        self.happens()
        return until()


class Times:
    """A meter that notes how long pods waited for devices."""

    def __init__(self) -> None:
        self.seconds = 5.0
        self.noted: list[tuple[str, str, str, float]] = []

    def now(self) -> float:
        return self.seconds

    def wall_time(self) -> float:
        return self.seconds

    def devices_awaited(self, *what: Any) -> None:
        self.noted.append(what)


def used(tree: Tree) -> Tree:
    """A claim that its pod is a user of already, so that there is nothing to write."""
    tree["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    return tree


@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize(
    ("after", "failure", "status"),
    [
        (used(binding("c", condition("ready"))), "", "success"),
        (used(binding()), "device binding timeout: context deadline exceeded", "timeout"),
        (used(binding("c", condition("broken", message="so"))), "device binding failed: claim=c, reason=R", "failure"),
        (claim("c"), "claim default/c is not allocated any more", "failure"),
        (None, "claim default/c is not allocated any more", "failure"),
    ],
)
def test_a_pod_waits_for_its_devices_and_the_time_is_noted(
    after: Tree | None, failure: str, status: str, is_timed: bool
) -> None:
    setup = cluster(used(binding()), user("p", "c"), nodes="a")
    cycle = attempt(setup).binding_cycle
    assert cycle is not None
    plugin, times = plugin_of(setup), Times()
    handle: Any = plugin.handle
    handle.meter = times if is_timed else None

    def happens() -> None:
        times.seconds += 3.0
        before = typed("ResourceClaim", used(binding()))
        setup.core.handle("ResourceClaim", before, typed("ResourceClaim", after) if after is not None else None)

    actions: Any = Waiting(happens)
    try:
        assert asyncio.run(plugin.pre_bind(cycle.state, cycle.pod, "a", actions)) is None
        message = ""
    except PluginError as error:
        message = str(error)
    assert message.startswith(failure)
    assert bool(message) is bool(failure)
    assert times.noted == ([("default-scheduler", "gpu.example.com", status, 3.0)] if is_timed else [])
