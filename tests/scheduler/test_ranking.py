"""The list of the best rows follows every change of a total."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.scheduler.scoring.ranking import NameOrder, Ranking, SortedNumbers

totals = st.lists(st.integers(-2, 3), min_size=1, max_size=12)


changes_of_totals = st.lists(st.tuples(st.integers(0, 11), st.integers(-2, 3), st.booleans()), max_size=30)


@given(totals, st.one_of(st.just(range(12)), st.permutations(range(12))), changes_of_totals)
def test_equals_a_search_through_all_rows_whenever_it_is_asked(
    start: list[int], shuffled: list[int], changes: list[tuple[int, int, bool]]
) -> None:
    names = [f"n{number:02}" for number in shuffled[: len(start)]]
    array = np.array(start, dtype=np.int16)
    ranking = Ranking(array, NameOrder(names))
    for row, total, is_asked in [(0, start[0], True), *changes, (0, 1, True)]:
        if row >= len(start):
            continue
        before = array.item(row)
        array[row] = total
        ranking.update(row, before, total)
        if not is_asked:
            continue
        highest = max(array.tolist())
        best = [row for row, value in enumerate(array.tolist()) if value == highest >= 0]
        expected = sorted(best, key=names.__getitem__)
        assert [ranking.row(index) for index in range(len(ranking))] == expected
        assert ranking.rows().tolist() == expected
        assert ranking.first_rows(3) == expected[:3]


def test_one_of_many_best_rows_is_found_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranking, "BLOCK", 3)
    array = np.array([5, 1, 5, 5, 1, 1, 1, 1, 1, 5], dtype=np.int16)
    ranking = Ranking(array, NameOrder([f"n{row}" for row in range(10)]))
    assert [ranking.row(index) for index in range(len(ranking))] == [0, 2, 3, 9]
    assert [ranking.first_rows(count) for count in (1, 3, 5)] == [[0], [0, 2, 3], [0, 2, 3, 9]]
    with pytest.raises(IndexError):
        ranking.row(4)


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
