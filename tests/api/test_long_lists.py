"""Lists in pieces behave as lists do, and patches of them are quick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.long_lists import LONG, LongList, in_one, in_pieces, is_same
from bayplan.api.patching.json_patches import PatchError, apply_json_patch
from tests.cpu_time import cpu_time_below

_CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "set", "append"]), st.integers(0, 10**6)), max_size=60
)


@given(st.integers(0, 5000), _CHANGES)
def test_a_list_in_pieces_is_a_list(length: int, changes: list[tuple[str, int]]) -> None:
    plain: list[Any] = list(range(length))
    pieces = LongList(list(plain))
    for number, (what, at) in enumerate(changes):
        if what == "append":
            plain.append(-number)
            pieces.append(-number)
        elif what == "insert":
            plain.insert(at % (len(plain) + 1), -number)
            pieces.insert(at % (len(plain)), -number)
        elif plain and what == "delete":
            at %= len(plain)
            del plain[at], pieces[at]
        elif plain:
            at %= len(plain)
            plain[at] = pieces[at] = number
            assert pieces[at] == number
    assert (len(pieces), list(pieces)) == (len(plain), plain)


def test_pieces_that_grow_are_cut() -> None:
    pieces = LongList([])
    plain: list[int] = []
    for number in range(10_000):
        pieces.insert(0, number)
        plain.insert(0, number)
    assert list(pieces) == plain
    assert pieces[9_999] == 0


def test_a_tree_is_the_same_in_pieces() -> None:
    tree = {"a": [list(range(LONG)), {"b": [1]}], "c": None}
    copy = in_pieces(tree)
    assert isinstance(copy["a"][0], LongList)
    assert in_one(copy) == tree
    assert is_same(copy, tree)
    others: list[Any] = [{**tree, "c": 1}, {"a": tree["a"]}, {**tree, "a": [list(range(1, LONG + 1)), {"b": [1]}]}, []]
    for other in others:
        assert not is_same(copy, other)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/1", "value": 1},
        {"op": "remove", "path": "/a/1"},
        {"op": "move", "path": "/a/1", "from": "/a/200"},
        {"op": "test", "path": "/a/1", "value": 1},
        {"op": "copy", "path": "/a/3", "from": "/a/1"},
        {"op": "replace", "path": "/a/600000", "value": 2},
    ],
    ids=lambda one: str(one["op"]),
)
def test_thousands_of_changes_of_a_long_list_are_quick(operation: dict[str, Any]) -> None:
    tree, count = {"a": list(range(700_000))}, 9_999
    plain = list(tree["a"])
    with cpu_time_below(2.5):
        patched = apply_json_patch(tree, [operation] * count)["a"]
    match operation["op"]:
        case "add":
            plain[1:1] = [1] * count
        case "remove":
            del plain[1 : 1 + count]
        case "move":
            for _ in range(count):
                plain.insert(1, plain.pop(200))
        case "copy":
            plain[3:3] = [1] * count
        case "replace":
            plain[600_000] = 2
    assert patched == plain
    assert tree["a"] == list(range(700_000))


def test_indexes_of_long_lists_are_those_of_lists() -> None:
    tree = {"a": list(range(LONG))}
    assert apply_json_patch(tree, [{"op": "add", "path": "/a/-", "value": "x"}])["a"][-1] == "x"
    assert apply_json_patch(tree, [{"op": "remove", "path": "/a/-1"}])["a"] == tree["a"][:-1]
    assert apply_json_patch(tree, [{"op": "add", "path": f"/a/{LONG}", "value": "x"}])["a"][-1] == "x"
    for path in (f"/a/{LONG + 1}", "/a/x", "/a/0/b"):
        with pytest.raises(PatchError):
            apply_json_patch(tree, [{"op": "add", "path": path, "value": "x"}])
