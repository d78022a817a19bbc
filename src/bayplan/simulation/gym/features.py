"""What an agent sees: numbers about a pod and the cluster, and about each node that takes the pod."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bayplan.scheduler.library import Planner
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.simulation.replay.figures import asked_for
from bayplan.simulation.replay.gpu_shares import GPU, WHOLE

Floats = NDArray[np.floating[Any]]

FEATURES: Final = (
    "cpu left",
    "memory left",
    "GPUs left",
    "no GPU",
    "imbalance",
    "GPU left in part",
    "alignment",
    "pods",
)
"""Of a node, each from 0 to 1. What is left is the share of the node's amount after the pod; imbalance the difference between the shares of
cpu and memory; a part is what is left beyond whole GPUs; alignment how much the pod asks for of what is free most."""
OBSERVED: Final = (
    "cpu",
    "memory",
    "GPUs",
    "part of a GPU",
    "whole GPUs",
    "cpu in use",
    "memory in use",
    "GPUs in use",
    "pods that wait",
    "nodes that fit",
)
"""Of the pod by the mean node; then of the cluster as shares. Pods that wait are 1 - 1 / (1 + their number)."""
MOST: Final = 8.0
"""The largest number in an observation: a pod that asks for more than so many mean nodes seems to ask for these."""
_RESOURCES: Final = ("cpu", "memory", GPU)


def node_features(planner: Planner, pod: PodInfo, rows: Ints) -> NDArray[np.float64]:
    """`FEATURES` of each of the rows, for a pod that comes there: an array of (rows, features)."""
    snapshot, asked = planner.snapshot, asked_for(pod.pod)
    left: dict[str, NDArray[np.float64]] = {}
    alignment = np.zeros(len(rows))
    part = np.zeros(len(rows))
    gpus = np.zeros(len(rows))
    for name in _RESOURCES:
        offered, free = _columns(planner, name, rows)
        after = np.maximum(free - asked.get(name, 0), 0.0)
        left[name] = np.divide(after, offered, out=np.zeros(len(rows)), where=offered > 0)
        share = np.divide(asked.get(name, 0), offered, out=np.zeros(len(rows)), where=offered > 0)
        alignment += np.minimum(share, 1.0) * np.divide(free, offered, out=np.zeros(len(rows)), where=offered > 0)
        if name == GPU:
            part, gpus = after % WHOLE / WHOLE, offered
    columns = (
        left["cpu"],
        left["memory"],
        left[GPU],
        gpus == 0,
        np.abs(left["cpu"] - left["memory"]),
        part,
        alignment / len(_RESOURCES),
        np.minimum(snapshot.pod_count[rows] / 100.0, 1.0),
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def pod_view(planner: Planner, pod: PodInfo, waiting: int, fitting: float) -> Floats:
    """`OBSERVED` about a pod. waiting: pods that wait besides. fitting: share of the nodes that take it."""
    asked, rows = asked_for(pod.pod), np.arange(planner.snapshot.size)
    sizes, used = [], []
    for name in _RESOURCES:
        offered, free = _columns(planner, name, rows)
        total = float(offered.sum())
        sizes.append(min(asked.get(name, 0) * max(int((offered > 0).sum()), 1) / total, MOST) if total else 0.0)
        used.append(1.0 - float(free.sum()) / total if total else 0.0)
    whole, part = divmod(asked.get(GPU, 0), WHOLE)
    view = [*sizes, part / WHOLE, min(whole / 8.0, 1.0), *used, 1.0 - 1.0 / (1.0 + waiting), fitting]
    return np.asarray(view, dtype=np.float32)


def _columns(planner: Planner, name: str, rows: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What rows offer of a resource, and what is free of it."""
    snapshot = planner.snapshot
    names = list(snapshot.resources.names)
    if name not in names:
        return np.zeros(len(rows)), np.zeros(len(rows))
    column = names.index(name)
    offered = snapshot.allocatable[column, rows].astype(np.float64)
    return offered, offered - snapshot.requested[column, rows]
