"""The columnar scheduler against the reference: verdict, reasons and score of every node, on clusters by chance.

`BAYPLAN_RANDOM_DECISIONS=100000` makes it that many decisions.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest

from bayplan.scheduler import Planner, evaluate
from tests.scheduler.reference.filters import refusal
from tests.scheduler.reference.generator import Generator
from tests.scheduler.reference.scores import WEIGHTS, scores
from tests.scheduler.reference.world import World, name_of

_DECISIONS = int(os.environ.get("BAYPLAN_RANDOM_DECISIONS", "2000"))
_PER_CLUSTER = 16
_SHARDS = 8


def expected(pod: dict[str, Any], world: World) -> dict[str, Any]:
    """What the reference says of each node."""
    refused = {name_of(node): refusal(pod, node, world) for node in world.nodes}
    feasible = [node for node in world.nodes if refused[name_of(node)] is None]
    scored = scores(pod, feasible, world) if feasible else {}
    return {name: {"refused": refused[name], "scores": scored.get(name)} for name in refused}


def found(decision: Any) -> dict[str, Any]:
    """What the scheduler says of each node, in the same form."""
    result: dict[str, Any] = {}
    for name, verdict in decision.to_dict()["nodes"].items():
        filtered = verdict["filter"]
        refused = None if filtered.get("ok") else (filtered["plugin"], sorted(filtered["reasons"]))
        shown = verdict.get("scores")
        scored = None if shown is None else {plugin: shown.get(plugin, 0) for plugin in WEIGHTS}
        result[name] = {"refused": refused, "scores": scored}
    return result


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_decides_as_the_reference_does(shard: int) -> None:
    clusters = max(_DECISIONS // _PER_CLUSTER // _SHARDS, 1)
    placed = refused = 0
    for number in range(clusters):
        seed = shard + _SHARDS * number
        generator = Generator(seed)
        world = generator.world()
        namespaces = [
            {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            for name, labels in world.namespaces.items()
        ]
        planner = Planner([*world.nodes, *namespaces])
        for index in range(_PER_CLUSTER):
            pod = generator.pod(f"p{index}")
            decision = evaluate([*world.nodes, *namespaces, *world.pods], pod)
            wanted = expected(pod, world)
            assert found(decision) == wanted, f"seed {seed}, pod {index}: {pod}"
            node = planner.schedule(copy.deepcopy(pod)).node
            assert (node is None) == (decision.node is None), f"seed {seed}, pod {index}"
            if node is None:
                refused += 1
                continue
            placed += 1
            totals = {name: sum(one["scores"].values()) for name, one in wanted.items() if one["scores"]}
            assert not totals or totals[node] == max(totals.values()), f"seed {seed}, pod {index}"
            pod["spec"]["nodeName"] = node
            world.pods.append(pod)
    assert placed > clusters
    assert refused > clusters
