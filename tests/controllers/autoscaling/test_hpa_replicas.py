"""How many replicas a metric asks for, with pods that are not ready or have no metrics."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.types import core_v1
from bayplan.controllers.autoscaling.hpa_metrics import PodMetric, seconds
from bayplan.controllers.autoscaling.hpa_replicas import (
    NoProposalError,
    Patience,
    Proposal,
    Target,
    Tolerances,
    by_average,
    by_total,
    by_total_per_pod,
    by_utilization,
    group,
)
from bayplan.support.timestamps import parse_rfc3339, rfc3339
from bayplan.testing.builders import CREATED, container, pod, pod_status

START = parse_rfc3339(CREATED)
NOW = START + 3600


def member(name: str, phase: str = "Running", *, ready: bool = True, cpu: str = "1", **fields: Any) -> core_v1.Pod:
    status = msgspec.structs.replace(pod_status(phase, ready=ready), start_time=CREATED)
    return pod(name, cpu=cpu, status=status, **fields)


def target(*pods: core_v1.Pod, current: int | None = None, now: float = NOW, tolerance: float = 0.1) -> Target:
    count = len(pods) if current is None else current
    return Target(count, pods, Tolerances(tolerance, tolerance), Patience(), now, "default")


def metrics(**values: int) -> dict[str, PodMetric]:
    return {name: PodMetric(value, NOW) for name, value in values.items()}


A, B, C = member("a"), member("b"), member("c")
PENDING = member("p", "Pending", ready=False)


@pytest.mark.parametrize(
    ("pods", "values", "replicas", "utilization"),
    [
        pytest.param((A, B), {"a": 500, "b": 500}, 2, 50, id="on target nothing changes"),
        pytest.param((A, B), {"a": 540, "b": 540}, 2, 54, id="within the tolerance nothing changes"),
        pytest.param((A, B), {"a": 560, "b": 560}, 3, 56, id="beyond the tolerance it grows"),
        pytest.param((A, B), {"a": 1000, "b": 1000}, 4, 100, id="twice the load asks for twice the replicas"),
        pytest.param((A, B, C), {"a": 100, "b": 100, "c": 100}, 1, 10, id="little load asks for few"),
        pytest.param((A, B), {"a": 0, "b": 0}, 0, 0, id="no load asks for none"),
        pytest.param((A, PENDING), {"a": 1000}, 2, 100, id="a pod that starts counts as idle when it is about growing"),
        pytest.param((A, PENDING), {"a": 2500}, 5, 250, id="even so much load is too much"),
        pytest.param(
            (A, B, PENDING), {"a": 200, "b": 200}, 1, 20, id="a pod that starts does not count when shrinking"
        ),
        pytest.param(
            (A, B), {"a": 100}, 2, 10, id="a pod without metrics counts as full when shrinking, which stops it"
        ),
        pytest.param((A, B, C), {"a": 200, "b": 200}, 3, 20, id="which may well turn the direction around"),
        pytest.param((A, B), {"a": 1500}, 3, 150, id="a pod without metrics counts as idle when growing"),
    ],
)
def test_replicas_for_half_of_what_is_requested(
    pods: tuple[core_v1.Pod, ...], values: dict[str, int], replicas: int, utilization: int
) -> None:
    found = by_utilization(target(*pods), metrics(**values), 50, "cpu")
    assert (found.replicas, found.utilization) == (replicas, utilization)


def test_pods_that_go_or_failed_do_not_count_at_all() -> None:
    going = member("g", meta={"deleted": CREATED})
    failed = member("f", "Failed")
    groups = group((A, going, failed, PENDING, B), metrics(a=1, g=1, f=1), "cpu", Patience(), NOW)
    assert (groups.ready, groups.unready, groups.missing, groups.ignored) == (1, ("p",), ("b",), ("g", "f"))
    found = by_utilization(target(A, going, failed), metrics(a=1000, g=9000, f=9000), 50, "cpu")
    assert found == Proposal(2, 1000, 100)


@pytest.mark.parametrize(
    ("age", "ready", "since", "measured", "counts"),
    [
        pytest.param(60, True, 10, 100, True, id="young, ready, measured over a window"),
        pytest.param(60, True, 50, 60, False, id="young, ready, window not over"),
        pytest.param(60, False, 10, 60, False, id="young, not ready"),
        pytest.param(400, False, 20, 400, False, id="old, never was ready"),
        pytest.param(400, False, 200, 400, True, id="old, became unready later"),
        pytest.param(400, True, 200, 400, True, id="old, ready"),
    ],
)
def test_cpu_of_pods_that_start_counts_late(age: int, ready: bool, since: int, measured: int, counts: bool) -> None:
    status = pod_status("Running", ready=ready, since=rfc3339(START + since))
    one = pod("a", cpu="1", status=msgspec.structs.replace(status, start_time=CREATED))
    figures = {"a": PodMetric(500, START + measured, 60.0)}
    assert bool(group((one,), figures, "cpu", Patience(), START + age).ready) is counts
    assert group((one,), figures, "memory", Patience(), START + age).ready == 1


@pytest.mark.parametrize(
    ("pods", "values", "message"),
    [
        pytest.param((), {}, "no pods returned by selector while calculating replica count", id="no pods"),
        pytest.param(
            (PENDING,),
            {},
            "did not receive metrics for targeted pods (pods might be unready)",
            id="no pod is ready",
        ),
        pytest.param(
            (member("a", cpu=""),), {"a": 1}, "missing request for cpu in container main of Pod a", id="no request"
        ),
    ],
)
def test_what_cannot_be_computed_is_said(pods: tuple[core_v1.Pod, ...], values: dict[str, int], message: str) -> None:
    with pytest.raises(NoProposalError) as refused:
        by_utilization(target(*pods), metrics(**values), 50, "cpu")
    assert str(refused.value) == message


def test_one_container_or_the_whole_pods_request_is_the_measure() -> None:
    both = [container("main", cpu="1"), container("side", cpu="200m")]
    one = member("a", containers=both)
    assert by_utilization(target(one), metrics(a=100), 50, "cpu", "side").utilization == 50
    assert by_utilization(target(one), metrics(a=600), 50, "cpu").utilization == 50
    whole = msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, resources=core_v1.ResourceRequirements(requests={"cpu": "2"}))
    )
    assert by_utilization(target(whole), metrics(a=1000), 50, "cpu").utilization == 50
    with pytest.raises(NoProposalError, match="container other not found in Pod a"):
        by_utilization(target(one), metrics(a=100), 50, "cpu", "other")


def test_sidecars_request_too() -> None:
    sidecar = msgspec.structs.replace(container("log", cpu="1"), restart_policy="Always")
    one = member("a", init_containers=[sidecar, container("setup")])
    assert by_utilization(target(one), metrics(a=1000), 50, "cpu").utilization == 50


def test_replicas_for_an_average_value() -> None:
    assert by_average(target(A, B), metrics(a=300, b=500), 200).replicas == 4
    assert by_average(target(A, B), metrics(a=300, b=500), 200).value == 400
    assert by_average(target(A, B), metrics(a=200), 200).replicas == 1, "at par a pod without metrics counts as idle"
    assert by_average(target(A, B, C), metrics(a=20, b=20), 200).replicas == 2, "missing pods count as on target"


def test_tolerances_differ_by_direction() -> None:
    uneven = Target(4, (A, B, C, member("d")), Tolerances(0.0, 0.5), Patience(), NOW)
    assert by_average(uneven, metrics(a=210, b=210, c=210, d=210), 200).replicas == 5
    assert by_average(uneven, metrics(a=110, b=110, c=110, d=110), 200).replicas == 4


def test_totals_are_shared_by_ready_pods_or_per_pod() -> None:
    assert by_total(target(A, B), 3000, 2000) == Proposal(3, 3000)
    assert by_total(target(A, B), 2100, 2000) == Proposal(2, 2100)
    assert by_total(target(A, PENDING), 4000, 2000) == Proposal(2, 4000), "only ready pods share the load"
    assert by_total(target(current=0), 5000, 2000) == Proposal(3, 5000), "from zero the ratio alone counts"
    assert by_total(target(current=0), 0, 2000) == Proposal(0, 0)
    with pytest.raises(NoProposalError):
        by_total(target(current=2), 5000, 2000)
    assert by_total_per_pod(2, Tolerances(), 500, 100) == Proposal(5, 250)
    assert by_total_per_pod(5, Tolerances(), 520, 100) == Proposal(5, 104)
    assert by_total_per_pod(0, Tolerances(), 250, 100) == Proposal(3, 250)


@pytest.mark.parametrize(
    ("text", "expected"), [("15s", 15.0), ("1m30s", 90.0), ("1h", 3600.0), ("500ms", 0.5), ("", 0.0), ("soon", 0.0)]
)
def test_windows_are_go_durations(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)
