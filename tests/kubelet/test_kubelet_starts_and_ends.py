"""What containers wait for before they run, and have before they end: a kubelet over a simulated runtime, in virtual time."""

from __future__ import annotations

import asyncio

from bayplan.api.types import core_v1
from bayplan.kubelet.pods.pod_runtime import StartError
from bayplan.kubelet.runtime.behaviour import Behaviour, Command
from tests.kubelet.simulator.played import Played, container, gone, phase, play, ready, status_of, waits


def test_a_deadline_ends_a_pod_that_runs_well() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(active_deadline_seconds=20)
            await played.until(ready)
            failed = await played.until(phase("Failed"))
            assert failed.status.reason == "DeadlineExceeded"
            assert failed.status.message == "Pod was active on the node longer than the specified deadline"
            assert all(each.finished_at for each in played.runtime.all_containers())

    play(case)


def test_what_a_container_lacks_is_said_until_it_is_there() -> None:
    async def case(played: Played) -> None:
        played.builder.failures["c"] = StartError("CreateContainerConfigError", 'configmap "a" not found')
        async with played.running():
            await played.create()
            waiting = await played.until(
                lambda pod: (
                    pod is not None
                    and any(each.state.waiting and each.state.waiting.message for each in pod.status.container_statuses)
                )
            )
            state = status_of(waiting).state.waiting
            assert state is not None
            assert (state.reason, state.message) == ("CreateContainerConfigError", 'configmap "a" not found')
            assert waiting.status.phase == "Pending"
            del played.builder.failures["c"]
            await played.until(ready)

    play(case)


def test_volumes_that_cannot_be_mounted_hold_up_one_pod_only() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            played.volumes.error = "unmounted volumes=[a], unattached volumes=[], failed to process volumes=[]"
            await played.create()
            await asyncio.sleep(5)
            played.volumes.error = ""
            await played.create(name="other")
            await played.until(ready, "other")
            assert (await played.events("FailedMount"))[0].message.startswith("Unable to attach or mount volumes: ")
            await played.until(ready)

    play(case)


def test_a_pod_fails_whose_node_has_no_place_for_its_volumes() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            played.volumes.limit = "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[a]"
            await played.create()
            failed = await played.until(phase("Failed"))
            assert failed.status.reason == "VolumeAttachmentLimitExceeded"
            assert failed.status.message == f"Pod was rejected: {played.volumes.limit}"
            await asyncio.sleep(120)
            later = await played.client.get(core_v1.Pod, "p", "default")
            assert (later.status.phase, later.status.reason) == ("Failed", "VolumeAttachmentLimitExceeded")
            assert later.status.message == failed.status.message
            assert played.runs("c") == 0
            [event] = await played.events("VolumeAttachmentLimitExceeded")
            assert (event.type, event.message, event.count) == ("Warning", played.volumes.limit, 1)
            assert not played.directories.made

    play(case)


def test_volumes_whose_failures_had_events_of_their_own_need_no_other() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            played.volumes.error, played.volumes.is_reported = "context deadline exceeded", True
            await played.create()
            await asyncio.sleep(5)
            assert await played.events("FailedMount") == []
            played.volumes.error = ""
            await played.until(ready)

    play(case)


def test_a_hook_that_fails_keeps_a_container_from_running_without_telling_its_output() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            hook = core_v1.LifecycleHandler(exec=core_v1.ExecAction(command=("prepare",)))
            await played.create(container(lifecycle=core_v1.Lifecycle(post_start=hook)))
            failed = await played.until(lambda pod: waits(pod, "PostStartHookError"))
            state = status_of(failed).state.waiting
            assert state is not None
            assert "secret" in state.message
            events = await played.events("FailedPostStartHook")
            assert [each.message for each in events] == ["PostStartHook failed"]

    play(case, behaviours={"c": Behaviour(commands={"prepare": Command(1, b"secret")})})


def test_a_pre_stop_hook_runs_once_within_the_grace_period() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            hook = core_v1.LifecycleHandler(sleep=core_v1.SleepAction(seconds=5))
            await played.create(
                container(lifecycle=core_v1.Lifecycle(pre_stop=hook)), termination_grace_period_seconds=20
            )
            await played.until(ready)
            began = played.clock.monotonic()
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.until(gone)
            assert 5 <= played.clock.monotonic() - began < 10

    play(case)


def test_a_grace_period_becomes_shorter_and_never_longer() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(termination_grace_period_seconds=1000)
            await played.until(ready)
            began = played.clock.monotonic()
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.clock.sleep(20)
            await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=3)
            await played.until(gone)
            assert 20 <= played.clock.monotonic() - began < 40

    play(case, behaviours={"c": Behaviour(stop_seconds=float("inf"))})
