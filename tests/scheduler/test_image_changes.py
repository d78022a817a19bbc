"""Images that come to nodes and leave them change the scores of the pods that use them, and nothing else."""

from __future__ import annotations

import random
from typing import Any

from bayplan.api.types import core_v1
from bayplan.scheduler import Planner
from bayplan.scheduler.framework.extension_points import ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.library import typed
from bayplan.scheduler.registry import known
from bayplan.scheduler.snapshot.labels import Ints, Rows
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import enabling

SIZE = 800 << 20


def with_images(name: str, *images: str) -> core_v1.Node:
    tree = node(name)
    tree["status"]["images"] = [{"names": [f"registry.example/{one}:1"], "sizeBytes": SIZE} for one in images]
    found: core_v1.Node = typed("Node", tree)
    return found


def using(name: str, image: str) -> Tree:
    tree = pod(name, cpu="100m")
    tree["spec"]["containers"][0]["image"] = f"registry.example/{image}:1"
    return tree


def totals(planner: Planner, tree: Tree) -> list[int]:
    info = planner.pod(tree)
    cycle: Any = planner.cycle_for(info)
    evaluation = cycle.evaluation(info.shape)
    evaluation.score(cycle.order())
    found: list[int] = evaluation.totals._totals.tolist()
    return found


def test_only_pods_that_use_an_image_are_scored_anew() -> None:
    planner = Planner([with_images(name) for name in "abc"])
    users, others = using("p", "x"), using("q", "y")
    before = totals(planner, users)
    kept = totals(planner, others)
    cycle: Any = planner.cycle_for(planner.pod(others))
    settled = cycle.evaluation(planner.pod(others).shape).totals._settled_total
    planner.add("Node", with_images("b", "x"))
    assert planner.decide(users).node == "b"
    assert totals(planner, users)[1] > before[1]
    assert totals(planner, others) == kept
    assert cycle.evaluation(planner.pod(others).shape).totals._settled_total is settled
    planner.add("Node", with_images("b"))
    assert totals(planner, users) == before


def test_scores_are_those_of_a_fresh_planner_whatever_images_come_and_go() -> None:
    chance = random.Random(7)
    nodes = {name: with_images(name) for name in "abcde"}
    planner = Planner(nodes.values())
    pods = [using(f"p-{image}", image) for image in "uvwxy"]
    for _ in range(120):
        name = chance.choice("abcde")
        nodes[name] = with_images(name, *chance.sample("uvwxy", chance.randint(0, 3)))
        planner.add("Node", nodes[name])
        for tree in chance.sample(pods, 2):
            assert totals(planner, tree) == totals(Planner(nodes.values()), tree)


class Hoarding(ScorePlugin):
    """The more images the better; it does not say that it looks at them."""

    name = "Hoarding"

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return self.snapshot.images.gather(lambda images: len(images or ()), rows)


def test_a_plugin_of_others_may_look_at_images() -> None:
    with known(Hoarding):
        planner = Planner([with_images(name) for name in "abc"], enabling("Hoarding", 90))
        tree = using("p", "x")
        assert planner.decide(tree).node == "a"
        planner.add("Node", with_images("c", "y", "z"))
        assert planner.decide(tree).node == "c"
