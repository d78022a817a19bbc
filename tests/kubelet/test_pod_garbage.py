"""What pods leave behind in the runtime when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.pods.pod_garbage import AT_ONCE, PodGarbage
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import ContainerState, Sandbox, SandboxState
from bayplan.support.virtual_time import run
from tests.kubelet.simulator.played import Played, phase, play

if TYPE_CHECKING:
    from bayplan.kubelet.pods.pleg import PodLifecycleEvents
    from bayplan.kubelet.runtime.interface import Runtime


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


class SlowRuntime:
    """Takes a second to remove a sandbox. `most` were removed at the same time."""

    def __init__(self) -> None:
        self.busy = self.most = 0

    async def remove_sandbox(self, sandbox_id: str) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(1)
        self.busy -= 1


class Ended:
    """What the runtime lists: a sandbox of each of so many pods, which is not ready."""

    def __init__(self, count: int) -> None:
        uids = [f"uid-{number}" for number in range(count)]
        self.all = {uid: ((Sandbox(uid, uid, "default", uid, 0, SandboxState.NOT_READY, 1),), ()) for uid in uids}
        self.relists = 0

    def pods(self) -> dict[str, Any]:
        return self.all

    async def relist(self) -> None:
        self.relists += 1


def test_many_pods_are_cleaned_up_at_once_but_not_all() -> None:
    async def main() -> None:
        runtime, listed = SlowRuntime(), Ended(3 * AT_ONCE)

        async def remove_logs(uids: Collection[str]) -> None:
            assert set(uids) == {*listed.all}

        garbage = PodGarbage(cast("Runtime", runtime), cast("PodLifecycleEvents", listed), remove_logs)
        began = asyncio.get_running_loop().time()
        await garbage.collect(keep=(), wanted=())
        assert asyncio.get_running_loop().time() - began == pytest.approx(3)
        assert (runtime.most, listed.relists) == (AT_ONCE, 1)
        await garbage.collect(keep=tuple(listed.all), wanted=())
        assert listed.relists == 1, "the last sandbox of a pod that exists is kept"

    run(main())
