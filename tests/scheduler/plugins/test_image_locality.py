"""Nodes that have a pod's images already: names with and without tags, and the bounds between which sizes count."""

from __future__ import annotations

import pytest

from bayplan.scheduler import Planner
from bayplan.scheduler.plugins.image_locality import MEBIBYTE, normalized_image_name
from tests.scheduler.objects import Tree, node, pod


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("library/nginx", "library/nginx:latest"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("host:5000/nginx:1", "host:5000/nginx:1"),
        (":1", ":1"),
        ("/", "/:latest"),
    ],
)
def test_a_name_without_a_tag_means_the_latest(name: str, normalized: str) -> None:
    assert normalized_image_name(name) == normalized


def having(name: str, **mebibytes: int) -> Tree:
    tree = node(name)
    tree["status"]["images"] = [
        {"names": [f"{image}:latest"], "sizeBytes": size * MEBIBYTE} for image, size in mebibytes.items()
    ]
    return tree


@pytest.mark.parametrize(("size", "score"), [(0, 0), (22, 0), (23, 0), (33, 1), (999, 99), (1000, 100), (2000, 100)])
def test_a_node_scores_between_23_and_1000_mebibytes(size: int, score: int) -> None:
    asked = pod("p")
    asked["spec"]["containers"][0]["image"] = "app"
    planner = Planner([having("a", app=size, other=5000), having("b", app=size)])
    assert planner.decide(asked).scores["ImageLocality"].tolist() == [score, score]


def test_an_image_counts_the_less_the_fewer_nodes_have_it_and_the_more_containers_there_are() -> None:
    asked = pod("p")
    asked["spec"]["containers"] = [{"name": image, "image": image} for image in ("one", "two")]
    planner = Planner([having("a", one=1000), having("b"), having("c", one=1000, two=1023), having("d")])
    # Half of 1000 MiB, of at most 2000 and at least 23; on c a quarter of 1023 more.
    scores = planner.decide(asked).scores["ImageLocality"].tolist()
    assert scores == [100 * (500 - 23) // (2000 - 23), 0, 100 * (500 + 255 - 23) // (2000 - 23), 0]
