"""The life of pods on a node, from their binding to their end: a kubelet over a simulated runtime, in virtual time."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.behaviour import Behaviour
from tests.kubelet.simulator.played import (
    ENDS,
    FAILS,
    NODE,
    Played,
    container,
    gone,
    phase,
    play,
    ready,
    status_of,
    waits,
)


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
        from bayplan.kubelet.pods.static_pods import read_static_pod

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
