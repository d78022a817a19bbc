"""Leases in virtual time: nodes promise to be well for long, and take that back when they fall silent."""

from __future__ import annotations

import pytest

from bayplan.api.types import coordination_v1, core_v1
from bayplan.client.transport import Transport
from bayplan.kubelet.simulator.nodes.objects import LEASE_NAMESPACE, SILENT
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.faults.transport import Faults, FaultyTransport
from bayplan.simulation.virtual_cluster import EPOCH, VirtualCluster
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

MERGE = "application/merge-patch+json"


async def silence(cluster: VirtualCluster, name: str, value: str | None = "true") -> None:
    await cluster.client.patch(core_v1.Node, name, "", {"metadata": {"annotations": {SILENT: value}}}, patch_type=MERGE)


async def ready_status(cluster: VirtualCluster, name: str) -> str:
    node = await cluster.client.get(core_v1.Node, name)
    return next(one.status for one in node.status.conditions if one.type == "Ready")


@pytest.mark.parametrize("conflict", [0.0, 0.7])
def test_a_silent_node_is_noticed_after_the_grace_period_whatever_it_promised(conflict: float) -> None:
    async def main() -> None:
        faults = Faults(conflict=conflict)

        def refuse_often(sound: Transport) -> Transport:
            return FaultyTransport(sound, faults, LoopClock(EPOCH), SeededRandomness(1))

        async with VirtualCluster(nodes=2, transport=refuse_often) as cluster:
            await cluster.advance(minutes=20)
            await silence(cluster, "node-1")
            await cluster.advance(seconds=2)
            faults.stop()
            lease = await cluster.client.get(coordination_v1.Lease, "node-1", LEASE_NAMESPACE)
            assert lease.spec.lease_duration_seconds == 40
            await cluster.advance(seconds=46)
            assert await ready_status(cluster, "node-1") == "True"
            await cluster.advance(seconds=12)
            assert await ready_status(cluster, "node-1") == "Unknown"
            assert await ready_status(cluster, "node-2") == "True"
            await silence(cluster, "node-1", None)
            await cluster.advance(seconds=10)
            assert await ready_status(cluster, "node-1") == "True"
            await cluster.advance(hours=3)
            assert await ready_status(cluster, "node-1") == "True"

    run(main())


def test_idle_nodes_write_one_lease_an_hour() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=5) as cluster:
            await cluster.advance(hours=1)
            before = cluster.trace.writes
            await cluster.advance(hours=10)
            assert cluster.trace.writes - before == 50
            lease = await cluster.client.get(coordination_v1.Lease, "node-1", LEASE_NAMESPACE)
            assert (lease.spec.lease_duration_seconds or 0) > 3600

    run(main())


def test_leases_are_renewed_as_often_as_they_are_asked_to_be() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1, lease_seconds=10.0)) as cluster:
            await cluster.advance(hours=1)
            before = cluster.trace.writes
            await cluster.advance(hours=1)
            assert cluster.trace.writes - before == 360
            lease = await cluster.client.get(coordination_v1.Lease, "node-1", LEASE_NAMESPACE)
            assert lease.spec.lease_duration_seconds == 40

    run(main())
