"""Requests with the largest lists and maps that a body holds, chosen at random among all kinds, cost bounded CPU time."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.apiserver.limits.large_objects import sampled

SIZE = 3_100_000
REQUESTS = 7
LIMIT = 4.0
"""CPU seconds; twice what one request may cost, since other tests run beside."""


@pytest.mark.parametrize("seed", [1])
def test_random_large_requests_cost_bounded_time(seed: int) -> None:
    async def run() -> tuple[int, list[str]]:
        count, faults = 0, []
        async for kind, cost in sampled(SIZE, random.Random(seed)):
            count += 1
            if cost.is_fault(LIMIT):
                faults.append(f"{kind.kind} {cost}")
            if count == REQUESTS:
                break
        return count, faults

    assert asyncio.run(run()) == (REQUESTS, [])
