"""Dividing concurrency: the properties that kube-apiserver's `conc_alloc_test.go` checks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.apiserver.flow_control.allocation import MINIMUM_TARGET, Share, allocate


@pytest.mark.parametrize(
    ("total", "shares", "seats"),
    [
        (30, [Share(10, 5, 12), Share(20, 0, 100)], [10, 20]),
        (60, [Share(10, 5, 12), Share(20, 0, 100)], [12, 48]),
        (6, [Share(10, 5, 12), Share(20, 0, 100)], [5, 1]),
        (0, [Share(0, 0, 5)], [0]),
        (5, [Share(10, 5, 12), Share(20, 0, 100)], [5, 0]),
        (112, [Share(10, 5, 12), Share(20, 0, 100)], [12, 100]),
        (8, [Share(0, 0, 10), Share(0, 0, 10)], [4, 4]),
    ],
)
def test_each_gets_the_same_proportion_unless_a_bound_forbids(
    total: int, shares: list[Share], seats: list[float]
) -> None:
    assert allocate(total, shares).seats == pytest.approx(seats)


@pytest.mark.parametrize(
    ("total", "shares", "message"),
    [
        (-1, [], "negative sums"),
        (1, [Share(1, -1, 2)], "negative lower bounds"),
        (1, [Share(1, 2, 3)], "below its lower bound"),
        (1, [Share(1, 1, 0)], "should not be less"),
        (1, [Share(2, 2, 3)], "lower bounds sum to 2, which is higher"),
        (4, [Share(2, 2, 3)], "upper bounds sum to 3, which is lower"),
    ],
)
def test_what_cannot_be_divided_is_an_error(total: int, shares: list[Share], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        allocate(total, shares)


_NUMBERS = st.floats(0, 5)


@settings(max_examples=500)
@given(st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), min_size=1, max_size=9), st.floats(0, 1))
def test_the_division_is_the_only_one_with_its_properties(drawn: list[tuple[float, float, float]], part: float) -> None:
    shares = [Share(lowest + over, lowest, lowest + more) for lowest, over, more in drawn]
    low, high = sum(one.lowest for one in shares), sum(one.highest for one in shares)
    total = round(low + (high - low) * part)
    if not low <= total <= high:
        return
    seats, proportion = allocate(total, shares)
    assert sum(seats) == pytest.approx(total, abs=1e-6)
    if total == 0:
        return
    for share, got in zip(shares, seats, strict=True):
        wanted = proportion * max(share.target, MINIMUM_TARGET)
        assert got == pytest.approx(min(share.highest, max(share.lowest, wanted)), abs=1e-9)
