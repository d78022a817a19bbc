"""Nodes that hold the data of a pod, and nodes near them."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner, evaluate
from bayplan.scheduler.library import typed
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import enabling
from tests.scheduler.plugins.test_volume_binding import claim, user

ZONE = "topology.kubernetes.io/zone"
SET = "data.bayplan.dev/"
NODES = [
    node("holds", labels={ZONE: "a", f"{SET}genome": "100"}),
    node("near", labels={ZONE: "a"}),
    node("little", labels={ZONE: "b", f"{SET}genome": "40"}),
    node("far", labels={ZONE: "c"}),
    node("nowhere"),
]


def scores(new: Tree, *objects: Tree, **args: object) -> dict[str, int]:
    nodes = evaluate([*NODES, *objects], new, enabling("DataLocality", **args)).to_dict()["nodes"]  # type: ignore[arg-type]
    return {name: one["scores"]["DataLocality"] for name, one in nodes.items() if "DataLocality" in one["scores"]}


def reader(*sets: str) -> Tree:
    return pod("new", labels={f"{SET}{name}": "" for name in sets})


def test_what_a_node_holds_counts_and_what_is_near_counts_half() -> None:
    assert scores(reader("genome")) == {"holds": 100, "near": 50, "little": 40, "far": 0, "nowhere": 0}


@pytest.mark.parametrize(("weight", "near"), [(0, 0), (20, 20), (100, 100)])
def test_how_much_nearness_counts_is_an_argument(weight: int, near: int) -> None:
    assert scores(reader("genome"), domainWeight=weight)["near"] == near


def test_several_data_sets_add_up() -> None:
    more = node("both", labels={ZONE: "d", f"{SET}genome": "60", f"{SET}atlas": "60"})
    found = scores(reader("genome", "atlas"), more)
    assert (found["both"], found["holds"]) == (100, 83)


def test_a_pod_without_data_sets_is_not_scored() -> None:
    assert scores(pod("new")) == {}


def test_a_data_set_that_no_node_holds_makes_no_difference() -> None:
    assert set(scores(reader("lost")).values()) == {0}


def test_the_label_of_a_claim_names_the_data_set_as_well() -> None:
    one = claim("c")
    one["metadata"]["labels"] = {f"{SET}genome": ""}
    one["spec"]["storageClassName"] = "late"
    storage = {
        "kind": "StorageClass",
        "metadata": {"name": "late"},
        "provisioner": "example.com/any",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert scores(user("new", "c"), one, storage)["holds"] == 100


def test_what_is_kept_equals_what_a_fresh_scheduler_says() -> None:
    lasting = Planner(NODES, enabling("DataLocality"))
    nodes = {one["metadata"]["name"]: one for one in NODES}
    for step, (name, labels) in enumerate(
        [
            ("far", {ZONE: "c", f"{SET}genome": "10"}),
            ("holds", {ZONE: "a"}),
            ("near", {ZONE: "c"}),
            ("nowhere", {f"{SET}genome": "80"}),
        ]
    ):
        nodes[name] = node(name, labels=labels)
        lasting.add("Node", typed("Node", nodes[name]))
        for new in (reader("genome"), reader("atlas"), pod("plain"), reader("genome", f"other-{step}")):
            fresh = evaluate(list(nodes.values()), new, enabling("DataLocality"))
            assert lasting.decide(new, explain=True).to_dict()["nodes"] == fresh.to_dict()["nodes"]


def test_a_value_that_is_no_number_counts_as_one() -> None:
    assert (
        scores(reader("odd"), node("odd", labels={f"{SET}odd": "yes"}), node("two", labels={f"{SET}odd": "2"}))["odd"]
        == 50
    )
