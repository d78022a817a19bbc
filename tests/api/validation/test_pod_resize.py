"""What a resize may change. Fields, kinds and order of errors are those of `ValidatePodResize` (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.types import core_v1
from bayplan.api.validation.pods.pod_update import validate_ephemeral_containers_update, validate_resize

SMALL = {"requests": {"cpu": "1", "memory": "1Gi"}}
LARGE = {"requests": {"cpu": "2", "memory": "2Gi"}}
NONE: dict[str, Any] = {}
ONLY = "only cpu and memory resources are mutable"


def container(resources: dict[str, Any] = SMALL, name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": resources, **more}


def pod(containers: list[dict[str, Any]], status: dict[str, Any] | None = None, **spec: Any) -> core_v1.Pod:
    tree = {"spec": {"containers": containers, **spec}, "status": status or {}}
    return codec.from_tree(core_v1.Pod, tree)


def problems(new: core_v1.Pod, old: core_v1.Pod) -> list[str]:
    return [f"{error.field}: {error.detail}" for error in validate_resize(new, old)]


def test_cpu_and_memory_are_resized() -> None:
    assert problems(pod([container(LARGE)]), pod([container()])) == []


@pytest.mark.parametrize(
    ("os", "expected"),
    [({}, []), ({"os": {"name": "linux"}}, []), ({"os": {"name": "windows"}}, [": windows pods cannot be resized"])],
)
def test_pods_of_windows_are_not_resized(os: dict[str, Any], expected: list[str]) -> None:
    assert problems(pod([container(LARGE)], **os), pod([container()], **os)) == expected


RUNS = {"name": "c", "state": {"running": {}}}
WAITS = {"name": "w", "state": {"waiting": {}}}
OLD_NODE = ["spec: Pod running on node without support for resize"]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], []),
        ([WAITS], []),
        ([RUNS], OLD_NODE),
        ([{**RUNS, "resources": {}}], []),
        ([WAITS, RUNS], OLD_NODE),
        ([{**RUNS, "resources": {}}, {**RUNS, "name": "d"}], []),
    ],
)
def test_the_first_container_that_runs_tells_what_the_node_can(
    statuses: list[dict[str, Any]], expected: list[str]
) -> None:
    old = pod([container()], {"containerStatuses": statuses})
    assert problems(pod([container(LARGE)]), old) == expected


@pytest.mark.parametrize(
    ("before", "after", "kept", "expected"),
    [
        (NONE, NONE, "Burstable", []),
        (NONE, NONE, "BestEffort", ["spec: Pod QOS Class may not change as a result of resizing"]),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, NONE, "", []),
        (NONE, {"limits": {"cpu": "1", "memory": "1Gi"}}, "", []),
    ],
)
def test_the_class_that_status_tells_stays(
    before: dict[str, Any], after: dict[str, Any], kept: str, expected: list[str]
) -> None:
    old = pod([container({**SMALL, **({} if kept else before)})], {"qosClass": kept})
    new = pod([container({**SMALL, **({} if kept else after)})])
    text = "spec: Pod QOS Class may not change as a result of resizing"
    changes = not kept and before != after
    assert [one for one in problems(new, old) if one == text] == ([text] if changes else expected)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (container(NONE), ["spec.containers[0].resources.requests: resource requests cannot be removed"]),
        (container({**LARGE, "limits": {"cpu": "2"}}), []),
        (container({"requests": {**SMALL["requests"], "ephemeral-storage": "1"}}), [f"spec: {ONLY}"]),
        (container(LARGE, image="y"), [f"spec: {ONLY}"]),
    ],
)
def test_only_cpu_and_memory_of_containers_change(after: dict[str, Any], expected: list[str]) -> None:
    found = problems(pod([after]), pod([container()]))
    assert [one for one in found if "QOS" not in one] == expected


RESTARTS = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
KEEPS = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
REFUSED = (
    "spec.initContainers[0]: non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (container(name="i"), container(LARGE, "i"), []),
        (container(name="i", resizePolicy=KEEPS), container(LARGE, "i", resizePolicy=KEEPS), []),
        (container(name="i", resizePolicy=RESTARTS), container(name="i", resizePolicy=RESTARTS), []),
        (container(name="i", resizePolicy=RESTARTS), container(LARGE, "i", resizePolicy=RESTARTS), [REFUSED]),
        (
            container(name="i", resizePolicy=RESTARTS, restartPolicy="Always"),
            container(LARGE, "i", resizePolicy=RESTARTS, restartPolicy="Always"),
            [],
        ),
        (
            container(name="i", resizePolicy=[*RESTARTS, {**RESTARTS[0], "resourceName": "memory"}]),
            container(LARGE, "i", resizePolicy=[*RESTARTS, {**RESTARTS[0], "resourceName": "memory"}]),
            [REFUSED, REFUSED],
        ),
        (
            container(name="i"),
            container(name="i", image="y"),
            ["spec.initContainers[0]: only cpu and memory resources for init or sidecar containers are mutable"],
        ),
    ],
)
def test_init_containers_that_would_restart_are_not_resized(
    before: dict[str, Any], after: dict[str, Any], expected: list[str]
) -> None:
    assert problems(pod([container()], initContainers=[after]), pod([container()], initContainers=[before])) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, NONE, [f"spec: {ONLY}"]),
        (SMALL, LARGE, []),
        (None, SMALL, []),
        (
            None,
            {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
            ["spec: only cpu and memory resources are mutable at pod-level"],
        ),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, []),
        (SMALL, None, ["spec.resources: pod-level resources cannot be removed"]),
        (
            SMALL,
            {"requests": {"cpu": "1"}},
            ["spec.resources.requests: pod-level resource requests cannot be removed"],
        ),
        (
            {**SMALL, "limits": {"cpu": "1"}},
            SMALL,
            ["spec.resources.limits: pod-level resource limits cannot be removed"],
        ),
        (
            SMALL,
            {"requests": {**SMALL["requests"], "hugepages-2Mi": "2Mi"}},
            ["spec: only cpu and memory resources are mutable at pod-level"],
        ),
    ],
)
def test_resources_of_the_pod_change_but_stay(
    before: dict[str, Any] | None, after: dict[str, Any] | None, expected: list[str]
) -> None:
    old, new = (pod([container()], **({} if one is None else {"resources": one})) for one in (before, after))
    assert problems(new, old) == expected


def test_errors_of_a_resize_are_in_order() -> None:
    old = pod([container()], initContainers=[container(name="i")])
    new = pod([container(NONE, image="y")], initContainers=[container(NONE, "i", image="y")])
    assert [one.partition(": ")[0] for one in problems(new, old)] == [
        "spec",
        "spec.initContainers[0].resources.requests",
        "spec.containers[0].resources.requests",
        "spec",
        "spec.initContainers[0]",
    ]


def test_containers_with_claims_are_not_resized() -> None:
    claims = {"claims": [{"name": "gpu"}]}
    old, new = pod([container({**SMALL, **claims})]), pod([container({**LARGE, **claims})])
    assert problems(new, old) == [f"spec: {ONLY}"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (["a", "b"], []),
        (["b", "a", "c"], []),
        (["a"], ["may not be removed"]),
        (["a", "b changed"], ["may not be changed"]),
    ],
)
def test_ephemeral_containers_are_only_added(after: list[str], expected: list[str]) -> None:
    def ephemeral(names: list[str]) -> core_v1.Pod:
        containers = [{"name": name[0], "image": name} for name in names]
        return pod([container()], ephemeralContainers=containers)

    errors = validate_ephemeral_containers_update(ephemeral(after), ephemeral(["a", "b"]))
    assert len(errors) == len(expected)
    assert all(text in str(error) for text, error in zip(expected, errors, strict=True))
