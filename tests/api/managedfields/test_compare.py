"""What changed from one tree to another."""

from __future__ import annotations

import pytest

from bayplan.api.managedfields.compare import compare
from bayplan.api.managedfields.typed import type_of_definition

POD = type_of_definition("io.k8s.api.core.v1.Pod")


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        (["b", "a"], ["a", "c", '"'], ['v:"b"'], ['v:"\\""', 'v:"c"']),
        (["a", "b"], ["b", "a"], [], []),
        (["a"], [], ['v:"a"'], []),
        (["a", "a"], ["a"], ['v:"a"'], ['v:"a"']),
        (["a"], ["b", "b"], ['v:"a"'], ['v:"b"']),
    ],
)
def test_items_of_a_set_come_and_go(old: list[str], new: list[str], removed: list[str], added: list[str]) -> None:
    found = compare({"metadata": {"finalizers": old}}, {"metadata": {"finalizers": new}}, POD)
    gone, come = (fields.get("f:metadata", {}).get("f:finalizers", {}) for fields in (found.removed, found.added))
    assert ([one for one in gone if one != "."], [one for one in come if one != "."]) == (removed, added)
