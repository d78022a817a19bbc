"""Which devices the containers of a node have, with what their plugins said about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.kubelet.resource_managers.devices.device_calls import Allocated
from bayplan.kubelet.runtime.types import Device, Mount

NO_NUMA_NODE = -1


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices of one resource that a container has: NUMA node -> ids, -1 for those that are near to none, a device may be at several."""

    by_numa_node: Mapping[int, tuple[str, ...]]
    allocated: Allocated

    def ids(self) -> frozenset[str]:
        """The devices."""
        return frozenset(each for ids in self.by_numa_node.values() for each in ids)

    def numa_nodes(self, device: str) -> tuple[int, ...]:
        """The NUMA nodes of a device."""
        return tuple(node for node, ids in sorted(self.by_numa_node.items()) if device in ids and node != NO_NUMA_NODE)


@dataclass(slots=True)
class PodDevices:
    """Pod uid -> container -> resource -> devices."""

    pods: dict[str, dict[str, dict[str, ContainerDevices]]] = field(default_factory=dict)

    def of(self, uid: str, container: str) -> Mapping[str, ContainerDevices]:
        """Resource -> devices of a container."""
        return self.pods.get(uid, {}).get(container, {})

    def insert(self, uid: str, container: str, resource: str, devices: ContainerDevices) -> None:
        """Give a container devices."""
        self.pods.setdefault(uid, {}).setdefault(container, {})[resource] = devices

    def all(self) -> Iterator[tuple[str, str, str, ContainerDevices]]:
        """(pod uid, container, resource, devices) of all containers."""
        for uid, containers in self.pods.items():
            for container, resources in containers.items():
                for resource, devices in resources.items():
                    yield uid, container, resource, devices

    def in_use(self, resource: str) -> frozenset[str]:
        """The devices of a resource that some container has."""
        return frozenset(each for _, _, name, devices in self.all() if name == resource for each in devices.ids())

    def resources(self) -> frozenset[str]:
        """Resources of which some container has devices."""
        return frozenset(name for _, _, name, _ in self.all())

    def of_pod(self, uid: str, resource: str) -> frozenset[str]:
        """The devices of a resource that a pod's containers have."""
        found = (each.get(resource) for each in self.pods.get(uid, {}).values())
        return frozenset(each for devices in found if devices is not None for each in devices.ids())

    def users(self, resource: str, devices: Collection[str]) -> frozenset[str]:
        """Uids of pods that have one of these devices."""
        wanted = frozenset(devices)
        return frozenset(uid for uid, _, name, each in self.all() if name == resource and each.ids() & wanted)

    def keep_only(self, uids: Collection[str]) -> bool:
        """Take back what other pods had; whether there was anything."""
        gone = [uid for uid in self.pods if uid not in uids]
        for uid in gone:
            del self.pods[uid]
        return bool(gone)


def combined(devices: Mapping[str, ContainerDevices]) -> Allocated:
    """What a container needs for the devices of all its resources. Of two plugins that want the same name or path, the first one gets it."""
    environment: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    nodes: dict[str, Device] = {}
    cdi_devices: dict[str, None] = {}
    for _, each in sorted(devices.items()):
        found = each.allocated
        environment = {**found.environment, **environment}
        annotations = {**found.annotations, **annotations}
        mounts = {**{mount.container_path: mount for mount in found.mounts}, **mounts}
        nodes = {**{node.container_path: node for node in found.devices}, **nodes}
        cdi_devices.update(dict.fromkeys(found.cdi_devices))
    return Allocated(environment, tuple(mounts.values()), tuple(nodes.values()), annotations, tuple(cdi_devices))
