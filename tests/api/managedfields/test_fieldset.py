"""The algebra of field sets, against plain sets of paths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.managedfields.fieldset import (
    FieldSet,
    difference,
    has,
    intersection,
    of_paths,
    path_text,
    paths,
    recursive_difference,
    union,
    within,
)

Path = tuple[str, ...]
PATHS = st.frozensets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"']), min_size=1, max_size=3).map(tuple)
)


def members(fields: FieldSet) -> set[Path]:
    return set(paths(fields))


@given(PATHS)
def test_a_set_holds_the_paths_it_was_made_of(given_paths: frozenset[Path]) -> None:
    fields = of_paths(*given_paths)
    assert members(fields) == given_paths
    assert all(has(fields, path) for path in given_paths)


@given(PATHS, PATHS)
def test_operations_are_those_of_sets_of_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    first, second = of_paths(*one), of_paths(*other)
    assert members(union(first, second)) == one | other
    assert members(intersection(first, second)) == one & other
    assert members(difference(first, second)) == one - other
    below = {path for path in one if not any(path[: len(start)] == start for start in other)}
    assert members(recursive_difference(first, second)) == below
    assert members(first) == one
    assert members(second) == other


@given(PATHS, PATHS)
def test_equal_sets_have_equal_tries(one: frozenset[Path], other: frozenset[Path]) -> None:
    assert union(of_paths(*one), of_paths(*other)) == of_paths(*(one | other))
    assert difference(of_paths(*one), of_paths(*other)) == of_paths(*(one - other))


def test_the_part_below_a_path_with_a_wildcard() -> None:
    fields = of_paths(("f:spec", "k:{}", "f:a"), ("f:spec", "k:{}", "f:b"), ("f:status",))
    assert members(within(fields, ("f:spec", "*", "f:a"))) == {("f:spec", "k:{}", "f:a")}


def test_paths_are_shown_as_kubernetes_does() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"a.b/c"', "i:3")
    assert path_text(path) == '.spec[containerPort=80,protocol="TCP"][="a.b/c"][3]'
