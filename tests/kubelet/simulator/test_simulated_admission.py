"""Simulated nodes refuse what kubelets refuse."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.admission import CRITICAL_PRIORITY, Rejection
from bayplan.kubelet.simulator.admission import NodeAdmission

NODE = core_v1.Node(
    metadata=meta_v1.ObjectMeta(name="n", labels={"disk": "ssd"}),
    status=core_v1.NodeStatus(allocatable={"cpu": "2", "memory": "1Gi", "pods": "3"}),
)


def pod(uid: str, *, cpu: str = "1", port: int = 0, phase: str = "Pending", **spec: object) -> core_v1.Pod:
    ports = (core_v1.ContainerPort(container_port=80, host_port=port, protocol="TCP"),) if port else ()
    resources = core_v1.ResourceRequirements(requests={"cpu": cpu})
    container = core_v1.Container(name="c", image="nginx", ports=ports, resources=resources)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=core_v1.PodSpec(node_name="n", containers=(container,), **spec),  # type: ignore[arg-type]
        status=core_v1.PodStatus(phase=phase, start_time="2026-01-02T03:04:05Z" if phase != "Pending" else None),
    )


def admission() -> NodeAdmission:
    return NodeAdmission({"n": NODE}.get)


def reason(found: NodeAdmission, wanted: core_v1.Pod) -> str:
    outcome = found.admit(wanted, lambda: ())
    return outcome.reason if isinstance(outcome, Rejection) else ""


def test_pods_are_taken_until_a_resource_is_used_up() -> None:
    found = admission()
    assert [reason(found, pod(uid)) for uid in "abc"] == ["", "", "OutOfcpu"]


def test_the_number_of_pods_is_limited() -> None:
    found = admission()
    assert [reason(found, pod(uid, cpu="1m")) for uid in "abcd"] == ["", "", "", "OutOfpods"]


def test_what_has_ended_or_gone_does_not_count() -> None:
    found = admission()
    for uid in "ab":
        assert reason(found, pod(uid)) == ""
    found.see(pod("a", phase="Succeeded"))
    assert reason(found, pod("c")) == ""
    found.forget(pod("b"))
    assert reason(found, pod("d")) == ""
    assert reason(found, pod("e")) == "OutOfcpu"


def test_pods_end_for_critical_ones() -> None:
    found, others = admission(), [pod("a"), pod("b"), pod("c", phase="Running")]
    for each in others[:2]:
        assert found.admit(each, lambda: others) == []
    critical = pod("d", priority=CRITICAL_PRIORITY)
    assert found.admit(critical, lambda: others) == [others[1]]  # c has not been taken
    assert reason(found, pod("e", priority=CRITICAL_PRIORITY)) == "UnexpectedAdmissionError"


def test_pods_that_run_when_the_simulator_starts_count() -> None:
    found = admission()
    for uid in "ab":
        found.see(pod(uid, phase="Running"))
    assert reason(found, pod("c")) == "OutOfcpu"


def test_a_pod_that_was_taken_is_not_asked_again() -> None:
    found = admission()
    assert [reason(found, pod("a", cpu="2")) for _ in range(2)] == ["", ""]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"node_selector": {"disk": "tape"}}, "NodeAffinity"),
        ({"node_selector": {"disk": "ssd"}}, ""),
        ({"os": core_v1.PodOS(name="windows")}, "PodOSNotSupported"),
    ],
)
def test_pods_must_fit_the_node(spec: dict[str, object], wanted: str) -> None:
    assert reason(admission(), pod("a", **spec)) == wanted  # type: ignore[arg-type]


def test_ports_of_the_node_are_taken_once() -> None:
    found = admission()
    assert reason(found, pod("a", port=80)) == ""
    assert reason(found, pod("b", port=80)) == "NodePorts"
    assert reason(found, pod("c", port=81)) == ""
