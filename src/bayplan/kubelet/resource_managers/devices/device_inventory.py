"""Devices that plugins offer, with their health, and how they are counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bayplan.kubelet.node.status import DeviceCapacity
from bayplan.kubelet.resource_managers.devices.device_calls import HEALTHY, PluginDevice, PluginOptions
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DeviceCheckpoint
from bayplan.kubelet.resource_managers.devices.pod_devices import PodDevices
from bayplan.kubelet.resource_managers.errors import CheckpointError

logger = logging.getLogger(__name__)

STOP_GRACE_SECONDS: Final = 300.0
"""How long the resources of a plugin that has gone are still shown, as unhealthy ones."""


@dataclass(slots=True)
class Endpoint:
    """A plugin that is, or was, there for a resource. `stopped_at`: since when it is gone (monotonic seconds); None while it is there."""

    options: PluginOptions = PluginOptions()  # noqa: RUF009 - frozen
    stopped_at: float | None = None


@dataclass(slots=True)
class OfferedDevices:
    """The devices of a resource by id, and those of them that may be given away."""

    devices: dict[str, PluginDevice] = field(default_factory=dict)
    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)


class DeviceInventory:
    """See the module. `pods` are the devices that containers have, which the checkpoint holds as well."""

    def __init__(self, checkpoint: DeviceCheckpoint, now: Callable[[], float]) -> None:
        """now: monotonic seconds."""
        self._checkpoint = checkpoint
        self._now = now
        self._resources: dict[str, OfferedDevices] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self.pods = PodDevices()

    def load(self) -> None:
        """Take over what an earlier kubelet gave away. Its resources are shown with no device until their plugins come again."""
        try:
            self.pods, registered = self._checkpoint.load()
        except CheckpointError as error:
            logger.error(
                "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: %s",
                error,
            )
            return
        for resource in registered:
            self._resources[resource] = OfferedDevices()
            self._endpoints[resource] = Endpoint(stopped_at=self._now())

    def connected(self, resource: str, options: PluginOptions) -> None:
        """A plugin has come for a resource."""
        self._endpoints[resource] = Endpoint(options)

    def disconnected(self, resource: str) -> frozenset[str]:
        """It has gone: its devices are not healthy any more. Uids of pods that have some."""
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            return frozenset()
        endpoint.stopped_at = self._now()
        found = self._resources.setdefault(resource, OfferedDevices())
        found.unhealthy |= found.healthy
        found.healthy = set()
        return self.pods.users(resource, found.devices)

    def update(self, resource: str, devices: Iterable[PluginDevice]) -> frozenset[str]:
        """A plugin tells all of its devices. Uids of pods that have one whose health is another one than before."""
        before = self._resources.get(resource, OfferedDevices()).devices
        found = OfferedDevices({each.id: each for each in devices})
        for each in found.devices.values():
            (found.healthy if each.health == HEALTHY else found.unhealthy).add(each.id)
        self._resources[resource] = found
        self._save()
        changed = [
            each.id for each in found.devices.values() if each.id not in before or before[each.id].health != each.health
        ]
        return self.pods.users(resource, changed)

    def capacity(self) -> DeviceCapacity:
        """How many devices there are. Resources whose plugin is gone for five minutes are named once, and forgotten."""
        capacity, allocatable, removed = {}, {}, []
        for name, resource in list(self._resources.items()):
            endpoint = self._endpoints.get(name)
            if endpoint is None or self._is_over(endpoint):
                removed.append(name)
                del self._resources[name]
                self._endpoints.pop(name, None)
                continue
            allocatable[name] = len(resource.healthy)
            capacity[name] = len(resource.healthy) + len(resource.unhealthy)
        if removed:
            self._save()
        return DeviceCapacity(capacity, allocatable, tuple(removed))

    def _is_over(self, endpoint: Endpoint) -> bool:
        return endpoint.stopped_at is not None and self._now() - endpoint.stopped_at > STOP_GRACE_SECONDS

    def healthy(self) -> dict[str, list[PluginDevice]]:
        """Resource -> its devices that may be given away, whether they are or not."""
        return {
            name: [resource.devices[each] for each in sorted(resource.healthy) if each in resource.devices]
            for name, resource in sorted(self._resources.items())
        }

    def is_stopped(self, resource: str) -> bool:
        """Whether the plugin of a resource is gone."""
        endpoint = self._endpoints.get(resource)
        return endpoint is None or endpoint.stopped_at is not None

    def _save(self) -> None:
        try:
            self._checkpoint.save(self.pods, {name: sorted(each.healthy) for name, each in self._resources.items()})
        except CheckpointError as error:
            logger.error("a restart of the kubelet forgets devices: %s", error)
