"""`bayplan learn`, as people use it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import main
from bayplan.simulation.lessons.lesson import ORDER


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["learn", *arguments])


def test_without_a_name_it_lists_the_scenarios() -> None:
    lines = run().output.splitlines()
    assert [line.split()[0] for line in lines] == list(ORDER)
    assert [one["name"] for one in json.loads(run("-o", "json").output)] == list(ORDER)


def test_a_scenario_is_told_step_by_step() -> None:
    said = run("preemption").output
    assert said.startswith("Preemption\n")
    assert "1. You create an important pod in a full cluster  (after 0 s)" in said
    assert "$ kubectl apply -f payment.yaml" in said
    assert "scheduler: update Pod default/payment: " in said
    assert "status.nominatedNodeName" in said
    assert "code: src/bayplan/scheduler/plugins/default_preemption.py:" in said


def test_a_recording_as_data_has_changes_and_steps() -> None:
    recording = json.loads(run("taints", "-o", "json").output)
    assert {one["kind"] for one in recording["initial"]} >= {"Node", "Pod"}
    step = recording["steps"][0]
    change = recording["changes"][step["change"]]
    assert change["difference"][0]["path"].startswith("spec.taints")


@pytest.mark.parametrize("name", ["nothing", "../x"])
def test_an_unknown_scenario_makes_no_sense(name: str) -> None:
    result = run(name)
    assert result.exit_code == 2
    assert "there are list-watch" in result.output
