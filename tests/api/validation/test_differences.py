"""Differences of objects are those of difflib, in bounded time."""

from __future__ import annotations

import difflib
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1
from bayplan.api.validation.differences import difference
from bayplan.api.validation.go_structs import go_struct
from tests.cpu_time import cpu_time_below


def _spec(arguments: list[str]) -> core_v1.PodSpec:
    return core_v1.PodSpec(containers=(core_v1.Container(name="c", args=tuple(arguments)),))


def _by_difflib(old: core_v1.PodSpec, new: core_v1.PodSpec) -> str:
    before, after = (
        msgspec.json.format(msgspec.json.encode(go_struct(one)), indent=1).decode().splitlines() for one in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))
    return "".join(f"{line}\n" for line in lines[2:])


_ARGUMENTS = st.lists(st.sampled_from(["a", "b", "c", "--", "++"]), max_size=30)


@given(_ARGUMENTS, _ARGUMENTS)
def test_differences_are_those_of_difflib(old: list[str], new: list[str]) -> None:
    assert difference(_spec(old), _spec(new)) == _by_difflib(_spec(old), _spec(new))


def _random(seed: int) -> list[str]:
    chance = random.Random(seed)
    return [str(chance.randrange(110)) for _ in range(250_000)]


def _parts(mark: str) -> list[str]:
    """Parts that both texts have, each shorter than the one before, between lines that only one has."""
    parts = [[mark + str(size), *(f"{size} {one}" for one in range(size))] for size in range(800, 0, -1)]
    return [*(line for part in parts for line in part), mark]


@pytest.mark.parametrize(
    ("old", "new"),
    [(1, 2), ("a", "b")],
    ids=["lines that come again and again", "parts that get shorter"],
)
def test_differences_of_long_lists_end(old: int | str, new: int | str) -> None:
    before, after = (_random(one) if isinstance(one, int) else _parts(one) for one in (old, new))
    with cpu_time_below(2):
        text = difference(_spec(["same", *before, "last"]), _spec(["same", *after, "last"]))
    lines = text.splitlines()
    assert (lines[0][:4], lines[3].strip(), lines[-3].strip()) == ("@@ -", '"same",', '"last"')
    assert len(lines) == len(before) + len(after) + 7
