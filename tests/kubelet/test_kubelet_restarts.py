"""Kubelets that end and come back, and runtimes that fail, forget or do not answer, in virtual time."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.states import STATUS_UNKNOWN
from bayplan.kubelet.pods.status_manager import StatusManager
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from tests.kubelet.simulator.played import ENDS, FAILS, Played, container, phase, play, ready, status_of


def test_a_kubelet_that_starts_again_leaves_containers_alone() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
        before = [each.id for each in played.runtime.all_containers()]
        await played.clock.sleep(30)
        async with played.running():
            await played.clock.sleep(90)
            assert [each.id for each in played.runtime.all_containers()] == before
            assert ready(await played.pod())

    play(case)


def test_a_container_that_ended_while_no_kubelet_ran_is_told_once() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(restart_policy="Never")
            await played.until(ready)
        await played.clock.sleep(30)
        async with played.running():
            ended = await played.until(phase("Failed"))
            terminated = status_of(ended).state.terminated
            assert terminated is not None
            assert terminated.exit_code == 3
            assert played.runs("c") == 1

    play(case, behaviours={"c": Behaviour(run_seconds=10, exit_code=3)})


def has_failed(pod: core_v1.Pod | None) -> bool:
    """Whether the status says how the container c has ended."""
    ends = [each.state.terminated for each in pod.status.container_statuses if each.name == "c"] if pod else []
    return [(each.exit_code, each.reason) for each in ends if each is not None] == [(3, "Error")]


def test_an_end_that_was_told_stays_though_the_runtime_forgets_it() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(container(), container("d"), restart_policy="Never")
            await played.until(has_failed)
            for each in played.runtime.all_containers():
                if each.config.name == "c":
                    each.exit_code, each.reason = 255, "Unknown"
        async with played.running() as kubelet:
            await played.clock.sleep(5)
            for uid in kubelet.workers.known():
                kubelet.workers.touch(uid)
            assert has_failed(await played.until(phase("Failed")))

    play(case, behaviours={"c": FAILS, "d": ENDS})


def test_a_part_that_crashes_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, crashes = StatusManager.run, [RuntimeError("a fault of its own")]

    async def crashing(self: StatusManager) -> None:
        if crashes:
            raise crashes.pop()
        await run(self)

    async def case(played: Played) -> None:
        monkeypatch.setattr(StatusManager, "run", crashing)
        async with played.running():
            await played.create()
            await played.until(ready)
        assert not crashes

    play(case)


def test_a_pod_deleted_while_no_kubelet_ran_is_ended() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
        await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
        async with played.running():
            await played.clock.sleep(20)
            assert not await played.runtime.sandboxes()

    play(case)


def test_a_rebooted_node_makes_its_pods_anew() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
            played.runtime.reboot()
            again = await played.until(lambda pod: ready(pod) and pod is not None and status_of(pod).restart_count == 1)
            assert again.status.phase == "Running"
            assert await played.events("SandboxChanged")

    play(case)


def test_a_container_that_vanishes_has_ended_with_an_unknown_result() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(restart_policy="Never")
            await played.until(ready)
            [only] = played.runtime.all_containers()
            await played.runtime.remove_container(only.id)
            changed = await played.until(
                lambda pod: pod is not None and status_of(pod).last_state.terminated is not None
            )
            last = status_of(changed).last_state.terminated
            assert last is not None
            assert (last.reason, last.exit_code) == (STATUS_UNKNOWN, 137)

    play(case)


def test_a_runtime_that_does_not_answer_for_a_while_loses_nothing() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
            played.runtime.stop_answering()
            await played.create(name="later")
            await played.clock.sleep(40)
            played.runtime.start_answering()
            await played.until(ready, "later", seconds=120)
            assert ready(await played.pod())
            assert played.runs("c") == 2

    play(case)


@pytest.mark.parametrize("call", ["run_sandbox", "create_container", "start_container"])
def test_a_call_that_fails_is_tried_again(call: str) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            played.runtime.faults.errors[call] = RuntimeRequestError("no such thing")
            await played.create()
            await played.clock.sleep(15)
            pod = await played.pod()
            assert pod is not None
            assert pod.status.phase == "Pending"
            played.runtime.faults.errors.clear()
            await played.until(ready)
            reasons = {each.reason for each in (await played.client.list(core_v1.Event, "default")).items}
            assert ("FailedCreatePodSandBox" if call == "run_sandbox" else "Failed") in reasons

    play(case)
