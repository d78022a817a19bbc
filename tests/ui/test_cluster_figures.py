"""Figures of a cluster, event by event, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run
from bayplan.ui import cluster_figures
from bayplan.ui.cluster_figures import PHASES, ClusterFigures, phase_of

Story = Callable[[ClusterFigures], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    async def whole() -> None:
        await story(ClusterFigures(LoopClock(1000.0)))

    run(whole())


def a_pod(name: str, node: str = "", phase: str = "Pending", reason: str = "") -> core_v1.Pod:
    conditions = (core_v1.PodCondition(type="PodScheduled", status="False", reason=reason),) if reason else ()
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=name, uid=name),
        spec=core_v1.PodSpec(node_name=node),
        status=core_v1.PodStatus(phase=phase, conditions=conditions),
    )


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (a_pod("x"), "new"),
        (a_pod("x", reason="Unschedulable"), "unschedulable"),
        (a_pod("x", reason="SchedulingGated"), "gated"),
        (a_pod("x", "a"), "starting"),
        (a_pod("x", "a", "Running"), "running"),
        (a_pod("x", "a", "Succeeded"), "succeeded"),
        (a_pod("x", "", "Failed"), "failed"),
        (a_pod("x", "a", "Unknown"), "unknown"),
        (a_pod("x", "a", "Strange"), "unknown"),
    ],
)
def test_a_pod_is_in_one_phase(pod: core_v1.Pod, phase: str) -> None:
    assert phase_of(pod) == phase
    assert phase in PHASES


def test_pods_are_counted_as_they_come_change_and_go() -> None:
    async def story(figures: ClusterFigures) -> None:
        waiting, running = a_pod("one"), a_pod("two", "a", "Running")
        figures.changed(None, waiting)
        figures.changed(None, running)
        figures.sample()
        figures.changed(waiting, a_pod("one", "a"))
        figures.sample()
        figures.changed(a_pod("one", "a"), None)
        figures.changed(running, None)
        figures.sample()
        columns = figures.to_dict()
        assert [columns[name] for name in ("new", "starting", "running")] == [[1, 0, 0], [0, 1, 0], [1, 1, 0]]

    play(story)


def test_placements_per_second_and_waits_are_those_since_the_sample_before() -> None:
    async def story(figures: ClusterFigures) -> None:
        for number in range(10):
            figures.changed(None, a_pod(f"pod-{number}"))
        for number in range(10):
            await asyncio.sleep(1)
            figures.changed(a_pod(f"pod-{number}"), a_pod(f"pod-{number}", "a"))
        figures.sample()
        await asyncio.sleep(5)
        figures.sample()
        columns = figures.to_dict()
        assert columns["bound"] == [1.0, 0.0]
        assert columns["median"] == [6.0, None]
        assert columns["slowest"] == [10.0, None]
        assert columns["at"] == [1010.0, 1015.0]

    play(story)


def test_a_pod_that_comes_with_a_node_was_not_placed_now() -> None:
    async def story(figures: ClusterFigures) -> None:
        figures.changed(None, a_pod("old", "a", "Running"))
        await asyncio.sleep(1)
        figures.sample()
        assert figures.to_dict()["bound"] == [0.0]

    play(story)


def test_waits_of_pods_that_are_gone_are_forgotten() -> None:
    async def story(figures: ClusterFigures) -> None:
        figures.changed(None, a_pod("one"))
        figures.changed(a_pod("one"), None)
        assert figures._since == {}

    play(story)


def test_a_pod_with_a_node_moves_from_phase_to_phase() -> None:
    async def story(figures: ClusterFigures) -> None:
        phases = [a_pod("one", "a", phase) for phase in ("Pending", "Pending", "Running", "Running", "Succeeded")]
        figures.changed(None, phases[0])
        for before, after in pairwise(phases):
            figures.changed(before, after)
            figures.sample()
        columns = figures.to_dict()
        assert [columns[name] for name in ("starting", "running", "succeeded")] == [
            [1, 0, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 0, 1],
        ]

    play(story)


def test_no_more_than_so_many_waits_of_a_sample_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_figures, "_MOST_WAITS", 2)

    async def story(figures: ClusterFigures) -> None:
        for number in range(3):
            figures.changed(None, a_pod(f"pod-{number}"))
        for number in range(3):
            await asyncio.sleep(1)
            figures.changed(a_pod(f"pod-{number}"), a_pod(f"pod-{number}", "a"))
        figures.sample()
        assert figures.to_dict()["slowest"] == [2.0]
        assert figures.to_dict()["bound"] == [1.0]

    play(story)


def test_the_history_is_an_hour_at_most() -> None:
    async def story(figures: ClusterFigures) -> None:
        assert figures.to_dict() == {}
        for _ in range(800):
            figures.sample()
            await asyncio.sleep(5)
        at = figures.to_dict()["at"]
        assert at[-1] - at[0] == 719 * 5

    play(story)
