"""Indexes of a cache list what a look at all objects would find, however little of them is asked about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.api.types import core_v1, meta_v1
from bayplan.informers.cache import NOTHING, OWNERS, SPEC, IndexFunction, ObjectCache, Part

SPECS = tuple(core_v1.PodSpec(node_name=name) for name in ("", "a", "b"))
OWNED = ((), (meta_v1.OwnerReference(uid="x", controller=True),), (meta_v1.OwnerReference(uid="y"),))


def node_of(pod: core_v1.Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def owners_of(pod: core_v1.Pod) -> tuple[str, ...]:
    return tuple(owner.uid for owner in pod.metadata.owner_references)


def namespace_of(pod: core_v1.Pod) -> tuple[str, ...]:
    return (pod.metadata.namespace,)


def phase_of(pod: core_v1.Pod) -> tuple[str, ...]:
    return (pod.status.phase, "any")


INDEXES: dict[str, tuple[IndexFunction, Part | None]] = {
    "node": (node_of, SPEC),
    "owner": (owners_of, OWNERS),
    "namespace": (namespace_of, NOTHING),
    "phase": (phase_of, None),
}
pods = st.builds(
    lambda namespace, name, spec, owners, phase, copied: core_v1.Pod(
        metadata=meta_v1.ObjectMeta(namespace=namespace, name=name, owner_references=owners),
        spec=replace(spec) if copied else spec,
        status=core_v1.PodStatus(phase=phase),
    ),
    st.sampled_from("mn"),
    st.sampled_from("pq"),
    st.sampled_from(SPECS),
    st.sampled_from(OWNED),
    st.sampled_from(("Pending", "Running")),
    st.booleans(),
)


@given(st.lists(st.tuples(st.booleans(), pods), max_size=20))
def test_indexes_list_what_a_look_at_all_objects_would_find(history: list[tuple[bool, core_v1.Pod]]) -> None:
    cache: ObjectCache[core_v1.Pod] = ObjectCache()
    for name, (function, part) in INDEXES.items():
        cache.add_index(name, function, part)
    for is_there, pod in history:
        if is_there:
            cache.put(pod)
        else:
            cache.remove(f"{pod.metadata.namespace}/{pod.metadata.name}")
        for name, (function, _) in INDEXES.items():
            for value in {"nobody", *(value for one in cache for value in function(one))}:
                found = cache.by_index(name, value)
                assert {id(one) for one in found} == {id(one) for one in cache if value in function(one)}
                assert cache.count_by_index(name, value) == len(found)


@pytest.mark.parametrize("part", [SPEC, None])
def test_an_index_asks_again_only_when_what_it_depends_on_has_changed(part: Part | None) -> None:
    asked: list[str] = []

    def node(pod: core_v1.Pod) -> tuple[str, ...]:
        asked.append(pod.status.phase)
        return node_of(pod)

    cache: ObjectCache[core_v1.Pod] = ObjectCache()
    cache.add_index("node", node, part)
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p"), spec=SPECS[1], status=core_v1.PodStatus(phase="Pending"))
    cache.put(pod)
    running = replace(pod, status=core_v1.PodStatus(phase="Running"))
    cache.put(running)
    assert asked == (["Pending"] if part is SPEC else ["Pending", "Pending", "Running"])
    assert cache.by_index("node", "a") == [running]
