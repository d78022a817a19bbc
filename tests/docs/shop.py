"""The cluster that the pages ask about: the shop of the examples on six nodes, the same each time."""

from __future__ import annotations

from pathlib import Path

from bayplan.simulation.readers.live import read_live
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from tests.docs.pages import ROOT


def write_copy(path: Path) -> None:
    """Write a copy of it."""

    async def made() -> bytes:
        async with VirtualCluster(nodes=6, seed=1) as cluster:
            await cluster.apply(ROOT / "examples" / "shop.yaml")
            await cluster.advance(minutes=2)
            return to_bytes(await read_live(cluster.client, taken_at="2026-01-02T03:04:05Z"))

    path.write_bytes(run(made()))
