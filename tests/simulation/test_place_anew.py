"""`bayplan simulate --place-anew`: all pods of workloads at once, by the scheduler as it is configured."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.simulation.actions import PlaceAnew
from bayplan.simulation.questions.what_if import simulate
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, to_bytes
from bayplan.testing.builders import node
from tests.simulation.objects import copy_of, owned, running, set_of


def crowded() -> ClusterSnapshot:
    """Two nodes, of which one has four pods of a workload and one of nobody."""
    web = set_of("web", 4)
    pods = [owned(web, f"web-{number}", "a", cpu="500m") for number in range(4)]
    return copy_of(node("a"), node("b"), web, *pods, running("alone", "a", cpu="500m"))


def test_pods_of_workloads_are_placed_anew_and_others_stay() -> None:
    outcome = simulate(crowded(), [PlaceAnew()])
    assert outcome.good
    assert outcome.before["a"] == 5
    assert sorted(outcome.after.values()) == [2, 3]
    assert "default/alone" not in {one.pod for one in outcome.departures}
    assert len(outcome.placements) == 4


def test_no_pod_is_placed_before_all_have_left() -> None:
    outcome = simulate(crowded(), [PlaceAnew()])
    assert max(one.at for one in outcome.departures) < min(one.at for one in outcome.placements)


def test_the_command_line_does_it_last(tmp_path: Path) -> None:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(crowded()))
    arguments = ["simulate", "--cluster", str(file), "--place-anew", "--cordon", "b", "-o", "json"]
    outcome = json.loads(CliRunner().invoke(main, arguments).output)
    assert outcome["actions"] == ["cordon b", "place the pods of workloads anew"]
    assert outcome["after"] == {"a": 5}
