"""What pods leave behind in the runtime when they are gone."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import ContainerState
from tests.kubelet.played import Played, phase, play


@pytest.mark.parametrize(
    ("state", "stopped"),
    [(ContainerState.EXITED, 0), (ContainerState.CREATED, 0), (ContainerState.UNKNOWN, 1)],
)
def test_nothing_of_a_pod_that_is_gone_stays(
    monkeypatch: pytest.MonkeyPatch, state: ContainerState, stopped: int
) -> None:
    """The runtime does not know of some containers whether they run, which are stopped first."""
    stops: list[str] = []
    stop = SimulatedRuntime.stop_container

    async def note(runtime: SimulatedRuntime, container_id: str, grace_seconds: int) -> None:
        stops.append(container_id)
        await stop(runtime, container_id, grace_seconds)

    async def case(played: Played) -> None:
        async with played.running():
            await played.create(restart_policy="Never")
            await played.until(phase("Running"))
        (record,) = played.runtime.all_containers()
        played.runtime.end_container(record.id, 0)
        await played.runtime.stop_sandbox(record.sandbox.id)
        record.state = state
        await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
        monkeypatch.setattr(SimulatedRuntime, "stop_container", note)
        async with played.running():
            await played.clock.sleep(10)
            assert played.runtime.all_containers() == []
            assert await played.runtime.sandboxes() == []
        assert stops == [record.id] * stopped

    play(case)
