"""What the garbage collector decides, the graph it decides on, and which pods are collected."""

from __future__ import annotations

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.cleanup.garbage_collector_rules import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Node,
    Verdict,
    unblocked,
    verdict,
)
from bayplan.controllers.cleanup.pod_garbage_collector import lost_with_node, surplus, unscheduled_terminating
from bayplan.testing.builders import CREATED, node, owner, pod, pod_status, replica_set, taint

PODS = DEFAULT_KINDS.of_type(core_v1.Pod)
SETS = DEFAULT_KINDS.of_type(apps_v1.ReplicaSet)


def an_object(
    *owners: str, finalizers: tuple[str, ...] = (), dependents: tuple[str, ...] = (), block: bool = True
) -> Node:
    references = tuple(
        meta_v1.OwnerReference(api_version="v1", kind="X", name=uid, uid=uid, block_owner_deletion=block)
        for uid in owners
    )
    return Node("uid", PODS, "default", "name", references, finalizers=finalizers, dependents=dict.fromkeys(dependents))


@pytest.mark.parametrize(
    ("one", "absent", "waiting", "expected"),
    [
        pytest.param(
            an_object("a", "b"), {"a"}, set(), Verdict(drop=("a",)), id="one owner is left: the other reference goes"
        ),
        pytest.param(
            an_object("a", "b"), set(), {"b"}, Verdict(drop=("b",)), id="an owner that waits must not wait for ever"
        ),
        pytest.param(an_object("a"), {"a"}, set(), Verdict(delete="Background"), id="no owner is left: it goes"),
        pytest.param(
            an_object("a", finalizers=(ORPHAN,)), {"a"}, set(), Verdict(delete="Orphan"), id="it leaves its own"
        ),
        pytest.param(
            an_object("a", finalizers=(FOREGROUND,)),
            {"a"},
            set(),
            Verdict(delete="Foreground"),
            id="it waits for its own",
        ),
        pytest.param(
            an_object("a"), set(), {"a"}, Verdict(delete="Background"), id="a leaf goes before the owner that waits"
        ),
        pytest.param(
            an_object("a", dependents=("x",)),
            set(),
            {"a"},
            Verdict(delete="Foreground"),
            id="what has dependents goes after them",
        ),
        pytest.param(
            an_object("a", dependents=("x",), block=False),
            set(),
            {"a"},
            Verdict(delete="Foreground"),
            id="also if it does not block its owner",
        ),
        pytest.param(
            an_object("a", dependents=("x",)),
            {"a"},
            set(),
            Verdict(delete="Background"),
            id="without waiting in background",
        ),
    ],
)
def test_verdict(one: Node, absent: set[str], waiting: set[str], expected: Verdict) -> None:
    assert verdict(one, absent, waiting) == expected


class TestGraph:
    def test_an_owner_learns_of_its_dependents_in_either_order(self) -> None:
        above = replica_set("web", meta={"uid": "above"})
        below = pod("web-1", meta={"uid": "below", "owners": (owner(above, "ReplicaSet"),)})
        for first, second in (((SETS, above), (PODS, below)), ((PODS, below), (SETS, above))):
            graph = Graph()
            graph.put(*first)
            graph.put(*second)
            assert graph.nodes["above"].seen
            assert graph.nodes["above"].dependents == {"below": None}

    def test_an_owner_that_was_never_seen_is_forgotten_with_its_last_dependent(self) -> None:
        graph = Graph()
        graph.put(
            PODS, pod("p", meta={"uid": "p", "owners": (owner(replica_set("web", meta={"uid": "w"}), "ReplicaSet"),)})
        )
        assert not graph.nodes["w"].seen
        graph.remove("p")
        assert graph.nodes == {}

    def test_a_reference_that_is_taken_out_is_forgotten(self) -> None:
        graph = Graph()
        above = replica_set("web", meta={"uid": "w"})
        graph.put(SETS, above)
        graph.put(PODS, pod("p", meta={"uid": "p", "owners": (owner(above, "ReplicaSet"),)}))
        graph.put(PODS, pod("p", meta={"uid": "p"}))
        assert graph.nodes["w"].dependents == {}

    def test_dependents_outlive_their_owner(self) -> None:
        graph = Graph()
        above = replica_set("web", meta={"uid": "w"})
        graph.put(SETS, above)
        graph.put(PODS, pod("p", meta={"uid": "p", "owners": (owner(above, "ReplicaSet"),)}))
        removed = graph.remove("w")
        assert removed is not None
        assert removed.dependents == {"p": None}
        assert set(graph.nodes) == {"p"}


class TestPods:
    def test_ended_pods_beyond_the_threshold_go_oldest_first(self) -> None:
        def ended(name: str, created: str, reason: str = "") -> core_v1.Pod:
            status = pod_status("Failed")
            status.reason = reason
            return pod(name, meta={"created": created}, status=status)

        pods = [
            ended("young", "2026-01-04T00:00:00Z"),
            ended("old", "2026-01-02T00:00:00Z"),
            ended("evicted", "2026-01-05T00:00:00Z", "Evicted"),
            pod("running", status=pod_status()),
        ]
        assert [one.metadata.name for one in surplus(pods, 1)] == ["evicted", "old"]
        assert surplus(pods, 3) == []
        assert surplus(pods, 0) == []

    def test_a_deleted_pod_without_node_goes(self) -> None:
        pods = [pod("a", meta={"deleted": CREATED}), pod("b", meta={"deleted": CREATED}, node_name="n"), pod("c")]
        assert [one.metadata.name for one in unscheduled_terminating(pods)] == ["a"]

    def test_a_deleted_pod_on_a_node_out_of_service_goes(self) -> None:
        out = taint("node.kubernetes.io/out-of-service")
        nodes = [node("dead", taints=(out,), conditions={"Ready": "Unknown"}), node("alive", taints=(out,))]
        pods = [
            pod("a", meta={"deleted": CREATED}, node_name="dead"),
            pod("b", node_name="dead"),
            pod("c", meta={"deleted": CREATED}, node_name="alive"),
        ]
        assert [one.metadata.name for one in lost_with_node(pods, nodes)] == ["a"]


def test_an_owner_that_is_known_from_references_only_is_forgotten_with_the_last_of_them() -> None:
    graph = Graph()
    reference = meta_v1.OwnerReference(api_version="v1", kind="X", name="gone", uid="gone")
    graph.put(PODS, core_v1.Pod(metadata=meta_v1.ObjectMeta(name="one", uid="1", owner_references=(reference,))))
    assert set(graph.nodes) == {"1", "gone"}
    graph.put(PODS, core_v1.Pod(metadata=meta_v1.ObjectMeta(name="one", uid="1")))
    assert set(graph.nodes) == {"1"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(an_object("a", "b"), an_object("a", "b"), [], id="nothing has changed"),
        pytest.param(an_object("a", "b"), an_object("b"), ["a"], id="an owner that is let go need not wait"),
        pytest.param(an_object("a"), an_object("a", block=False), ["a"], id="nor one that is not blocked any more"),
        pytest.param(an_object("a", block=False), an_object(), [], id="one that was never blocked does not wait"),
        pytest.param(an_object(), an_object("a"), [], id="a new owner is blocked from now on"),
    ],
)
def test_who_need_not_wait_for_a_dependent_any_more(before: Node, after: Node, expected: list[str]) -> None:
    assert unblocked(before.owners, after.owners) == expected
