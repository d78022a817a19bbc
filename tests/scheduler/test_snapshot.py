"""Columns: worked examples, incremental updates, suppositions that leave no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.framework.arguments import ShapePoint
from bayplan.scheduler.library import typed
from bayplan.scheduler.plugins.node_resources_fit import utilization_curve
from bayplan.scheduler.snapshot.counters import PodCounts
from bayplan.scheduler.snapshot.labels import EncodedColumn
from bayplan.scheduler.snapshot.resources import ResourceTable, accounted, pod_requests
from bayplan.scheduler.snapshot.shape import PodShape, ShapeTable
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.scheduler.snapshot.taints import TaintKey, tolerated
from tests.scheduler.objects import apart, node, pod, taint


def made_node(*args: Any, **kwargs: Any) -> Node:
    result: Node = typed("Node", node(*args, **kwargs))
    return result


def made_pod(*args: Any, **kwargs: Any) -> Pod:
    result: Pod = typed("Pod", pod(*args, **kwargs))
    return result


def test_an_encoded_column_evaluates_a_predicate_once_per_value() -> None:
    column: EncodedColumn[str] = EncodedColumn(4)
    for row, value in enumerate(("b", "a", None, "b")):
        column.set(row, value)
    assert column.values == ["b", "a"]
    assert column.ids.tolist() == [0, 1, -1, 0]
    asked: list[str | None] = []
    answer = column.where(lambda value: asked.append(value) or value == "b", slice(0, 4))  # type: ignore[func-returns-value]
    assert answer.tolist() == [True, False, False, True]
    assert asked == ["b", "a", None]


def test_pods_of_one_workload_share_a_shape() -> None:
    snapshot = Snapshot()
    one = snapshot.pod_info(made_pod("web-1", cpu="100m", volumes=[{"name": "token-x", "secret": {"secretName": "x"}}]))
    two = snapshot.pod_info(made_pod("web-2", cpu="100m", volumes=[{"name": "token-y", "secret": {"secretName": "y"}}]))
    other = snapshot.pod_info(made_pod("web-3", cpu="200m"))
    assert one.shape is two.shape
    assert one.shape is not other.shape


def test_pods_of_one_spec_are_compiled_once_wherever_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = PodShape._compile_affinity

    def counted(shape: PodShape, counts: PodCounts) -> None:
        compiled.append(shape.name)
        compile_(shape, counts)

    monkeypatch.setattr(PodShape, "_compile_affinity", counted)
    snapshot = Snapshot()
    infos = [snapshot.pod_info(made_pod(name, nodeName=f"on-{name}")) for name in "ab"]
    infos.append(snapshot.pod_info(made_pod("c"), pending=True))
    assert (compiled, len({id(info.shape) for info in infos})) == (["a"], 1)
    bound = snapshot.pod_info(made_pod("d", nodeName="on-a"), pending=True)
    assert (bound.shape.spec.node_name, infos[0].shape.spec.node_name) == ("on-a", "")


def test_pods_of_one_kind_share_a_shape_however_many_kinds_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShapeTable, "MOST_BYTES", 30_000)
    snapshot = Snapshot()
    infos = [snapshot.pod_info(made_pod(f"p{number}", labels={"app": str(number)})) for number in range(10)]
    again = [snapshot.pod_info(made_pod(f"q{number}", labels={"app": str(number)})) for number in range(10)]
    assert all(one.shape is other.shape for one, other in zip(infos, again, strict=True))


def test_rows_grow_and_are_used_again() -> None:
    snapshot = Snapshot(capacity=2)
    for number in range(5):
        snapshot.put_node(made_node(f"n{number}"))
    column = snapshot.label_column("kubernetes.io/hostname")
    snapshot.remove_node("n1")
    snapshot.put_node(made_node("n9", cpu="7"))
    assert (snapshot.size, snapshot.node_count) == (5, 5)
    assert snapshot.row_of["n9"] == 1
    assert snapshot.allocatable[0, :5].tolist() == [4000, 7000, 4000, 4000, 4000]
    assert column.get(1) == "n9"


def test_a_node_that_changes_its_label_moves_its_pods_to_another_domain() -> None:
    snapshot = Snapshot()
    snapshot.put_node(made_node("a", labels={"zone": "one"}))
    snapshot.put_pod(made_pod("p", on="a", affinity=apart("zone", {"app": "x"})))
    (group,) = snapshot.counts.terms("required-anti", {"app": "x"})
    assert group.domains().tolist() == [1, 0]
    snapshot.put_node(made_node("a", labels={"zone": "two"}))
    assert group.domains().tolist() == [0, 1, 0]
    snapshot.put_node(made_node("a"))
    assert snapshot.counts.terms("required-anti", {"app": "x"}) == []


def test_counters_follow_pods_and_leave_terminating_ones_out() -> None:
    snapshot = Snapshot()
    snapshot.put_node(made_node("a"))
    snapshot.put_pod(made_pod("one", on="a", labels={"app": "x"}))
    live = snapshot.counts.counter("live", lambda namespace, labels: labels.get("app") == "x", live_only=True)
    everyone = snapshot.counts.counter("all", lambda namespace, labels: labels.get("app") == "x", live_only=False)
    ending = pod("two", on="a", labels={"app": "x"})
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    snapshot.put_pod(typed("Pod", ending))
    snapshot.put_pod(made_pod("three", on="a", labels={"app": "y"}))
    assert (live.per_row[0], everyone.per_row[0]) == (1, 2)
    snapshot.remove_pod("default/one")
    assert (live.per_row[0], everyone.per_row[0]) == (0, 1)


def test_other_labels_of_a_pod_are_counted_and_told_to_who_may_care() -> None:
    snapshot = Snapshot()
    snapshot.put_node(made_node("a"))
    cache = Cache(snapshot)
    zone, anti = {"topology.kubernetes.io/zone": "z"}, apart("kubernetes.io/hostname", {"app": "y"})

    def put(**labels: str) -> int:
        """Rows that are told of the pod with these labels."""
        before = snapshot.position
        cache.put_pod(made_pod("p", cpu="1", on="a", labels=labels, affinity=anti))
        assert snapshot.requested[0, 0] == 1000
        assert [group.pods for group in snapshot.counts.terms("required-anti", {"app": "y"})] == [1]
        assert snapshot.pods["default/p"].shape.labels == labels
        return snapshot.position - before

    assert put(app="x") == 1
    epoch = snapshot.counts.term_epoch
    assert put(app="x", **zone) == 0  # as binding does
    assert put(app="y", **zone) == 1
    counter = snapshot.counts.counter("y", lambda namespace, labels: labels.get("app") == "y", live_only=False)
    zoned = snapshot.counts.counter("z", lambda namespace, labels: zone.items() <= labels.items(), live_only=False)
    assert (counter.per_row[0], zoned.per_row[0]) == (1, 1)
    assert put(app="y") == 1
    assert (counter.per_row[0], zoned.per_row[0]) == (1, 0)
    assert put(app="y", **zone) == 1  # somebody counts zones now
    assert put(app="x", **zone) == 1
    assert (counter.per_row[0], zoned.per_row[0]) == (0, 1)
    assert snapshot.counts.term_epoch == epoch
    cache.remove_pod(made_pod("p", on="a"))
    assert (zoned.per_row[0], snapshot.requested[0, 0]) == (0, 0)


def test_a_supposition_leaves_no_trace() -> None:
    snapshot = Snapshot()
    snapshot.put_node(made_node("a"))
    snapshot.put_pod(
        made_pod("p", cpu="1", on="a", ports=(80,), affinity=apart("kubernetes.io/hostname", {"app": "x"}))
    )
    guest = snapshot.pod_info(made_pod("guest", cpu="2", ports=(80, 81)))
    meant = {"app": "x"}
    state = (snapshot.requested.copy(), snapshot.position, snapshot.counts.epoch_of(meant), dict(snapshot.pods_on[0]))
    ports = {port: {row: dict(used) for row, used in rows.items()} for port, rows in snapshot.ports.items()}
    with snapshot.what_if([guest], [snapshot.pods["default/p"]], 0):
        assert snapshot.requested[0, 0] == 2000
        assert list(snapshot.pods_on[0]) == ["default/guest"]
        assert snapshot.counts.terms("required-anti", {"app": "x"}) == []
    assert np.array_equal(snapshot.requested, state[0])
    assert (snapshot.position, snapshot.counts.epoch_of(meant), snapshot.pods_on[0]) == state[1:]
    assert {port: rows for port, rows in snapshot.ports.items() if rows} == ports


def test_a_sidecar_counts_with_the_containers_and_with_later_init_steps() -> None:
    def container(name: str, cpu: str, **more: str) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    tree = pod("p")
    tree["spec"]["containers"] = [container("main", "100m")]
    tree["spec"]["initContainers"] = [
        container("first", "900m"),
        container("side", "200m", restartPolicy="Always"),
        container("last", "800m"),
    ]
    requests = pod_requests(typed("Pod", tree).spec)
    assert str(requests["cpu"]) == "1"


def test_a_silent_container_counts_with_defaults_for_scoring_only() -> None:
    table = ResourceTable()
    assert accounted(made_pod("p").spec, None, table) == ((), 100, 200 * 1024 * 1024)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], expected: bool) -> None:
    spec = made_pod("p", tolerations=[toleration]).spec
    assert tolerated(spec.tolerations, TaintKey("k", "v", "NoSchedule")) is expected


def test_taints_of_a_node_are_one_value() -> None:
    snapshot = Snapshot()
    snapshot.put_node(made_node("a", taints=(taint("x"),)))
    snapshot.put_node(made_node("b", taints=(taint("x"),)))
    assert snapshot.taints.ids[:2].tolist() == [0, 0]


def test_a_utilization_curve_is_linear_between_its_points_and_rounds_towards_zero() -> None:
    curve = utilization_curve((ShapePoint(0, 10), ShapePoint(30, 0), ShapePoint(60, 5)))
    assert (curve[0], curve[10], curve[30], curve[45], curve[100]) == (100, 67, 0, 25, 50)
