"""The comparison of controllers: what differs by chance does not count, what differs otherwise is noticed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.differential.controllers.__main__ import run
from tests.differential.controllers.normalizing import Names, objects
from tests.differential.controllers.scenarios import TOPICS

_BAYPLAN = (str(Path(sys.executable).parent / "bayplan"), "controller-manager")


def test_controllers_that_are_missing_are_noticed_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = (*_BAYPLAN, "--controllers=-disruption-controller")
    report = asyncio.run(run(_BAYPLAN, other, tmp_path, ("budgets",), "budget-empty"))
    assert {key.split(" ")[0] for key in report.differing} == {"Event", "PodDisruptionBudget"}
    assert '"reason": "NoPods"' in capsys.readouterr().out


def test_names_and_times_do_not_count() -> None:
    def shown(name: str, uid: str, hash_: str, time: str) -> dict[str, list[str]]:
        template = {"metadata": {"labels": {"pod-template-hash": hash_}}, "spec": {"image": "a"}}
        owner = {
            "metadata": {"name": f"web-{hash_}", "namespace": "a", "uid": uid, "labels": {"pod-template-hash": hash_}},
            "spec": {"template": template},
        }
        pod = {
            "metadata": {
                "name": f"web-{hash_}-{name}",
                "namespace": "a",
                "uid": f"{uid}0",
                "generateName": f"web-{hash_}-",
            },
            "status": {"startTime": time, "message": f"web-{hash_}-{name} of {uid}"},
        }
        names = Names()
        names.learn([owner, pod])
        return objects(names, "ReplicaSet", [owner]) | objects(names, "Pod", [pod])

    one = shown("bcdfg", "1-2-3", "5d4f8c7b9", "2026-01-01T00:00:00Z")
    other = shown("xz245", "4-5-6", "799d888886", "2026-02-03T04:05:06Z")
    assert one == other
    assert any("-*" in key for key in one)


def test_scenarios_have_names_of_their_own() -> None:
    names = [scenario.name for scenarios in TOPICS.values() for scenario in scenarios]
    assert len(names) == len(set(names)) > 50
