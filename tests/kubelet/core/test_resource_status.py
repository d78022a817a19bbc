"""What a pod as a whole has, as its status shows it."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.resource_status import pod_resources
from bayplan.kubelet.runtime.types import LinuxResources

Amounts = dict[str, str | int | float]


def resources(requests: Amounts, limits: Amounts | None = None) -> core_v1.ResourceRequirements:
    return core_v1.ResourceRequirements(requests=requests, limits=limits or {})


def pod(
    *containers: core_v1.ResourceRequirements, level: core_v1.ResourceRequirements | None = None, phase: str = "Running"
) -> core_v1.Pod:
    spec = core_v1.PodSpec(
        containers=tuple(core_v1.Container(name=f"c{index}", resources=each) for index, each in enumerate(containers)),
        resources=level,
    )
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p"), spec=spec, status=core_v1.PodStatus(phase=phase))


SMALL = resources({"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "128Mi"})


def test_a_pod_that_does_not_run_shows_what_is_allocated() -> None:
    found = pod_resources(pod(SMALL, SMALL, phase="Pending"), None, None)
    assert found.allocated == {"cpu": "200m", "memory": "128Mi"}
    assert found.actual == resources({"cpu": "200m", "memory": "128Mi"}, {"cpu": "400m", "memory": "256Mi"})


def test_a_running_pod_shows_what_its_cgroup_has() -> None:
    cgroup = LinuxResources(cpu_shares=512, cpu_quota=100_000, cpu_period=100_000, memory_limit=300 << 20)
    found = pod_resources(pod(SMALL, SMALL), cgroup, None)
    assert found.allocated == {"cpu": "200m", "memory": "128Mi"}
    assert found.actual == resources({"cpu": "500m", "memory": "128Mi"}, {"cpu": "1", "memory": str(300 << 20)})


def test_what_the_cgroup_expresses_is_shown_as_it_was_written() -> None:
    cgroup = LinuxResources(cpu_shares=204, cpu_quota=40_000, cpu_period=100_000, memory_limit=256 << 20)
    found = pod_resources(pod(SMALL, SMALL), cgroup, None)
    assert found.actual == resources({"cpu": "200m", "memory": "128Mi"}, {"cpu": "400m", "memory": "256Mi"})


def test_the_pods_own_resources_come_before_its_containers() -> None:
    level = resources({"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi"})
    found = pod_resources(pod(SMALL, level=level), LinuxResources(cpu_shares=1024, memory_limit=2 << 30), None)
    assert found.allocated == {"cpu": "1", "memory": "1Gi"}
    assert found.actual.requests == {"cpu": "1", "memory": "1Gi"}
    assert found.actual.limits["memory"] == "2Gi"


def test_a_pod_that_asks_for_nothing_has_nothing() -> None:
    found = pod_resources(pod(resources({})), LinuxResources(cpu_shares=2), None)
    assert found.actual == resources({})
    assert found.allocated == {}


@pytest.mark.parametrize("cgroup", [None, LinuxResources()], ids=["no cgroup", "one that does not tell"])
def test_what_is_not_known_any_more_stays(cgroup: LinuxResources | None) -> None:
    before = resources({"cpu": "150m"}, {"cpu": "300m", "memory": "100Mi"})
    found = pod_resources(pod(SMALL), cgroup, before)
    assert found.actual == resources({"cpu": "150m", "memory": "64Mi"}, {"cpu": "300m", "memory": "100Mi"})
