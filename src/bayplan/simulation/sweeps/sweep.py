"""The executor of sweeps: units through any `concurrent.futures.Executor`, with workers that may die.

A unit is a call of a function with plain data; its result is kept by the digest of what decides it. Units whose results are there already
are not run. If a worker dies, the units that were in work are run again, one at a time, so that one which ends its worker is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Final

from bayplan.simulation.sweeps.results import Result, Results, digest_of

Function = Callable[[Result], Result]
"""What is run; a function of a module, so that other processes find it."""
Told = Callable[[int], object]
"""Told how many results there are."""

DEATHS: Final = 2
"""So many workers may one unit end, alone in work, before the sweep gives up."""


class SweepError(Exception):
    """A unit ends its worker again and again: it is named."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One call."""

    name: str
    """For messages."""
    key: Result
    """Everything that decides the result."""
    inputs: Result
    """What the function gets."""

    @property
    def digest(self) -> str:
        """Under which the result is kept."""
        return digest_of(self.key)


def shard_of(units: Sequence[Unit], shard: tuple[int, int]) -> Sequence[Unit]:
    """Every n-th unit, from the i-th on (counted from 1)."""
    number, count = shard
    return units[number - 1 :: count]


def sweep(
    function: Function,
    units: Sequence[Unit],
    executor: Callable[[], Executor],
    results: Results,
    *,
    workers: int = 1,
    told: Told | None = None,
) -> Iterator[Result]:
    """Run units; gives the results in the order of the units once all are there.

    executor: makes one with so many workers, and another if that one breaks. Raises SweepError, ResultsError, and what the function raises.
    """
    digests = [unit.digest for unit in units]
    missing = {digest: unit for digest, unit in zip(digests, units, strict=True) if results.get(digest) is None}
    state = _State(function, results, deque(missing), missing, len(set(digests)) - len(missing), told)
    state.tell()
    while state.waiting or state.suspects:
        with executor() as pool:
            state.run(pool, 2 * workers)
    for digest in digests:
        found = results.get(digest)
        assert found is not None
        yield found


@dataclass(slots=True)
class _State:
    """What is still to be done."""

    function: Function
    results: Results
    waiting: deque[str]
    units: dict[str, Unit]
    done: int
    told: Told | None
    suspects: deque[str] = field(default_factory=deque)
    """Units that were in work when a worker died."""
    deaths: dict[str, int] = field(default_factory=dict)

    def run(self, pool: Executor, most: int) -> None:
        """Run units until all are done, or the executor breaks. most: in work at a time."""
        working: dict[Future[Result], str] = {}
        alone = False
        try:
            while self.waiting or self.suspects or working:
                alone = bool(self.suspects) or (alone and bool(working))
                queue = self.suspects or self.waiting
                while queue and len(working) < (1 if alone else most):
                    digest = queue[0]
                    working[pool.submit(self.function, self.units[digest].inputs)] = queue.popleft()
                for future in wait(working, return_when=FIRST_COMPLETED).done:
                    self._keep(working[future], future.result())
                    del working[future]
        except BrokenExecutor as error:
            self._take_back(working, alone, error)

    def _keep(self, digest: str, result: Result) -> None:
        self.results.put(digest, result)
        self.done += 1
        self.tell()

    def _take_back(self, working: dict[Future[Result], str], alone: bool, error: BrokenExecutor) -> None:
        """Units that were in work are run again, but for those that were done before the worker died."""
        for future, digest in working.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._keep(digest, future.result())
                continue
            self.suspects.append(digest)
            if alone:
                self.deaths[digest] = self.deaths.get(digest, 0) + 1
                if self.deaths[digest] >= DEATHS:
                    raise SweepError(
                        f"{self.units[digest].name} ended its worker {self.deaths[digest]} times: {error}"
                    ) from error

    def tell(self) -> None:
        """Say how many results there are."""
        if self.told is not None:
            self.told(self.done)
