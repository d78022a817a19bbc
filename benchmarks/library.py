"""Scheduling throughput in library mode: deciding and accounting, no API.

The workloads are those of Kubernetes' scheduler_perf: so many pods of a kind are there already, the next ones count.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import Any, Final

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.kernels.choice import Mode
from benchmarks import kernels, mix, workloads
from benchmarks.figures import Figure
from benchmarks.workloads import WORKLOADS, Workload

NODES: Final = 5_000


def run(quick: bool) -> Iterator[Figure]:
    """All workloads on 5,000 nodes; preemption; pods that fit nowhere; memory of a large cluster. By NumPy unless the name says otherwise."""
    with kernels.used(Mode.NUMPY):
        yield from _run(10 if quick else 1)


def _run(share: int) -> Iterator[Figure]:
    for one in WORKLOADS:
        yield Figure(
            "library",
            f"{one.name}, {NODES // share:,} nodes",
            throughput(one, NODES // share, share),
            "pods/s",
            one.peer,
        )
    for name, pods in (("mix of 1,000 applications", mix.mix), ("pods that all differ", mix.different)):
        for means in kernels.all_means():
            with kernels.used(means):
                rate = interleaved(pods(22_000 // share), NODES // share)
            yield Figure("library", f"{name}, {NODES // share:,} nodes{kernels.suffix(means)}", rate, "pods/s")
    yield Figure("library", f"PreemptionAsync, {NODES // share:,} nodes", preemption(NODES // share), "pods/s", "269")
    count = 20_000 // share
    yield Figure("library", f"Unschedulable, {count:,} pods", unschedulable(NODES // share, count), "pods/s")
    nodes = 15_000 // share
    name = f"memory, {nodes:,} nodes with {20 * nodes:,} pods"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield Figure("library", name, pool.apply(resident, (nodes, 20 * nodes)), "MiB")


def throughput(workload: Workload, nodes: int, share: int = 1) -> float:
    """Pods of a workload decided and accounted per second; `share` divides the counts."""
    existing, measured = workload.existing // share, workload.measured // share
    pods = [workload.pod(index) for index in range(existing + measured)]
    return _rate(Planner(_nodes(nodes, workload.zones)), pods, existing)


def interleaved(pods: list[dict[str, Any]], nodes: int) -> float:
    """Pods decided and accounted per second, after the first tenth of them."""
    return _rate(Planner(_nodes(nodes, len(mix.ZONES))), pods, len(pods) // 10)


def _rate(planner: Planner, pods: list[dict[str, Any]], existing: int) -> float:
    """Pods per second, without the first ones."""
    typed = [from_tree(core_v1.Pod, one) for one in pods]
    for one in typed[:existing]:
        _must_fit(planner, one)
    gc.collect()
    started = time.perf_counter()
    for one in typed[existing:]:
        _must_fit(planner, one)
    return (len(typed) - existing) / (time.perf_counter() - started)


def preemption(nodes: int) -> float:
    """Four pods of 900m fill each node; pods of 3,000m and higher priority evict them. One such pod for each node."""
    planner = Planner(_nodes(nodes))
    for index in range(4 * nodes):
        low = workloads.sized(index, "low", "900m", node_name=f"node-{index // 4:05d}")
        planner.add("Pod", from_tree(core_v1.Pod, low))
    pods = [from_tree(core_v1.Pod, workloads.sized(index, "high", "3", priority=10)) for index in range(nodes)]
    gc.collect()
    started = time.perf_counter()
    for one in pods:
        info = planner.pod(one)
        decision = planner.schedule(info)
        if not decision.victims:
            raise RuntimeError(f"pod {one.metadata.name} evicts nobody: {decision.message}")
        planner.nominator.add(info, decision.nominated_node)
        for victim in decision.victims:
            planner.remove(victim)
        if not planner.schedule(info).scheduled:
            raise RuntimeError(f"pod {one.metadata.name} found no node after its victims had gone")
    return nodes / (time.perf_counter() - started)


def unschedulable(nodes: int, count: int) -> float:
    """Attempts per second at pods that fit nowhere, each followed by a pod that does."""
    planner = Planner(_nodes(nodes))
    large = [from_tree(core_v1.Pod, workloads.sized(index, "large", "9")) for index in range(count)]
    small = [from_tree(core_v1.Pod, workloads.pod(index)) for index in range(count)]
    gc.collect()
    started = time.perf_counter()
    for hopeless, fitting in zip(large, small, strict=True):
        if planner.schedule(hopeless).scheduled:
            raise RuntimeError("a pod of 9 cores found a node of 4")
        _must_fit(planner, fitting)
    return 2 * count / (time.perf_counter() - started)


def resident(nodes: int, count: int) -> float:
    """MiB that a process takes at most which holds so many nodes and running pods, placed one by one."""
    planner = Planner(_nodes(nodes))
    for index in range(count):
        _must_fit(planner, from_tree(core_v1.Pod, workloads.pod(index)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _nodes(count: int, zones: int = 1) -> list[core_v1.Node]:
    return [from_tree(core_v1.Node, workloads.node(index, zones=zones)) for index in range(count)]


def _must_fit(planner: Planner, pod: core_v1.Pod) -> None:
    if not planner.schedule(pod).scheduled:
        raise RuntimeError(f"pod {pod.metadata.name} found no node")
