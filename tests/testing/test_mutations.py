"""The mutation detector sees a change in place, and nothing else."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.informers import ObjectCache
from bayplan.testing.mutations import MutatedObject, detect_mutations


def _pod(name: str) -> core_v1.Pod:
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="default"))


def _change_in_place() -> None:
    cache: ObjectCache[core_v1.Pod] = ObjectCache()
    with detect_mutations():
        cache.put(_pod("a"))
        pod = cache.get("default", "a")
        assert pod is not None
        pod.spec.node_name = "somewhere"


def test_a_change_in_place_is_found_and_named() -> None:
    with pytest.raises(MutatedObject, match="Pod default/a"):
        _change_in_place()


def test_a_replaced_object_is_no_mutation() -> None:
    cache: ObjectCache[core_v1.Pod] = ObjectCache()
    with detect_mutations():
        cache.put(_pod("a"))
        cache.put(_pod("a"))
        cache.remove("default/a")
    assert len(cache) == 0
