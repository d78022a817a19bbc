"""Devices that plugins offer, and to whom they are given (pkg/kubelet/cm/devicemanager). Holds state; whom to call is told in steps, and done elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping

from bayplan.api.pods.resources import containers_total
from bayplan.api.quantity import value
from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.devices.device_calls import (
    HEALTHY,
    Allocate,
    Allocated,
    PluginCall,
    PluginDevice,
    PluginReply,
    PreStart,
    Steps,
)
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DeviceCheckpoint
from bayplan.kubelet.resource_managers.devices.device_hints import device_hints, has_topology
from bayplan.kubelet.resource_managers.devices.device_inventory import DeviceInventory, OfferedDevices
from bayplan.kubelet.resource_managers.devices.device_selection import Selection, select
from bayplan.kubelet.resource_managers.devices.pod_devices import NO_NUMA_NODE, ContainerDevices, combined
from bayplan.kubelet.resource_managers.errors import AllocationError, PluginError
from bayplan.kubelet.resource_managers.requests import is_init_container
from bayplan.kubelet.resource_managers.topology_hints import Affinities, Hints, TopologyHint

logger = logging.getLogger(__name__)


class DeviceManager(DeviceInventory):
    """See the module. Implements `HintProvider`."""

    def __init__(
        self,
        numa_nodes: Iterable[int],
        affinities: Affinities,
        checkpoint: DeviceCheckpoint,
        now: Callable[[], float],
        is_starting_with: Callable[[str, str], bool] = lambda uid, container: False,
    ) -> None:
        """now: monotonic seconds. is_starting_with: whether this kubelet still takes in what there was, and a container (pod uid, name) ran before it."""
        super().__init__(checkpoint, now)
        self._numa_nodes = tuple(numa_nodes)
        self._affinities = affinities
        self._is_starting_with = is_starting_with
        self._chosen: dict[str, dict[str, set[str]]] = {}
        """Pod uid -> resource -> devices that are chosen for it while its plugins are asked."""
        self._reusable: dict[str, dict[str, frozenset[str]]] = {}
        """Pod uid -> resource -> devices of its init containers, which those after them may have."""

    def is_plugin_resource(self, resource: str) -> bool:
        """Whether plugins offer it, or did so for a container that still has it."""
        return resource in self._resources or resource in self.pods.resources()

    def wanted(self, container: core_v1.Container) -> dict[str, int]:
        """Resource -> how many devices a container asks for. Devices cannot be over-committed, so limits are requests."""
        limits = container.resources.limits
        return {name: value(text) for name, text in limits.items() if self.is_plugin_resource(name)}

    def in_use(self, resource: str) -> frozenset[str]:
        """Devices that are given away, or about to be."""
        return self.pods.in_use(resource).union(*(each.get(resource, ()) for each in self._chosen.values()))

    def allocate(self, pod: core_v1.Pod, container: core_v1.Container) -> Steps:
        """See HintProvider."""
        uid, changed = pod.metadata.uid, False
        for resource, number in self.wanted(container).items():
            changed = (yield from self._allocate(uid, container.name, resource, number)) or changed
        reusable = self._reusable.setdefault(uid, {})
        for resource, devices in self.pods.of(uid, container.name).items():
            has, ids = reusable.get(resource, frozenset()), devices.ids()
            reusable[resource] = has | ids if is_init_container(pod, container.name) else has - ids
        if changed:
            self._save()

    def _allocate(self, uid: str, name: str, resource: str, number: int) -> Generator[PluginCall, PluginReply, bool]:
        """Whether devices were allocated."""
        needed = self._needed(uid, name, resource, number)
        if not needed:
            return False
        found = self._resources[resource]
        available = frozenset(found.healthy) - self.in_use(resource)
        chosen = self._chosen.setdefault(uid, {}).setdefault(resource, set())
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise AllocationError(f"unknown Device Plugin {resource}")
        selection = Selection(
            resource,
            needed,
            found.devices,
            available,
            self._reusable.get(uid, {}).get(resource, frozenset()),
            self._affinities.affinity(uid, name).affinity,
            asks_plugin=endpoint.options.preferred_allocation_available,
        )
        devices = yield from select(selection, chosen)
        if self.is_stopped(resource):
            raise AllocationError(f"endpoint {resource} has been stopped")
        try:
            reply = yield Allocate(resource, tuple(sorted(devices)))
        except PluginError as error:
            raise AllocationError(str(error)) from error
        if not isinstance(reply, Allocated):
            raise TypeError(f"no answer to Allocate: {reply!r}")
        self.pods.insert(uid, name, resource, ContainerDevices(self._by_numa_node(resource, devices), reply))
        return True

    def _needed(self, uid: str, name: str, resource: str, number: int) -> int:
        """How many devices a container still needs. Raises AllocationError."""
        devices = self.pods.of(uid, name).get(resource)
        has = devices.ids() if devices is not None else frozenset()
        if devices is not None and len(has) != number:
            raise AllocationError(
                f'pod "{uid}" container "{name}" changed request for resource "{resource}" from {len(has)} to {number}'
            )
        if self._is_starting_with(uid, name):
            return 0  # it runs, so it has what it needs, although its plugin may not be there yet
        if resource not in self._resources:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        healthy = self._resources[resource].healthy
        if not healthy:
            raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not has <= healthy:
            raise AllocationError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return number - len(has)

    def _by_numa_node(self, resource: str, devices: Collection[str]) -> dict[int, tuple[str, ...]]:
        known = self._resources[resource].devices if resource in self._resources else {}
        found: dict[int, list[str]] = {}
        for each in sorted(devices):
            nodes = known[each].numa_nodes if each in known else ()
            for node in nodes or (NO_NUMA_NODE,):
                found.setdefault(node, []).append(each)
        return {node: tuple(ids) for node, ids in found.items()}

    def before_start(self, pod: core_v1.Pod, container: core_v1.Container) -> Steps:
        """Tell plugins that a container is about to start; give it its devices, if it has none after a restart of the node. Raises AllocationError."""
        uid, missing = pod.metadata.uid, False
        for resource, number in self.wanted(container).items():
            if number:
                yield from self._pre_start(uid, container.name, resource)
                missing = missing or resource not in self.pods.of(uid, container.name)
        if missing:
            yield from self.allocate(pod, container)
            self.forget_choices(uid)

    def _pre_start(self, uid: str, name: str, resource: str) -> Steps:
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.options.pre_start_required:
            return
        devices = self.pods.of(uid, name).get(resource)
        if devices is None:
            text = f"pod {uid}, container {name}, resource {resource}"
            raise AllocationError(f"no devices found allocated in local cache for {text}")
        try:
            yield PreStart(resource, tuple(sorted(devices.ids())))
        except PluginError as error:
            raise AllocationError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def options(self, uid: str, container: str) -> Allocated:
        """What a container needs for its devices."""
        return combined(self.pods.of(uid, container))

    def forget_choices(self, uid: str) -> None:
        """The pod has been admitted or not: what it did not get is free again, and none of its containers comes any more."""
        self._chosen.pop(uid, None)
        self._reusable.pop(uid, None)

    def keep_only(self, uids: Collection[str]) -> None:
        """Take back what pods have that are not these."""
        if self.pods.keep_only(uids):
            self._save()

    def hints(self, pod: core_v1.Pod, container: core_v1.Container) -> Hints:
        """See HintProvider."""
        uid = pod.metadata.uid
        reusable = self._reusable.get(uid, {})
        return {
            resource: self._hints(
                resource,
                number,
                devices.ids() if (devices := self.pods.of(uid, container.name).get(resource)) else frozenset(),
                reusable.get(resource, frozenset()),
            )
            for resource, number in self.wanted(container).items()
        }

    def pod_hints(self, pod: core_v1.Pod) -> Hints:
        """See HintProvider."""
        limits = containers_total(pod.spec, "limits")
        return {
            resource: self._hints(resource, amount.value(), self.pods.of_pod(pod.metadata.uid, resource), frozenset())
            for resource, amount in limits.items()
            if self.is_plugin_resource(resource)
        }

    def _hints(
        self, resource: str, number: int, has: frozenset[str], reusable: frozenset[str]
    ) -> tuple[TopologyHint, ...] | None:
        found = self._resources.get(resource, OfferedDevices())
        if not has_topology(found.devices):
            return None
        if has:
            hints = device_hints(found.devices, has, (), number, self._numa_nodes)
            return hints if len(has) == number else ()
        available = frozenset(found.healthy) - self.in_use(resource)
        if len(available | reusable) < number:
            return ()
        return device_hints(found.devices, available, reusable, number, self._numa_nodes)

    def statuses(self, uid: str, container: str) -> tuple[core_v1.ResourceStatus, ...]:
        """How the devices of a container are, for its status."""
        found = []
        for resource, devices in sorted(self.pods.of(uid, container).items()):
            known = self._resources.get(resource, OfferedDevices())
            health = tuple(
                core_v1.ResourceHealth(resource_id=each, health=_shown_health(known.devices.get(each)))
                for each in sorted(devices.ids())
            )
            found.append(core_v1.ResourceStatus(name=resource, resources=health))
        return tuple(found)

    def at_least_given(self, uid: str, allocatable: Mapping[str, str | int | float]) -> Mapping[str, str | int | float]:
        """What a node has for admission: for a pod that has devices already, no less of any than is given away, as its plugin may be gone."""
        if uid not in self.pods.pods:
            return allocatable
        given = {each: len(self.in_use(each)) for each in self.pods.resources()}
        short = {name: str(number) for name, number in given.items() if value(allocatable.get(name, 0)) < number}
        return {**allocatable, **short}


def _shown_health(device: PluginDevice | None) -> str:
    return "Unhealthy" if device is not None and device.health != HEALTHY else "Healthy"
