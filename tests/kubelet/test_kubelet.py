"""The life of pods on a node, from their binding to their end: a kubelet over a simulated runtime, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.container_states import STATUS_UNKNOWN
from bayplan.kubelet.errors import SyncError
from bayplan.kubelet.pod_runtime import StartError
from bayplan.kubelet.prober.handlers import ProbeRunner
from bayplan.kubelet.runtime.behaviour import Behaviour, Command
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.labels import POD_NAME
from bayplan.kubelet.status_manager import StatusManager
from tests.kubelet.played import NODE, Played, container, gone, phase, play, ready

ENDS = Behaviour(run_seconds=5)
FAILS = Behaviour(run_seconds=1, exit_code=3)


def status_of(pod: core_v1.Pod, name: str = "c") -> core_v1.ContainerStatus:
    found = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next(each for each in found if each.name == name)


def waits(pod: core_v1.Pod | None, reason: str) -> bool:
    """Whether the container waits, for this reason."""
    if pod is None or not pod.status.container_statuses:
        return False
    waiting = status_of(pod).state.waiting
    return waiting is not None and waiting.reason == reason


def test_a_pod_runs_is_ready_and_goes_with_all_that_it_had() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            pod = await played.create()
            running = await played.until(ready)
            assert running.status.phase == "Running"
            assert running.status.pod_ip.startswith("10.244.0.")
            assert status_of(running).started
            assert {each.status for each in running.status.conditions} == {"True"}
            assert pod.metadata.uid in played.volumes.mounted
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.until(gone)
            assert not played.volumes.mounted
            assert not played.directories.made
            await played.clock.sleep(5)
            assert not await played.runtime.sandboxes()
            reasons = {each.reason for each in (await played.client.list(core_v1.Event, "default")).items}
            assert {"Created", "Started", "Killing"} <= reasons

    play(case)


@pytest.mark.parametrize(
    ("policy", "behaviour", "wanted"),
    [
        ("Never", ENDS, "Succeeded"),
        ("Never", FAILS, "Failed"),
        ("OnFailure", ENDS, "Succeeded"),
    ],
)
def test_a_pod_that_does_not_run_again_ends(policy: str, behaviour: Behaviour, wanted: str) -> None:
    ends: list[tuple[str, int]] = []

    async def case(played: Played) -> None:
        async with played.running():
            assert played.kubelet is not None
            played.kubelet.statuses.on_termination = lambda kind, ended: ends.append((kind, ended.exit_code))
            await played.create(restart_policy=policy)
            ended = await played.until(phase(wanted))
            terminated = status_of(ended).state.terminated
            assert terminated is not None
            assert terminated.exit_code == behaviour.exit_code
            assert terminated.reason == ("Completed" if wanted == "Succeeded" else "Error")
            assert not status_of(ended).ready
            await played.clock.sleep(120)
            assert played.runs("c") == 1
            assert ends == [("container", behaviour.exit_code)]

    play(case, behaviours={"c": behaviour})


def test_a_container_that_fails_runs_again_after_a_back_off_that_doubles() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            waiting = await played.until(
                lambda pod: waits(pod, "CrashLoopBackOff") and pod is not None and status_of(pod).restart_count == 2
            )
            state = status_of(waiting).state.waiting
            assert state is not None
            assert state.message.startswith("back-off 20s restarting failed container=c pod=p_default(")
            assert waiting.status.phase == "Running"
            last = status_of(waiting).last_state.terminated
            assert last is not None
            assert last.exit_code == 3
            await played.clock.sleep(15)
            assert (await played.until(phase("Running"))).status.container_statuses[0].restart_count == 2
            await played.clock.sleep(15)
            assert (await played.until(phase("Running"))).status.container_statuses[0].restart_count == 3
            assert await played.events("BackOff")

    play(case, behaviours={"c": FAILS})


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(
                container("c"), init_containers=(container("one"), container("two")), restart_policy="Never"
            )
            await played.until(ready)
            times = {each.config.name: each for each in played.runtime.all_containers()}
            assert times["one"].finished_at <= times["two"].started_at
            assert times["two"].finished_at <= times["c"].started_at

    play(case, behaviours={"one": ENDS, "two": ENDS})


def test_an_init_container_that_fails_for_good_fails_its_pod() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(container("c"), init_containers=(container("one"),), restart_policy="Never")
            failed = await played.until(phase("Failed"))
            assert played.runs("c") == 0
            waiting = status_of(failed).state.waiting
            assert waiting is not None
            assert waiting.reason == "PodInitializing"

    play(case, behaviours={"one": FAILS})


def test_sidecars_start_before_and_end_after_the_others() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            side = container("side", restart_policy="Always")
            await played.create(container("c"), init_containers=(side,), termination_grace_period_seconds=30)
            await played.until(ready)
            times = {each.config.name: each for each in played.runtime.all_containers()}
            assert times["side"].started_at <= times["c"].started_at
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.until(gone)
            assert times["c"].finished_at <= times["side"].finished_at

    play(case, behaviours={"c": Behaviour(stop_seconds=4), "side": Behaviour(stop_seconds=1)})


def test_a_job_with_a_sidecar_ends_with_its_container() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            side = container("side", restart_policy="Always")
            await played.create(container("c"), init_containers=(side,), restart_policy="Never")
            await played.until(phase("Succeeded"))
            assert all(each.finished_at for each in played.runtime.all_containers())

    play(case, behaviours={"c": ENDS, "side": Behaviour(stop_seconds=0.5)})


def test_a_changed_image_restarts_the_container() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
            patch = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
            await played.client.patch(
                core_v1.Pod, "p", "default", patch, patch_type="application/strategic-merge-patch+json"
            )
            changed = await played.until(
                lambda pod: ready(pod) and pod is not None and status_of(pod).restart_count == 1
            )
            assert status_of(changed).image == "nginx:2"
            texts = [each.message for each in await played.events("Killing")]
            assert texts == ["Container c definition changed, will be restarted"]

    play(case)


def test_a_failing_liveness_probe_restarts_the_container() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(
                exec=core_v1.ExecAction(command=("alive",)),
                period_seconds=1,
                timeout_seconds=1,
                failure_threshold=3,
                success_threshold=1,
            )
            await played.create(container(liveness_probe=probe))
            await played.until(
                lambda pod: pod is not None and any(s.restart_count for s in pod.status.container_statuses)
            )
            unhealthy = await played.events("Unhealthy")
            assert unhealthy[0].message == "Liveness probe failed: dead"
            assert unhealthy[0].involved_object.field_path == "spec.containers{c}"

    dies = Behaviour(commands={"alive": lambda seconds: Command(1 if seconds > 5 else 0, b"dead")})
    play(case, behaviours={"c": dies})


def test_readiness_follows_the_probe() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(
                exec=core_v1.ExecAction(command=("ready",)),
                period_seconds=1,
                timeout_seconds=1,
                failure_threshold=1,
                success_threshold=1,
            )
            await played.create(container(readiness_probe=probe))
            running = await played.until(phase("Running"))
            assert not ready(running)
            conditions = {each.type: each for each in running.status.conditions}
            assert conditions["Ready"].message == "containers with unready status: [c]"
            began = played.clock.monotonic()
            await played.until(ready)
            assert 4 < played.clock.monotonic() - began < 8
            await played.until(lambda pod: not ready(pod))

    comes = Behaviour(commands={"ready": lambda seconds: Command(0 if 5 < seconds < 20 else 1)})
    play(case, behaviours={"c": comes})


def test_readiness_follows_the_probe_while_the_pod_ends() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(exec=core_v1.ExecAction(command=("ready",)), period_seconds=1, failure_threshold=1)
            await played.create(container(readiness_probe=probe), termination_grace_period_seconds=1000)
            before = await played.until(ready)
            await played.client.delete(core_v1.Pod, "p", "default")
            unready = await played.until(lambda pod: not ready(pod))
            assert unready.metadata.deletion_timestamp is not None
            assert unready.status.phase == "Running"
            assert status_of(unready).state == status_of(before).state
            conditions = {each.type: each for each in unready.status.conditions}
            for each in ("Ready", "ContainersReady"):
                assert conditions[each].status == "False"
                assert conditions[each].message == "containers with unready status: [c]"
            again = await played.until(ready)
            assert {each.type: each.status for each in again.status.conditions}["Ready"] == "True"

    comes_back = Behaviour(
        stop_seconds=float("inf"), commands={"ready": lambda seconds: Command(1 if 20 < seconds < 40 else 0)}
    )
    play(case, behaviours={"c": comes_back})


def test_a_fault_in_a_probe_does_not_end_the_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    probe, faults = ProbeRunner.probe, [RuntimeError("a fault of its own")]

    async def failing(self: ProbeRunner, *arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return await probe(self, *arguments)

    async def case(played: Played) -> None:
        monkeypatch.setattr(ProbeRunner, "probe", failing)
        command = core_v1.Probe(exec=core_v1.ExecAction(command=("ready",)))
        async with played.running():
            await played.create(container(readiness_probe=command))
            await played.until(ready)
        assert not faults

    play(case, behaviours={"c": Behaviour(commands={"ready": Command(exit_code=0)})})


def test_a_startup_probe_holds_back_the_others() -> None:
    async def case(played: Played) -> None:
        async with played.running():

            def probe(word: str, failures: int) -> core_v1.Probe:
                return core_v1.Probe(
                    exec=core_v1.ExecAction(command=(word,)),
                    period_seconds=1,
                    timeout_seconds=1,
                    failure_threshold=failures,
                    success_threshold=1,
                )

            await played.create(container(startup_probe=probe("up", 60), liveness_probe=probe("alive", 1)))
            running = await played.until(phase("Running"))
            assert status_of(running).started is False
            started = await played.until(ready)
            assert status_of(started).restart_count == 0

    slow = Behaviour(
        commands={
            "up": lambda seconds: Command(0 if seconds > 10 else 1),
            "alive": lambda seconds: Command(0 if seconds > 10 else 1),
        }
    )
    play(case, behaviours={"c": slow})


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"node_selector": {"disk": "tape"}},
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"os": core_v1.PodOS(name="windows")},
            "PodOSNotSupported",
            "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS",
        ),
    ],
)
def test_a_pod_that_the_node_does_not_fit_is_rejected(spec: dict[str, Any], reason: str, message: str) -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(**spec)
            failed = await played.until(phase("Failed"))
            assert (failed.status.reason, failed.status.message) == (reason, message)
            assert not played.runtime.all_containers()
            await played.client.delete(core_v1.Pod, "p", "default")
            await played.until(gone)

    play(case)


def test_a_pod_has_not_ended_before_it_has_given_back_what_it_used() -> None:
    async def case(played: Played) -> None:
        seen: list[str] = []

        async def release(uid: str) -> None:
            found = await played.pod("p")
            assert found is not None
            seen.append(found.status.phase)
            if len(seen) < 3:
                raise SyncError("the driver is away", retry_after=1.0)

        async with played.running() as kubelet:
            kubelet.syncer.release = release
            await played.create(restart_policy="Never")
            await played.until(phase("Succeeded"))
            assert seen == ["Running"] * 3

    play(case, behaviours={"c": ENDS})


def test_a_label_that_came_just_before_its_pod_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node as the kubelet knows it is older than the pod."""

    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            known = replace(kubelet.node_state.offer(), node=await played.client.get(core_v1.Node, NODE))
            monkeypatch.setattr(kubelet.pods, "_offer", lambda: known)
            await played.client.patch(core_v1.Node, NODE, "", {"metadata": {"labels": {"disk": "tape"}}})
            await played.create(node_selector={"disk": "tape"})
            await played.until(phase("Running"))
            await played.create(name="q", node_selector={"disk": "none"})
            assert (await played.until(phase("Failed"), name="q")).status.reason == "NodeAffinity"

    play(case)


def test_a_pod_that_asks_for_more_than_is_left_is_rejected() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            wants = core_v1.ResourceRequirements(requests={"cpu": "3"})
            await played.create(container(resources=wants), name="first")
            await played.until(ready, "first")
            await played.create(container(resources=wants))
            failed = await played.until(phase("Failed"))
            assert failed.status.reason == "OutOfcpu"
            assert failed.status.message == (
                "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000"
            )
            first = await played.pod("first")
            assert ready(first)

    play(case)


def test_a_status_says_what_the_whole_pod_has() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            wants = core_v1.ResourceRequirements(requests={"cpu": "500m"}, limits={"memory": "64Mi"})
            await played.create(container(resources=wants), container("d", resources=wants))
            status = (await played.until(ready)).status
            assert status.allocated_resources == {"cpu": "1", "memory": "128Mi"}
            assert status.resources == core_v1.ResourceRequirements(
                requests={"cpu": "1", "memory": "128Mi"}, limits={"memory": "128Mi"}
            )

    play(case)


def test_a_critical_pod_starts_when_the_pods_that_make_room_have_ended() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            resources: list[str] = []
            kubelet.pods.on_preemption = resources.append
            for name, cpu in (("small", "1"), ("large", "3")):
                wants = core_v1.ResourceRequirements(requests={"cpu": cpu})
                await played.create(container(resources=wants), name=name)
                await played.until(ready, name)
            wants = core_v1.ResourceRequirements(requests={"cpu": "2"})
            await played.create(container("d", resources=wants), priority_class_name="system-node-critical")
            failed = await played.until(phase("Failed"), "large")
            assert (failed.status.reason, failed.status.message) == (
                "Preempting",
                "Preempted in order to admit critical pod",
            )
            disruption = next(each for each in failed.status.conditions if each.type == "DisruptionTarget")
            assert (disruption.reason, disruption.message) == (
                "TerminationByKubelet",
                "Pod was preempted by Kubelet to accommodate a critical pod.",
            )
            await played.until(ready)
            ended = next(each for each in played.runtime.all_containers() if each.config.labels[POD_NAME] == "large")
            started = next(each for each in played.runtime.all_containers() if each.config.name == "d")
            assert started.started_at >= ended.finished_at > 0
            assert ready(await played.pod("small"))
            assert [each.involved_object.name for each in await played.events("Preempting")] == ["large"]
            assert resources == ["cpu"]

    play(case, behaviours={"c": Behaviour(stop_seconds=7)})


def test_the_ports_of_an_ended_pod_are_free_again() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            port = core_v1.ContainerPort(container_port=80, host_port=80, protocol="TCP")
            await played.create(container(ports=(port,)), name="first", restart_policy="Never")
            await played.until(phase("Succeeded"), "first")
            await played.create(container("d", ports=(port,)))
            await played.until(ready)
            await played.create(container("e", ports=(port,)), name="third")
            failed = await played.until(phase("Failed"), "third")
            assert failed.status.reason == "NodePorts"

    play(case, behaviours={"c": ENDS})


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


def test_conditions_of_others_stay_and_open_a_readiness_gate() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            gate = core_v1.PodReadinessGate(condition_type="example.com/open")
            await played.create(readiness_gates=(gate,))
            running = await played.until(phase("Running"))
            by_type = {each.type: each for each in running.status.conditions}
            assert by_type["ContainersReady"].status == "True"
            assert by_type["Ready"].reason == "ReadinessGatesNotReady"
            await played.client.patch(
                core_v1.Pod,
                "p",
                "default",
                {"status": {"conditions": [{"type": "example.com/open", "status": "True"}]}},
                patch_type="application/strategic-merge-patch+json",
                subresource="status",
            )
            opened = await played.until(ready)
            assert "example.com/open" in {each.type for each in opened.status.conditions}

    play(case)


def test_all_containers_start_anew_when_a_rule_says_so() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            rule = core_v1.ContainerRestartRule(
                action="RestartAllContainers",
                exit_codes=core_v1.ContainerRestartRuleOnExitCodes(operator="In", values=(42,)),
            )
            watcher = container("watcher", restart_policy="Never", restart_policy_rules=(rule,))
            await played.create(container("c"), watcher, init_containers=(container("i"),), restart_policy="Never")
            await played.until(
                lambda pod: (
                    pod is not None
                    and ready(pod)
                    and all(
                        each.restart_count == 1 and each.last_state.terminated is not None
                        for each in (*pod.status.container_statuses, *pod.status.init_container_statuses)
                    )
                )
            )
            assert len(played.runtime.all_containers()) == 3

    play(
        case,
        behaviours={
            "watcher": (Behaviour(run_seconds=5, exit_code=42), Behaviour()),
            "i": (Behaviour(run_seconds=1),) * 2,
        },
    )


def test_a_phase_that_somebody_else_sets_stands_for_a_while() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create()
            await played.until(ready)
            failed = {"status": {"phase": "Failed"}}
            await played.client.patch(core_v1.Pod, "p", "default", failed, subresource="status")
            await played.clock.sleep(5)  # in which its controller deletes it
            assert phase("Failed")(await played.pod())
            await played.until(phase("Running"), seconds=10)
            assert played.runs("c") == 1

    play(case)


def test_a_static_pod_has_a_mirror_pod_that_comes_back() -> None:
    async def case(played: Played) -> None:
        from bayplan.kubelet.static_pods import read_static_pod

        tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        }
        async with played.running() as kubelet:
            while not kubelet.pods.ready:
                await played.clock.sleep(0.1)
            pod = read_static_pod(tree, "web.yaml", NODE, played.clock.now())
            kubelet.pods.add(pod)
            mirror = await played.until(ready, f"web-{NODE}")
            assert mirror.metadata.annotations["kubernetes.io/config.mirror"] == pod.metadata.uid
            await played.client.delete(core_v1.Pod, mirror.metadata.name, "default", grace_period_seconds=0)
            again = await played.until(ready, mirror.metadata.name, seconds=120)
            assert again.metadata.uid != mirror.metadata.uid
            assert played.runs("c") == 1
            kubelet.pods.delete(pod)
            await played.clock.sleep(10)
            assert not await played.runtime.sandboxes()

    play(case)


def test_equal_seeds_give_equal_events() -> None:
    def told() -> list[bytes]:
        found: list[bytes] = []

        async def case(played: Played) -> None:
            async with played.running():
                await played.create(init_containers=(container("one"),))
                await played.until(ready)
                await played.clock.sleep(60)
                events = (await played.client.list(core_v1.Event, "default")).items
                found.extend(msgspec.json.encode(each) for each in events)

        play(case, behaviours={"c": FAILS, "one": ENDS})
        return found

    first = told()
    assert first
    assert first == told()
