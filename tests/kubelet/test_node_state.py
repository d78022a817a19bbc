"""Whether the runtime of a node can run pods, by what it answers and when."""

from __future__ import annotations

import asyncio

from bayplan.kubelet.node_state import UNHEALTHY_SECONDS, NodeState
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import RuntimeStatus
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run


class Hanging(SimulatedRuntime):
    """A runtime that answers nothing any more once `hangs` is set."""

    hangs = False

    async def status(self) -> RuntimeStatus:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().status()


def test_a_runtime_that_owes_an_answer_for_too_long_is_down() -> None:
    async def main() -> None:
        clock = LoopClock(1_767_323_045.0)
        runtime = Hanging(clock, SeededRandomness(1))
        state = NodeState(runtime, lambda: None, lambda uid: None, lambda pod: None, clock)
        watching = asyncio.ensure_future(state.run())
        await asyncio.sleep(UNHEALTHY_SECONDS * 2)
        assert state.runtime_error() == ""
        runtime.hangs = True
        await asyncio.sleep(UNHEALTHY_SECONDS - 6)
        assert state.runtime_error() == "", "it may be slow"
        await asyncio.sleep(12)
        assert state.runtime_error() == "container runtime is down"
        watching.cancel()

    run(main())
