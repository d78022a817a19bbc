"""A pod's way, read off what was written about it."""

from __future__ import annotations

import dataclasses
from typing import Any

from bayplan.ui.pod_steps import Chain, paths, pod_steps

MADE = "2026-01-02T03:04:05Z"


def obj(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "creationTimestamp": MADE}, **parts}


def event(about: dict[str, Any], reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "e", "creationTimestamp": MADE},
        "involvedObject": {"kind": about["kind"], "name": about["metadata"]["name"]},
        "reason": reason,
        "message": message,
        "source": {"component": f"{reason}-component"},
        **fields,
    }


def titles(steps: list[dict[str, Any]]) -> list[str]:
    return [step["title"] for step in steps]


def step(steps: list[dict[str, Any]], title: str) -> dict[str, Any]:
    (found,) = [each for each in steps if each["title"].startswith(title)]
    return found


def running_chain() -> Chain:
    deployment, replica_set = obj("Deployment", "web"), obj("ReplicaSet", "web-1")
    entry = {"manager": "kubectl", "time": MADE, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    deployment["metadata"]["managedFields"] = [entry]
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": f"2026-01-02T03:04:{second:02}Z"}
        for name, second in (("PodScheduled", 6), ("PodReadyToStartContainers", 8), ("Initialized", 8), ("Ready", 11))
    ]
    state = {"running": {"startedAt": "2026-01-02T03:04:10Z"}}
    status = {
        "startTime": "2026-01-02T03:04:07Z",
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "state": state}],
        "phase": "Running",
    }
    pod = obj("Pod", "web-1-a", spec={"nodeName": "n", "schedulerName": "mine"}, status=status)
    pod["metadata"]["managedFields"] = [
        {
            "manager": "node",
            "subresource": "status",
            "time": MADE,
            "fieldsV1": {"f:status": {"f:phase": {}, "f:podIP": {}}},
        }
    ]
    events = [
        event(replica_set, "SuccessfulCreate", "Created pod: web-1-a"),
        event(replica_set, "SuccessfulCreate", "Created pod: web-1-b", source={"component": "another"}),
        event(pod, "Scheduled", "to n", eventTime="2026-01-02T03:04:05.750000Z"),
        event(
            pod,
            "FailedScheduling",
            "0/1",
            eventTime="2026-01-02T03:04:05.250000Z",
            series={"count": 3, "lastObservedTime": MADE},
        ),
        event(pod, "Pulled", "the image", firstTimestamp="2026-01-02T03:04:09Z"),
    ]
    return Chain(pod, [replica_set, deployment], events)


def test_the_whole_way_of_a_running_pod_is_in_order() -> None:
    steps = pod_steps(running_chain())
    assert titles(steps) == [
        "Deployment web is created, admitted and stored",
        "ReplicaSet web-1 is created, admitted and stored",
        "The pod is created, admitted and stored",
        "Queued by the scheduler",
        "Tried 3 times: unschedulable",
        "Decided: a node is chosen",
        "Bound to the node",
        "Seen by the node",
        "Sandbox and network are ready",
        "Init containers are done",
        "Images are pulled",
        "Containers are started",
        "Ready",
    ]
    times = [each["time"] for each in steps if each["time"]]
    assert len(times) == 12
    assert times[4] == "2026-01-02T03:04:05.750000Z"
    assert times[-1] == "2026-01-02T03:04:11Z"


def test_who_wrote_what_is_told() -> None:
    steps = pod_steps(running_chain())
    assert (step(steps, "Deployment")["who"], step(steps, "Deployment")["fields"]) == ("kubectl", ["spec.replicas"])
    assert step(steps, "The pod")["who"] == "SuccessfulCreate-component"
    assert step(steps, "Seen by")["who"] == "node"
    assert step(steps, "Seen by")["fields"] == ["status.phase", "status.podIP"]
    assert step(steps, "Bound")["who"] == "mine"


def test_the_scheduler_knows_more_than_events() -> None:
    attempt = {
        "pod": "default/p",
        "at": 1767323045.5,
        "micros": 230,
        "number": 2,
        "node": "n",
        "feasible": 3,
        "nodes": 4,
    }
    waits = {"place": "backoff", "waited": 1.25, "attempts": 1, "rejectedBy": ["NodeResourcesFit"]}
    chain = dataclasses.replace(running_chain(), attempts=[{**attempt, "node": ""}, attempt], queued=waits)
    steps = pod_steps(chain)
    decided = step(steps, "Decided")
    assert (decided["time"], decided["source"]) == ("2026-01-02T03:04:05.500000Z", "the scheduler")
    assert decided["detail"] == "n: 3 of 4 nodes fit; decided in 230 µs, attempt 2"
    assert (
        step(steps, "Queued")["detail"]
        == "now backoff, in the queue for 1.2 s, 1 attempts, rejected by NodeResourcesFit"
    )


def test_what_has_not_happened_has_no_time_and_says_so() -> None:
    steps = pod_steps(Chain(obj("Pod", "p", spec={}, status={})))
    assert [each["title"] for each in steps if each["time"]] == ["The pod is created, admitted and stored"]
    for title in ("Decided", "Bound", "Ready", "Images", "Containers"):
        assert step(steps, title)["source"] == "nothing says so yet", title


def test_gates_keep_a_pod_from_the_queue() -> None:
    steps = pod_steps(Chain(obj("Pod", "p", spec={"schedulingGates": [{"name": "quota"}]}, status={})))
    assert step(steps, "Gated")["detail"] == "quota"
    assert "Queued by the scheduler" not in titles(steps)


def test_containers_that_wait_are_trouble() -> None:
    statuses = [
        {"name": "a", "state": {"waiting": {"reason": "ErrImagePull"}}},
        {"name": "b", "state": {"running": {"startedAt": MADE}}},
    ]
    found = step(
        pod_steps(Chain(obj("Pod", "p", spec={}, status={"containerStatuses": statuses}))), "Containers are started"
    )
    assert found["trouble"] is True
    assert found["time"] == ""
    assert found["detail"] == "a: ErrImagePull"


def test_paths_of_managed_fields() -> None:
    tree = {
        "f:spec": {".": {}, "f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}}}},
        "f:metadata": {"f:labels": {".": {}}},
    }
    assert list(paths(tree)) == ['spec.containers[{"name":"main"}].image', "metadata.labels"]
