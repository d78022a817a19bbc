"""A node that runs short evicts pods, one after the other, until it has enough: a kubelet over a simulated runtime, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.api.types import core_v1
from bayplan.kubelet.core.eviction import Amount, Pressure, Threshold
from bayplan.kubelet.core.usage import ContainerUsage, DiskUsage, Filesystem, NodeUsage, PodUsage
from bayplan.kubelet.eviction_manager import EvictionManager, Usage
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.kubelet.runtime.errors import RuntimeUnavailableError
from tests.kubelet.simulator.played import Played, container, phase, play, ready

MI = 1 << 20
CAPACITY = 1000 * MI
HARD = Threshold("memory.available", Amount(100 * MI, text="100Mi"))


class Node:
    """What the node's pods use, in MiB; those that have ended use nothing."""

    def __init__(self, played: Played, kubelet: Kubelet) -> None:
        self.kubelet = kubelet
        self.uses: dict[str, int] = {}
        self.disks: dict[str, DiskUsage] = {}
        self.free_disk = 100
        self.reclaimed: list[str] = []
        self.signals: list[str] = []
        self.fails = 0
        self._played = played

    def manager(self, *thresholds: Threshold, most_grace: int = 0, transition: float = 60) -> EvictionManager:
        """The manager under test, which the node's admission asks."""
        reclaim: dict[str, Callable[[], Awaitable[None]]] = {"ephemeral-storage": self._reclaim}
        kubelet = self.kubelet
        manager = EvictionManager(
            Pressure(thresholds, transition),
            self._measure,
            kubelet.pods.active,
            kubelet.workers,
            kubelet.events,
            kubelet.node,
            reclaim,
            kubelet.clock,
            most_grace=most_grace,
        )
        manager.on_eviction = self.signals.append
        self._played.admit = manager.rejection
        return manager

    async def _reclaim(self) -> None:
        self.reclaimed.append("images")
        self.free_disk += 50

    async def _measure(self) -> Usage:
        if self.fails:
            self.fails -= 1
            raise RuntimeUnavailableError("the runtime does not answer")
        runs = {each.metadata.name: each for each in self.kubelet.pods.active()}
        used = sum(amount for name, amount in self.uses.items() if name in runs)
        pods = {
            pod.metadata.uid: PodUsage(
                memory=self.uses.get(name, 0) * MI,
                containers={"c": ContainerUsage(memory=self.uses.get(name, 0) * MI)},
                volumes={"data": self.disks[name]} if name in self.disks else {},
            )
            for name, pod in runs.items()
        }
        filesystem = Filesystem(self.free_disk, 1000, 1000, 1000)
        return Usage(NodeUsage(CAPACITY - used * MI, CAPACITY, filesystem), pods)


async def started(played: Played, *names: str, **spec: object) -> None:
    for name in names:
        await played.create(container(), name=name, **spec)
        await played.until(ready, name)


def running(manager: EvictionManager) -> asyncio.Task[None]:
    return asyncio.create_task(manager.run())


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_pod_that_uses_most_goes_and_the_others_stay() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses = {"small": 200, "large": 750}
            await started(played, "small", "large")
            task = running(manager := node.manager(HARD))
            failed = await played.until(phase("Failed"), "large")
            assert failed.status.reason == "Evicted"
            assert failed.status.message == (
                "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
                "Container c was using 750Mi, request is 0, has larger consumption of memory. "
            )
            disruption = next(each for each in failed.status.conditions if each.type == "DisruptionTarget")
            assert (disruption.status, disruption.reason) == ("True", "TerminationByKubelet")
            assert [each.involved_object.name for each in await played.events("Evicted")] == ["large"]
            assert len(await played.events("EvictionThresholdMet")) == 1
            assert "MemoryPressure" in manager.conditions
            await played.clock.sleep(60)
            assert ready(await played.pod("small"))
            await played.clock.sleep(30)
            assert not manager.conditions
            assert node.signals == ["memory.available"]
            await ended(task)

    play(case)


def test_one_pod_goes_at_a_time_and_none_while_another_is_still_ending() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses = {"a": 400, "b": 350, "c": 300}
            await started(played, "a", "b", "c")
            task = running(node.manager(HARD))
            await played.until(phase("Failed"), "a")
            await played.clock.sleep(120)
            assert ready(await played.pod("b"))
            assert ready(await played.pod("c"))
            await ended(task)

    play(case, behaviours={"c": Behaviour(stop_seconds=30)})


def test_critical_pods_never_go() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses = {"critical": 950}
            await started(played, "critical", priority_class_name="system-node-critical")
            task = running(manager := node.manager(HARD))
            await played.clock.sleep(60)
            assert manager.conditions == ("MemoryPressure",)
            assert ready(await played.pod("critical"))
            await ended(task)

    play(case)


def test_a_node_under_pressure_refuses_pods_that_request_nothing() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses = {"critical": 950}
            await started(played, "critical", priority_class_name="system-node-critical")
            task = running(node.manager(HARD))
            await played.clock.sleep(1)
            await played.create(container(), name="late")
            failed = await played.until(phase("Failed"), "late")
            assert (failed.status.reason, failed.status.message) == (
                "Evicted",
                "Pod was rejected: The node had condition: [MemoryPressure]. ",
            )
            wants = core_v1.ResourceRequirements(requests={"memory": "10Mi"})
            await played.create(container(resources=wants), name="burstable")
            await played.until(ready, "burstable")
            await ended(task)

    play(case)


def test_images_go_before_pods_do() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.free_disk = 60
            await started(played, "a")
            task = running(manager := node.manager(Threshold("nodefs.available", Amount(share=0.1))))
            await played.clock.sleep(1)
            assert node.reclaimed == ["images"]
            assert manager.conditions == ("DiskPressure",)
            await played.clock.sleep(60)
            assert ready(await played.pod("a"))
            assert node.reclaimed == ["images"]
            await ended(task)

    play(case)


def test_a_soft_threshold_waits_and_gives_pods_time() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses = {"a": 950}
            await started(played, "a", termination_grace_period_seconds=60)
            soft = Threshold("memory.available", Amount(100 * MI), grace_seconds=30)
            started_at = played.clock.monotonic()
            task = running(node.manager(soft, most_grace=20))
            await played.until(phase("Failed"), "a", 120)
            assert 50 <= played.clock.monotonic() - started_at < 62
            (killed,) = played.runtime.all_containers()
            assert killed.exit_code == 137  # after 20 s, of the 40 that it would have taken
            await ended(task)

    play(case, behaviours={"c": Behaviour(stop_seconds=40)})


def test_a_pod_that_fills_its_own_volume_goes_without_any_pressure() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            volume = core_v1.Volume(name="data", empty_dir=core_v1.EmptyDirVolumeSource(size_limit="5Mi"))
            await started(played, "a", volumes=(volume,))
            await started(played, "b")
            node.disks = {"a": DiskUsage(6 * MI, 1), "b": DiskUsage(600 * MI, 1)}
            task = running(manager := node.manager(HARD))
            failed = await played.until(phase("Failed"), "a")
            assert failed.status.message == 'Usage of EmptyDir volume "data" exceeds the limit "5Mi". '
            assert not any(each.type == "DisruptionTarget" for each in failed.status.conditions)
            assert not manager.conditions
            assert ready(await played.pod("b"))
            await ended(task)

    play(case)


def test_a_measurement_that_fails_is_made_again() -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            node = Node(played, kubelet)
            node.uses, node.fails = {"a": 950}, 3
            await started(played, "a")
            started_at = played.clock.monotonic()
            task = running(node.manager(HARD))
            await played.until(phase("Failed"), "a")
            assert played.clock.monotonic() - started_at >= 30
            await ended(task)

    play(case)
