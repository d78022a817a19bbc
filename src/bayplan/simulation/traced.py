"""A cluster that runs for a while in virtual time, and everything that is written in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from bayplan.cluster.manifests.unserved import UnservedKinds
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.snapshots.revival import revived
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.simulation.virtual_cluster import EPOCH, VirtualCluster
from bayplan.support.virtual_time import run


def traced(
    copy: ClusterSnapshot | None,
    *,
    nodes: int,
    files: Iterable[str],
    seconds: float,
    seed: int,
    config: Path | None,
    sink: Callable[[str], object],
    unserved: UnservedKinds | None = None,
) -> tuple[int, str]:
    """Let a cluster run for so long; `sink` gets each line of its trace. Returns the number of writes and the digest of all.
    What the sink raises ends it.

    copy: what it begins with. nodes: simulated nodes besides those of the copy. files: manifests that are applied at the
    start; unserved: counts their objects of custom kinds, which are left out. config: KubeSchedulerConfiguration. Raises
    ManifestError, DecodeError, ApiError, and what a broken configuration raises.
    """

    async def main() -> tuple[int, str]:
        failed = asyncio.get_running_loop().create_future()

        def take(line: str) -> None:
            """A store goes on whatever its watchers raise, so that is told here."""
            if not failed.done():
                try:
                    sink(line)
                except Exception as error:
                    failed.set_exception(error)

        played = SimulatorSettings(nodes=nodes, adopts=copy is not None)
        contents = revived(copy, EPOCH) if copy is not None else ()
        settings = ClusterSettings(scheduler_config=config)
        async with VirtualCluster(seed=seed, nodes=played, settings=settings, contents=contents, trace=take) as cluster:
            await cluster.apply(*map(Path, files), unserved=unserved)
            await asyncio.wait((failed,), timeout=seconds)
            written = cluster.trace.writes, cluster.trace.digest()
        if failed.done():
            await failed
        return written

    return run(main())
