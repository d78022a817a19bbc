"""The list of the best rows follows every change of a total."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.scheduler.ranking import NameOrder, Ranking, SortedNumbers

totals = st.lists(st.integers(-2, 3), min_size=1, max_size=12)


@given(totals, st.permutations(range(12)), st.lists(st.tuples(st.integers(0, 11), st.integers(-2, 3)), max_size=30))
def test_equals_a_search_through_all_rows_after_every_change(
    start: list[int], shuffled: list[int], changes: list[tuple[int, int]]
) -> None:
    names = [f"n{number:02}" for number in shuffled[: len(start)]]
    array = np.array(start, dtype=np.int64)
    ranking = Ranking(array, NameOrder(names))
    for row, total in [(0, start[0]), *changes]:
        if row >= len(start):
            continue
        before = array.item(row)
        array[row] = total
        ranking.update(row, before, total)
        highest = max(array.tolist())
        best = [row for row, value in enumerate(array.tolist()) if value == highest >= 0]
        expected = sorted(best, key=names.__getitem__)
        assert ranking.rows().tolist() == expected
        assert [ranking.row(index) for index in range(len(ranking))] == expected


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 40), max_size=60))
def test_numbers_in_blocks_are_as_in_one_list(start: set[int], changes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SortedNumbers, "BLOCK", 2)
        numbers, expected = SortedNumbers(sorted(start)), set(start)
        for number in changes:
            (numbers.remove if number in expected else numbers.add)(number)
            expected ^= {number}
            assert numbers.listed() == sorted(expected)
            assert [numbers[index] for index in range(len(numbers))] == sorted(expected)
        with pytest.raises(IndexError):
            numbers[len(expected)]


def test_the_order_is_that_of_names_and_not_of_rows() -> None:
    ranking = Ranking(np.array([5, 5, 1]), NameOrder(["zebra", "ant", "bee"]))
    assert ranking.row(0) == 1
    assert ranking.rows().tolist() == [1, 0]
