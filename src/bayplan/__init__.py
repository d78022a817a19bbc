"""Bayplan: the Kubernetes control plane in Python, with scheduling at its heart.

    import bayplan

    cluster = bayplan.read("cluster.copy")
    bayplan.simulate(cluster, bayplan.Drain(("node-1",)))

Importing this package costs almost nothing: every part is imported when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would cost more than all the rest here
__version__ = "0.1.0"

KUBERNETES_VERSION = "1.36.2"
"""The Kubernetes release whose API and behaviour this version implements."""

if TYPE_CHECKING:
    from typing import Any

    from bayplan.cluster.questions.asking import ask
    from bayplan.scheduler.library import Planner, evaluate, place
    from bayplan.simulation.actions import (
        AddNodes,
        Apply,
        Cordon,
        DeleteNode,
        Drain,
        FailZone,
        PlaceAnew,
        Scale,
        Taint,
        Upgrade,
    )
    from bayplan.simulation.facade import Answer, capacity, compare, consolidate, fix, read, rehearse, replay, simulate
    from bayplan.simulation.rehearsal.setting import Setting
    from bayplan.simulation.replay.run import Arrival, Workload
    from bayplan.simulation.replay.traces import read_nodes, read_pods, workload_on
    from bayplan.simulation.snapshots.recording import read_recording
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
    from bayplan.simulation.virtual_cluster import VirtualCluster
    from bayplan.support.virtual_time import run

_HOMES = {
    "bayplan.cluster.questions.asking": ("ask",),
    "bayplan.scheduler.library": ("Planner", "evaluate", "place"),
    "bayplan.simulation.actions": (
        "AddNodes",
        "Apply",
        "Cordon",
        "DeleteNode",
        "Drain",
        "FailZone",
        "PlaceAnew",
        "Scale",
        "Taint",
        "Upgrade",
    ),
    "bayplan.simulation.snapshots.snapshot": ("ClusterSnapshot",),
    "bayplan.simulation.facade": (
        "Answer",
        "capacity",
        "compare",
        "consolidate",
        "fix",
        "read",
        "rehearse",
        "replay",
        "simulate",
    ),
    "bayplan.simulation.snapshots.recording": ("read_recording",),
    "bayplan.simulation.rehearsal.setting": ("Setting",),
    "bayplan.simulation.replay.run": ("Arrival", "Workload"),
    "bayplan.simulation.replay.traces": ("read_nodes", "read_pods", "workload_on"),
    "bayplan.simulation.virtual_cluster": ("VirtualCluster",),
    "bayplan.support.virtual_time": ("run",),
}
"""Module -> what the package gives of it."""

__all__ = [
    "KUBERNETES_VERSION",
    "AddNodes",
    "Answer",
    "Apply",
    "Arrival",
    "ClusterSnapshot",
    "Cordon",
    "DeleteNode",
    "Drain",
    "FailZone",
    "PlaceAnew",
    "Planner",
    "Scale",
    "Setting",
    "Taint",
    "Upgrade",
    "VirtualCluster",
    "Workload",
    "__version__",
    "ask",
    "capacity",
    "compare",
    "consolidate",
    "evaluate",
    "fix",
    "place",
    "read",
    "read_nodes",
    "read_pods",
    "read_recording",
    "rehearse",
    "replay",
    "run",
    "simulate",
    "workload_on",
]


def __getattr__(name: str) -> Any:
    """What is asked for, from its home."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'bayplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
