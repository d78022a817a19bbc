"""Dynamic resources of a node on this machine: prepared with the volumes of a pod, given back when its containers have stopped, and part of what those get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.dynamic_resources.drivers import DraDrivers
from bayplan.kubelet.dynamic_resources.errors import ClaimError
from bayplan.kubelet.dynamic_resources.health import NAME as HEALTH_NAME
from bayplan.kubelet.dynamic_resources.health import DeviceHealth, HealthCache
from bayplan.kubelet.dynamic_resources.health_watch import HealthWatch
from bayplan.kubelet.dynamic_resources.manager import DraManager
from bayplan.kubelet.dynamic_resources.messages import KIND
from bayplan.kubelet.dynamic_resources.metrics import DraMetrics
from bayplan.kubelet.dynamic_resources.shown_devices import claimed_devices, health_statuses
from bayplan.kubelet.dynamic_resources.state_file import NAME
from bayplan.kubelet.errors import SyncError
from bayplan.kubelet.feature_gates import RESOURCE_HEALTH, RESOURCE_HEALTH_MESSAGE, is_enabled
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.plugin_watcher import PluginHandler
from bayplan.kubelet.pods.container_events import WARNING
from bayplan.kubelet.pods.pod_builder import ContainerAllocations
from bayplan.kubelet.pods.pod_syncer import PodVolumes, VolumeNotReadyError
from bayplan.kubelet.pods.pod_workers import WorkState
from bayplan.kubelet.resource_managers.devices.claimed_devices import ClaimedDevices
from bayplan.kubelet.resource_managers.errors import AllocationError
from bayplan.support.grpc.calls import Connection
from bayplan.support.metrics.instruments import Registry

REASON: Final = "FailedPrepareDynamicResources"
Statuses = Callable[[core_v1.Pod], Mapping[str, tuple[core_v1.ResourceStatus, ...]]]
"""Pod -> container -> how what it was given is."""


class NodeClaims:
    """See the module. root: the kubelet's directory. registry: of its metrics. gates: the feature gates that are set."""

    def __init__(
        self, kubelet: Kubelet, client: Client, root: Path, registry: Registry, gates: Mapping[str, bool]
    ) -> None:
        self._kubelet = kubelet
        self._shows_health = is_enabled(gates, RESOURCE_HEALTH)
        self._shows_messages = is_enabled(gates, RESOURCE_HEALTH_MESSAGE)
        self._health = HealthCache(root / HEALTH_NAME, kubelet.clock)
        watch = HealthWatch(self._health, kubelet.clock) if self._shows_health else None
        if watch is not None:
            watch.on_change = self._health_changed
        metrics = DraMetrics(registry, kubelet.clock)
        self._drivers = DraDrivers(client, kubelet.node_name, Connection, kubelet.clock, watch, metrics)
        self._manager = DraManager(client, self._drivers, root / NAME, kubelet.clock, self._pods, metrics)

    def _pods(self) -> set[str] | None:
        """The pods of the node whose containers may run; None before all are known."""
        pods = self._kubelet.pods
        if not pods.ready:
            return None
        known = self._kubelet.workers.known().items()
        running = {uid for uid, state in known if state is not WorkState.TERMINATED}
        return running | {each.metadata.uid for each in pods.active()}

    def load(self) -> None:
        """Read what an earlier kubelet has left. Raises CheckpointError."""
        self._manager.load()
        self._health.load()

    def _health_changed(self, driver: str, devices: Collection[DeviceHealth]) -> None:
        """Show the pods again that use devices of another health."""
        users = self._manager.users(driver, devices)
        if users:
            self._kubelet.show(users)

    def statuses(self, inner: Statuses) -> Statuses:
        """How the devices of containers are, with those of claims."""
        if not self._shows_health:
            return inner

        def of(pod: core_v1.Pod) -> Mapping[str, tuple[core_v1.ResourceStatus, ...]]:
            found = dict(inner(pod))
            for one in pod.spec.containers if pod.spec.resource_claims else ():
                claimed = health_statuses(
                    self._manager.claims_of(pod, one), self._health.of, with_messages=self._shows_messages
                )
                if claimed:
                    found[one.name] = (*found.get(one.name, ()), *claimed)
            return found

        return of

    def claimed(self, pod: core_v1.Pod, container: core_v1.Container) -> list[ClaimedDevices]:
        """What a container has of claims, for monitors."""
        return claimed_devices(self._manager.claims_of(pod, container))

    def volumes(self, inner: PodVolumes) -> PodVolumes:
        """Those of a pod, with its claims."""
        return _VolumesAndClaims(inner, self._manager, self._kubelet)

    async def release(self, pod_uid: str) -> None:
        """Give back the claims of a pod that no other pod uses. Raises SyncError."""
        try:
            await self._manager.unprepare(pod_uid)
        except ClaimError as error:
            raise SyncError(f"unprepare dynamic resources: {error}", retry_after=1.0) from None

    def allocations(self, inner: ContainerAllocations) -> ContainerAllocations:
        """What containers get, with the devices of claims."""
        return _AllocationsAndClaims(inner, self._manager)

    def plugins(self) -> dict[str, PluginHandler]:
        """What is done with plugins, by their kind."""
        return {KIND: self._drivers}

    def tasks(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """What runs as long as the kubelet does."""
        return {"drivers of dynamic resources": self._drivers.run, "claims": self._manager.run}

    async def close(self) -> None:
        """End all connections."""
        await self._drivers.close()


class _VolumesAndClaims:
    """`PodVolumes`."""

    def __init__(self, inner: PodVolumes, manager: DraManager, kubelet: Kubelet) -> None:
        self._inner = inner
        self._manager = manager
        self._kubelet = kubelet

    async def mount(self, pod: core_v1.Pod) -> None:
        """See PodVolumes."""
        await self._inner.mount(pod)
        try:
            await self._manager.prepare(pod)
        except ClaimError as error:
            text = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            self._kubelet.events.pod(pod, WARNING, REASON, text)
            raise VolumeNotReadyError(text, is_reported=True) from error

    async def unmount(self, pod_uid: str) -> None:
        """See PodVolumes."""
        await self._inner.unmount(pod_uid)


class _AllocationsAndClaims:
    """`ContainerAllocations`."""

    def __init__(self, inner: ContainerAllocations, manager: DraManager) -> None:
        self._inner = inner
        self._manager = manager

    async def container(self, pod: core_v1.Pod, container: AnyContainer) -> ContainerAllocation:
        """See ContainerAllocations."""
        found = await self._inner.container(pod, container)
        try:
            devices = self._manager.cdi_devices(pod, container)
        except ClaimError as error:
            raise AllocationError(str(error)) from error
        return replace(found, cdi_devices=(*found.cdi_devices, *devices)) if devices else found
