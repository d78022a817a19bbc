"""Devices are chosen, and hints about them are given, as kubelet does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.devices.device_calls import (
    Allocate,
    Allocated,
    PluginDevice,
    PluginOptions,
    PreferredAllocation,
)
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DeviceCheckpoint
from bayplan.kubelet.resource_managers.devices.device_manager import DeviceManager
from bayplan.kubelet.resource_managers.devices.device_selection import Selection, select
from bayplan.kubelet.resource_managers.devices.pod_devices import ContainerDevices, combined
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.kubelet.runtime.types import Mount
from tests.kubelet.resource_managers.cases import FixedAffinity, cases, hint_of, pod
from tests.kubelet.resource_managers.played_resources import GPU, guaranteed


def manager_of(devices: dict[str, list[Any]]) -> DeviceManager:
    """A manager with plugins that offer devices: (id, NUMA nodes) each."""
    manager = DeviceManager((0, 1), FixedAffinity(), DeviceCheckpoint(), lambda: 0.0)
    for resource, rows in devices.items():
        manager.connected(resource, PluginOptions())
        manager.update(resource, [PluginDevice(name, numa_nodes=tuple(nodes)) for name, nodes in rows])
    return manager


def hinting(case: dict[str, Any]) -> tuple[DeviceManager, core_v1.Pod]:
    """The manager and the pod of a case."""
    manager = manager_of(case["devices"])
    for uid, containers in case["allocated"].items():
        for name, resources in containers.items():
            for resource, ids in resources.items():
                manager.pods.insert(uid, name, resource, ContainerDevices({-1: tuple(ids)}, Allocated()))

    def container(row: dict[str, Any]) -> core_v1.Container:
        policy = "Always" if row["always"] else None
        resources = core_v1.ResourceRequirements(limits=row["limits"])
        return core_v1.Container(name=row["name"], resources=resources, restart_policy=policy)

    init = tuple(container(each) for each in case["init"])
    return manager, pod(*(container(each) for each in case["containers"]), uid=case["uid"], init=init)


def check(hints: Any, case: dict[str, Any]) -> None:
    """Hold hints against those of a case, whatever their order."""
    for resource, expected in case["expected"].items():
        found = hints[resource]
        if expected is None:
            assert found is None
            continue
        assert set(found) == {hint_of(each) for each in expected}
        assert len(found) == len(expected)


@pytest.mark.parametrize("case", cases("device", "hints"))
def test_hints_are_those_of_kubelet(case: dict[str, Any]) -> None:
    manager, wanted = hinting(case)
    check(manager.hints(wanted, wanted.spec.containers[0]), case)


@pytest.mark.parametrize("case", cases("device", "pod_hints"))
def test_hints_of_pods_are_those_of_kubelet(case: dict[str, Any]) -> None:
    manager, wanted = hinting(case)
    check(manager.pod_hints(wanted), case)


@pytest.mark.parametrize("case", cases("device", "aligned"))
def test_devices_near_to_the_decided_nodes_come_first(case: dict[str, Any]) -> None:
    devices = {name: PluginDevice(name, numa_nodes=tuple(nodes)) for name, nodes in case["devices"]}
    affinity = frozenset(case["affinity"]) if case["affinity"] is not None else None
    preferred = tuple(case["preferred"])
    reserved: set[str] = set()
    steps = select(
        Selection("resource", case["number"], devices, frozenset(devices), frozenset(), affinity, bool(preferred)),
        reserved,
    )
    try:
        call = next(steps)
        assert isinstance(call, PreferredAllocation)
        steps.send(preferred)
        raise AssertionError("it asks again")
    except StopIteration as end:
        chosen = end.value
    assert chosen == reserved
    assert len(chosen) == case["number"]
    assert chosen >= set(preferred)
    counts: dict[str, int] = {}
    for name in chosen:
        for node in devices[name].numa_nodes[:1]:
            counts[str(node)] = counts.get(str(node), 0) + 1
    assert counts == case["expected"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 3)), max_size=12),
    st.integers(0, 4),
)
def test_no_device_has_two_owners_and_freed_ones_come_back(steps: list[tuple[str, int, int]], offered: int) -> None:
    manager = manager_of({GPU: [(str(number), []) for number in range(offered)]})
    active: set[str] = set()
    for uid, init, number in steps:
        if uid in active:
            active.discard(uid)
            manager.keep_only(active)
            continue
        wanted = pod(guaranteed("app", gpus=str(number)), uid=uid, init=(guaranteed("init", gpus=str(init)),))
        try:
            for each in (*wanted.spec.init_containers, *wanted.spec.containers):
                answer(manager, wanted, each)
            active.add(uid)
        except AllocationError:
            manager.keep_only(active)
        manager.forget_choices(uid)
        owned = [device for each in active for device in manager.pods.of_pod(each, GPU)]
        assert len(owned) == len(set(owned))
        assert manager.in_use(GPU) == set(owned)
    manager.keep_only(())
    assert manager.in_use(GPU) == frozenset()


def answer(manager: DeviceManager, wanted: core_v1.Pod, container: core_v1.Container) -> None:
    """Allocate with a plugin that agrees to everything."""
    steps = manager.allocate(wanted, container)
    try:
        call = next(steps)
        while True:
            assert isinstance(call, Allocate)
            call = steps.send(Allocated())
    except StopIteration:
        pass


def test_admission_counts_devices_that_are_given_away_although_their_plugin_is_gone() -> None:
    manager = manager_of({GPU: [("a", []), ("b", [])]})
    wanted = pod(guaranteed("app", gpus="2"))
    answer(manager, wanted, wanted.spec.containers[0])
    manager.disconnected(GPU)
    assert manager.at_least_given("pod", {GPU: "0", "cpu": "4"}) == {GPU: "2", "cpu": "4"}
    assert manager.at_least_given("other", {GPU: "0"}) == {GPU: "0"}
    assert manager.at_least_given("pod", {GPU: "3"}) == {GPU: "3"}


def test_a_container_that_asks_for_another_number_than_it_has_is_refused() -> None:
    manager = manager_of({GPU: [("a", []), ("b", [])]})
    wanted = pod(guaranteed("app", gpus="1"))
    answer(manager, wanted, wanted.spec.containers[0])
    more = pod(guaranteed("app", gpus="2"))
    with pytest.raises(
        AllocationError, match=f'pod "pod" container "app" changed request for resource "{GPU}" from 1 to 2'
    ):
        answer(manager, more, more.spec.containers[0])


def test_of_two_plugins_that_want_the_same_the_first_one_gets_it() -> None:
    one = Allocated({"A": "1"}, (Mount("/lib", "/one"),), (), {"x": "1"}, ("cdi", "more"))
    two = Allocated({"A": "2", "B": "2"}, (Mount("/lib", "/two"),), (), {"x": "2"}, ("cdi",))
    found = combined({"b/two": ContainerDevices({}, two), "a/one": ContainerDevices({}, one)})
    assert found.environment == {"A": "1", "B": "2"}
    assert [each.host_path for each in found.mounts] == ["/one"]
    assert found.annotations == {"x": "1"}
    assert found.cdi_devices == ("cdi", "more")
