"""What pods take that have been resized, or ask for resources as a whole."""

from __future__ import annotations

from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types.core_v1 import PodSpec, PodStatus
from bayplan.scheduler.snapshot.resources import CPU, MEMORY, ResourceTable, accounted

Tree = dict[str, Any]


def taken(spec: Tree, status: Tree | None = None) -> dict[int, int]:
    """Column -> amount that a pod takes on its node."""
    told = from_tree(PodStatus, status) if status is not None else None
    return dict(accounted(from_tree(PodSpec, spec), told, ResourceTable())[0])


def container(cpu: str, name: str = "main", **fields: Any) -> Tree:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def status_of(cpu: str, name: str = "main") -> Tree:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}


def test_a_container_that_was_larger_counts_as_what_it_still_has() -> None:
    spec = {"containers": [container("1")]}
    assert taken(spec, {"containerStatuses": [status_of("3")]})[CPU] == 3000


def test_init_containers_that_end_cannot_be_resized() -> None:
    spec = {"initContainers": [container("1", "init")], "containers": [container("100m")]}
    assert taken(spec, {"initContainerStatuses": [status_of("3", "init")]})[CPU] == 1000
    spec["initContainers"][0]["restartPolicy"] = "Always"
    assert taken(spec, {"initContainerStatuses": [status_of("3", "init")]})[CPU] == 3100


def test_the_first_word_on_a_pending_resize_counts() -> None:
    spec = {"containers": [container("5")]}
    pending = {"type": "PodResizePending", "status": "True"}

    def told(*reasons: str) -> Tree:
        conditions = [pending | {"reason": reason} for reason in reasons]
        return {"containerStatuses": [status_of("2")], "conditions": conditions}

    assert taken(spec, told("Infeasible", "Deferred"))[CPU] == 2000
    assert taken(spec, told("Deferred", "Infeasible"))[CPU] == 5000


def test_of_a_pod_resized_as_a_whole_only_what_its_spec_names_counts() -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}, "allocatedResources": {"cpu": "4"}}
    found = taken(spec, status)
    assert found[CPU] == 4000
    assert MEMORY not in found
    infeasible = status | {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
    spec["resources"]["requests"]["cpu"] = "9"  # type: ignore[index]
    assert taken(spec, infeasible)[CPU] == 4000
