"""What /metrics of a kubelet tells of CPUs, memory and devices that containers have for themselves."""

from __future__ import annotations

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.devices.device_calls import PluginDevice
from tests.kubelet.resource_managers.played_resources import (
    GPU,
    Plugin,
    Resources,
    configuration,
    guaranteed,
    machine,
    memory_configuration,
)
from tests.kubelet.resource_managers.test_container_manager import offer_gpus
from tests.kubelet.simulator.played import Played, gone, phase, play, ready

_CPU = "kubelet_cpu_manager_"
_TOPOLOGY = "kubelet_topology_manager_admission_"
_ALIGNED = "kubelet_container_aligned_compute_resources_count"
_NOT_ALIGNED = "kubelet_container_aligned_compute_resources_failure_count"


def shown(resources: Resources) -> dict[str, float]:
    """Series -> value, as they are scraped."""
    lines = resources.registry.render().decode().splitlines()
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")}


def series(name: str, **labels: str) -> str:
    """A series' name in the text format."""
    pairs = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"


def test_cpus_are_counted_while_containers_have_them() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played)
        async with played.running():
            pool = f"{_CPU}shared_pool_size_millicores"
            await resources.until(lambda: shown(resources)[pool] == 7000, lambda: shown(resources))
            await played.create(guaranteed("own", "2"))
            await played.until(ready)
            after = shown(resources)
            assert after[f"{_CPU}pinning_requests_total"] == 1
            assert after[f"{_CPU}pinning_errors_total"] == 0
            assert after[f"{_CPU}exclusive_cpu_allocation_count"] == 2
            assert after[pool] == 5000
            per_node = [value for name, value in after.items() if name.startswith(f"{_CPU}allocation_per_numa{{")]
            assert sum(per_node) == 2
            assert after[series(_ALIGNED, scope="container", boundary="uncore_cache")] == 1
            await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
            await played.until(gone)
            await resources.until(lambda: shown(resources)[pool] == 7000, lambda: shown(resources))
            assert shown(resources)[f"{_CPU}exclusive_cpu_allocation_count"] == 0

    play(case)


def test_what_is_refused_counts_as_an_error() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, machine=machine(1, 2))
        async with played.running():
            await played.create(guaranteed("own", "4"))
            await played.until(phase("Failed"))
            found = shown(resources)
            assert (found[f"{_CPU}pinning_requests_total"], found[f"{_CPU}pinning_errors_total"]) == (1, 1)
            assert (found[f"{_TOPOLOGY}requests_total"], found[f"{_TOPOLOGY}errors_total"]) == (1, 1)
            assert found[f"{_TOPOLOGY}duration_ms_count"] == 1

    play(case)


def test_whole_cores_are_aligned_or_refused() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, configuration(cpu_manager_policy_options={"full-pcpus-only": "true"}))
        async with played.running():
            await played.create(guaranteed("own", "2"), name="whole")
            await played.until(ready, "whole")
            await played.create(guaranteed("own", "1"), name="half")
            await played.until(phase("Failed"), "half")
            found = shown(resources)
            assert found[series(_ALIGNED, scope="container", boundary="physical_cpu")] == 1
            assert found[series(_NOT_ALIGNED, scope="container", boundary="physical_cpu")] == 1

    play(case)


def test_memory_is_counted() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, memory_configuration())
        async with played.running():
            await played.create(guaranteed("own", "1"))
            await played.until(ready)
            found = shown(resources)
            assert found["kubelet_memory_manager_pinning_requests_total"] == 1
            assert found["kubelet_memory_manager_pinning_errors_total"] == 0

    play(case)


@pytest.mark.parametrize(
    ("policy", "scope", "counted"),
    [
        ("single-numa-node", "container", {"container": 2, "pod": 0}),
        ("single-numa-node", "pod", {"container": 0, "pod": 1}),
        ("best-effort", "container", {"container": 0, "pod": 0}),
    ],
)
def test_alignment_counts_where_the_policy_guarantees_it(policy: str, scope: str, counted: dict[str, int]) -> None:
    async def case(played: Played) -> None:
        settings = configuration(topology_manager_policy=policy, topology_manager_scope=scope)
        resources = Resources(played, settings)
        async with played.running():
            await played.create(guaranteed("one"), guaranteed("two"))
            await played.until(ready)
            found = shown(resources)
            assert {each: found[series(_ALIGNED, scope=each, boundary="numa_node")] for each in counted} == counted

    play(case)


def test_what_no_numa_node_has_counts_as_not_aligned() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, configuration(topology_manager_policy="single-numa-node"))
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("small", "1"), guaranteed("large", "5"))
            await played.until(phase("Failed"))
            found = shown(resources)
            assert found[series(_ALIGNED, scope="container", boundary="numa_node")] == 1
            assert found[series(_NOT_ALIGNED, scope="container", boundary="numa_node")] == 1

    play(case)


def test_how_long_plugins_take() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, plugins={GPU: Plugin(seconds=2.0)}, offered={GPU: (PluginDevice("one"),)})
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed(gpus="1"))
            await played.until(ready)
            name = "kubelet_device_plugin_alloc_duration_seconds"
            found = shown(resources)
            assert found[series(f"{name}_count", resource_name=GPU)] == 1
            assert found[series(f"{name}_sum", resource_name=GPU)] == 2.0
            assert found[f"{_TOPOLOGY}duration_ms_sum"] == 2000

    play(case)
