"""Which pods a ReplicaSet creates, deletes, adopts and lets go, and the status that follows."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.workloads.replicas import BURST, Actions, Failure, counts, desired, failure_conditions
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, owner, pod, pod_status, replica_set

NOW = parse_rfc3339(CREATED) + 3600
SET = replica_set("web", 2, meta={"uid": "web-uid"})
OWNER = owner(SET, "ReplicaSet")
OTHER = owner(replica_set("other", meta={"uid": "other-uid"}), "ReplicaSet")


def member(
    name: str, *, owned: bool = True, label: str = "web", phase: str = "Running", node: str = "n", **meta: Any
) -> core_v1.Pod:
    status: core_v1.PodStatus = meta.pop("status", None) or pod_status(phase)
    meta = {
        "uid": f"{name}-uid",
        "labels": {"app": label},
        "owners": (OWNER,) if owned else (),
        "created": CREATED,
        **meta,
    }
    return pod(name, meta=meta, status=status, node_name=node)


def names(pods: Any) -> list[str]:
    return [one.metadata.name for one in pods]


def decide(*pods: core_v1.Pod, replicas: int = 2, deleted: bool = False) -> Actions:
    target = replica_set("web", replicas, meta={"uid": "web-uid", "deleted": CREATED if deleted else None})
    return desired(target, compile_selector(target.spec.selector), pods, NOW)


@pytest.mark.parametrize(
    ("pods", "replicas", "create", "delete"),
    [
        pytest.param((), 3, 3, [], id="missing pods are created"),
        pytest.param((), BURST + 100, BURST, [], id="not more than a burst at once is created"),
        pytest.param((member("a"), member("b")), 2, 0, [], id="enough pods are left alone"),
        pytest.param((member("a", phase="Failed"),), 1, 1, [], id="a failed pod is replaced"),
        pytest.param((member("a", phase="Succeeded"),), 1, 1, [], id="a pod that ended is replaced"),
        pytest.param((member("a", deleted=CREATED),), 1, 1, [], id="a pod on its way out is replaced"),
        pytest.param((member("a", owners=(OTHER,)),), 1, 1, [], id="pods of others do not count"),
        pytest.param(
            (member("a"), member("b", node="", phase="Pending")), 1, 0, ["b"], id="a pod without node goes first"
        ),
        pytest.param(
            (member("a"), member("b", phase="Pending")), 1, 0, ["b"], id="a pending pod goes before a running one"
        ),
        pytest.param(
            (member("a"), member("b", status=pod_status(ready=False))),
            1,
            0,
            ["b"],
            id="an unready pod goes before a ready one",
        ),
        pytest.param(
            (member("a", annotations={"controller.kubernetes.io/pod-deletion-cost": "5"}), member("b")),
            1,
            0,
            ["b"],
            id="the cheaper pod goes first",
        ),
        pytest.param(
            (member("a", annotations={"controller.kubernetes.io/pod-deletion-cost": "x"}), member("b", uid="a")),
            1,
            0,
            ["b"],
            id="a cost that is no number counts as zero",
        ),
        pytest.param(
            (member("a"), member("b", node="crowded"), member("c", node="crowded")),
            2,
            0,
            ["b"],
            id="a pod on a node with several goes first",
        ),
        pytest.param(
            (member("a"), member("b", status=pod_status(since="2026-01-02T04:00:00Z"))),
            1,
            0,
            ["b"],
            id="the pod that is ready for a shorter time goes first",
        ),
        pytest.param(
            (member("a"), member("b", created="2026-01-02T04:04:00Z")), 1, 0, ["b"], id="the younger pod goes first"
        ),
        pytest.param((member("a"), member("b")), 0, 0, ["a", "b"], id="all go at zero"),
    ],
)
def test_number_of_pods(pods: tuple[core_v1.Pod, ...], replicas: int, create: int, delete: list[str]) -> None:
    actions = decide(*pods, replicas=replicas)
    assert actions.create == create
    assert names(actions.delete) == delete


@pytest.mark.parametrize(
    ("one", "adopt", "release", "owned"),
    [
        pytest.param(member("a", owned=False), ["a"], [], ["a"], id="an orphan that matches is adopted and counts"),
        pytest.param(member("a", owned=False, phase="Failed"), [], [], [], id="a failed orphan is not adopted"),
        pytest.param(
            member("a", owned=False, deleted=CREATED), [], [], [], id="an orphan on its way out is not adopted"
        ),
        pytest.param(member("a", owned=False, label="x"), [], [], [], id="an orphan that does not match is left alone"),
        pytest.param(member("a", label="x"), [], ["a"], [], id="a pod that no longer matches is let go"),
        pytest.param(member("a", label="x", deleted=CREATED), [], [], [], id="a pod on its way out is not let go"),
        pytest.param(member("a", owners=(OTHER,)), [], [], [], id="a pod of another controller is left alone"),
    ],
)
def test_ownership(one: core_v1.Pod, adopt: list[str], release: list[str], owned: list[str]) -> None:
    actions = decide(one)
    assert (names(actions.claim.adopt), names(actions.claim.release), names(actions.owned)) == (adopt, release, owned)


def test_a_set_that_is_being_deleted_does_nothing() -> None:
    actions = decide(member("a", owned=False), member("b", label="x"), member("c"), replicas=5, deleted=True)
    assert (actions.create, *map(names, (actions.delete, actions.claim.adopt, actions.claim.release))) == (
        0,
        [],
        [],
        [],
    )
    assert names(actions.owned) == ["c"]


def test_pods_on_their_way_out_are_counted_apart() -> None:
    actions = decide(member("a"), member("b", deleted=CREATED), member("c", deleted=CREATED, phase="Failed"))
    assert actions.terminating == 1


class TestStatus:
    def test_counts(self) -> None:
        target = replica_set("web", 3, meta={"generation": 4}, min_ready_seconds=60)
        pods = (
            member("ready"),
            member("fresh", status=pod_status(since="2026-01-02T04:04:00Z")),
            member("unready", status=pod_status(ready=False)),
            member("bare", label="x"),
        )
        assert counts(target, pods, NOW) == {
            "replicas": 4,
            "ready_replicas": 3,
            "available_replicas": 2,
            "fully_labeled_replicas": 3,
            "observed_generation": 4,
        }

    def test_a_failure_shows_with_its_time_and_goes_again(self) -> None:
        quota = Failure("FailedCreate", "quota exceeded")
        failing = failure_conditions((), apps_v1.ReplicaSetCondition, quota, NOW)
        (condition,) = failing
        assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert condition.message == "quota exceeded"
        assert condition.last_transition_time == "2026-01-02T04:04:05Z"
        other = Failure("FailedDelete", "another text")
        assert failure_conditions(failing, apps_v1.ReplicaSetCondition, other, NOW + 60) == (condition,)
        assert failure_conditions(failing, apps_v1.ReplicaSetCondition, None, NOW + 60) == ()
