"""Starts that are interrupted: a container whose process may have run is not started anew where it must not run twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.simulated_state import ContainerRecord
from tests.kubelet.simulator.played import Played, phase, play, ready

_START_SECONDS = 5.0


async def starting(played: Played, logs: Path, *, policy: str, has_log: bool = True) -> ContainerRecord:
    """The container of a pod that is being started, with or without a log."""
    played.builder.logs = str(logs)
    played.runtime.behaviours["c"] = [Behaviour(start_seconds=_START_SECONDS), Behaviour()]
    await played.create(restart_policy=policy)
    while not played.runtime.all_containers():
        await played.clock.sleep(0.05)
    (record,) = played.runtime.all_containers()
    if has_log:
        _open_log(Path(record.status().log_path))
    await played.clock.sleep(_START_SECONDS / 2)
    return record


def _open_log(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()


def ended(pod: core_v1.Pod) -> tuple[int, str]:
    """(code, reason) of the end of a pod's container."""
    terminated = pod.status.container_statuses[0].state.terminated
    assert terminated is not None
    return terminated.exit_code, terminated.reason


def test_a_start_under_way_is_no_end(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            await starting(played, tmp_path, policy="Never")
            pod = await played.pod()
            assert pod is not None
            await kubelet.lifecycle.refresh(pod.metadata.uid)
            assert phase("Pending")(await played.pod())
            await played.until(phase("Running"))
            assert played.runs("c") == 1

    play(case)


@pytest.mark.parametrize("seconds", [0.2, 3.0, 30.0])
def test_a_runtime_that_dies_meanwhile_leaves_a_failed_container(tmp_path: Path, seconds: float) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            record = await starting(played, tmp_path, policy="Never")
            played.runtime.stop_answering()
            await played.clock.sleep(seconds)
            played.runtime.start_answering()
            assert ended(await played.until(phase("Failed"))) == (128, "StartError")
            await played.clock.sleep(30)
            assert [each.id for each in played.runtime.all_containers()] == [record.id]

    play(case)


def test_a_kubelet_that_dies_too_knows_it_nevertheless(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            record = await starting(played, tmp_path, policy="Never")
            played.runtime.stop_answering()
        played.runtime.start_answering()
        async with played.running():
            assert ended(await played.until(phase("Failed"))) == (128, "StartError")
            assert [each.id for each in played.runtime.all_containers()] == [record.id]

    play(case)


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_what_may_run_again_is_started_again(tmp_path: Path, policy: str) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await starting(played, tmp_path, policy=policy)
            played.runtime.stop_answering()
            await played.clock.sleep(1)
            played.runtime.start_answering()
            pod = await played.until(ready)
            assert pod.status.container_statuses[0].restart_count == 1

    play(case)


def test_what_was_only_made_is_started(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await starting(played, tmp_path, policy="Never", has_log=False)
            played.runtime.stop_answering()
            await played.clock.sleep(1)
            played.runtime.start_answering()
            await played.until(phase("Running"))
            assert played.runs("c") == 1

    play(case)
