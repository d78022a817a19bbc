"""Figures of one moment of a replay: how much is asked for, and how evenly nodes are filled."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.planner_moves import NodeUse
from bayplan.scheduler.snapshot.resources import pod_requests


def unevenness(uses: Sequence[NodeUse]) -> float:
    """The standard deviation of how full nodes are."""
    return statistics.pstdev(use.fullness for use in uses) if uses else 0.0


def asked_for(pod: Pod) -> dict[str, int]:
    """What a pod asks for, in the units of `NodeUse`."""
    amounts = pod_requests(pod.spec, pod.status)
    return {name: one.milli_value() if name == "cpu" else one.value() for name, one in amounts.items()}


def shares(uses: Iterable[NodeUse]) -> dict[str, float]:
    """Resource -> share of all nodes' amount that is asked for."""
    asked: dict[str, int] = {}
    offered: dict[str, int] = {}
    for use in uses:
        for name, amount in use.allocatable.items():
            offered[name] = offered.get(name, 0) + amount
            asked[name] = asked.get(name, 0) + use.requested.get(name, 0)
    return {name: asked[name] / amount for name, amount in offered.items()}
