"""Faults as data: plans, and clusters that live through them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.api.types import core_v1
from bayplan.cli.main import main
from bayplan.simulation.faults.plan import Fault, Plan, PlanError, drawn_plan, read_plan
from bayplan.simulation.faults.trial import run_trial, unfinished
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment
from bayplan.testing.invariants import violations

PLAN = """
nodes: 4
zones: 2
for: 8m
faults:
- {at: 90s, do: crash-node, node: node-2, for: 3m}
- {at: 1m, do: restart, component: scheduler, for: 20s}
- {at: 2m, do: kill-pods, selector: app=web, count: 2}
- {at: 3m, do: patch-pods, selector: app=web, annotations: {bayplan.dev/oom-seconds: "5"}}
- {at: 0s, do: unreliable-api, for: 5m, conflict: 0.2, errorAfter: 0.1}
- {at: 4m, do: fail-zone, zone: zone-a, for: 30s}
"""


@pytest.mark.parametrize("seed", range(12))
def test_clusters_live_through_what_seeds_choose(seed: int) -> None:
    assert run_trial(drawn_plan(seed), seed).problems == ()


def test_a_plan_is_done_in_order_and_the_same_each_time(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    lines: list[str] = []
    first = run_trial(read_plan(file), 3, lines.append)
    assert first.problems == ()
    assert [one.split(" ")[2] for one in first.happened] == [
        "unreliable-api",
        "restart",
        "crash-node",
        "kill-pods",
        "patch-pods",
        "fail-zone",
    ]
    assert first.injected > 0
    assert len(lines) == first.writes
    assert run_trial(read_plan(file), 3) == first
    assert run_trial(read_plan(file), 4).trace != first.trace


def test_a_cluster_that_is_not_well_in_the_end_is_told(tmp_path: Path) -> None:
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "huge"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "huge"}},
            "template": {
                "metadata": {"labels": {"app": "huge"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}]},
            },
        },
    }
    (tmp_path / "app.json").write_text(json.dumps(tree))
    trial = run_trial(Plan(lasts=10.0, workload=(tmp_path / "app.json",)), 0)
    assert trial.problems == ("Deployment huge: (2, 2, 0) replicas, updated, available; 2 wanted",)


def test_unfinished_work_and_broken_invariants_are_seen() -> None:
    async def main_() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            await cluster.client.create(deployment("web", 1))
            assert len(await unfinished(cluster.client)) == 1
            await cluster.advance(minutes=1)
            assert await unfinished(cluster.client) == []
            assert await violations(cluster.client) == []
            await cluster.client.delete(core_v1.Node, "node-1")
            assert any("does not exist" in one for one in await violations(cluster.client))

    run(main_())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("faults: [{do: explode}]", r"faults\[0\]: do: expected one of crash-node"),
        ("faults: [{do: crash-node}]", r"faults\[0\]: node is missing"),
        ("faults: [{do: crash-node, node: a, zone: b}]", "crash-node has no field zone"),
        ("faults: [{do: restart, component: etcd}]", "component: expected one of controllers"),
        ("faults: [{do: unreliable-api, conflict: 2}]", "conflict: expected a likelihood"),
        ("faults: [{at: soon, do: kill-pods}]", "at: expected a time"),
        ("nodes: many", "nodes: expected a whole number"),
        ("speed: 9", "unknown field speed"),
        ("[1]", "expected one document"),
    ],
)
def test_mistakes_in_plans_are_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    with pytest.raises(PlanError, match=message):
        read_plan(file)


def test_drawn_plans_depend_on_the_seed_alone() -> None:
    assert drawn_plan(5) == drawn_plan(5)
    kinds = {fault.do for seed in range(40) for fault in drawn_plan(seed).faults}
    assert kinds == {"crash-node", "fail-zone", "restart", "kill-pods", "patch-pods", "unreliable-api"}
    assert Fault(90.0, "crash-node", 30.0, "a").describe() == "90 s: crash-node a for 30 s"


class TestCommand:
    def invoke(self, *arguments: str) -> Any:
        return CliRunner().invoke(main, ["faults", *arguments])

    def test_seeds(self) -> None:
        result = self.invoke("--seeds", "2")
        assert result.exit_code == 0, result.output
        assert result.output.startswith("2 runs, ")
        assert result.output.endswith("all held\n")

    def test_one_seed_with_its_trace(self, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        result = self.invoke("--seed", "1", "--trace", str(trace))
        assert result.exit_code == 0, result.output
        assert "restart" in result.output
        assert trace.read_text().count("\n") > 300

    def test_a_failure_names_the_command_that_replays_it(self, tmp_path: Path) -> None:
        plan = tmp_path / "plan.yaml"
        plan.write_text("nodes: 1\nfor: 5s\nworkload: [app.json]\n")
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "gone"},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lost"}, "spec": spec}
        (tmp_path / "app.json").write_text(json.dumps(tree))
        result = self.invoke(str(plan), "--seeds", "1", "--first", "7")
        assert result.exit_code == 1
        assert f"replay it: bayplan faults {plan} --seed 7" in result.output

    def test_mistakes(self, tmp_path: Path) -> None:
        assert self.invoke("--trace", "x").exit_code == 2
        result = self.invoke(str(tmp_path / "none.yaml"))
        assert result.exit_code == 2
        assert "No such file" in result.output
