"""A memo goes out of use where nothing comes twice, and comes back soon when that changes."""

from __future__ import annotations

from bayplan.support.memory.hit_rate import HitRate


def answered(rate: HitRate, count: int, *, hits: bool) -> int:
    """How many of so many questions are asked, all of them hits or none."""
    asked = 0
    for _ in range(count):
        if rate.is_worth_asking():
            asked += 1
            rate.record(hit=hits)
    return asked


def test_a_memo_that_never_answers_is_asked_seldom() -> None:
    rate = HitRate(least=0.25)
    assert answered(rate, 500, hits=False) == 500
    answered(rate, 500, hits=False)
    assert answered(rate, 1600, hits=False) == 100


def test_a_memo_that_answers_is_always_asked() -> None:
    rate = HitRate(least=0.25)
    assert answered(rate, 5000, hits=True) == 5000


def test_a_memo_that_answers_again_is_soon_always_asked() -> None:
    rate = HitRate(least=0.25)
    answered(rate, 5000, hits=False)
    answered(rate, 16 * 20, hits=True)
    assert answered(rate, 100, hits=True) == 100


def test_a_third_of_hits_keeps_it_in_use() -> None:
    rate = HitRate(least=0.25)
    for number in range(5000):
        assert rate.is_worth_asking()
        rate.record(hit=number % 3 == 0)
