"""From which NUMA nodes devices can come, and which devices are near to some (topology_hints.go in pkg/kubelet/cm/devicemanager). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bayplan.kubelet.resource_managers.devices.device_calls import PluginDevice
from bayplan.kubelet.resource_managers.topology_hints import NumaNodes, TopologyHint, masks, prefer_narrowest

Devices = Mapping[str, PluginDevice]
"""Id -> device."""


def has_topology(devices: Devices) -> bool:
    """Whether it matters from where devices come: one that tells its NUMA nodes is enough."""
    return any(each.numa_nodes for each in devices.values())


def device_hints(
    devices: Devices, available: Collection[str], reusable: Collection[str], number: int, machine: Iterable[int]
) -> tuple[TopologyHint, ...]:
    """The sets of NUMA nodes that have enough available devices, and all reusable ones that tell where they are. machine: its NUMA nodes."""
    known = sorted(machine)
    nodes = sorted({node for each in devices.values() for node in each.numa_nodes} & set(known)) or known
    smallest = len(nodes)
    found = []
    for mask in masks(nodes):
        if sum(_is_in(each, mask) for each in devices.values()) >= number:
            smallest = min(smallest, len(mask))
        placed = [devices[each] for each in reusable if each in devices and devices[each].numa_nodes]
        if not all(_is_in(each, mask) for each in placed):
            continue
        free = sum(_is_in(devices[each], mask) for each in available if each in devices)
        if len(placed) + free >= number:
            found.append(mask)
    return tuple(prefer_narrowest(found, smallest))


def _is_in(device: PluginDevice, mask: NumaNodes) -> bool:
    return not mask.isdisjoint(device.numa_nodes)


def by_affinity(
    devices: Devices, available: Collection[str], affinity: NumaNodes | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """(devices at the NUMA nodes, devices elsewhere, devices that are nowhere) of those available; all are nowhere if that does not matter."""
    if affinity is None or not has_topology(devices):
        return frozenset(), frozenset(), frozenset(available)
    nowhere = frozenset(each for each in available if not devices[each].numa_nodes)
    near = frozenset(each for each in available if _is_in(devices[each], affinity))
    return near, frozenset(available) - near - nowhere, nowhere
