"""Pods get CPUs, memory and devices from a kubelet, keep them over restarts, and give them back; over the simulated runtime, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.feature_gates import RESOURCE_HEALTH
from bayplan.kubelet.resource_managers.cpus.cpu_state import CPU_STATE
from bayplan.kubelet.resource_managers.devices.device_calls import PluginDevice, PluginOptions, PreStart
from bayplan.kubelet.resource_managers.errors import CheckpointError
from bayplan.kubelet.runtime.behaviour import Behaviour
from tests.kubelet.resource_managers.played_resources import (
    GPU,
    Plugin,
    Resources,
    configuration,
    guaranteed,
    machine,
    memory_configuration,
)
from tests.kubelet.simulator.played import NODE, Played, container, gone, phase, play, ready

TWO_GPUS = {GPU: (PluginDevice("one", numa_nodes=(0,)), PluginDevice("two", numa_nodes=(1,)))}


async def offer_gpus(played: Played, number: str = "2") -> None:
    """Let the API's node have devices and enough of all else."""
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: number}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await played.client.patch(core_v1.Node, NODE, "", status, subresource="status")


def test_a_guaranteed_container_has_its_cpus_and_others_leave_them() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played)
        async with played.running():
            await played.create(container("shared"), name="before")
            await played.until(ready, "before")
            assert resources.cpus_of("shared") == "0-7"
            await played.create(guaranteed("own", "2"), name="p")
            await played.until(ready)
            assert resources.cpus_of("own") == "1,5"
            await resources.cpus_become("shared", "0,2-4,6-7")
            await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
            await played.until(gone)
            await resources.cpus_become("shared", "0-7")

    play(case)


def test_without_the_policy_containers_run_anywhere() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, configuration(cpu_manager_policy="none"))
        async with played.running():
            await played.create(guaranteed("own", "2"))
            await played.until(ready)
            assert resources.cpus_of("own") == ""

    play(case)


def test_a_pod_that_is_not_to_have_the_cpus_that_it_wants_is_rejected_as_by_kubelet() -> None:
    async def case(played: Played) -> None:
        Resources(played, machine=machine(1, 2))
        async with played.running():
            await played.create(guaranteed("own", "4"))
            pod = await played.until(phase("Failed"))
            assert pod.status.reason == "UnexpectedAdmissionError"
            assert pod.status.message == (
                "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=4, "
                "available=3, which is unexpected"
            )
            await played.create(guaranteed("own", "3"), name="fits")
            await played.until(ready, "fits")

    play(case)


def test_a_pod_that_wants_a_part_of_a_core_is_rejected_where_cores_are_given_whole() -> None:
    async def case(played: Played) -> None:
        options = {"full-pcpus-only": "true"}
        Resources(played, configuration(cpu_manager_policy_options=options))
        async with played.running():
            await played.create(guaranteed("own", "1"))
            pod = await played.until(phase("Failed"))
            assert pod.status.reason == "SMTAlignmentError"
            assert pod.status.message == (
                "Pod was rejected: SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2"
            )

    play(case)


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_what_no_numa_node_can_hold_is_rejected_where_one_must(scope: str) -> None:
    async def case(played: Played) -> None:
        wanted = memory_configuration(topology_manager_policy="single-numa-node", topology_manager_scope=scope)
        resources = Resources(played, wanted)
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("a", "3"), guaranteed("b", "3"))
            if scope == "container":
                await played.until(ready)
                assert [resources.cpus_of(each) for each in "ab"] == ["1,4-5", "2-3,6"]
                return
            pod = await played.until(phase("Failed"))
            assert pod.status.reason == "TopologyAffinityError"
            assert pod.status.message == "Pod was rejected: Resources cannot be allocated with Topology locality"
            assert resources.running().managers.cpus.state.assignments == {}

    play(case)


def test_memory_comes_from_the_node_of_the_cpus() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, memory_configuration(topology_manager_policy="restricted"))
        async with played.running():
            await played.create(guaranteed("own", "4", "2Gi"))
            await played.until(ready)
            [found] = played.runtime.all_containers()
            assert (found.config.resources.cpuset_cpus, found.config.resources.cpuset_mems) == ("2-3,6-7", "1")
            free = {
                node: each.tables["memory"].free
                for node, each in resources.running().managers.memory.state.machine.items()
            }
            assert free == {0: 3 << 30, 1: 2 << 30}

    play(case)


def test_a_restarted_kubelet_leaves_containers_their_cpus_and_their_devices(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, directory=tmp_path, offered=dict(TWO_GPUS), plugins={GPU: Plugin()})
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("own", "2", gpus="1"))
            await played.until(ready)
            before = resources.running().managers.cpus.state.assignments
        resources.offered = {}  # plugins come later than the kubelet
        async with played.running():
            await played.create(guaranteed("next", "2"), name="next")
            await played.until(ready, "next")
            state = resources.running().managers.cpus.state
            [(uid, had)] = before.items()
            assert state.assignments[uid] == had
            pod = await played.until(ready)
            assert played.runs("own") == 1
            [status] = pod.status.container_statuses
            assert [each.name for each in status.allocated_resources_status] == [GPU]
            assert resources.running().managers.devices.capacity().capacity == {GPU: 0}

    play(case)


def test_a_checkpoint_of_another_policy_stops_the_kubelet(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        Resources(played, configuration(cpu_manager_policy="none"), directory=tmp_path)
        async with played.running():
            await played.create()
            await played.until(ready)
        other = Resources(played, directory=tmp_path)
        async with played.running() as kubelet:
            with pytest.raises(
                CheckpointError, match='configured policy "static" differs from state checkpoint policy "none"'
            ):
                other.running().start()
            assert not kubelet.pods.ready

    play(case)
    assert (tmp_path / CPU_STATE).exists()


def test_a_container_gets_devices_near_to_its_cpus() -> None:
    async def case(played: Played) -> None:
        plugin = Plugin()
        wanted = memory_configuration(topology_manager_policy="single-numa-node")
        Resources(played, wanted, offered=dict(TWO_GPUS), plugins={GPU: plugin})
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("own", "4", gpus="1"))
            await played.until(ready)
            [found] = played.runtime.all_containers()
            assert found.config.environment == (("DEVICES", "two"),)
            assert found.config.resources.cpuset_cpus == "2-3,6-7"

    play(case)


def test_pods_wait_for_a_slow_plugin_and_others_do_not() -> None:
    async def case(played: Played) -> None:
        Resources(played, offered=dict(TWO_GPUS), plugins={GPU: Plugin(seconds=5)})
        await offer_gpus(played)
        async with played.running():
            began = played.clock.monotonic()
            await played.create(guaranteed("slow", gpus="1"), name="slow")
            await played.create(guaranteed("quick"), name="quick")
            await played.until(ready, "quick")
            assert played.clock.monotonic() - began < 4
            await played.until(ready, "slow")
            assert played.clock.monotonic() - began > 5

    play(case)


def test_a_plugin_that_never_answers_has_its_pods_rejected_and_its_devices_are_free_again() -> None:
    async def case(played: Played) -> None:
        plugin = Plugin(seconds=None)
        resources = Resources(played, offered=dict(TWO_GPUS), plugins={GPU: plugin})
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("own", gpus="2"), name="stuck")
            await played.create(guaranteed("other"), name="other")
            await played.until(ready, "other")
            pod = await played.until(phase("Failed"), "stuck")
            assert pod.status.reason == "UnexpectedAdmissionError"
            assert pod.status.message == (
                "Pod was rejected: Allocate failed due to rpc error: code = DeadlineExceeded desc = Deadline Exceeded, "
                "which is unexpected"
            )
            assert resources.running().managers.devices.in_use(GPU) == frozenset()
            plugin.seconds = 0
            await played.create(guaranteed("again", gpus="2"), name="again")
            await played.until(ready, "again")

    play(case)


def test_a_pod_that_goes_while_its_plugin_is_asked_takes_nothing() -> None:
    async def case(played: Played) -> None:
        resources = Resources(played, offered=dict(TWO_GPUS), plugins={GPU: Plugin(seconds=5)})
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("own", gpus="2"))
            await played.clock.sleep(1)
            assert resources.running().managers.devices.in_use(GPU) == {"one", "two"}
            await played.client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
            await played.until(gone)
            await played.clock.sleep(10)
            assert resources.running().managers.devices.in_use(GPU) == frozenset()
            assert resources.running().managers.cpus.state.assigned() == frozenset()
            assert played.runs("own") == 0

    play(case)


def test_too_many_devices_are_refused_in_the_words_of_kubelet() -> None:
    async def case(played: Played) -> None:
        Resources(played, offered=dict(TWO_GPUS), plugins={GPU: Plugin()})
        await offer_gpus(played, "9")
        async with played.running():
            await played.create(guaranteed("own", gpus="3"))
            pod = await played.until(phase("Failed"))
            assert pod.status.message == (
                f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPU}. Requested: 3, "
                "Available: 2, which is unexpected"
            )

    play(case)


@pytest.mark.parametrize(("gates", "shown"), [({}, [("one", "Unhealthy")]), ({RESOURCE_HEALTH: False}, [])])
def test_the_health_of_devices_is_shown_in_the_pod_unless_its_gate_is_off(
    gates: dict[str, bool], shown: list[tuple[str, str]]
) -> None:
    async def case(played: Played) -> None:
        settings = configuration(feature_gates=gates)
        resources = Resources(played, settings, offered=dict(TWO_GPUS), plugins={GPU: Plugin()})
        await offer_gpus(played)
        async with played.running() as kubelet:
            await played.create(guaranteed("own", gpus="1"))
            await played.until(ready)
            sick = (PluginDevice("one", "Unhealthy"), PluginDevice("two"))
            kubelet.show(resources.running().managers.devices.update(GPU, sick))

            await played.clock.sleep(1)
            pod = await played.pod()
            assert pod is not None
            statuses = pod.status.container_statuses[0].allocated_resources_status
            assert [(each.resource_id, each.health) for one in statuses for each in one.resources] == shown

    play(case)


def test_plugins_are_told_before_each_start_and_a_refusal_is_tried_again() -> None:
    async def case(played: Played) -> None:
        plugin = Plugin()
        Resources(
            played,
            offered=dict(TWO_GPUS),
            plugins={GPU: plugin},
            options=PluginOptions(pre_start_required=True),
        )
        await offer_gpus(played)
        async with played.running():
            await played.create(guaranteed("own", gpus="1"))
            await played.until(lambda pod: played.runs("own") >= 2)
            starts = [each for each in plugin.calls if isinstance(each, PreStart)]
            assert [each.devices for each in starts[:2]] == [("one",), ("one",)]
            plugin.error = "not now"
            await played.until(
                lambda pod: (
                    pod is not None
                    and (waiting := pod.status.container_statuses[0].state.waiting) is not None
                    and waiting.reason == "CreateContainerConfigError"
                    and "PreStartContainer rpc failed with err: not now" in waiting.message
                ),
                seconds=120,
            )

    play(case, behaviours={"own": Behaviour(run_seconds=3)})
