"""When a node counts as silent."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import node


async def readiness(cluster: VirtualCluster) -> str:
    found = await cluster.client.get(core_v1.Node, "joined")
    return next((one.status for one in found.status.conditions if one.type == "Ready"), "")


def test_a_node_has_its_grace_period_from_the_moment_when_it_first_reports_itself() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            joined = node("joined")
            joined.status.conditions = ()
            await cluster.client.create(joined)
            await cluster.advance(seconds=56)
            assert await readiness(cluster) == ""
            report: dict[str, Any] = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await cluster.client.patch(core_v1.Node, "joined", "", report, subresource="status")
            await cluster.advance(seconds=40)
            assert await readiness(cluster) == "True"
            await cluster.advance(seconds=20)
            assert await readiness(cluster) == "Unknown"

    run(main())
