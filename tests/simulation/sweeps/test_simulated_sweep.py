"""The benchmark's simulation of a sweep by many workers, where the answer is known."""

from __future__ import annotations

import random

import pytest

from benchmarks.sweeps import Costs, efficiency


@pytest.mark.parametrize(
    ("count", "workers", "costs", "share"),
    [
        (6400, 64, Costs(0.0, 0.0), 1.0),
        (64, 64, Costs(1.0, 0.0), 0.5),
        (65, 64, Costs(0.0, 0.0), 65 / 128),
        (6400, 64, Costs(0.0, 0.1), 10 / 64),
        (1, 2, Costs(0.0, 0.0), 0.5),
    ],
    ids=[
        "all the time is spent on units",
        "half of it on the start",
        "the last unit runs alone",
        "the coordinator is the bottleneck",
        "there are fewer units than workers",
    ],
)
def test_the_share_of_time_that_units_get(count: int, workers: int, costs: Costs, share: float) -> None:
    assert efficiency([1.0], count, workers, costs, random.Random(1)) == pytest.approx(share, rel=0.02)
