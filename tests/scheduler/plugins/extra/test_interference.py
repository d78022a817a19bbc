"""Noisy pods and sensitive ones, and loaded nodes."""

from __future__ import annotations

from bayplan.scheduler import Planner, evaluate
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import enabling

CLASS, LOAD = "bayplan.dev/interference-class", "bayplan.dev/measured-load"
CLASSES = [
    {"name": "batch", "noise": 100, "sensitivity": 0},
    {"name": "web", "noise": 10, "sensitivity": 100},
    {"name": "quiet"},
]


def config(weight: int = 100, **args: object) -> Tree:
    return enabling("Interference", weight, classes=CLASSES, **args)


def of(kind: str, name: str = "new", on: str = "") -> Tree:
    return pod(name, cpu="100m", on=on, labels={CLASS: kind})


def scores(new: Tree, *objects: Tree, **args: object) -> dict[str, int]:
    nodes = evaluate(list(objects), new, config(1, **args)).to_dict()["nodes"]
    return {name: one["scores"]["Interference"] for name, one in nodes.items() if "Interference" in one["scores"]}


def test_a_sensitive_pod_avoids_noisy_ones() -> None:
    there = [of("batch", "b1", on="two"), of("batch", "b2", on="two"), of("batch", "b3", on="one")]
    assert scores(of("web"), node("none"), node("one"), node("two"), *there) == {"none": 100, "one": 50, "two": 0}


def test_a_noisy_pod_avoids_sensitive_ones_and_not_its_like() -> None:
    there = [of("web", "w", on="web"), of("batch", "b", on="batch")]
    assert scores(of("batch"), node("web"), node("batch"), *there) == {"web": 0, "batch": 100}


def test_sensitive_pods_disturb_each_other_a_little() -> None:
    there = [of("web", "w", on="web"), of("batch", "b", on="batch")]
    assert scores(of("web"), node("web"), node("batch"), *there) == {"web": 80, "batch": 0}


def test_classes_that_are_not_known_or_say_nothing_are_not_scored() -> None:
    there = [node("a"), of("batch", "b", on="a")]
    for kind in ("quiet", "other"):
        assert scores(of(kind), *there) == {}
    assert scores(pod("new"), *there) == {}


def test_sensitive_pods_avoid_loaded_nodes() -> None:
    nodes = [
        node("idle", labels={LOAD: "10"}),
        node("busy", labels={LOAD: "90"}),
        node("unknown", labels={LOAD: "much"}),
    ]
    assert scores(of("web"), *nodes) == {"idle": 89, "busy": 0, "unknown": 100}
    assert set(scores(of("batch"), *nodes).values()) == {100}
    assert set(scores(of("web"), *nodes, loadWeight=0).values()) == {100}


def test_a_queue_of_pods_is_kept_apart() -> None:
    planner = Planner([node(f"n{number}", cpu="8") for number in range(4)], config())
    kinds = ["batch", "web", "batch", "web", "batch", "web", "batch", "web"]
    where = [planner.schedule(of(kind, f"p{number}")).node for number, kind in enumerate(kinds)]
    noisy = {node for node, kind in zip(where, kinds, strict=True) if kind == "batch"}
    sensitive = {node for node, kind in zip(where, kinds, strict=True) if kind == "web"}
    assert noisy.isdisjoint(sensitive)


def test_what_is_kept_equals_what_a_fresh_scheduler_says() -> None:
    nodes = [node(f"n{number}", cpu="8") for number in range(12)]
    placed: list[Tree] = []
    lasting = Planner(nodes, config())
    for number in range(60):
        one = of(("batch", "web", "quiet")[number % 3], f"p{number}")
        fresh = evaluate([*nodes, *placed], one, config())
        assert lasting.decide(one, explain=True).to_dict()["nodes"] == fresh.to_dict()["nodes"]
        decision = lasting.schedule(one)
        placed.append({**one, "spec": {**one["spec"], "nodeName": decision.node}, "status": {"phase": "Running"}})
