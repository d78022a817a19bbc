"""A cluster that runs for a while in virtual time, and everything that is written in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.copies import ClusterCopy
from bayplan.simulation.copies_revive import revived
from bayplan.simulation.virtual_cluster import EPOCH, VirtualCluster
from bayplan.support.virtual_time import run


def traced(
    copy: ClusterCopy | None,
    *,
    nodes: int,
    files: Iterable[str],
    seconds: float,
    seed: int,
    config: Path | None,
    sink: Callable[[str], object],
) -> tuple[int, str]:
    """Let a cluster run for so long; `sink` gets each line of its trace. Returns the number of writes and the digest of all.

    copy: what it begins with. nodes: simulated nodes besides those of the copy. files: manifests that are applied at the
    start. config: KubeSchedulerConfiguration. Raises ManifestError, DecodeError, ApiError, and what a broken configuration
    raises.
    """

    async def main() -> tuple[int, str]:
        played = SimulatorSettings(nodes=nodes, adopts=copy is not None)
        contents = revived(copy, EPOCH) if copy is not None else ()
        settings = ClusterSettings(scheduler_config=config)
        async with VirtualCluster(seed=seed, nodes=played, settings=settings, contents=contents, trace=sink) as cluster:
            await cluster.apply(*map(Path, files))
            await cluster.advance(seconds=seconds)
            return cluster.trace.writes, cluster.trace.digest()

    return run(main())
