"""Sweeps: seeds of faults by one worker and by two, and what 64 would do, simulated from what was measured.

The simulation models the executor as it is (`bayplan.simulation.sweeps.sweep`): one coordinator submits units, twice as many as there are workers at a time, and
keeps each result before it submits the next; a worker takes the oldest unit. How long units take is drawn from the times that were
measured, what the coordinator spends on a unit and how long a worker needs to begin are measured as well. It knows nothing of networks, of machines that differ, and
of workers that die.
"""

from __future__ import annotations

import heapq
import multiprocessing
import random
import resource
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bayplan.simulation.faults.unit import run_unit, units_of
from bayplan.simulation.sweeps.results import DirectoryResults, Result
from bayplan.simulation.sweeps.sweep import Function, Unit, sweep
from benchmarks.figures import Figure

MANY: Final = 64
_SEEDS: Final = 60
_PER_WORKER: Final = 200
"""Units for each worker in the simulation."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that are not spent on units."""

    start: float
    """Until a worker can take its first unit."""
    coordinator: float
    """Of the coordinator for each unit: to submit it, and to keep its result."""


def run(quick: bool) -> Iterator[Figure]:
    """Seeds of faults by processes that begin anew; results are kept in files."""
    seeds = _SEEDS // 4 if quick else _SEEDS
    units = units_of(None, range(seeds))
    alone, alone_cpu, results = timed(timed_unit, units, 1)
    both, both_cpu, _ = timed(timed_unit, units, 2)
    for workers, seconds in ((1, alone), (2, both)):
        yield Figure("sweeps", f"{seeds} seeds of faults, workers: {workers}", seeds / seconds, "seeds/s")
    yield Figure("sweeps", f"efficiency of 2 workers, {seeds} seeds", 100 * alone / (2 * both), "%")
    yield Figure("sweeps", f"the same in CPU time, {seeds} seeds", 100 * alone_cpu / both_cpu, "%")
    durations = [one["seconds"] for one in results]
    costs = Costs(start_seconds(), coordinator_seconds(200 if quick else 2_000))
    yield Figure("sweeps", "coordinator, for each unit", 1e6 * costs.coordinator, "us")
    for workers, count in ((2, seeds), (2, 2 * _PER_WORKER), (MANY, MANY * _PER_WORKER)):
        share = efficiency(durations, count, workers, costs, random.Random(1))
        yield Figure("sweeps", f"efficiency of {workers} workers, {count:,} seeds, simulated", 100 * share, "%")


def timed_unit(inputs: Result) -> Result:
    """A seed, and the seconds that it takes."""
    began = time.perf_counter()
    found = run_unit(inputs)
    return {**found, "seconds": time.perf_counter() - began}


def nothing(inputs: Result) -> Result:
    """A unit that costs nothing."""
    return inputs


def timed(function: Function, units: Sequence[Unit], workers: int) -> tuple[float, float, list[Result]]:
    """Seconds until all results are there, seconds of CPU that all processes spent on them, and the results."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        began, spent = time.perf_counter(), _cpu_seconds()
        found = sweep(
            function,
            units,
            lambda: ProcessPoolExecutor(workers, mp_context=context),
            DirectoryResults(Path(directory)),
            workers=workers,
        )
        results = list(found)
        return time.perf_counter() - began, _cpu_seconds() - spent, results


def _cpu_seconds() -> float:
    """Of this process, and of those that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def start_seconds() -> float:
    """Until a worker has done its first unit, which takes no time."""
    return timed(nothing, [_empty(0)], 1)[0]


def coordinator_seconds(count: int) -> float:
    """For a unit that takes no time. A worker's share is in it: it waits for the coordinator meanwhile."""
    few, many = (timed(nothing, [_empty(number) for number in range(size)], 1)[0] for size in (1, count + 1))
    return (many - few) / count


def _empty(number: int) -> Unit:
    return Unit(f"unit {number}", {"number": number}, {"number": number})


def efficiency(durations: Sequence[float], count: int, workers: int, costs: Costs, chance: random.Random) -> float:
    """The share of all workers' time that is spent on units, from the beginning to the last result.

    durations: of which those of `count` units are drawn.
    """
    left = [chance.choice(durations) for _ in range(count)]
    spent = sum(left)
    left.reverse()
    idle = [costs.start] * workers
    waiting: deque[tuple[float, float]] = deque()
    """(when it was submitted, its seconds)"""
    working: list[float] = []
    now = 0.0
    for _ in range(min(2 * workers, count)):
        now += costs.coordinator / 2
        waiting.append((now, left.pop()))
    while waiting or working:
        while waiting and idle:
            submitted, seconds = waiting.popleft()
            heapq.heappush(working, max(heapq.heappop(idle), submitted) + seconds)
        done = heapq.heappop(working)
        heapq.heappush(idle, done)
        now = max(now, done) + costs.coordinator / 2
        if left:
            now += costs.coordinator / 2
            waiting.append((now, left.pop()))
    return spent / (workers * now)
