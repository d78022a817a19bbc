"""The life of a simulated pod, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.back_off import BackOff, restart_seconds
from bayplan.kubelet.simulator.containers import run_seconds
from bayplan.kubelet.simulator.nodes.images import is_available, is_same_image
from bayplan.kubelet.simulator.pods import Step, next_step
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339, rfc3339
from bayplan.testing.builders import CREATED, changed, container, pod

SETTINGS = SimulatorSettings(nodes=1, run_seconds=2.0, stop_seconds=0.5)
NOW = parse_rfc3339(CREATED)
START = 0.25


def step(one: core_v1.Pod, after: float = 0.0) -> Step:
    return next_step(one, NOW + after, SETTINGS, "172.18.0.1", "10.128.0.2", START)


def bound(**spec: Any) -> core_v1.Pod:
    annotations = spec.pop("annotations", None)
    meta = {"generation": 1, "annotations": annotations}
    return pod("web", meta=meta, node_name="n", **{"restart_policy": "Always", **spec})


def advance(one: core_v1.Pod, times: int = 1, after: float = 0.0) -> core_v1.Pod:
    for _ in range(times):
        status = step(one, after).status
        assert status is not None, "the pod was expected to move"
        one = changed(one, status=status)
    return one


def running(**spec: Any) -> core_v1.Pod:
    return advance(bound(**spec), 2)


def condition(one: core_v1.Pod, kind: str) -> str:
    return next(each.status for each in one.status.conditions if each.type == kind)


class TestStart:
    def test_a_bound_pod_creates_its_containers(self) -> None:
        first = step(bound())
        assert first.wait == START
        assert first.status is not None
        assert (first.status.phase, first.status.host_ip, first.status.pod_ip) == ("Pending", "172.18.0.1", "")
        (one,) = first.status.container_statuses
        assert one.state.waiting is not None
        assert one.state.waiting.reason == "ContainerCreating"
        assert condition(changed(bound(), status=first.status), "Ready") == "False"

    def test_then_it_runs_and_is_ready(self) -> None:
        one = running()
        assert (one.status.phase, one.status.pod_ip) == ("Running", "10.128.0.2")
        assert one.status.observed_generation == 1
        for kind in ("Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"):
            assert condition(one, kind) == "True"
        assert all(each.ready and each.state.running is not None for each in one.status.container_statuses)

    def test_then_nothing_happens_any_more(self) -> None:
        assert step(running(), after=10_000) == Step()

    def test_a_pod_on_the_host_network_has_the_address_of_its_node(self) -> None:
        assert running(host_network=True).status.pod_ip == "172.18.0.1"

    def test_init_containers_end_before_and_sidecars_run_on(self) -> None:
        inits = (container("init"), container("sidecar", restart_policy="Always"))
        one = advance(bound(init_containers=inits))
        assert one.status.container_statuses[0].state.waiting == core_v1.ContainerStateWaiting(reason="PodInitializing")
        assert condition(one, "Initialized") == "False"
        one = advance(one)
        first, second = one.status.init_container_statuses
        assert first.state.terminated is not None
        assert first.state.terminated.exit_code == 0
        assert second.state.running is not None

    def test_conditions_of_others_stay(self) -> None:
        one = bound()
        one.status.conditions = (core_v1.PodCondition(type="PodScheduled", status="True"),)
        assert condition(advance(one, 2), "PodScheduled") == "True"


class TestImages:
    @pytest.mark.parametrize(
        ("image", "missing"),
        [
            ("nginx", False),
            ("registry/nonexistent:1", True),
            ("non-existent", True),
            ("invalid-image", True),
            ("app:404", True),
        ],
    )
    def test_names_that_say_that_there_is_no_image(self, image: str, missing: bool) -> None:
        assert is_available(image) is not missing

    def shown(self, one: core_v1.Pod) -> core_v1.ContainerStateWaiting:
        waiting = one.status.container_statuses[0].state.waiting
        assert waiting is not None
        return waiting

    def test_a_missing_image_is_pulled_again_and_again_with_growing_pauses(self) -> None:
        one = advance(bound(image="nonexistent"), 2)
        reasons = [self.shown(one).reason]
        for moment in (2, 10, 12, 30, 32):
            assert step(one, moment - 1).status is None, "nothing is written between"
            one = advance(one, after=moment)
            reasons.append(self.shown(one).reason)
        assert reasons == ["ErrImagePull", "ImagePullBackOff"] * 3
        assert (one.status.phase, one.status.pod_ip) == ("Pending", "10.128.0.2")
        assert step(one, 40).wait == pytest.approx(30.0), "70 s after the first time"
        assert self.shown(one).message.startswith('Back-off pulling image "nonexistent": ErrImagePull: rpc error: ')

    def test_a_name_that_is_none_is_not_pulled(self) -> None:
        one = advance(bound(image="Not/A:Name:"), 2)
        assert self.shown(one).reason == "InvalidImageName"
        assert 'couldn\'t parse image name "Not/A:Name:"' in self.shown(one).message
        assert step(one, after=1000) == Step(), "nothing but another name helps"

    def test_an_image_that_must_not_be_pulled_is_missed(self) -> None:
        never = container(image="nonexistent", image_pull_policy="Never")
        assert self.shown(advance(bound(containers=(never,)), 2)).reason == "ErrImageNeverPull"

    def test_an_image_that_is_changed_to_one_that_exists_runs(self) -> None:
        one = advance(bound(image="nonexistent"), 2)
        one.spec.containers = (container(image="app:2"),)
        assert advance(one).status.phase == "Running"

    def changed_image(self, one: core_v1.Pod, image: str) -> core_v1.Pod:
        metadata = changed(one.metadata, generation=one.metadata.generation + 1)
        return changed(one, metadata=metadata, spec=changed(one.spec, containers=(container(image=image),)))

    def test_an_image_changed_in_place_starts_the_container_again(self) -> None:
        moved = self.changed_image(running(), "app:2")
        told = [(each.reason, each.message) for each in step(moved, 5).told if not each.ordinary]
        assert told == [("Killing", "Container main definition changed, will be restarted")]
        moved = advance(moved, after=5)
        (status,) = moved.status.container_statuses
        assert (status.image, status.restart_count, moved.status.observed_generation) == ("app:2", 1, 2)
        ended = status.last_state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.finished_at) == (0, rfc3339(NOW + 5))
        assert ended.container_id != status.container_id
        assert step(moved, 1000) == Step()

    def test_an_image_changed_to_one_that_is_missing_stops_the_container(self) -> None:
        one = advance(self.changed_image(running(), "nonexistent"), after=5)
        assert self.shown(one).reason == "ErrImagePull"
        assert (one.status.phase, condition(one, "Ready")) == ("Running", "False")
        back = advance(self.changed_image(one, "app:3"), after=6)
        assert (back.status.container_statuses[0].image, condition(back, "Ready")) == ("app:3", "True")

    def test_an_image_under_its_full_name_is_the_same(self) -> None:
        one = running(image="nginx:1.29")
        (status,) = one.status.container_statuses
        foreign = changed(status, image="docker.io/library/nginx:1.29", container_id="containerd://abc", ready=False)
        one = advance(changed(one, status=changed(one.status, container_statuses=(foreign,))), after=5)
        (status,) = one.status.container_statuses
        assert (status.ready, status.restart_count, status.container_id) == (True, 0, "bayplan://abc")
        assert step(one, 6).status is None


def test_an_ephemeral_container_runs() -> None:
    one = running()
    debugger = core_v1.EphemeralContainer(name="debugger", image="busybox")
    one = advance(changed(one, spec=changed(one.spec, ephemeral_containers=(debugger,))))
    (status,) = one.status.ephemeral_container_statuses
    assert status.name == "debugger"
    assert status.state.running is not None
    assert step(one) == Step()


class TestReadiness:
    GATES = (core_v1.PodReadinessGate(condition_type="mine"),)

    def gated(self, status: str) -> core_v1.Pod:
        one = running(readiness_gates=self.GATES)
        gate = core_v1.PodCondition(type="mine", status=status)
        others = tuple(each for each in one.status.conditions if each.type != "mine")
        return changed(one, status=changed(one.status, conditions=(*others, gate)))

    def test_a_gate_that_is_missing_holds_readiness_back(self) -> None:
        one = running(readiness_gates=self.GATES)
        assert (condition(one, "Ready"), condition(one, "ContainersReady")) == ("False", "True")

    def test_a_gate_that_opens_makes_ready_and_one_that_shuts_unready(self) -> None:
        opened = advance(self.gated("True"))
        assert condition(opened, "Ready") == "True"
        others = tuple(each for each in opened.status.conditions if each.type != "mine")
        shut = changed(
            opened,
            status=changed(opened.status, conditions=(*others, core_v1.PodCondition(type="mine", status="False"))),
        )
        assert condition(advance(shut), "Ready") == "False"

    def test_the_annotation_takes_readiness_away_and_gives_it_back(self) -> None:
        one = running(annotations={"bayplan.dev/ready": "false"})
        assert (condition(one, "Ready"), one.status.container_statuses[0].ready) == ("False", False)
        assert one.status.phase == "Running"
        one.metadata.annotations = {}
        one = advance(one, after=60)
        assert (condition(one, "Ready"), one.status.container_statuses[0].ready) == ("True", True)
        ready = next(each for each in one.status.conditions if each.type == "Ready")
        assert ready.last_transition_time == rfc3339(NOW + 60)

    def test_a_pod_that_was_marked_while_its_node_was_away_is_ready_again(self) -> None:
        one = running()
        conditions = tuple(
            changed(each, status="False") if each.type == "Ready" else each for each in one.status.conditions
        )
        assert condition(advance(changed(one, status=changed(one.status, conditions=conditions))), "Ready") == "True"


class TestEnd:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param({}, None, id="a server runs for ever"),
            pytest.param({"restart_policy": "Never"}, 2.0, id="a pod that may end does after the default time"),
            pytest.param(
                {"restart_policy": "Never", "containers": (container(command=("sleep", "30")),)}, 30.0, id="sleep 30"
            ),
            pytest.param(
                {"restart_policy": "OnFailure", "containers": (container(command=("sh", "-c"), args=("sleep 0.5",)),)},
                0.5,
                id="sleep in a shell",
            ),
            pytest.param(
                {"restart_policy": "Never", "containers": (container(command=("sleep", "infinity")),)},
                None,
                id="sleep infinity",
            ),
            pytest.param(
                {"restart_policy": "Never", "image": "registry.k8s.io/pause:3.10"}, None, id="the pause image"
            ),
            pytest.param({"annotations": {"bayplan.dev/run-seconds": "7"}}, 7.0, id="the annotation decides"),
            pytest.param(
                {"annotations": {"bayplan.dev/run-seconds": "soon"}}, 2.0, id="an annotation that is no number"
            ),
        ],
    )
    def test_how_long_containers_run(self, spec: dict[str, Any], expected: float | None) -> None:
        one = bound(**spec)
        assert run_seconds(one, one.spec.containers[0], SETTINGS) == expected

    def test_a_pod_waits_until_it_ends(self) -> None:
        assert step(running(restart_policy="Never"), after=0.5) == Step(wait=1.5)

    @pytest.mark.parametrize(("code", "phase", "reason"), [("0", "Succeeded", "Completed"), ("3", "Failed", "Error")])
    def test_it_ends_with_the_code_of_the_annotation(self, code: str, phase: str, reason: str) -> None:
        one = advance(running(restart_policy="Never", annotations={"bayplan.dev/exit-code": code}), after=2)
        assert one.status.phase == phase
        terminated = one.status.container_statuses[0].state.terminated
        assert terminated is not None
        assert (terminated.exit_code, terminated.reason) == (int(code), reason)
        assert condition(one, "Ready") == "False"
        assert step(one, after=100) == Step()

    @pytest.mark.parametrize(
        ("policy", "code", "again"),
        [("Always", "0", True), ("Always", "1", True), ("OnFailure", "1", True), ("OnFailure", "0", False)],
    )
    def test_containers_start_again_as_the_policy_says(self, policy: str, code: str, again: bool) -> None:
        annotations = {"bayplan.dev/run-seconds": "1", "bayplan.dev/exit-code": code}
        one = advance(running(restart_policy=policy, annotations=annotations), after=1)
        status = one.status.container_statuses[0]
        assert (one.status.phase == "Running") is again
        assert status.restart_count == int(again)
        assert (status.last_state.terminated is not None) is again


class TestBackOff:
    """Containers that end again and again are started later and later."""

    def crashing(self) -> core_v1.Pod:
        """A pod whose container has ended for the second time, 2 s after the start."""
        annotations = {"bayplan.dev/run-seconds": "1", "bayplan.dev/exit-code": "1"}
        first = advance(running(annotations=annotations), after=1)
        return advance(first, after=2)

    def test_the_second_time_they_wait(self) -> None:
        one = self.crashing()
        (status,) = one.status.container_statuses
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.state.waiting.message == "back-off 10s restarting failed container=main pod=web_default()"
        assert (status.restart_count, status.ready, condition(one, "Ready")) == (1, False, "False")
        assert status.last_state.terminated is not None
        assert status.last_state.terminated.exit_code == 1
        assert one.status.phase == "Running"
        assert step(one, after=5) == Step(wait=7.0)

    def test_then_they_run_and_are_ready(self) -> None:
        one = advance(self.crashing(), after=12)
        (status,) = one.status.container_statuses
        assert status.state.running is not None
        assert (status.restart_count, status.ready, condition(one, "Ready")) == (2, True, "True")
        assert step(one, after=12.5).wait == 0.5

    def test_a_server_that_was_made_to_run_for_ever_comes_back(self) -> None:
        one = self.crashing()
        one.metadata.annotations = {}
        assert condition(advance(one, after=12), "Ready") == "True"

    @pytest.mark.parametrize(
        ("restarts", "ran", "expected"),
        [(0, 0, 0), (1, 1, 10), (2, 1, 20), (3, 1, 40), (6, 1, 300), (5000, 1, 300), (5, 601, 0)],
    )
    def test_how_long(self, restarts: int, ran: float, expected: float) -> None:
        assert restart_seconds(restarts, ran) == expected

    def test_it_is_what_a_kubelet_remembers(self) -> None:
        remembered, now = BackOff(10.0, 300.0), 1000.0
        for restarts in range(8):
            ended = now + 1.0
            assert remembered.is_waiting_since("c", ended, ended) is bool(restarts)
            assert remembered.seconds("c") == restart_seconds(restarts, 1.0)
            now = ended + remembered.seconds("c")
            remembered.next("c", ended, now)


class TestCommands:
    def test_a_command_that_does_not_exist_cannot_be_run(self) -> None:
        one = advance(bound(containers=(container(command=("nonexistent-tool",)),)), 2)
        (status,) = one.status.container_statuses
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "RunContainerError"
        assert 'exec: "nonexistent-tool": executable file not found in $PATH' in status.state.waiting.message
        ended = status.last_state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason) == (128, "StartError")
        again = advance(one, after=1)
        assert again.status.container_statuses[0].restart_count == 1
        waiting = advance(again, after=2).status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "CrashLoopBackOff"

    def test_a_task_with_such_a_command_has_failed(self) -> None:
        spec = {"restart_policy": "Never", "containers": (container(command=("/bin/nonexistent",)),)}
        one = advance(bound(**spec), 2)
        assert one.status.phase == "Failed"
        ended = one.status.container_statuses[0].state.terminated
        assert ended is not None
        assert ended.reason == "StartError"


class TestDeadline:
    def test_a_pod_whose_time_is_over_fails(self) -> None:
        one = running(active_deadline_seconds=30)
        assert step(one, 10) == Step(wait=20.0)
        last = step(one, 30)
        over = advance(one, after=30)
        assert (over.status.phase, over.status.reason) == ("Failed", "DeadlineExceeded")
        assert over.status.message == "Pod was active on the node longer than the specified deadline"
        assert [(each.type, each.reason) for each in last.told if not each.ordinary] == [("Normal", "DeadlineExceeded")]
        assert over.status.container_statuses[0].state.terminated is not None
        assert (condition(over, "Ready"), condition(over, "PodReadyToStartContainers")) == ("False", "False")
        assert step(over, 60) == Step()

    def test_a_pod_that_never_runs_fails_as_well(self) -> None:
        one = advance(bound(image="nonexistent", active_deadline_seconds=5), 2)
        assert step(one).wait == pytest.approx(2.0)
        assert advance(one, after=5).status.reason == "DeadlineExceeded"


class TestImageNames:
    @pytest.mark.parametrize(
        ("shown", "wanted", "same"),
        [
            ("nginx", "nginx", True),
            ("docker.io/library/nginx:latest", "nginx", True),
            ("docker.io/library/nginx:1", "nginx:1", True),
            (f"docker.io/library/app@sha256:{'0' * 64}", f"app:1@sha256:{'0' * 64}", True),
            ("sha256:abc", "nginx", True),
            ("", "nginx", True),
            ("nginx", "nginx:latest", False),
            ("docker.io/library/nginx:1", "nginx:2", False),
            ("nginx", "Not/A:Name:", False),
        ],
    )
    def test_which_are_the_same(self, shown: str, wanted: str, same: bool) -> None:
        assert is_same_image(shown, wanted) is same


class TestRestartRules:
    def test_a_rule_lets_one_container_run_again(self) -> None:
        exit_codes = core_v1.ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
        rule = core_v1.ContainerRestartRule(action="Restart", exit_codes=exit_codes)
        one = container(restart_policy="Never", restart_policy_rules=(rule,))
        spec = {"restart_policy": "Never", "containers": (one,)}
        annotations = {"bayplan.dev/run-seconds": "1", "bayplan.dev/exit-code": "42"}
        again = advance(running(**spec, annotations=annotations), after=1)
        assert again.status.container_statuses[0].restart_count == 1
        annotations["bayplan.dev/exit-code"] = "1"
        assert advance(running(**spec, annotations=annotations), after=1).status.phase == "Failed"

    def test_a_rule_lets_all_containers_start_anew(self) -> None:
        exit_codes = core_v1.ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
        rule = core_v1.ContainerRestartRule(action="RestartAllContainers", exit_codes=exit_codes)
        worker = container("worker", restart_policy="Never", restart_policy_rules=(rule,))
        annotations = {"bayplan.dev/run-seconds.worker": "10", "bayplan.dev/exit-code.worker": "42"}
        spec = {"init_containers": (container("init"),), "containers": (container("main"), worker)}
        one = advance(running(annotations=annotations, **spec), after=10)
        assert condition(one, "AllContainersRestarting") == "True"
        assert step(one, 10).wait == pytest.approx(1.0)
        one = advance(one, after=10)
        assert condition(one, "AllContainersRestarting") == "False"
        reasons = {each.state.waiting.reason for each in one.status.container_statuses if each.state.waiting}
        assert reasons == {"RestartingAllContainers"}
        again = advance(one, after=11)
        statuses = (*again.status.container_statuses, *again.status.init_container_statuses)
        assert {each.name: each.restart_count for each in statuses} == {"main": 1, "worker": 1, "init": 1}
        assert all(each.state.running is not None for each in again.status.container_statuses)


class TestDeletion:
    def deleted(self, one: core_v1.Pod, grace: int = 30) -> core_v1.Pod:
        metadata = changed(one.metadata, deletion_timestamp=rfc3339(NOW + grace), deletion_grace_period_seconds=grace)
        return changed(one, metadata=metadata)

    def test_containers_take_a_moment_to_stop(self) -> None:
        assert step(self.deleted(running())) == Step(wait=0.5)

    def test_then_they_have_stopped_and_the_pod_goes(self) -> None:
        every_state = SimulatorSettings(nodes=1, stop_seconds=0.5, unseen_seconds=0.0)
        last = next_step(self.deleted(running()), NOW + 0.5, every_state, "172.18.0.1", "10.128.0.2", START)
        assert last.delete
        assert last.status is not None
        assert last.status.container_statuses[0].state.terminated is not None
        assert condition(changed(running(), status=last.status), "Ready") == "False"

    @pytest.mark.parametrize("steps", [0, 1])
    def test_a_pod_that_never_ran_goes_at_once(self, steps: int) -> None:
        assert step(self.deleted(advance(bound(), steps))) == Step(delete=True)

    def test_without_grace_it_goes_at_once(self) -> None:
        assert step(self.deleted(running(), grace=0)).delete
