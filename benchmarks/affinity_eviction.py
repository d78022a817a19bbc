"""What the eviction for broken affinity rules costs per event: 5,000 nodes, and 50,000 pods of 200 workloads that all have rules."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.controllers.nodes.affinity_eviction_index import ExecutionIndex
from bayplan.testing.builders import pod
from benchmarks.figures import Figure

_REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
_WORKLOADS = 200


def run(quick: bool) -> Iterator[Figure]:
    """Pods come, nodes are relabelled, and every pod is looked at."""
    nodes, pods = (500, 5_000) if quick else (5_000, 50_000)
    labels = {
        f"n{number}": {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % 10}", "disk": "ssd"}
        for number in range(nodes)
    }
    made = _pods(nodes, pods)
    index = ExecutionIndex()
    index.set_namespace("default", {})
    for name, own in labels.items():
        index.set_node(name, own)
    where = f"{pods} pods with rules on {nodes} nodes"
    started = time.perf_counter()
    for one in made:
        index.set_pod(one)
    yield _each(f"{where}: a pod comes", started, pods)
    started = time.perf_counter()
    for one in made:
        index.broken(f"default/{one.metadata.name}")
    yield _each(f"{where}: a pod is looked at", started, pods)
    started = time.perf_counter()
    changed = min(nodes, 1_000)
    for number in range(changed):
        index.set_node(f"n{number}", {**labels[f"n{number}"], "zone": "z99"})
    yield _each(f"{where}: a node comes to another zone", started, changed)


def _each(name: str, started: float, count: int) -> Figure:
    return Figure("affinity-eviction", name, (time.perf_counter() - started) / count * 1e6, "µs")


def _pods(nodes: int, count: int) -> list[core_v1.Pod]:
    """Each workload wants another one in its zone, a third one off its nodes, and fast disks."""
    rules = [from_tree(core_v1.Affinity, _affinity(number)) for number in range(_WORKLOADS)]
    return [
        pod(
            f"p{number}",
            node_name=f"n{number % nodes}",
            affinity=rules[number % _WORKLOADS],
            meta={"uid": str(number), "labels": {"app": f"a{number % _WORKLOADS}"}},
        )
        for number in range(count)
    ]


def _affinity(number: int) -> dict[str, object]:
    disk = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}

    def term(other: int, key: str) -> dict[str, object]:
        labels = {"app": f"a{other % _WORKLOADS}"}
        return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}

    return {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [disk]}},
        "podAffinity": {_REQUIRED: [term(number + 10, "zone")]},
        "podAntiAffinity": {_REQUIRED: [term(number + 1, "kubernetes.io/hostname")]},
    }
