"""Sets of completion indexes, compared with Python's own sets."""

from __future__ import annotations

import random
import time
from itertools import chain

import pytest

from bayplan.api.index_sets import IndexSet
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.workloads.job_indexes import ANNOTATION, index_of, parse


def indexes_in(one: IndexSet, end: int = 60) -> set[int]:
    """What a set holds below `end`, by asking for each."""
    return {index for index in range(end) if index in one}


@pytest.mark.parametrize("seed", range(30))
def test_sets_are_as_pythons(seed: int) -> None:
    chance = random.Random(seed)
    one, other = ({chance.randrange(40) for _ in range(chance.randrange(30))} for _ in range(2))
    first, second = IndexSet.of(one), IndexSet.of(other)
    assert (indexes_in(first), len(first), bool(first)) == (one, len(one), bool(one))
    assert first.first == min(one, default=None)
    for found, expected in (
        (first | second, one | other),
        (first & second, one & other),
        (first - second, one - other),
    ):
        assert indexes_in(found) == expected
        assert found == IndexSet.of(expected)
        assert hash(found) == hash(IndexSet.of(expected))
        assert parse(found.text(), 60) == found
    start, end = chance.randrange(40), chance.randrange(60)
    runs = [range(low, high + 1) for low, high in first.missing(start, end)]
    assert list(chain.from_iterable(runs)) == [index for index in range(start, end) if index not in one]


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [
        ("", 5, ""),
        ("0-3,5", 10, "0-3,5"),
        ("1,2", 10, "1,2"),
        ("2,1,0", 10, "0-2"),
        ("3-9", 5, "3,4"),
        ("7", 5, ""),
        ("4-2", 10, ""),
        ("a,1-b,-3,²,4", 10, "4"),
        ("9" * 5000, 10, ""),
        ("0-2147483646", 2**31 - 1, "0-2147483646"),
    ],
)
def test_indexes_are_read_and_written(text: str, completions: int, expected: str) -> None:
    assert parse(text, completions).text() == expected


def test_two_thousand_million_indexes_are_counted_at_once() -> None:
    all_of_them = parse("0-2147483646", 2**31 - 1)
    assert len(all_of_them) == 2**31 - 1
    assert list((all_of_them - IndexSet.of([5])).missing(0, 100)) == [(5, 5)]


def test_many_runs_are_compared_in_no_time() -> None:
    """A status may name as many as fit into a request, of which none is common."""
    even, odd = IndexSet.of(range(0, 200_000, 2)), IndexSet.of(range(1, 200_000, 2))
    started = time.process_time()
    assert not even & odd
    assert time.process_time() - started < 2


@pytest.mark.parametrize(("value", "index"), [("7", 7), ("", -1), ("x", -1), ("²", -1), ("1" * 5000, -1)])
def test_the_index_of_a_pod(value: str, index: int) -> None:
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(annotations={ANNOTATION: value}))
    assert index_of(pod) == index
