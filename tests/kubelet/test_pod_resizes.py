"""Resizing pods in place: a kubelet over a simulated runtime, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.events import EventRecorder
from bayplan.kubelet.allocations import ALLOCATED, AllocationRecords
from bayplan.kubelet.core.admission import NodeOffer
from bayplan.kubelet.core.resize import Allocation
from bayplan.kubelet.core.resources import CgroupResources
from bayplan.kubelet.pods.container_events import ContainerEvents
from bayplan.kubelet.pods.pod_resizes import PodResizes
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.support.blocking import at_once, in_thread
from tests.kubelet.simulator.played import Played, container, play, ready

T = TypeVar("T")

MIB = 1 << 20


def resources(cpu: str, memory: str) -> core_v1.ResourceRequirements:
    return core_v1.ResourceRequirements(limits={"cpu": cpu, "memory": memory}, requests={"cpu": cpu, "memory": memory})


async def resize(played: Played, cpu: str, memory: str, name: str = "p") -> core_v1.Pod:
    amounts = {"cpu": cpu, "memory": memory}
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}}
    return await played.client.patch(
        core_v1.Pod, name, "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize"
    )


def resize_condition(pod: core_v1.Pod | None) -> tuple[str, str]:
    """(type, reason) of what a pod says of its resize."""
    found = [each for each in pod.status.conditions if each.type.startswith("PodResize")] if pod is not None else []
    return (found[0].type, found[0].reason) if found else ("", "")


def resized(cpu: str, memory: str, generation: int = 2) -> Callable[[core_v1.Pod | None], bool]:
    def check(pod: core_v1.Pod | None) -> bool:
        if pod is None or not ready(pod) or pod.status.observed_generation < generation:
            return False
        status = pod.status.container_statuses[0]
        wanted = {"cpu": cpu, "memory": memory}
        return (
            resize_condition(pod) == ("", "")
            and status.resources is not None
            and status.resources.limits == wanted
            and status.allocated_resources == wanted
        )

    return check


def limits_of(played: Played, name: str = "c") -> tuple[int, int]:
    """(cpu quota, memory limit) of the newest container of this name."""
    newest = max(
        (each for each in played.runtime.all_containers() if each.config.name == name), key=lambda each: each.created_at
    )
    return newest.resources.cpu_quota, newest.resources.memory_limit


def test_a_running_container_gets_other_limits_and_is_not_started_again() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(container(resources=resources("100m", "64Mi")))
            await played.until(ready)
            assert limits_of(played) == (10_000, 64 * MIB)
            await resize(played, "200m", "128Mi")
            pod = await played.until(resized("200m", "128Mi"))
            assert limits_of(played) == (20_000, 128 * MIB)
            assert played.runs("c") == 1
            assert pod.status.container_statuses[0].restart_count == 0
            for reason in ("ResizeStarted", "ResizeCompleted"):
                (event,) = await played.events(reason)
                assert '"cpu":"200m"' in event.message

    play(case)


def test_an_init_container_gets_other_limits_while_it_runs() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            first = container("i", resources=resources("100m", "64Mi"))
            await played.create(container(resources=resources("100m", "64Mi")), init_containers=(first,))
            await played.until(lambda pod: pod is not None and is_running(pod.status.init_container_statuses))
            amounts = {"cpu": "200m", "memory": "128Mi"}
            patch = {"spec": {"initContainers": [{"name": "i", "resources": {"requests": amounts, "limits": amounts}}]}}
            await played.client.patch(
                core_v1.Pod, "p", "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize"
            )
            await played.until(lambda pod: pod is not None and bool(pod.status.observed_generation == 2))
            pod = await played.until(lambda pod: resize_condition(pod) == ("", ""))
            assert limits_of(played, "i") == (20_000, 128 * MIB)
            (status,) = pod.status.init_container_statuses
            assert status.resources is not None
            assert status.resources.limits == status.allocated_resources == amounts
            assert played.runs("i") == 1

    play(case)


def is_running(statuses: tuple[core_v1.ContainerStatus, ...]) -> bool:
    return bool(statuses) and statuses[0].state.running is not None


def test_the_limits_of_the_pod_go_up_before_and_down_after_those_of_its_containers() -> None:
    async def case(played: Played) -> None:
        order: list[str] = []
        update, set_resources = played.runtime.update_container, played.cgroups.set_resources

        async def note_update(*arguments: object) -> None:
            order.append("container")
            await update(*arguments)  # type: ignore[arg-type]

        def note_pod(pod: core_v1.Pod, resources: CgroupResources) -> None:
            order.append("pod cpu" if resources.memory is None else "pod memory")
            set_resources(pod, resources)

        played.runtime.update_container = note_update  # type: ignore[method-assign,assignment]
        played.cgroups.set_resources = note_pod  # type: ignore[method-assign]
        async with played.running():
            pod = await played.create(container(resources=resources("100m", "64Mi")))
            played.cgroups.limited[pod.metadata.uid] = CgroupResources(cpu_quota=10_000, memory=64 * MIB)
            await played.until(ready)
            await resize(played, "50m", "128Mi")
            await played.until(resized("50m", "128Mi"))
        assert order == ["pod memory", "container", "container", "pod cpu"]
        assert played.cgroups.limited[pod.metadata.uid] == CgroupResources(cpu_quota=5_000, memory=128 * MIB)

    play(case)


def test_a_container_whose_policy_says_so_is_started_again() -> None:
    async def case(played: Played) -> None:
        policy = (core_v1.ContainerResizePolicy(resource_name="memory", restart_policy="RestartContainer"),)
        async with played.running():
            await played.create(container(resources=resources("100m", "64Mi"), resize_policy=policy))
            await played.until(ready)
            await resize(played, "200m", "64Mi")
            await played.until(resized("200m", "64Mi"))
            assert played.runs("c") == 1
            await resize(played, "200m", "128Mi")
            pod = await played.until(resized("200m", "128Mi", 3))
            assert played.runs("c") == 2
            assert pod.status.container_statuses[0].restart_count == 1
            assert limits_of(played) == (20_000, 128 * MIB)
            (event,) = await played.events("Killing")
            assert event.message.startswith("Container c resize requires restart")

    play(case)


def test_a_resize_is_in_progress_until_the_last_container_has_started_again() -> None:
    async def case(played: Played) -> None:
        policy = (core_v1.ContainerResizePolicy(resource_name="memory", restart_policy="RestartContainer"),)
        sidecar = container("i", restart_policy="Always", resize_policy=policy)
        level = resources("80m", "95Mi")
        async with played.running():
            await played.create(container(resize_policy=policy), init_containers=(sidecar,), resources=level)
            await played.until(ready)
            amounts = {"cpu": "80m", "memory": "100Mi"}
            patch = {"spec": {"resources": {"requests": amounts, "limits": amounts}}}
            await played.client.patch(
                core_v1.Pod, "p", "default", patch, patch_type=STRATEGIC_PATCH, subresource="resize"
            )
            await played.until(lambda pod: pod is not None and pod.status.observed_generation == 2)
            pod = await played.until(lambda pod: resize_condition(pod) == ("", ""))
            statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
            assert [each.restart_count for each in statuses] == [1, 1]

    slow = (Behaviour(stop_seconds=2),) * 2
    play(case, behaviours={"c": slow, "i": slow})


def test_a_resize_waits_until_another_pod_has_made_room() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            await played.create(container(resources=resources("3", "64Mi")), name="other")
            await played.create(container(resources=resources("100m", "64Mi")))
            await played.until(ready)
            await resize(played, "2", "64Mi")
            pod = await played.until(lambda each: resize_condition(each) == ("PodResizePending", "Deferred"))
            status = pod.status.container_statuses[0]
            assert status.allocated_resources["cpu"] == "100m"
            assert limits_of(played)[0] != 200_000
            (event,) = await played.events("ResizeDeferred")
            assert "requested: 2000, used: 3000, capacity: 4000" in event.message
            await played.client.delete(core_v1.Pod, "other", "default")
            await played.until(resized("2", "64Mi"), seconds=120)

    play(case)


def test_what_the_node_does_not_have_at_all_is_infeasible_until_the_pod_asks_for_less() -> None:
    async def case(played: Played) -> None:
        told: list[str] = []
        events = ContainerEvents(EventRecorder(played.client, "kubelet", played.clock, played.randomness, host="n1"))
        events.pod = lambda pod, event_type, reason, message: told.append(reason)  # type: ignore[method-assign]
        node = core_v1.Node(status=core_v1.NodeStatus(allocatable={"cpu": "2", "memory": "1Gi", "pods": "10"}))
        records = AllocationRecords(None, at_once), AllocationRecords(None, at_once)
        resizes = PodResizes(*records, events, lambda: NodeOffer(node), played.clock)
        pods = [
            core_v1.Pod(
                metadata=meta_v1.ObjectMeta(name="p", uid="1", generation=generation),
                spec=core_v1.PodSpec(containers=(container(resources=resources(cpu, "64Mi")),)),
            )
            for generation, cpu in enumerate(("1", "3", "3", "2"), 1)
        ]
        resizes.admit(pods[0])
        for pod in pods[1:]:
            resizes.want(pod)
            assert resizes.retry({"1": pod}, list) == [pod]
            (condition,) = resizes.conditions("1", terminal=False)
            allocated = resizes.allocated(pod).spec.containers[0].resources.requests["cpu"]
            wanted = ("PodResizeInProgress", "") if pod is pods[3] else ("PodResizePending", "Infeasible")
            assert (condition.type, condition.reason) == wanted
            assert condition.observed_generation == pod.metadata.generation
            assert allocated == ("2" if pod is pods[3] else "1")
            assert not resizes.retry({"1": pod}, list)
        assert told == ["ResizeInfeasible", "ResizeInfeasible", "ResizeStarted"]
        assert resizes.conditions("1", terminal=True) == ()

    play(case)


def test_a_memory_limit_below_what_is_in_use_is_an_error_until_less_is_used() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            pod = await played.create(container(resources=resources("100m", "64Mi")))
            played.cgroups.limited[pod.metadata.uid] = CgroupResources(cpu_quota=10_000, memory=64 * MIB)
            played.cgroups.usage = 48 * MIB
            await played.until(ready)
            await resize(played, "100m", "32Mi")
            found = await played.until(lambda each: resize_condition(each) == ("PodResizeInProgress", "Error"))
            message = next(each.message for each in found.status.conditions if each.type == "PodResizeInProgress")
            assert message == (
                "cannot decrease memory limits: "
                f"attempting to set pod memory limit ({32 * MIB}) below current usage ({48 * MIB})"
            )
            assert limits_of(played)[1] == 64 * MIB
            played.cgroups.usage = 0
            await played.until(resized("100m", "32Mi"), seconds=300)
            assert len(await played.events("ResizeError")) == 1

    play(case)


def test_a_runtime_that_refuses_is_asked_again() -> None:
    async def case(played: Played) -> None:
        update, failures = played.runtime.update_container, [RuntimeRequestError("not now")]

        async def failing(*arguments: object) -> None:
            if failures:
                raise failures.pop()
            await update(*arguments)  # type: ignore[arg-type]

        played.runtime.update_container = failing  # type: ignore[method-assign,assignment]
        async with played.running():
            await played.create(container(resources=resources("100m", "64Mi")))
            await played.until(ready)
            await resize(played, "200m", "64Mi")
            await played.until(resized("200m", "64Mi"), seconds=300)
            (event,) = await played.events("ResizeError")
            assert "not now" in event.message

    play(case)


def test_what_is_allocated_outlives_the_kubelet(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        played.records = tmp_path
        async with played.running():
            await played.create(container(resources=resources("3", "64Mi")), name="other")
            await played.create(container(resources=resources("100m", "64Mi")))
            await played.until(ready)
            await resize(played, "2", "64Mi")
            await played.until(lambda each: resize_condition(each) == ("PodResizePending", "Deferred"))
        async with played.running():
            await played.clock.sleep(10)
            pod = await played.until(lambda each: resize_condition(each) == ("PodResizePending", "Deferred"))
            assert pod.status.phase == "Running"
            assert pod.status.container_statuses[0].allocated_resources["cpu"] == "100m"
            assert played.runs("c") == 2  # one of each pod
            await played.client.delete(core_v1.Pod, "other", "default")
            await played.until(resized("2", "64Mi"), seconds=120)

    play(case)


def test_records_that_cannot_be_read_are_left_out_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / ALLOCATED
    path.write_text("{")

    async def case() -> None:
        records = AllocationRecords(path, in_thread)
        records.load()
        assert records.get("1") is None
        records.set("1", Allocation({"c": resources("1", "1Gi")}))
        records.set("2", Allocation())
        records.retain(["1"])
        await records.close()

    asyncio.run(case())
    assert "is left out" in caplog.text
    again = AllocationRecords(path, at_once)
    again.load()
    assert again.get("1") == Allocation({"c": resources("1", "1Gi")})
    assert again.get("2") is None


def test_many_changes_at_once_are_written_together(tmp_path: Path) -> None:
    writes = []

    async def counted(function: Callable[[], T]) -> T:
        writes.append(1)
        return await in_thread(function)

    async def case() -> None:
        records = AllocationRecords(tmp_path / ALLOCATED, counted)
        for number in range(100):
            records.set(str(number), Allocation())
        await asyncio.sleep(0)
        records.set("100", Allocation())  # while the others are being written
        await records.close()

    asyncio.run(case())
    assert len(writes) == 2
    again = AllocationRecords(tmp_path / ALLOCATED, at_once)
    again.load()
    assert all(again.get(str(number)) is not None for number in range(101))


def test_pods_run_on_where_records_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "missing"

    async def case() -> None:
        records = AllocationRecords(directory / ALLOCATED, in_thread)
        records.set("1", Allocation())
        await records.close()
        assert records.get("1") == Allocation()
        directory.mkdir()
        records.set("2", Allocation())
        await records.close()

    asyncio.run(case())
    assert "is not up to date" in caplog.text
    again = AllocationRecords(directory / ALLOCATED, at_once)
    again.load()
    assert again.get("1") == again.get("2") == Allocation()
