"""The status of a node, from facts; how it is written and how the node comes into the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.api.declared_features import RESTART_ALL
from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.client.errors import TransportError
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.node.heartbeat import LEASE_NAMESPACE, NodeHeartbeat, NodeLease, status_patch
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.node.registration import check_labels, initial_node, register
from bayplan.kubelet.node.status import NodeFacts, has_changed, node_status
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.runtime.errors import RuntimeUnavailableError
from bayplan.kubelet.runtime.types import Image, RuntimeHandler, RuntimeStatus, RuntimeVersion
from tests.kubelet.simulator.played import Played, play

GI = 1 << 30
NOW, LATER = "2026-01-02T03:04:05Z", "2026-01-02T03:09:05Z"
MACHINE = Machine(4, 8 * GI, boot_id="boot-1", machine_id="machine", architecture="arm64", kernel_version="6.1")
FACTS = NodeFacts(MACHINE, "host", ("10.0.0.1", "fd00::1"), 10250, 110, disk=100 * GI)


def node(status: core_v1.NodeStatus | None = None, **metadata: Any) -> core_v1.Node:
    return core_v1.Node(metadata=meta_v1.ObjectMeta(**{"name": "n", **metadata}), status=status or core_v1.NodeStatus())


def condition(status: core_v1.NodeStatus, name: str) -> core_v1.NodeCondition:
    return next(each for each in status.conditions if each.type == name)


def test_a_status_says_what_the_machine_has_and_what_is_left_for_pods() -> None:
    reserved: dict[str, str | int | float] = {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi"}
    facts = replace(
        FACTS, machine=replace(MACHINE, hugepages={2 << 20: 512, GI: 0}), reserved=reserved, pods_per_core=10
    )
    status = node_status(node(), facts, NOW).status
    assert status.capacity == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "40",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "1Gi",
        "hugepages-1Gi": "0",
    }
    assert status.allocatable["cpu"] == "3500m"
    assert status.allocatable["memory"] == "6Gi"  # without what is reserved, and without huge pages
    assert status.allocatable["ephemeral-storage"] == "90Gi"
    assert status.allocatable["pods"] == "40"


def test_what_is_no_round_number_is_shown_exactly() -> None:
    facts = replace(FACTS, machine=replace(MACHINE, memory=8 * GI - 1024), disk=1_000_001, reserved={"memory": "1"})
    status = node_status(node(), facts, NOW).status
    assert (status.capacity["memory"], status.allocatable["memory"]) == ("8388607Ki", str(8 * GI - 1025))
    assert status.capacity["ephemeral-storage"] == "1000001"


def test_more_is_never_reserved_than_there_is() -> None:
    status = node_status(node(), replace(FACTS, reserved={"memory": "9Gi"}), NOW).status
    assert status.allocatable["memory"] == "0"


def test_a_status_names_the_machine_and_its_addresses() -> None:
    facts = replace(FACTS, version=RuntimeVersion("containerd", "1.6.20"), volumes_in_use=("b", "a"))
    status = node_status(node(), facts, NOW).status
    assert [(each.type, each.address) for each in status.addresses] == [
        ("InternalIP", "10.0.0.1"),
        ("InternalIP", "fd00::1"),
        ("Hostname", "host"),
    ]
    info = status.node_info
    assert (info.boot_id, info.machine_id, info.architecture) == ("boot-1", "machine", "arm64")
    assert (info.operating_system, info.kernel_version) == ("linux", "6.1")
    assert info.container_runtime_version == "containerd://1.6.20"
    assert status.daemon_endpoints.kubelet_endpoint.port == 10250
    assert status.volumes_in_use == ("a", "b")


def test_the_largest_images_are_shown_with_few_names() -> None:
    images = [Image(f"id{size}", tags=(f"image:{size}",), digests=(), size=size) for size in (1, 3, 2)]
    images.append(Image("many", tags=tuple(f"t{number}" for number in range(9)), digests=("d",), size=9))
    images.append(Image("nameless", tags=(), digests=(), size=10))
    status = node_status(node(), replace(FACTS, images=images, most_images=4), NOW).status
    assert [each.size_bytes for each in status.images] == [9, 3, 2]
    assert status.images[0].names == ("d", "t0", "t1", "t2", "t3")


def test_features_that_pods_may_need_are_declared_unless_they_are_off() -> None:
    all_on = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", RESTART_ALL)
    assert node_status(node(), FACTS, NOW).status.declared_features == all_on
    assert node_status(node(), replace(FACTS, features=(RESTART_ALL,)), LATER).status.declared_features == (
        RESTART_ALL,
    )


def test_handlers_say_what_their_runtime_can() -> None:
    handlers = (
        RuntimeHandler("runc", recursive_read_only_mounts=True),
        RuntimeHandler("", user_namespaces=True),
    )
    status = node_status(
        node(), replace(FACTS, runtime=RuntimeStatus(handlers=handlers, supplemental_groups_policy=True)), NOW
    ).status
    can = core_v1.NodeRuntimeHandlerFeatures
    assert [(each.name, each.features) for each in status.runtime_handlers] == [
        ("", can(recursive_read_only_mounts=False, user_namespaces=True)),
        ("runc", can(recursive_read_only_mounts=True, user_namespaces=False)),
    ]
    assert status.features == core_v1.NodeFeatures(supplemental_groups_policy=True)


def test_conditions_keep_the_time_of_their_last_change() -> None:
    first = node_status(node(), FACTS, NOW)
    assert [each.type for each in first.status.conditions] == ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    assert condition(first.status, "Ready").reason == "KubeletReady"
    second = node_status(node(first.status), replace(FACTS, pressures=("DiskPressure",)), LATER)
    ready, pressure = condition(second.status, "Ready"), condition(second.status, "DiskPressure")
    assert (ready.last_transition_time, ready.last_heartbeat_time) == (NOW, LATER)
    assert (pressure.status, pressure.reason, pressure.last_transition_time) == (
        "True",
        "KubeletHasDiskPressure",
        LATER,
    )
    assert second.events == (("Normal", "NodeHasDiskPressure", "Node n status is now: NodeHasDiskPressure"),)


def test_a_node_that_is_not_well_says_why() -> None:
    well = node_status(node(), FACTS, NOW).status
    change = node_status(node(well), replace(FACTS, errors=("runtime down", "no network")), LATER)
    ready = condition(change.status, "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", "KubeletNotReady", "[runtime down, no network]")
    assert [each[1] for each in change.events] == ["NodeNotReady"]
    again = node_status(node(change.status), FACTS, LATER)
    assert [each[1] for each in again.events] == ["NodeReady"]


def test_conditions_and_resources_of_others_stay() -> None:
    theirs = core_v1.NodeCondition(type="NetworkUnavailable", status="False", reason="RouteCreated")
    old = core_v1.NodeStatus(capacity={"example.com/gpu": "2"}, conditions=(theirs,))
    status = node_status(node(old), FACTS, NOW).status
    assert condition(status, "NetworkUnavailable") == theirs
    assert status.allocatable["example.com/gpu"] == "2"


def test_a_reboot_is_told_once() -> None:
    first = node_status(node(), FACTS, NOW)
    assert first.events == (
        ("Normal", "NodeHasSufficientMemory", "Node n status is now: NodeHasSufficientMemory"),
        ("Normal", "NodeHasNoDiskPressure", "Node n status is now: NodeHasNoDiskPressure"),
        ("Normal", "NodeHasSufficientPID", "Node n status is now: NodeHasSufficientPID"),
    )
    rebooted = replace(FACTS, machine=replace(MACHINE, boot_id="boot-2"))
    second = node_status(node(first.status), rebooted, LATER)
    assert second.events == (("Warning", "Rebooted", "Node n has been rebooted, boot id: boot-2"),)
    assert node_status(node(second.status), rebooted, LATER).events == ()


def test_heartbeats_alone_are_no_change() -> None:
    first = node_status(node(), FACTS, NOW).status
    second = node_status(node(first), FACTS, LATER).status
    assert first != second
    assert not has_changed(first, second)
    assert has_changed(first, node_status(node(first), replace(FACTS, disk=1), LATER).status)


def test_a_patch_says_what_is_new_and_what_is_gone() -> None:
    old = core_v1.NodeStatus(capacity={"cpu": "4", "gone": "1"}, phase="Pending")
    new = core_v1.NodeStatus(
        capacity={"cpu": "8", "gone": "1"}, addresses=(core_v1.NodeAddress(type="Hostname", address="h"),)
    )
    patch = status_patch(old, new)
    assert patch["capacity"] == {"cpu": "8"}
    assert patch["addresses"][0] == {"$patch": "replace"}
    assert patch["phase"] is None
    assert status_patch(new, new) == {}


def heartbeat(found: core_v1.Node) -> str:
    return condition(found.status, "Ready").last_heartbeat_time or ""


class Setup:
    """A heartbeat of the node that tests have, and what it was told."""

    def __init__(self, played: Played, events: ContainerEvents, **options: Any) -> None:
        self.played = played
        self.facts = FACTS
        self.cidrs: list[str] = []
        self.node: core_v1.Node | None = None
        self.refuses_cidr = False
        settings = {"update_seconds": 10, "report_seconds": 300, **options}
        self.heartbeat = NodeHeartbeat(
            played.client,
            "n1",
            lambda: self.node,
            self._facts,
            events,
            played.clock,
            pod_cidr_changed=self._cidr,
            **settings,
        )

    async def _facts(self) -> NodeFacts:
        return self.facts

    async def _cidr(self, cidr: str) -> None:
        if self.refuses_cidr:
            raise RuntimeUnavailableError("the runtime does not answer")
        self.cidrs.append(cidr)

    async def read(self) -> core_v1.Node:
        self.node = await self.played.client.get(core_v1.Node, "n1")
        return self.node


def heart(case: Callable[[Setup], Coroutine[Any, Any, None]]) -> None:
    async def body(played: Played) -> None:
        async with played.running() as kubelet:
            setup = Setup(played, kubelet.events)
            await setup.read()
            await case(setup)

    play(body)


def test_a_status_is_written_when_it_changes_and_every_few_minutes() -> None:
    async def case(setup: Setup) -> None:
        assert await setup.heartbeat.look() is True
        first = await setup.read()
        assert condition(first.status, "Ready").status == "True"
        await setup.played.clock.sleep(10)
        await setup.heartbeat.look()
        assert (await setup.read()).metadata.resource_version == first.metadata.resource_version
        setup.facts = replace(FACTS, pressures=("MemoryPressure",))
        await setup.heartbeat.look()
        second = await setup.read()
        assert condition(second.status, "MemoryPressure").status == "True"
        await setup.played.clock.sleep(300)
        await setup.heartbeat.look()
        third = await setup.read()
        assert heartbeat(third) > heartbeat(second)

    heart(case)


def test_the_runtime_is_told_the_ranges_of_the_pods_once() -> None:
    async def case(setup: Setup) -> None:
        await setup.played.client.patch(
            core_v1.Node, "n1", "", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}
        )
        await setup.read()
        for _ in range(3):
            await setup.heartbeat.look()
        assert setup.cidrs == ["10.1.0.0/24"]

    heart(case)


def test_a_runtime_that_is_away_does_not_end_the_heartbeat() -> None:
    async def case(setup: Setup) -> None:
        await setup.played.client.patch(
            core_v1.Node, "n1", "", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}
        )
        await setup.read()
        setup.refuses_cidr = True
        task = asyncio.create_task(setup.heartbeat.run())
        await setup.played.clock.sleep(5)
        assert not task.done()
        setup.refuses_cidr = False
        await setup.played.clock.sleep(5)
        assert setup.cidrs == ["10.1.0.0/24"]
        assert condition((await setup.read()).status, "Ready").status == "True"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    heart(case)


def test_a_lease_belongs_to_the_node_and_is_renewed_in_time() -> None:
    async def case(setup: Setup) -> None:
        played = setup.played
        lease = NodeLease(played.client, "n1", lambda: setup.node, played.clock, played.randomness, duration_seconds=40)
        task = asyncio.create_task(lease.run())
        times = set()
        for _ in range(40):
            await played.clock.sleep(1)
            found = await played.client.get(coordination_v1.Lease, "n1", LEASE_NAMESPACE)
            times.add(found.spec.renew_time)
        assert 4 <= len(times) <= 5
        assert found.spec.lease_duration_seconds == 40
        assert [each.name for each in found.metadata.owner_references] == ["n1"]
        await played.client.delete(coordination_v1.Lease, "n1", LEASE_NAMESPACE)
        await played.clock.sleep(15)
        again = await played.client.get(coordination_v1.Lease, "n1", LEASE_NAMESPACE)
        assert again.metadata.uid != found.metadata.uid
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    heart(case)


def test_a_node_is_registered_with_its_labels_and_taints() -> None:
    async def case(played: Played) -> None:
        taint = core_v1.Taint(key="dedicated", value="x", effect="NoSchedule")
        wanted = initial_node("new", "host", "arm64", labels={"zone": "a"}, taints=(taint,), provider_id="cloud://1")
        await register(played.client, wanted, played.clock)
        found = await played.client.get(core_v1.Node, "new")
        assert found.metadata.labels["kubernetes.io/hostname"] == "host"
        assert (found.metadata.labels["kubernetes.io/arch"], found.metadata.labels["zone"]) == ("arm64", "a")
        assert taint in found.spec.taints
        assert found.spec.provider_id == "cloud://1"

    play(case)


def test_a_node_that_is_there_keeps_what_others_gave_it() -> None:
    async def case(played: Played) -> None:
        await played.client.patch(core_v1.Node, "n1", "", {"metadata": {"labels": {"theirs": "x"}}})
        await register(played.client, initial_node("n1", "host", "amd64", labels={"mine": "y"}), played.clock)
        labels = (await played.client.get(core_v1.Node, "n1")).metadata.labels
        assert (labels["theirs"], labels["disk"], labels["kubernetes.io/hostname"]) == ("x", "ssd", "host")
        assert "mine" not in labels  # as with Kubernetes' kubelet: labels of its own are set when a node is new

    play(case)


def test_registering_goes_on_until_the_server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(played: Played) -> None:
        create, tries = played.client.create, []

        async def fails(body: Any, **options: Any) -> Any:
            tries.append(played.clock.monotonic())
            if len(tries) == 1:
                raise TransportError("connection refused")
            if len(tries) == 2:
                raise ApiError(msgspec.convert({"code": 503, "reason": "ServiceUnavailable"}, meta_v1.Status))
            return await create(body, **options)

        monkeypatch.setattr(played.client, "create", fails)
        await register(played.client, initial_node("new", "host", "amd64", labels={}), played.clock)
        assert len(tries) == 3
        assert (await played.client.get(core_v1.Node, "new")).metadata.name == "new"

    play(case)


def test_labels_that_are_kubernetes_own_are_refused() -> None:
    check_labels({"zone": "a", "node.kubernetes.io/x": "y", "topology.kubernetes.io/zone": "z"})
    with pytest.raises(ConfigurationError) as caught:
        check_labels({"node-role.kubernetes.io/x": "", "k8s.io/y": "", "fine": ""})
    assert "[k8s.io/y node-role.kubernetes.io/x]" in str(caught.value)
