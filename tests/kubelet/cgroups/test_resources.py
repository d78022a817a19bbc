"""Requests and limits in the numbers of the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.resources import (
    CgroupResources,
    hugepage_limits,
    milli_cpu_to_quota,
    milli_cpu_to_shares,
    node_cgroup_resources,
    oom_score_adj,
    pod_cgroup_resources,
    qos_reserved_percent,
    qos_resources,
    shares_to_weight,
)
from bayplan.testing.builders import pod

GIB = 2**30


def resources(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None
) -> core_v1.ResourceRequirements:
    """Requests and limits as they are written."""
    return core_v1.ResourceRequirements(requests=dict(requests or {}), limits=dict(limits or {}))


def one(
    name: str = "main", requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **fields: Any
) -> core_v1.Container:
    """A container; limits are requests as well where none are given, as the API server defaults them."""
    return core_v1.Container(
        name=name, image="i", resources=resources({**(limits or {}), **(requests or {})}, limits), **fields
    )


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (3, 3), (250, 256), (1000, 1024), (300_000, 262_144)])
def test_shares(milli: int, shares: int) -> None:
    assert milli_cpu_to_shares(milli) == shares


@pytest.mark.parametrize(
    ("milli", "period", "quota"),
    [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (20, 100_000, 2000),
        (1500, 100_000, 150_000),
        (500, 5000, 2500),
    ],
)
def test_quota(milli: int, period: int, quota: int) -> None:
    assert milli_cpu_to_quota(milli, period) == quota


@pytest.mark.parametrize(
    ("shares", "weight"),
    [
        (0, 0),
        (1, 1),
        (2, 1),
        (256, 35),
        (512, 59),
        (1024, 100),
        (2048, 174),
        (262_143, 10_000),
        (262_144, 10_000),
        (300_000, 10_000),
    ],
)
def test_weight_goes_through_least_default_and_most(shares: int, weight: int) -> None:
    assert shares_to_weight(shares) == weight


def test_hugepages_by_size() -> None:
    assert hugepage_limits({"hugepages-2Mi": "4Mi", "hugepages-1Gi": "2Gi", "cpu": "1"}) == {
        2 << 20: 4 << 20,
        GIB: 2 * GIB,
    }


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ((one(),), CgroupResources(cpu_shares=2)),
        (
            (one(limits={"cpu": "500m", "memory": "1Gi"}),),
            CgroupResources(cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, memory=GIB),
        ),
        ((one(requests={"cpu": "250m"}),), CgroupResources(cpu_shares=256)),
        (
            (one(requests={"cpu": "250m"}, limits={"cpu": "1", "memory": "1Gi"}),),
            CgroupResources(cpu_shares=256, cpu_quota=100_000, cpu_period=100_000, memory=GIB),
        ),
        (
            (one(limits={"cpu": "1"}), one("other", requests={"memory": "1Gi"}, limits={"memory": "1Gi"})),
            CgroupResources(cpu_shares=1024),
        ),
    ],
    ids=["best effort", "guaranteed", "burstable without limits", "burstable with limits", "limits of some"],
)
def test_pods_cgroup_is_limited_where_all_containers_are(
    containers: tuple[core_v1.Container, ...], expected: CgroupResources
) -> None:
    assert pod_cgroup_resources(pod("p", containers=containers)) == expected


def test_pods_own_resources_overhead_and_settings_count() -> None:
    spec: dict[str, Any] = {
        "containers": (one(),),
        "resources": resources({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}, {"cpu": "2", "memory": "2Gi"}),
    }
    assert pod_cgroup_resources(pod("p", **spec), pids_limit=100) == CgroupResources(
        cpu_shares=1024, cpu_quota=200_000, cpu_period=100_000, memory=2 * GIB, pids=100, hugepages={2 << 20: 2 << 20}
    )
    small = pod("p", containers=(one(limits={"cpu": "1", "memory": "1Gi"}),), overhead={"cpu": "1", "memory": "1Gi"})
    shown = pod_cgroup_resources(small, cpu_period=10_000)
    assert (shown.cpu_shares, shown.cpu_quota, shown.memory) == (2048, 20_000, 2 * GIB)
    assert pod_cgroup_resources(small, enforce_cpu_limits=False).cpu_quota == -1


def test_init_containers_and_sidecars_count_as_they_run() -> None:
    first = one("init", limits={"cpu": "3", "memory": "1Gi"})
    sidecar = one("side", limits={"cpu": "1", "memory": "1Gi"}, restart_policy="Always")
    shown = pod_cgroup_resources(
        pod("p", containers=(one(limits={"cpu": "1", "memory": "1Gi"}),), init_containers=(sidecar, first))
    )
    assert (shown.cpu_shares, shown.cpu_quota, shown.memory) == (4096, 400_000, 2 * GIB)
    unlimited = pod_cgroup_resources(
        pod("p", containers=(one(limits={"cpu": "1", "memory": "1Gi"}),), init_containers=(one("init"),))
    )
    assert (unlimited.cpu_quota, unlimited.memory) == (None, None)


def test_node_and_classes() -> None:
    allocatable: dict[str, str | int | float] = {
        "cpu": "1500m",
        "memory": "8Gi",
        "pid": "1000",
        "hugepages-2Mi": "0",
        "pods": "110",
    }
    assert node_cgroup_resources(allocatable) == CgroupResources(
        cpu_shares=1536, memory=8 * GIB, pids=1000, hugepages={2 << 20: 0}
    )
    pods = [
        pod("g", containers=(one(limits={"cpu": "1", "memory": "2Gi"}),)),
        pod("b", containers=(one(requests={"cpu": "300m", "memory": "1Gi"}),)),
        pod("c", containers=(one(requests={"cpu": "200m"}),)),
        pod("e", containers=(one(),)),
    ]
    plain = qos_resources(pods, [2 << 20])
    assert plain.burstable == CgroupResources(cpu_shares=512, hugepages={2 << 20: 1 << 62})
    assert plain.best_effort == CgroupResources(cpu_shares=2, hugepages={2 << 20: 1 << 62})
    kept = qos_resources(pods, allocatable_memory=8 * GIB, reserved_memory_percent=50)
    assert (kept.burstable.memory, kept.best_effort.memory) == (7 * GIB, 7 * GIB - GIB // 2)


@pytest.mark.parametrize(
    ("requests", "limits", "score"),
    [
        ({}, {}, 1000),
        ({}, {"cpu": "1", "memory": "1Gi"}, -997),
        ({"memory": "1Gi"}, {}, 900),
        ({"memory": "5Gi"}, {}, 500),
        ({"memory": "10Gi"}, {}, 3),
        ({"cpu": "1"}, {}, 999),
    ],
)
def test_oom_score_of_a_container(requests: dict[str, str], limits: dict[str, str], score: int) -> None:
    container = one(requests=requests, limits=limits)
    assert oom_score_adj(pod("p", containers=(container,)), container, 10 * GIB) == score


def test_oom_scores_of_special_containers() -> None:
    best, node = one(), 10 * GIB
    critical = pod("p", containers=(best,), priority_class_name="system-node-critical", priority=2_000_001_000)
    assert oom_score_adj(critical, best, node) == -997
    assert oom_score_adj(pod("p", containers=(best,), priority=2_000_001_000), best, node) == 1000
    static = pod(
        "p",
        meta={"annotations": {"kubernetes.io/config.source": "file"}},
        containers=(best,),
        priority_class_name="system-node-critical",
    )
    assert oom_score_adj(static, best, node) == -997
    mirror = pod(
        "p",
        meta={"annotations": {"kubernetes.io/config.mirror": "hash"}},
        containers=(best,),
        priority_class_name="system-node-critical",
    )
    assert oom_score_adj(mirror, best, node) == -997
    plain = pod("p", containers=(best,), priority_class_name="system-node-critical")
    assert oom_score_adj(plain, best, node) == 1000
    main, other = one(requests={"memory": "4Gi"}), one("other", requests={"memory": "2Gi"})
    sidecar = one("side", requests={"memory": "1Gi"}, restart_policy="Always")
    init = one("init", requests={"memory": "1Gi"})
    both = pod("p", containers=(main, other), init_containers=(sidecar, init))
    assert [oom_score_adj(both, each, node) for each in (main, other, sidecar, init)] == [600, 800, 800, 900]
    shared = pod("p", containers=(main, other), resources=resources({"memory": "8Gi"}))
    assert [oom_score_adj(shared, each, node) for each in (main, other)] == [500, 700]


@pytest.mark.parametrize(("reserved", "percent"), [({}, 0), ({"memory": "50%"}, 50), ({"memory": "100%"}, 100)])
def test_reserved_percent(reserved: dict[str, str], percent: int) -> None:
    assert qos_reserved_percent(reserved) == percent


@pytest.mark.parametrize("reserved", [{"cpu": "10%"}, {"memory": "101%"}, {"memory": "50"}, {"memory": "-1%"}])
def test_reserved_percent_is_checked(reserved: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="qosReserved"):
        qos_reserved_percent(reserved)
