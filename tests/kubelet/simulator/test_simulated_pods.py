"""The life of a simulated pod, step by step."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.simulator.containers import run_seconds
from bayplan.kubelet.simulator.nodes.addresses import Addresses
from bayplan.kubelet.simulator.nodes.objects import make_node, node_address, node_name, pod_network
from bayplan.kubelet.simulator.pods import Step, next_step
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import rfc3339

NOW = 1_767_225_600.0
SETTINGS = SimulatorSettings(nodes=3, run_seconds=2.0, stop_seconds=0.5)


def bound(
    image: str = "nginx", *, policy: str = "Always", command: tuple[str, ...] = (), **metadata: object
) -> core_v1.Pod:
    container = core_v1.Container(name="c", image=image, command=command)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="p", namespace="default", uid="u", generation=1, **metadata),  # type: ignore[arg-type]
        spec=core_v1.PodSpec(containers=(container,), node_name="node-1", restart_policy=policy),
        status=core_v1.PodStatus(phase="Pending"),
    )


def step(pod: core_v1.Pod, now: float = NOW) -> Step:
    return next_step(pod, now, SETTINGS, "172.18.0.1", "10.128.0.2", 0.2)


def after(pod: core_v1.Pod, now: float = NOW) -> core_v1.Pod:
    """The pod with its next status written."""
    status = step(pod, now).status
    assert status is not None
    return msgspec.structs.replace(pod, status=status)


def condition(pod: core_v1.Pod, name: str) -> str:
    return next(one.status for one in pod.status.conditions if one.type == name)


def test_a_bound_pod_is_first_created_then_runs() -> None:
    creating = after(bound())
    assert creating.status.phase == "Pending"
    waiting = creating.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "ContainerCreating"
    assert creating.status.host_ip == "172.18.0.1"
    assert condition(creating, "Ready") == "False"
    running = after(creating, NOW + 1)
    assert running.status.phase == "Running"
    assert running.status.pod_ips[0].ip == "10.128.0.2"
    assert running.status.container_statuses[0].ready
    assert {
        condition(running, name) for name in ("Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers")
    } == {"True"}
    assert step(running, NOW + 1000) == Step()


def test_conditions_of_others_stay() -> None:
    pod = bound()
    pod.status.conditions = (core_v1.PodCondition(type="PodScheduled", status="True"),)
    assert condition(after(after(pod)), "PodScheduled") == "True"


def test_a_readiness_gate_keeps_a_pod_from_being_ready() -> None:
    pod = bound()
    pod.spec.readiness_gates = (core_v1.PodReadinessGate(condition_type="example.com/gate"),)
    running = after(after(pod))
    assert condition(running, "ContainersReady") == "True"
    assert condition(running, "Ready") == "False"


@pytest.mark.parametrize("image", ["foo:non-existent", "webserver:404", "gcr.io/x/y:nonexistent", "invalid.registry/x"])
def test_an_image_that_does_not_exist_is_never_pulled(image: str) -> None:
    pulled = after(after(bound(image)))
    waiting = after(pulled, NOW + 5)
    for shown, reason in ((pulled, "ErrImagePull"), (waiting, "ImagePullBackOff")):
        state = shown.status.container_statuses[0].state.waiting
        assert state is not None
        assert state.reason == reason
        assert shown.status.phase == "Pending"


def test_a_pod_that_may_end_succeeds_after_a_while() -> None:
    running = after(after(bound("busybox", policy="Never"), NOW), NOW)
    assert step(running, NOW + 1).wait == pytest.approx(1.0)
    ended = after(running, NOW + 2)
    assert ended.status.phase == "Succeeded"
    terminated = ended.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code == 0
    assert step(ended, NOW + 10) == Step()


def test_an_exit_code_makes_it_fail_or_restart() -> None:
    annotations = {"bayplan.dev/exit-code": "3", "bayplan.dev/run-seconds": "1"}
    failed = after(after(after(bound(policy="Never", annotations=annotations))), NOW + 1)
    assert failed.status.phase == "Failed"
    restarted = after(after(after(bound(policy="OnFailure", annotations=annotations))), NOW + 1)
    assert restarted.status.phase == "Running"
    assert restarted.status.container_statuses[0].restart_count == 1


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(bound(), None, id="a server runs for ever"),
        pytest.param(bound(policy="Never"), 2.0, id="a task ends"),
        pytest.param(bound(policy="Never", command=("sh", "-c", "sleep 30")), 30.0, id="sleep takes its time"),
        pytest.param(bound(policy="Never", command=("sleep", "infinity")), None, id="sleep infinity"),
        pytest.param(bound("registry.k8s.io/pause:3.10", policy="Never"), None, id="pause"),
        pytest.param(bound("registry.k8s.io/test/agnhost:2.56", policy="Never"), None, id="a tool waits for orders"),
        pytest.param(
            bound("registry.k8s.io/test/agnhost:2.56", policy="Never", command=("logs-generator",)),
            2.0,
            id="a tool that is given one carries it out",
        ),
        pytest.param(bound(annotations={"bayplan.dev/run-seconds": "7"}), 7.0, id="the annotation wins"),
        pytest.param(
            bound(policy="Never", annotations={"bayplan.dev/run-seconds": "soon"}),
            2.0,
            id="a malformed annotation is ignored",
        ),
    ],
)
def test_how_long_containers_run(pod: core_v1.Pod, expected: float | None) -> None:
    assert run_seconds(pod, pod.spec.containers[0], SETTINGS) == expected


def test_a_deleted_pod_stops_and_then_goes() -> None:
    running = after(after(bound()))
    running.metadata.deletion_timestamp = rfc3339(NOW + 30)
    running.metadata.deletion_grace_period_seconds = 30
    assert step(running, NOW).wait == pytest.approx(0.5)
    assert step(running, NOW + 1) == Step(delete=True)


def test_a_pod_takes_its_moment_to_stop_also_late_in_the_second_in_which_it_was_deleted() -> None:
    running = after(after(bound()))
    running.metadata.deletion_timestamp = rfc3339(NOW + 30)
    running.metadata.deletion_grace_period_seconds = 30

    def seen(told: float, now: float) -> Step:
        return next_step(running, now, SETTINGS, "172.18.0.1", "10.128.0.2", 0.2, told)

    assert seen(NOW + 0.8, NOW + 0.8).wait == pytest.approx(0.5)
    assert seen(NOW + 0.8, NOW + 1.4) == Step(delete=True)
    assert seen(NOW + 60, NOW + 60) == Step(delete=True), "its node had lost contact, its containers stopped long ago"


@pytest.mark.parametrize(("policy", "phase", "code"), [("Always", "Succeeded", 0), ("Never", "Failed", 143)])
def test_a_server_that_is_stopped_has_done_its_work_and_a_task_has_not(policy: str, phase: str, code: int) -> None:
    running = after(after(bound(policy=policy)))
    running.metadata.deletion_timestamp = rfc3339(NOW + 30)
    running.metadata.deletion_grace_period_seconds = 30
    running.metadata.finalizers = ("batch.kubernetes.io/job-tracking",)
    status = step(running, NOW + 1).status
    assert status is not None
    ended = status.container_statuses[0].state.terminated
    assert ended is not None
    assert (status.phase, ended.exit_code) == (phase, code)


def test_a_pod_whose_end_is_counted_shows_it_before_it_goes() -> None:
    running = after(after(bound()))
    running.metadata.deletion_timestamp = rfc3339(NOW + 30)
    running.metadata.deletion_grace_period_seconds = 30
    running.metadata.finalizers = ("batch.kubernetes.io/job-tracking",)
    last = step(running, NOW + 1)
    assert last.delete
    assert last.status is not None
    assert last.status.container_statuses[0].state.terminated is not None


def test_a_pod_that_never_ran_goes_at_once() -> None:
    pod = bound(deletion_timestamp=rfc3339(NOW), deletion_grace_period_seconds=0)
    assert step(pod) == Step(delete=True)


def test_a_new_generation_shows_in_the_status() -> None:
    running = after(after(bound()))
    running.metadata.generation = 2
    assert after(running, NOW + 5).status.observed_generation == 2


def test_nodes_have_names_addresses_and_networks_of_their_own() -> None:
    settings = SimulatorSettings(nodes=5000)
    names = {node_name(settings, index) for index in range(5000)}
    assert (
        len(names)
        == len({node_address(index) for index in range(5000)})
        == len({pod_network(index) for index in range(5000)})
        == 5000
    )
    node = make_node(settings, 4, NOW)
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone-b"
    assert node.status.allocatable["pods"] == "110"


def test_addresses_are_given_once_and_come_back() -> None:
    addresses = Addresses("10.128.0")
    given = [addresses.take(str(number)) for number in range(253)]
    assert len(set(given)) == 253
    assert addresses.take("0") == given[0]
    with pytest.raises(LookupError, match="no address left"):
        addresses.take("one too many")
    addresses.release("7")
    assert addresses.take("one too many") == given[7]
