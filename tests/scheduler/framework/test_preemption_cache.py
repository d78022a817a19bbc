"""What is kept about evictions, in masks and numbers, says what a look at one row after the other says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.framework.extension_points import EVERY_ROW
from bayplan.scheduler.framework.post_filter import Candidate
from bayplan.scheduler.framework.preemption_cache import PreemptionCache
from bayplan.scheduler.snapshot.pods import PodInfo
from tests.scheduler.objects import node, pod

ROWS = 40
CURABLE = np.array([False, True, False, True, False])
"""By verdict; the last entry is that of rows without a node, -1."""


class Plain:
    """The same in plain words. `truth` is what evictions would achieve on each row, None if they achieve nothing."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.planner = Planner([node(f"n{row}") for row in range(ROWS)])
        self.cache = PreemptionCache(self.planner.snapshot)
        self.codes = np.zeros(ROWS, dtype=np.int32)
        self.truth: list[Candidate | None] = [None] * ROWS
        self.known: set[int] = set()

    def victim(self) -> PodInfo:
        tree = pod("victim", priority=self.chance.choice((0, 0, 5, -3)))
        start = self.chance.choice((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
        if start:
            tree["status"]["startTime"] = start
        return self.planner.pod(tree)

    def change(self, rows: list[int]) -> None:
        """Pods and verdicts on some rows change."""
        for row in rows:
            self.codes[row] = self.chance.choice((-1, 0, 1, 1, 1, 2, 3))
            self.truth[row] = None
            if self.chance.random() < 0.6:
                victims = tuple(self.victim() for _ in range(self.chance.randint(1, 2)))
                self.truth[row] = Candidate(row, victims, self.chance.choice((0, 1, 1)))
        self.known -= set(rows)
        self.cache.forget(EVERY_ROW if len(rows) == ROWS else rows)

    def search(self, first: int, wanted: int) -> tuple[list[int], list[int]]:
        """The rows that are looked at, and the candidates that are found."""
        looked_at: list[int] = []
        found: list[Candidate] = []
        for row in (*range(first, ROWS), *range(first)):
            if self.codes[row] not in (1, 3):
                continue
            enough = len(found) >= wanted and not all(item.violations for item in found)
            if enough and row not in self.known:
                break
            if row not in self.known:
                looked_at.append(row)
            candidate = self.truth[row]
            if candidate is not None:
                found.append(candidate)
        self.known.update(looked_at)
        kept = [index for index, item in enumerate(found) if not item.violations]
        most = max(wanted, kept[0] + 1) if kept else len(found)
        return looked_at, [item.row for item in found[:most]]

    def searched(self, first: int, wanted: int) -> tuple[list[int], list[int]]:
        """As `search`, by the cache."""
        cache, looked_at = self.cache, []
        cache.ask_about(self.codes, CURABLE)
        for row in cache.to_look_at(cache.unknown(), first, wanted):
            looked_at.append(row)
            candidate = self.truth[row]
            if candidate is not None:
                cache.offer(candidate)
            else:
                cache.refuse(row, ("no",))
        return looked_at, cache.found(first, wanted).tolist()

    def cheapest(self, rows: list[int]) -> list[int]:
        """Those of the candidates on rows that cost least."""

        def badness(row: int) -> tuple[Any, ...]:
            candidate = self.truth[row]
            assert candidate is not None
            return candidate.cost, [-ord(letter) for letter in candidate.top_start]

        least = min(map(badness, rows))
        return [row for row in rows if badness(row) == least]


@pytest.mark.parametrize("seed", range(30))
def test_a_search_looks_at_the_rows_and_finds_the_candidates_that_it_would_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    plain = Plain(chance)
    plain.change(list(range(ROWS)))
    for _ in range(40):
        first, wanted = chance.randrange(ROWS), chance.choice((1, 3, 10, 60))
        looked_at, found = plain.search(first, wanted)
        assert plain.searched(first, wanted) == (looked_at, found)
        assert plain.cache.rows.tolist() == [row for row in range(ROWS) if plain.codes[row] in (1, 3)]
        if found:
            assert plain.cache.cheapest(np.array(found)).tolist() == plain.cheapest(found)
        plain.change(chance.sample(range(ROWS), chance.choice((0, 1, 2, 10, 35, ROWS))))


def test_refusals_are_counted_among_the_rows_in_question() -> None:
    cache = PreemptionCache(Planner([node(f"n{row}") for row in range(5)]).snapshot)
    cache.ask_about(np.array([1, 1, 0, 2, 1], dtype=np.int32), CURABLE)
    cache.refuse(np.array([0, 2, 3]), ("a", "b"))
    cache.fail(1, "who knows")
    cache.refuse(4, ("b",))
    assert cache.refusals() == {"a": 1, "b": 2, "who knows": 1}
    assert cache.failures() == ["who knows"]
    cache.forget([1])
    cache.refuse(1, ("a",))
    assert cache.failures() == []


def test_prices_of_long_ago_are_forgotten() -> None:
    planner = Planner([node("a")])
    cache = PreemptionCache(planner.snapshot)
    for day in range(1, 31):
        tree = pod("low", on="a")
        tree["status"]["startTime"] = f"2026-01-{day:02}T00:00:00Z"
        planner.add("Pod", tree)
        cache.catch_up()
        cache.ask_about(np.array([1], dtype=np.int32), CURABLE)
        assert cache.unknown().tolist() == [0]
        cache.offer(Candidate(0, (planner.snapshot.pods["default/low"],), 0))
        assert cache.cheapest(cache.found(0, 1)).tolist() == [0]
    assert len(cache._prices) < 10
