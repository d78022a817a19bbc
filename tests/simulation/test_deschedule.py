"""`bayplan simulate --deschedule`: which pods a pass moves, from where to where, and which stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.api.types import policy_v1
from bayplan.cli.main import main
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, to_bytes
from bayplan.testing.builders import metadata, node, selector
from tests.simulation.objects import copy_of, owned, set_of

STRATEGY: dict[str, Any] = {
    "name": "LowNodeUtilization",
    "args": {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}},
}


def policy(*configs: dict[str, Any], point: str = "balance", **top: Any) -> dict[str, Any]:
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "default",
                "pluginConfig": list(configs),
                "plugins": {point: {"enabled": [configs[0]["name"]]}},
            }
        ],
        **top,
    }


def crowded(*more: Any) -> ClusterSnapshot:
    """Eight pods of half a cpu on one of two nodes with four, and a second workload there that must stay."""
    web, rest = set_of("web", 6), set_of("rest", 2)
    return copy_of(
        node("a"),
        node("b"),
        web,
        rest,
        *(owned(web, f"web-{number}", "a", cpu="500m") for number in range(6)),
        *(owned(rest, f"rest-{number}", "a", cpu="500m") for number in range(2)),
        *more,
    )


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    def asked(copy: ClusterSnapshot, tree: dict[str, Any], *arguments: str) -> Result:
        cluster, file = tmp_path / "cluster.bayplan", tmp_path / "policy.yaml"
        cluster.write_bytes(to_bytes(copy))
        file.write_text(yaml.safe_dump(tree))
        return CliRunner().invoke(main, ["simulate", "--cluster", str(cluster), "--deschedule", str(file), *arguments])

    return asked


def test_the_report_says_what_moved_from_where_to_where(ask: Any) -> None:
    data = json.loads(ask(crowded(), policy(STRATEGY), "-o", "json").output)
    assert data["good"]
    assert data["actions"][0].startswith("deschedule by ")
    evicted = [one for one in data["descheduled"] if one["evicted"]]
    assert len(evicted) == 4
    assert {(one["node"], one["strategy"]) for one in evicted} == {("a", "LowNodeUtilization")}
    assert evicted[0]["reason"] == "its node is overutilized: cpu 100 %"
    assert data["before"] == {"a": 8}
    assert sum(data["after"].values()) == 8
    assert data["after"]["b"] >= 2, "the scheduler may send some of them back"
    assert len(data["placements"]) == 4
    text = ask(crowded(), policy(STRATEGY)).output
    assert "DESCHEDULED" in text
    assert len([line for line in text.splitlines() if "LowNodeUtilization" in line and " a " in line]) == 4


def test_budgets_hold_in_the_simulation_and_the_report_says_so(ask: Any) -> None:
    budget = policy_v1.PodDisruptionBudget(
        metadata=metadata("web", "default"),
        spec=policy_v1.PodDisruptionBudgetSpec(selector=selector({"app": "web"}), min_available=6),
    )
    result = ask(crowded(budget), policy(STRATEGY), "-o", "json")
    data = json.loads(result.output)
    assert {one["pod"].split("-")[0] for one in data["descheduled"] if one["evicted"]} == {"default/rest"}
    refused = [one for one in data["descheduled"] if not one["evicted"]]
    assert {one["pod"].split("-")[0] for one in refused} == {"default/web"}
    assert "disruption budget" in refused[0]["objection"]
    text = ask(crowded(budget), policy(STRATEGY)).output
    assert "NOT EVICTED" in text


def test_limits_hold_in_the_simulation(ask: Any) -> None:
    data = json.loads(ask(crowded(), policy(STRATEGY, maxNoOfPodsToEvictPerNode=1), "-o", "json").output)
    assert [one["evicted"] for one in data["descheduled"]] == [True, False]
    assert data["descheduled"][1]["objection"] == "maximum number of evicted pods per node reached"


def test_a_page_shows_it(ask: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ask(crowded(), policy(STRATEGY, maxNoOfPodsToEvictTotal=2), "--html", str(page))
    text = page.read_text()
    assert "What the descheduler evicted" in text
    assert "What the descheduler left" in text


def test_a_pass_that_cannot_be_made_is_a_problem(ask: Any) -> None:
    alone = copy_of(node("a"), set_of("web"))
    result = ask(alone, policy(STRATEGY), "-o", "json")
    assert result.exit_code == 1
    assert "no pod was looked at: requires at least 2 ready nodes, found 1" in json.loads(result.output)["problems"][0]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (policy({"name": "LowNodeUtilisation"}), "did you mean LowNodeUtilization?"),
        (
            policy(STRATEGY, {"name": "DefaultEvictor", "args": {"priorityThreshold": {"name": "gone"}}}),
            'priorityclasses.scheduling.k8s.io "gone" not found',
        ),
    ],
)
def test_a_policy_that_makes_no_sense(ask: Any, tree: dict[str, Any], expected: str) -> None:
    result = ask(crowded(), tree)
    assert (result.exit_code, expected in result.output) == (2, True), result.output
