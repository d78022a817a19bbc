"""Simulated nodes whose writes are refused, that fall silent, and whose player is started again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.client.errors import TransportError
from bayplan.cluster.components import NODES
from bayplan.kubelet.simulator.nodes.objects import LEASE_NAMESPACE, SILENT
from bayplan.kubelet.simulator.pod_player import PodPlayer
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages.stages import read_stage
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.timestamps import parse_rfc3339
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod
from tests.client.transports import Spoiler

CONFLICT = ApiError(meta_v1.Status(status="Failure", code=409, reason="Conflict", message="somebody was faster"))
REFUSED = [pytest.param(CONFLICT, id="a conflict"), pytest.param(TransportError("no route"), id="no answer")]
Case = Callable[[VirtualCluster], Awaitable[None]]


def play(case: Case, spoiler: Spoiler | None = None, **settings: Any) -> None:
    async def main() -> None:
        nodes = SimulatorSettings(nodes=1, **settings)
        spoil = spoiler.over if spoiler is not None else lambda sound: sound
        async with VirtualCluster(nodes=nodes, transport=spoil) as cluster:
            await case(cluster)

    run(main())


async def found(cluster: VirtualCluster, name: str = "task") -> core_v1.Pod:
    return await cluster.client.get(core_v1.Pod, name, "default")


async def runs(cluster: VirtualCluster, name: str = "task") -> bool:
    return (await found(cluster, name)).status.phase == "Running"


@pytest.mark.parametrize("error", REFUSED)
def test_a_start_that_was_refused_is_tried_again_soon_however_long_the_pod_will_run(error: Exception) -> None:
    async def case(cluster: VirtualCluster) -> None:
        annotations = {"bayplan.dev/run-seconds": "3600"}
        await cluster.client.create(pod("task", restart_policy="Never", meta={"annotations": annotations}))
        await cluster.eventually(lambda: runs(cluster), within=10.0)
        assert spoiler.seen == 3, "being created, refused, running"

    spoiler = Spoiler("PUT", "/pods/task/status", error, after=1)
    play(case, spoiler)


@pytest.mark.parametrize("error", REFUSED)
def test_a_start_that_nobody_sees_is_not_started_anew_after_a_refusal(error: Exception) -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("web", restart_policy="Always"))
        while not spoiler.seen:
            await cluster.advance(seconds=0.001)
        await cluster.advance(seconds=0.1)
        assert await runs(cluster, "web")
        assert spoiler.seen == 2
        simulator = cluster.components.node_simulator
        assert simulator is not None
        assert isinstance(simulator._player, PodPlayer)
        assert not simulator._player._accepted

    spoiler = Spoiler("PUT", "/pods/web/status", error)
    play(case, spoiler, start_seconds=0.3)


def test_what_others_say_of_a_pod_while_it_starts_unseen_stays() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("web", restart_policy="Always"))

        async def bound() -> bool:
            return bool((await found(cluster, "web")).spec.node_name)

        while not await bound():
            await cluster.advance(seconds=0.01)
        said = {"type": "example.com/Seen", "status": "True"}
        await cluster.client.patch(
            core_v1.Pod, "web", "default", {"status": {"conditions": [said]}}, subresource="status"
        )
        assert not await runs(cluster, "web")
        await cluster.eventually(lambda: runs(cluster, "web"))
        assert "example.com/Seen" in [one.type for one in (await found(cluster, "web")).status.conditions]

    play(case, start_seconds=0.4, unseen_seconds=1.0)


def test_a_pod_that_fails_while_it_starts_unseen_stays_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("web", restart_policy="Always"))
        await cluster.advance(seconds=0.1)
        assert (await found(cluster, "web")).spec.node_name
        failed = {"status": {"phase": "Failed"}}
        await cluster.client.patch(core_v1.Pod, "web", "default", failed, subresource="status")
        await cluster.advance(seconds=5)
        assert (await found(cluster, "web")).status.phase == "Failed"
        assert not [one for one in caplog.records if one.name == "bayplan.kubelet.simulator.service"]

    play(case, start_seconds=0.4, unseen_seconds=1.0)


async def renewed(cluster: VirtualCluster, name: str) -> float:
    lease = await cluster.client.get(coordination_v1.Lease, name, LEASE_NAMESPACE)
    return parse_rfc3339(lease.spec.renew_time or "")


async def silence(cluster: VirtualCluster) -> str:
    [node] = (await cluster.client.list(core_v1.Node)).items
    await cluster.client.patch(core_v1.Node, node.metadata.name, "", {"metadata": {"annotations": {SILENT: "true"}}})
    return node.metadata.name


def test_the_last_sign_of_life_of_a_node_is_given_though_the_server_was_away() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.advance(seconds=75)
        spoiler.active = True
        began = cluster.now()
        name = await silence(cluster)
        await cluster.advance(seconds=5)
        assert spoiler.seen > 1
        assert began <= await renewed(cluster, name) <= began + 5

    spoiler = Spoiler("PUT", "/leases/node-1", TransportError("no route"))
    spoiler.active = False
    play(case, spoiler)


def test_a_silent_node_stays_silent_when_its_player_is_started_again() -> None:
    async def case(cluster: VirtualCluster) -> None:
        name = await silence(cluster)
        await cluster.advance(seconds=5)
        last = await renewed(cluster, name)
        await cluster.components.stop(NODES)
        cluster.components.start(NODES)
        await cluster.advance(seconds=60)
        assert await renewed(cluster, name) == last

    play(case)


def test_a_stage_that_could_not_be_carried_out_is_not_waited_for_again() -> None:
    stage = read_stage(
        {
            "metadata": {"name": "ready"},
            "spec": {
                "resourceRef": {"kind": "Pod"},
                "selector": {"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": ["Pending"]}]},
                "delay": {"durationMilliseconds": 100_000},
                "next": {"statusTemplate": "phase: Running"},
            },
        }
    )
    assert stage is not None

    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(pod("task"))
        await cluster.advance(seconds=110)
        assert await runs(cluster)
        assert spoiler.seen == 2

    spoiler = Spoiler("PATCH", "/pods/task/status", TransportError("no route"))
    play(case, spoiler, stages=(stage,))
