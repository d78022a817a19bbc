"""How many more pods fit, and how many nodes are missing."""

from __future__ import annotations

import pytest

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.simulation.capacity import capacity, mix_capacity
from bayplan.simulation.copies_planner import QuestionError, node_shape, pod_named, pod_of_requests
from bayplan.testing.builders import node, pod, selector, taint, template
from tests.simulation.objects import copy_of, running


def daemon(cpu: str) -> apps_v1.DaemonSet:
    made = apps_v1.DaemonSet(metadata=meta_v1.ObjectMeta(name="agent", namespace="kube-system"))
    made.spec.template = template({"app": "agent"}, cpu=cpu)
    return made


def test_what_fits_is_counted_per_node() -> None:
    copy = copy_of(node("a", cpu="2"), node("b", cpu="1"), running("p", "a", cpu="500m"))
    answer = capacity(copy, pod_of_requests({"cpu": "500m"}))
    assert (answer.room.per_node, answer.enough) == ({"a": 3, "b": 2}, True)
    assert answer.spread() == [(3, 1), (2, 1)]


def test_missing_nodes_are_counted_with_their_daemons() -> None:
    copy = copy_of(node("a", cpu="2"), daemon("500m"))
    answer = capacity(copy, pod_of_requests({"cpu": "1"}), wanted=5, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert (answer.room.total, answer.missing.nodes, answer.missing.per_node) == (2, 3, 1)


def test_one_node_less_than_said_is_not_enough() -> None:
    copy = copy_of(node("a", cpu="4"))
    answer = capacity(
        copy, pod_of_requests({"cpu": "1500m"}), wanted=23, shape=lambda: node_shape(copy, "", {"cpu": "8"})
    )
    assert answer.missing is not None
    assert (answer.missing.nodes, answer.missing.per_node) == (5, 5)  # 2 are there already, 21 = 4 * 5 + 1


def test_pods_that_exclude_one_another_need_a_node_each() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "x"}), topology_key="kubernetes.io/hostname")
    apart = core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    asked = pod("x", meta={"labels": {"app": "x"}}, affinity=core_v1.Affinity(pod_anti_affinity=apart))
    copy = copy_of(node("a"), node("b"))
    answer = capacity(copy, asked, wanted=6, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert (answer.room.total, answer.missing.nodes) == (2, 4)


def test_nodes_that_never_help_are_said_to() -> None:
    copy = copy_of(node("a", cpu="2"))
    answer = capacity(copy, pod_of_requests({"cpu": "3"}), wanted=1, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert answer.missing.nodes == -1
    assert answer.missing.limits[0].reasons == ("Insufficient cpu",)


def test_the_usual_node_is_one_that_takes_pods() -> None:
    closed = [node(f"c{number}", cpu="64", taints=(taint("only", "NoSchedule"),)) for number in range(3)]
    assert node_shape(copy_of(*closed, node("open", cpu="8"))).base.metadata.name == "open"


def test_added_nodes_take_turns_over_the_zones() -> None:
    zone = "topology.kubernetes.io/zone"
    copy = copy_of(*(node(name, meta={"labels": {zone: name}}) for name in "ab"))
    shape = node_shape(copy)
    assert [shape.node(number).metadata.labels[zone] for number in (1, 2, 3)] == ["a", "b", "a"]


def test_a_mix() -> None:
    copy = copy_of(node("a", cpu="4"))
    answer = mix_capacity(copy, [(pod("x", cpu="1"), 1), (pod("y", cpu="500m"), 2)], wanted=3)
    assert (answer.answer.sets, answer.enough, answer.to_dict()["fits"]) == (2, False, {"default/x": 2, "default/y": 4})


def test_a_pod_that_is_not_there_is_named_with_one_that_is() -> None:
    with pytest.raises(QuestionError, match="no pod wen in namespace default; did you mean web"):
        pod_named(copy_of(node("a"), running("web", "a")), "wen")
