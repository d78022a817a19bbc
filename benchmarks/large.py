"""Library mode at sizes beyond Kubernetes' own: 100,000 nodes with equal pods and with the mix of 1,000 applications, 1,000,000 nodes with 1,000,000 pods.

Each in a process of its own, whose memory is told as well. Wall time of placing and accounting; nodes and pods are there before.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.kernels.choice import KERNELS, Mode
from bayplan.support.memory.garbage import collect_seldom
from benchmarks import kernels, mix, workloads
from benchmarks.figures import Figure

_MIX_PODS = 6_000


def run(quick: bool) -> Iterator[Figure]:
    """100,000 nodes with as many equal pods, and with the mix; 1,000,000 nodes with as many equal pods (70 s are wanted, within 8 GiB)."""
    share = 10 if quick else 1
    for count in (100_000 // share, 1_000_000 // share):
        seconds, memory = _apart(equal, count)
        yield Figure("large", f"{count:,} equal pods on as many nodes", seconds, "s")
        yield Figure("large", f"memory of {count:,} equal pods on as many nodes", memory, "MiB")
    nodes = 100_000 // share
    for means in kernels.all_means():
        seconds, memory = _apart(mixed, nodes, means)
        name = f"mix of 1,000 applications, {nodes:,} nodes{kernels.suffix(means)}"
        yield Figure("large", name, _MIX_PODS / seconds, "pods/s")
        yield Figure("large", f"memory of the {name}", memory, "MiB")


def equal(count: int) -> tuple[float, float]:
    """Seconds to place so many basic pods on as many nodes, and MiB of the process at most."""
    KERNELS.mode = Mode.NUMPY
    return _placed(Planner(_nodes(count)), [from_tree(core_v1.Pod, workloads.pod(index)) for index in range(count)])


def mixed(nodes: int, means: Mode) -> tuple[float, float]:
    """Seconds to place the mix's pods after a third as many, and MiB of the process at most."""
    with kernels.used(means):
        planner = Planner(_nodes(nodes, len(mix.ZONES)))
        pods = [from_tree(core_v1.Pod, one) for one in mix.mix(_MIX_PODS * 4 // 3)]
        _placed(planner, pods[: _MIX_PODS // 3])
        return _placed(planner, pods[_MIX_PODS // 3 :])


def _placed(planner: Planner, pods: list[core_v1.Pod]) -> tuple[float, float]:
    gc.collect()
    started = time.perf_counter()
    for one in pods:
        if not planner.schedule(one).scheduled:
            raise RuntimeError(f"pod {one.metadata.name} found no node")
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _nodes(count: int, zones: int = 1) -> Iterator[core_v1.Node]:
    return (from_tree(core_v1.Node, workloads.node(index, zones=zones)) for index in range(count))


def _apart(measure: Any, count: int, *means: Mode) -> tuple[float, float]:
    with multiprocessing.get_context("spawn").Pool(1, collect_seldom) as pool:
        found: tuple[float, float] = pool.apply(measure, (count, *means))
    return found
