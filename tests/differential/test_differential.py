"""Bayplan's own scheduler process, compared with the library; and that a scheduler with other rules is noticed."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from bayplan.scheduler import Planner
from tests.differential import gangs
from tests.differential.__main__ import run
from tests.differential.clusters import clusters
from tests.differential.comparing import Report, changed, compare, difference
from tests.differential.running import Outcome, running
from tests.differential.sampling import Places
from tests.scheduler.objects import node, pod

_PROGRAM = [str(Path(sys.executable).parent / "bayplan"), "scheduler"]


def test_the_process_decides_as_the_library_does(tmp_path: Path) -> None:
    report = asyncio.run(run(_PROGRAM, 150, 1, 20, None, tmp_path))
    assert report.differences == []
    assert report.decisions == 150
    assert report.outcomes["placed"] > 50
    assert report.outcomes["Unschedulable"] > 10


def test_decisions_are_heard_of_beyond_the_end_of_a_watch(tmp_path: Path) -> None:
    async def decided() -> Report:
        report, made = Report(), clusters(1, 20)
        async with running(_PROGRAM, tmp_path, {}, min_request_timeout=0.2) as site:
            while report.decisions < 40:
                await compare(site, next(made), report, 40 - report.decisions, None, random.Random(1), 100, None)
        return report

    report = asyncio.run(decided())
    assert (report.decisions, report.differences) == (40, [])


def test_gangs_are_placed_as_the_library_places_them(tmp_path: Path) -> None:
    report = asyncio.run(gangs.run(_PROGRAM, 90, 3, 20, tmp_path))
    assert report.differences == []
    assert report.outcomes["placed anywhere"] > 20
    assert report.outcomes["placed in a zone"] > 0


def test_gangs_of_another_rule_are_noticed(tmp_path: Path) -> None:
    packing = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": packing}]}
    report = asyncio.run(gangs.run(_PROGRAM, 30, 3, 20, tmp_path, {"profiles": [profile]}))
    assert report.differences


def test_another_rule_is_noticed(tmp_path: Path) -> None:
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}}
    report = asyncio.run(run(_PROGRAM, 60, 1, 20, tmp_path / "kept", tmp_path, {"profiles": [{"plugins": plugins}]}))
    assert report.differences
    assert (tmp_path / "kept" / "1.json").exists()


def test_clusters_of_a_seed_are_the_same() -> None:
    first, second = clusters(7, 10), clusters(7, 10)
    for _ in range(4):
        assert next(first) == next(second)


def test_a_changed_node_is_another_one() -> None:
    before = node("a", labels={"zone": "a"})
    after = [changed(before, random.Random(seed)) for seed in range(20)]
    assert any(each["spec"].get("unschedulable") for each in after)
    assert any(each["spec"].get("taints") for each in after)
    assert any(each["metadata"]["labels"] != {"zone": "a"} for each in after)
    assert before == node("a", labels={"zone": "a"})


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome(node="small"), "placed on small; the library: one of ['large']"),
        (Outcome(node="large"), ""),
        (Outcome(reason="Unschedulable", message="no"), "Unschedulable: no; the library: placed on ['large']"),
    ],
)
def test_differences_are_told(outcome: Outcome, told: str) -> None:
    planner = Planner({"nodes": [node("small", cpu="1"), node("large", cpu="8")]})
    assert difference(planner.decide(pod("a", cpu="500m"), explain=True), outcome).startswith(told)


def test_decisions_say_where_a_scheduler_that_samples_nodes_is() -> None:
    planner = Planner({"nodes": [node(f"n{number:03d}") for number in range(150)]}, {"percentageOfNodesToScore": 40})
    places, asked = Places(planner), pod("a", cpu="1")
    assert places.difference(asked, lambda decision: difference(decision, Outcome(node="n000"))) == ""
    assert places.possible == set(range(1, 101))  # it looked at 100 nodes, of which n000 was one
    assert places.difference(asked, lambda decision: difference(decision, Outcome(node="n000"))) == ""
    assert places.possible == set(range(1, 51))
    told = places.difference(asked, lambda decision: difference(decision, Outcome(reason="Unschedulable")))
    assert told.startswith("none of 50 places in the turns of nodes explains it: Unschedulable: ;")


def test_other_victims_are_told() -> None:
    planner = Planner({"nodes": [node("a", cpu="1")], "pods": [pod("low", cpu="1", on="a")]})
    decision = planner.decide(pod("high", cpu="1", priority=9), explain=True)
    found = Outcome("", decision.reason, decision.message, "a", {"default/low"})
    assert difference(decision, found) == ""
    found.victims = set()
    assert difference(decision, found) == "victims [] on a; the library: ['default/low']"
    found.nominated = "b"
    assert difference(decision, found).startswith("nominated 'b'; the library: one of ['a']")
    found.message = "?"
    assert difference(decision, found).startswith("Unschedulable: ?")
