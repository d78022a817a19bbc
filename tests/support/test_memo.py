"""Memos: bounded, measured, and given up when nobody asks for them."""

from __future__ import annotations

import doctest
import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.support.memory import memo as memos
from bayplan.support.memory.memo import ENTRY_BYTES, Memo, age_all, memoized, statistics
from bayplan.support.memory.memo_metrics import memo_metrics


def made(name: str, entries: int) -> Memo[Any, Any]:
    """A memo for so many entries of 100 bytes."""
    return Memo(name, most_bytes=entries * (100 + ENTRY_BYTES))


def test_the_example_of_the_docstring_is_true() -> None:
    assert doctest.testmod(memos).failed == 0


def test_what_was_asked_for_the_longest_time_ago_goes_first() -> None:
    memo = made("recent", 4)
    for key in "ab":
        memo.put(key, key.upper(), size=100)
    memo.put("c", "C", size=100)
    assert memo.get("a") == "A"
    memo.put("d", "D", size=100)
    assert [memo.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_takes_the_place_of_the_former_one() -> None:
    memo = made("again", 4)
    memo.put("a", 1, size=100)
    memo.put("a", 2, size=50)
    assert (memo.get("a"), len(memo), memo.size) == (2, 1, 50 + ENTRY_BYTES)
    memo.drop("a")
    memo.drop("a")
    assert (memo.get("a"), len(memo), memo.size) == (None, 0, 0)


def test_what_is_too_large_is_not_kept_and_costs_nobody_a_place() -> None:
    memo = made("large", 4)
    memo.put("a", 1, size=100)
    memo.put("b", 2, size=2 * (100 + ENTRY_BYTES) + 1)
    assert (memo.get("a"), memo.get("b")) == (1, None)


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "drop", "age"]), st.integers(0, 9), st.integers(0, 400))))
def test_a_memo_says_what_was_put_last_or_nothing_and_keeps_its_bound(steps: list[tuple[str, int, int]]) -> None:
    memo: Memo[int, int] = Memo("model", most_bytes=2000)
    model: dict[int, int] = {}
    for step, (action, key, size) in enumerate(steps):
        if action == "put":
            memo.put(key, step, size)
            model[key] = step
        elif action == "drop":
            memo.drop(key)
            model.pop(key, None)
        elif action == "age":
            memo.age()
        else:
            assert memo.get(key) in (None, model.get(key))
        assert 0 <= memo.size <= 2000
        assert (memo.size == 0) == (len(memo) == 0)


def test_age_drops_what_was_not_asked_for_since_the_last_time() -> None:
    memo = made("old", 10)
    memo.put("asked", 1, size=0)
    memo.put("not asked", 2, size=0)
    age_all()
    assert memo.get("asked") == 1
    age_all()
    assert (memo.get("asked"), memo.get("not asked")) == (1, None)


def test_a_memo_may_live_for_several_calls() -> None:
    memo: Memo[str, int] = Memo("long", most_bytes=10_000, ages_per_generation=3)
    memo.put("a", 1, size=0)
    for _ in range(5):
        age_all()
    assert len(memo) == 1
    age_all()
    assert len(memo) == 0


def test_functions_start_over_and_keep_count() -> None:
    asked: list[int] = []

    @memoized(10)
    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    assert [double(1), double(1), double(2)] == [2, 2, 4]
    assert asked == [1, 2]
    age_all()
    assert double(1) == 2
    assert asked == [1, 2, 1]
    found = next(one for one in statistics() if one.name.endswith("double"))
    assert (found.hits, found.misses, found.entries) == (1, 3, 1)


def test_statistics_count_memos_of_one_name_together_and_forget_those_that_are_gone() -> None:
    first, second = made("together", 4), made("together", 4)
    first.put("a", 1, size=100)
    first.get("a")
    second.get("a")
    found = next(one for one in statistics() if one.name == "together")
    assert (found.hits, found.misses, found.entries, found.size) == (1, 1, 1, 100 + ENTRY_BYTES)
    text = memo_metrics().decode()
    assert 'bayplan_memo_hits_total{memo="together"} 1\n' in text
    assert f'bayplan_memo_bytes{{memo="together"}} {100 + ENTRY_BYTES}\n' in text
    del first, second
    gc.collect()
    assert all(one.name != "together" for one in statistics())
