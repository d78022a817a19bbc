"""When the kubelet reads pods from the runtime: after events, once for all that came meanwhile, and not for what it has seen since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from bayplan.kubelet.pods.container_starts import ContainerStarts
from bayplan.kubelet.pods.pleg import PodLifecycleEvents
from bayplan.kubelet.pods.pod_states import PodStateReader, PodStates
from bayplan.kubelet.runtime.errors import UnsupportedError
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerEvent,
    ContainerEventType,
    ContainerStatus,
    Sandbox,
    SandboxConfig,
    SandboxState,
    SandboxStatus,
)
from bayplan.support.blocking import at_once
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

_NOW = 1_767_323_045.0
_LIST_SECONDS = 0.5


class Reporting(SimulatedRuntime):
    """A runtime whose lists take half a second, and which tells what it is given."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock, SeededRandomness(1))
        self._time = clock
        self.reads: list[tuple[float, str]] = []
        """When which pod was read."""
        self.told: asyncio.Queue[ContainerEvent | None] = asyncio.Queue()

    async def sandboxes(self, *, pod_uid: str = "") -> Sequence[Sandbox]:
        self.reads.append((self._time.monotonic(), pod_uid))
        await self._time.sleep(_LIST_SECONDS)
        return ()

    async def containers(self, *, pod_uid: str = "") -> Sequence[Container]:
        return ()

    async def events(self) -> AsyncIterator[ContainerEvent]:
        while True:
            event = await self.told.get()
            if event is None:
                raise UnsupportedError("no more")
            yield event

    def tell(self, pod_uid: str, ago: float = 0.0) -> None:
        """Something happened to a pod so many seconds ago."""
        at = int((self._time.now() - ago) * 1e9)
        self.told.put_nowait(ContainerEvent(ContainerEventType.STARTED, "c", at, pod_uid))


async def _explain(status: ContainerStatus) -> ContainerStatus:
    return status


def watching(case: Callable[[Reporting, LoopClock], Awaitable[None]]) -> Reporting:
    """The runtime after a case, which is called with it and the clock while its events are followed."""

    async def main() -> Reporting:
        clock = LoopClock(_NOW)
        runtime, states = Reporting(clock), PodStates()
        reader = PodStateReader(runtime, clock, _explain, ContainerStarts(at_once))
        lifecycle = PodLifecycleEvents(runtime, reader, states, lambda _: None, clock)
        following = asyncio.create_task(lifecycle.watch())
        await case(runtime, clock)
        runtime.told.put_nowait(None)
        await following
        return runtime

    return run(main())


def test_all_events_that_come_while_a_pod_is_read_lead_to_one_more_read() -> None:
    async def case(runtime: Reporting, clock: LoopClock) -> None:
        runtime.tell("a")
        await clock.sleep(0.1)
        for _ in range(5):
            runtime.tell("a")
        await clock.sleep(5)

    reads = watching(case).reads
    assert [uid for _, uid in reads] == ["a", "a"]
    assert reads[1][0] - reads[0][0] == _LIST_SECONDS


def test_pods_of_events_are_read_at_the_same_time() -> None:
    async def case(runtime: Reporting, clock: LoopClock) -> None:
        runtime.tell("a")
        runtime.tell("b")
        await clock.sleep(5)

    (first, _), (second, _) = sorted(watching(case).reads)
    assert first == second


def test_what_happened_before_the_last_read_is_not_read_again() -> None:
    async def case(runtime: Reporting, clock: LoopClock) -> None:
        runtime.tell("a")
        await clock.sleep(2)
        runtime.tell("a", ago=2.5)
        await clock.sleep(2)
        assert len(runtime.reads) == 1
        runtime.tell("a", ago=0.0)
        await clock.sleep(2)

    assert [uid for _, uid in watching(case).reads] == ["a", "a"]


class Counting(SimulatedRuntime):
    """A runtime that counts how often sandboxes are asked about."""

    asked = 0

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        self.asked += 1
        return await super().sandbox_status(sandbox_id)


def test_a_sandbox_is_asked_about_again_when_it_is_not_ready_any_more() -> None:
    async def main() -> tuple[int, int, list[SandboxState]]:
        clock = LoopClock(_NOW)
        runtime = Counting(clock, SeededRandomness(1))
        reader = PodStateReader(runtime, clock, _explain, ContainerStarts(at_once))
        sandbox_id = await runtime.run_sandbox(SandboxConfig("web", "default", "uid", 0, "web", "/logs"))
        states = [await reader.read("uid"), await reader.read("uid")]
        while_ready = runtime.asked
        await runtime.stop_sandbox(sandbox_id)
        states.append(await reader.read("uid"))
        return while_ready, runtime.asked, [each.sandboxes[0].sandbox.state for each in states]

    ready = SandboxState.READY
    assert run(main()) == (1, 2, [ready, ready, SandboxState.NOT_READY])
