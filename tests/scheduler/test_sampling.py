"""Which nodes are looked at if only some are wanted: the same as one loop over the nodes takes, as kube-scheduler has it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.scoring.sampling import FEWEST, NodeSampling
from bayplan.scheduler.scoring.shared_answers import NO_NODE
from tests.scheduler.objects import node, pod


def planner_of(zones: list[str]) -> Planner:
    nodes = [
        node(f"n{number:03d}", labels={"topology.kubernetes.io/zone": zone} if zone else {})
        for number, zone in enumerate(zones)
    ]
    return Planner({"nodes": nodes}, {"percentageOfNodesToScore": 40})


def in_turn(zones: list[str]) -> list[int]:
    """Zone after zone, one node of each at a time."""
    lists = {zone: [number for number, other in enumerate(zones) if other == zone] for zone in zones}
    return [rows[turn] for turn in range(len(zones)) for rows in lists.values() if turn < len(rows)]


def test_zones_take_turns() -> None:
    zones = ["x", "y", "z", "x", "", "x"]
    sampling = NodeSampling(planner_of(zones).snapshot, 50)
    assert list(sampling.order()) == [0, 1, 2, 4, 3, 5] == in_turn(zones)


@pytest.mark.parametrize(("size", "percentage"), [(130, 10), (250, 40), (400, 60), (99, 10)])
def test_looks_go_on_where_the_last_one_ended(size: int, percentage: int) -> None:
    chance = random.Random(size)
    zones = [chance.choice("xyz") for _ in range(size)]
    planner = planner_of(zones)
    sampling, order, start = NodeSampling(planner.snapshot, percentage), in_turn(zones), 0
    wanted = size if size < FEWEST else max(size * percentage // 100, FEWEST)
    for _ in range(30):
        codes = np.array([int(chance.random() < 0.3) for _ in range(len(planner.snapshot.alive))], dtype=np.int32)
        codes[size:] = NO_NODE
        found: list[int] = []
        processed = 0
        for step in range(size):
            row = order[(start + step) % size]
            if codes[row]:
                processed += 1
                continue
            if len(found) == wanted:
                break
            found.append(row)
            processed += 1
        start = (start + processed) % size
        assert sorted(np.flatnonzero(sampling.sample(codes) == 0)) == sorted(found)
        assert sampling.start == start


def test_a_pod_goes_to_one_of_the_nodes_that_are_looked_at() -> None:
    planner = planner_of(["x"] * 150)
    placed = [planner.schedule(planner.pod(pod(f"p{number}", cpu="100m"))).node for number in range(3)]
    starts = [range(100), range(100, 200), range(50, 150)]
    for name, rows in zip(placed, starts, strict=True):
        assert name in {f"n{row % 150:03d}" for row in rows}
