"""Scheduling throughput in library mode: deciding and accounting, no API."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from benchmarks.figures import Figure
from benchmarks.workloads import node, pod


def run(quick: bool) -> Iterator[Figure]:
    """SchedulingBasic and SchedulingNodeAffinity."""
    count = 2_000 if quick else 20_000
    for nodes in (500, 5_000):
        for name, affinity in (("SchedulingBasic", False), ("SchedulingNodeAffinity", True)):
            yield Figure("library", f"{name}, {nodes} nodes", _rate(nodes, min(count, nodes * 40), affinity), "pods/s")


def _rate(nodes: int, count: int, affinity: bool) -> float:
    planner = Planner([from_tree(core_v1.Node, node(index)) for index in range(nodes)])
    pods = [from_tree(core_v1.Pod, pod(index, affinity=affinity)) for index in range(count)]
    started = time.perf_counter()
    for one in pods:
        if not planner.schedule(one).scheduled:
            raise RuntimeError("a pod found no node")
    return count / (time.perf_counter() - started)
