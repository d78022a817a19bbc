"""The metrics pages of a kubelet: series, labels and values under Kubernetes' names."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.kubelet.core.plan import Health
from bayplan.kubelet.core.pressure import Pressure, Pressures, Stall
from bayplan.kubelet.core.stats import NodeSample, VolumeSample
from bayplan.kubelet.core.usage import DiskUsage, Filesystem
from bayplan.kubelet.kubelet_metrics import KubeletMetrics
from bayplan.kubelet.node.machine import Machine
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.server.stats import cadvisor_metrics, resource_metrics, stats_pages, volume_metrics
from bayplan.kubelet.stats_collector import cpu_nanoseconds
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from tests.kubelet.core.test_stats import node

MACHINE = Machine(processors=4, memory=1 << 30, machine_id="m")


def series(page: bytes) -> dict[tuple[str, ...], float]:
    """Name and sorted label values -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_resource_metrics_tell_cpu_and_memory_of_node_pods_and_containers() -> None:
    assert series(resource_metrics(node())) == {
        ("node_cpu_usage_seconds_total",): 100,
        ("node_memory_working_set_bytes",): 800,
        ("pod_cpu_usage_seconds_total", "ns", "p"): 4,
        ("pod_memory_working_set_bytes", "ns", "p"): 60,
        ("container_cpu_usage_seconds_total", "c", "ns", "p"): 3,
        ("container_memory_working_set_bytes", "c", "ns", "p"): 50,
        ("container_start_time_seconds", "c", "ns", "p"): 5,
        ("scrape_error",): 0,
        ("resource_scrape_error",): 0,
    }
    assert series(resource_metrics(replace(node(), errors=1)))["scrape_error",] == 1


def test_cadvisor_metrics_have_the_labels_that_dashboards_ask_for() -> None:
    found = series(cadvisor_metrics(node(), MACHINE))
    container = ("c", "/kubepods/podu/id", "busybox", "id", "ns", "p")
    pod = ("", "/kubepods/podu", "", "", "ns", "p")
    assert found["container_memory_working_set_bytes", *container] == 50
    assert found["container_memory_working_set_bytes", *pod] == 60
    assert found["container_memory_working_set_bytes", "", "/", "", "", "", ""] == 800
    assert found["container_cpu_usage_seconds_total", "c", "total", *container[1:]] == 3
    assert found["container_spec_memory_limit_bytes", *container] == 1024
    assert found["container_spec_cpu_quota", *container] == 10_000
    interface = ("", "/kubepods/podu", "", "eth0", "", "ns", "p")
    assert found["container_network_receive_bytes_total", *interface] == 1200
    assert found["container_network_transmit_errors_total", *interface] == 5
    assert found["machine_cpu_cores", "m"] == 4


def test_pressure_of_containers_pods_and_the_node_is_told_in_seconds() -> None:
    plain = node()
    waiting = Pressures(Pressure(Stall(2_500_000), Stall(500_000)), None, Pressure(Stall(4_000_000), Stall(1_000_000)))
    (pod,) = plain.pods
    (container,) = pod.containers
    container = replace(container, sample=replace(container.sample, pressures=waiting))
    found = series(cadvisor_metrics(replace(plain, pods=(replace(pod, containers=(container,)),)), MACHINE))
    labels = ("c", "/kubepods/podu/id", "busybox", "id", "ns", "p")
    assert {key: value for key, value in found.items() if key[0].startswith("container_pressure")} == {
        ("container_pressure_cpu_waiting_seconds_total", *labels): 2.5,
        ("container_pressure_cpu_stalled_seconds_total", *labels): 0.5,
        ("container_pressure_io_waiting_seconds_total", *labels): 4,
        ("container_pressure_io_stalled_seconds_total", *labels): 1,
    }
    own = replace(plain, sample=replace(plain.sample, pressures=waiting))
    root = ("", "/", "", "", "", "")
    assert series(cadvisor_metrics(own, MACHINE))["container_pressure_cpu_waiting_seconds_total", *root] == 2.5


def test_volumes_of_claims_are_told_once_whoever_has_them() -> None:
    (pod,) = node().pods
    other = VolumeSample("data", DiskUsage(70, 6), Filesystem(20, 90, 4, 10), "other")
    shared = replace(other, claim="claim")
    second = replace(pod, name="q", uid="v", volumes=(shared, other))
    found = series(volume_metrics(replace(node(), pods=(pod, second))))
    assert found == {
        ("kubelet_volume_stats_capacity_bytes", "ns", "claim"): 1000,
        ("kubelet_volume_stats_available_bytes", "ns", "claim"): 600,
        ("kubelet_volume_stats_used_bytes", "ns", "claim"): 9,
        ("kubelet_volume_stats_inodes", "ns", "claim"): 100,
        ("kubelet_volume_stats_inodes_free", "ns", "claim"): 60,
        ("kubelet_volume_stats_inodes_used", "ns", "claim"): 3,
        ("kubelet_volume_stats_capacity_bytes", "ns", "other"): 90,
        ("kubelet_volume_stats_available_bytes", "ns", "other"): 20,
        ("kubelet_volume_stats_used_bytes", "ns", "other"): 70,
        ("kubelet_volume_stats_inodes", "ns", "other"): 10,
        ("kubelet_volume_stats_inodes_free", "ns", "other"): 4,
        ("kubelet_volume_stats_inodes_used", "ns", "other"): 6,
    }
    assert not series(volume_metrics(replace(node(), pods=())))


def test_the_summary_is_json() -> None:
    async def case() -> tuple[bytes, str]:
        async def collect() -> NodeSample:
            return node()

        return await stats_pages(collect, MACHINE)["/stats/summary"]()

    body, kind = asyncio.run(case())
    assert kind == "application/json"
    assert json.loads(body)["node"]["nodeName"] == "n1"


def test_cpu_time_of_the_machine_leaves_out_idle_time_and_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    assert cpu_nanoseconds("cpu  100 10 20 9999 8888 3 4 5 70 80\ncpu0 1 2\n") == 1_420_000_000


def test_operations_of_the_runtime_are_counted_with_their_failures() -> None:
    async def case() -> None:
        clock = LoopClock(0.0)
        metrics = KubeletMetrics("n1", clock)
        runtime = metrics.observed(SimulatedRuntime(clock, SeededRandomness(1)))
        assert not await runtime.sandboxes()
        await runtime.version()
        metrics.relisted(0.5)
        with pytest.raises(RuntimeRequestError):
            await runtime.container_status("none")
        found = series(metrics.registry.render())
        assert found["kubelet_node_name", "n1"] == 1
        assert found["kubelet_runtime_operations_total", "list_podsandbox"] == 1
        assert found["kubelet_runtime_operations_total", "container_status"] == 1
        assert found["kubelet_runtime_operations_errors_total", "container_status"] == 1
        assert ("kubelet_runtime_operations_errors_total", "list_podsandbox") not in found
        assert found["kubelet_runtime_operations_duration_seconds_count", "version"] == 1
        assert found["kubelet_pleg_relist_duration_seconds_sum",] == 0.5

    run(case())


def test_probes_evictions_and_ends_are_counted_and_gone_pods_dropped() -> None:
    metrics = KubeletMetrics("n1", LoopClock(0.0))
    metrics.probed("c", "ns", "p", "u", "Liveness", Health.FAILURE)
    metrics.probed("c", "ns", "p", "u", "Liveness", Health.FAILURE)
    metrics.probed("c", "ns", "q", "v", "Readiness", Health.SUCCESS)
    metrics.forget_probes({"u"})
    found = series(metrics.probes.render())
    assert found == {("prober_probe_total", "c", "ns", "p", "u", "Liveness", "failed"): 2}
    metrics.evicted("memory.available")
    metrics.terminated("container", 139, "Error")
    page = metrics.registry.render()
    assert b'\nkubelet_evictions{eviction_signal="memory.available"} 1\n' in page
    labels = b'{container_type="container",exit_code="139",reason="Error"}'
    assert b"\nkubelet_terminated_containers_total" + labels + b" 1\n" in page
