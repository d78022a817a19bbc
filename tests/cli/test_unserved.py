"""Charts with custom resources: these are named, and the rest is simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import main
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node
from tests.simulation.objects import copy_of

CHART = """
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
"""
SAID = "warning: ServiceMonitor in monitoring.coreos.com/v1 is not served here"
UNSERVED = [{"kind": "ServiceMonitor", "apiVersion": "monitoring.coreos.com/v1", "objects": 1}]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.bayplan"
    file.write_bytes(to_bytes(copy_of(node("a"))))
    return str(file)


@pytest.fixture
def chart(tmp_path: Path) -> str:
    file = tmp_path / "chart.yaml"
    file.write_text(CHART)
    return str(file)


def test_simulate_places_the_rest_of_a_chart(cluster: str, chart: str) -> None:
    page = Path(cluster).with_suffix(".html")
    result = run("simulate", "--cluster", cluster, "--apply", chart, "-o", "json", "--html", str(page))
    assert "What was not simulated" in page.read_text()
    assert "ServiceMonitor" in page.read_text()
    data = json.loads(result.stdout)
    assert (result.exit_code, SAID in result.stderr) == (0, True)
    assert (data["unserved"], len(data["placements"])) == (UNSERVED, 2)


def test_simulate_refuses_a_misspelt_kind(cluster: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(CHART.replace("Deployment", "Deploymnt"))
    result = run("simulate", "--cluster", cluster, "--apply", str(wrong))
    assert (result.exit_code, "did you mean Deployment in apps/v1?" in result.stderr) == (1, True)


def test_trace_goes_on_without_them(chart: str) -> None:
    result = run("trace", "--apply", chart, "--for", "5s")
    assert (result.exit_code, SAID in result.stderr) == (0, True)
    assert "apps/deployments/default/web" in result.stdout


@pytest.mark.parametrize("option", ["--pod", "--mix"])
def test_capacity_takes_the_workload_of_a_chart(cluster: str, chart: str, option: str) -> None:
    value = chart if option == "--pod" else f"{chart}=1"
    result = run("capacity", "--cluster", cluster, option, value, "-o", "json")
    assert (result.exit_code, SAID in result.stderr) == (0, True)
    assert json.loads(result.stdout)["unserved"] == UNSERVED


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("consolidate", ()),
        ("capacity", ("--cpu", "1")),
        ("explain", ("default/p",)),
        ("explain", ("default/p", "--fix")),
        ("simulate", ("--for", "1s")),
        ("replay", ()),
        ("compare", ("--scheduler-config", "examples/scheduler/most-allocated.yaml", "--seeds", "1")),
    ],
)
def test_a_cluster_of_manifests_names_them_in_every_answer(
    verb: str, arguments: tuple[str, ...], chart: str, tmp_path: Path
) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main, image: x}]}\n"
    (tmp_path / "more.yaml").write_text(f"apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n---\n{pod}")
    result = run(verb, "--cluster", str(tmp_path), *arguments, "-o", "json")
    assert SAID in result.stderr
    assert json.loads(result.stdout)["unserved"] == UNSERVED


def test_a_snapshot_of_manifests_remembers_them(chart: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    result = run("snapshot", "--from", chart, "-o", out, "--format", "json")
    assert json.loads(result.stdout)["unserved"] == UNSERVED
    result = run("capacity", "--cluster", out, "--cpu", "1")
    assert "left out ServiceMonitor in monitoring.coreos.com/v1: custom resources are not simulated" in result.stderr


def test_faults_play_a_workload_that_has_them(chart: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"nodes: 1\nfor: 1m\nworkload: [{Path(chart).name}]\nfaults: []\n")
    result = run("faults", str(plan), "--seed", "1", "-o", "json")
    assert (result.exit_code, SAID in result.stderr) == (0, True), result.output
    assert json.loads(result.stdout)[0]["unserved"] == UNSERVED
