"""What of CPUs and memory the system keeps, from the kubelet's configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bayplan.api.quantity import Quantity, milli_value, parse, value
from bayplan.api.types.scalars import Quantity as WireQuantity
from bayplan.kubelet.configuration import KubeletConfiguration, MemoryReservation
from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet, format_cpu_set, parse_cpu_set
from bayplan.kubelet.resource_managers.errors import ResourceManagerError

Reserved = Mapping[str, WireQuantity]
"""Resource -> amount that pods do not get: for the system, for Kubernetes itself, and what evictions keep free."""


def with_reserved_cpus(configuration: KubeletConfiguration, online: CpuSet) -> KubeletConfiguration:
    """The configuration where `reservedSystemCPUs` counts in the place of the cpu of systemReserved and kubeReserved. Raises ResourceManagerError."""
    text = configuration.reserved_system_cpus
    reserved = parse_cpu_set(text)
    if not reserved:
        return configuration
    if not reserved <= online:
        raise ResourceManagerError(f"reserved-cpus: {text} is not a subset of online-cpus: {format_cpu_set(online)}")
    changed: KubeletConfiguration = msgspec.structs.replace(
        configuration,
        system_reserved={**configuration.system_reserved, "cpu": str(len(reserved))},
        kube_reserved={name: amount for name, amount in configuration.kube_reserved.items() if name != "cpu"},
    )
    return changed


def reserved_cpu_number(reserved: Reserved) -> int:
    """How many whole CPUs the static policy keeps. Raises ResourceManagerError for none, as containers could then have all."""
    milli = milli_value(reserved.get("cpu", 0))
    if not milli:
        raise ResourceManagerError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
        )
    return -(-milli // 1000)


def reserved_memory(
    reservations: Iterable[MemoryReservation], numa_nodes: Iterable[int], reserved: Reserved
) -> dict[int, dict[str, int]]:
    """NUMA node -> resource -> bytes that it keeps. Their sum must be what the node as a whole keeps. Raises ResourceManagerError."""
    found: dict[int, dict[str, int]] = {node: {} for node in numa_nodes}
    totals: dict[str, Quantity] = {}
    for each in reservations:
        if each.numa_node not in found:
            raise ResourceManagerError(
                f"the reserved memory configuration references a NUMA node {each.numa_node} that does not exist on this machine"
            )
        for name, amount in each.limits.items():
            totals[name] = totals[name].add(parse(amount)) if name in totals else parse(amount)
            found[each.numa_node][name] = value(amount)
    for name in sorted(totals.keys() | {each for each in reserved if is_memory(each)}):
        given, wanted = totals.get(name, Quantity(0)), parse(reserved.get(name, 0))
        if given != wanted:
            raise ResourceManagerError(
                f'the total amount "{given}" of type "{name}" is not equal to the value "{wanted}" determined by Node Allocatable feature'
            )
    return found


def is_memory(resource: str) -> bool:
    """Whether a resource is memory or huge pages."""
    return resource == "memory" or resource.startswith("hugepages-")
