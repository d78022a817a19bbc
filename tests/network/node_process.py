"""One node in a network namespace: an API of its own with the same Node objects as the others, and the agent. Run as a program.

Standard input has a line of JSON for each change: `{"name": ..., "addresses": [...], "pods": [...]}` puts a node, one with the name alone removes it. A line of
output says `ready` when the agent has brought all that into the kernel, or what it waits for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.network.service import NetworkAgent
from bayplan.network.settings import DataPlane, Masquerade, NetworkSettings, PodInterface
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from tests.network.nodes import node


async def put(client: Client, name: str, addresses: list[str], pods: list[str]) -> None:
    wanted = node(name, tuple(addresses), tuple(pods))
    try:
        await client.delete(core_v1.Node, name)
    except ApiError as error:
        if error.code != 404:
            raise
    created = await client.create(wanted)
    created.status = wanted.status
    await client.update_status(created)


async def two_syncs(registry: Registry, running: asyncio.Task[None]) -> None:
    """Return when the agent has looked at everything twice: once it may have been on its way already."""
    wanted = syncs(registry) + 2
    async with asyncio.timeout(30):
        while syncs(registry) < wanted:
            if running.done():
                running.result()
            await asyncio.sleep(0.02)


def syncs(registry: Registry) -> float:
    """How often the agent has synced, with or without success."""
    lines = registry.render().decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("bayplan_network_syncs_total{"))


async def main(options: dict[str, Any]) -> None:
    cluster = Cluster(
        ClusterSettings(nodes=SimulatorSettings(nodes=0), run_scheduler=False, run_controllers=False, cloud="")
    )
    await cluster.start()
    client = cluster.client()
    settings = NetworkSettings(
        options["name"],
        DataPlane(options["data_plane"]),
        PodInterface(options["pod_interface"]),
        Masquerade(options["masquerade"]),
        cni_config=Path(options["directory"]) / "cni",
        address_directory=Path(options["directory"]) / "addresses",
        cluster_networks=("10.1.0.0/16", "fd00::/16"),
        resync_seconds=0.5,
    )
    registry = Registry()
    agent = NetworkAgent(client, settings, clock=SystemClock(), randomness=SystemRandomness(), registry=registry)
    running = asyncio.create_task(agent.run())
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        change = json.loads(line)
        if "pods" in change:
            await put(client, change["name"], change["addresses"], change["pods"])
        elif "name" in change:
            await client.delete(core_v1.Node, change["name"])
        await two_syncs(registry, running)
        print(agent.not_ready or "ready", flush=True)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await cluster.stop()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
