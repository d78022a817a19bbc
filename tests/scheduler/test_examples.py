"""The scheduler configurations and the plugin of `examples/scheduler` do what they and their page say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from bayplan.scheduler import Planner, evaluate
from bayplan.testing.builders import node, pod
from examples.scheduler.quiet_nodes import DEAF, NOISY, QuietNodes
from tests.scheduler.installing import install

DIRECTORY = Path(__file__).parents[2] / "examples" / "scheduler"


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> str:
    """The file that enables the plugin, which counts as installed."""
    install(monkeypatch, [QuietNodes])
    return str(DIRECTORY / "quiet-nodes.yaml")


def test_the_plugin_refuses_noisy_nodes_but_not_for_deaf_pods(config: str) -> None:
    nodes = [node("loud", meta={"labels": {NOISY: ""}}), node("quiet")]
    assert evaluate(nodes, pod("any"), config).node == "quiet"
    refused = evaluate(nodes[:1], pod("any"), config)
    assert refused.node is None
    assert refused.message.startswith("0/1 nodes are available: 1 node(s) were noisy.")
    assert evaluate(nodes[:1], pod("deaf", meta={"labels": {DEAF: ""}}), config).node == "loud"


def test_the_plugin_prefers_nodes_with_few_pods(config: str) -> None:
    there = [pod(f"there-{number}", node_name="b") for number in range(3)]
    found = evaluate([node("a"), node("b"), *there], pod("new"), config).to_dict()["nodes"]
    assert [found[name]["scores"]["QuietNodes"] for name in "ab"] == [500, 485]


def test_the_package_registers_the_plugin_under_its_name() -> None:
    points = tomllib.loads((DIRECTORY / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points == {"bayplan.plugins": {QuietNodes.name: f"{QuietNodes.__module__.rpartition('.')[2]}:QuietNodes"}}
    enabled = yaml.safe_load((DIRECTORY / "quiet-nodes.yaml").read_text())["profiles"][0]["plugins"]["multiPoint"]
    assert [one["name"] for one in enabled["enabled"]] == [QuietNodes.name]


@pytest.mark.parametrize(("file", "used"), [(None, 3), ("most-allocated.yaml", 1)])
def test_most_allocated_fills_one_node_first(file: str | None, used: int) -> None:
    planner = Planner([node(name) for name in "abc"], file and str(DIRECTORY / file))
    placed = [planner.schedule(pod(f"p-{number}", cpu="500m")).node for number in range(6)]
    assert len(set(placed)) == used
