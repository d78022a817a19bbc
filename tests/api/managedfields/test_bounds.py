"""The lower bound of what managed fields take: never above what they take, and close enough to refuse what is far too large."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.managedfields.bounds import exceeds
from bayplan.api.managedfields.compare import field_set
from bayplan.api.managedfields.typed import type_of_definition
from bayplan.api.types import core_v1

POD = type_of_definition("io.k8s.api.core.v1.Pod")
CASES = {
    "a set of scalars": {"metadata": {"finalizers": [f"example.com/{one}" for one in range(50)]}},
    "items with keys": {"spec": {"containers": [{"name": f"c{one}", "image": "i"} for one in range(50)]}},
    "a map": {"metadata": {"labels": {f"key-{one}": "value" for one in range(50)}}},
    "an atomic list": {"spec": {"containers": [{"name": "c", "command": ["a"] * 500}]}},
}


@pytest.mark.parametrize("tree", CASES.values(), ids=CASES.keys())
def test_the_bound_is_below_the_size_and_above_a_third_of_it(tree: dict[str, Any]) -> None:
    size = len(msgspec.json.encode(msgspec.json.encode(field_set(tree, POD)).decode()))
    assert not exceeds(tree, POD, size)
    assert exceeds(tree, POD, size // 3)


def test_objects_are_judged_like_their_json() -> None:
    tree = CASES["items with keys"]
    pod = msgspec.convert(tree, core_v1.Pod)
    assert exceeds(pod, POD, 500)
    assert not exceeds(pod, POD, 10_000)
