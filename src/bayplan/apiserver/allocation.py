"""What the server gives out itself: cluster IPs and node ports of services.

What is taken is read from the services at start-up and kept current by the allocations themselves, so that two creates at once never get the same
address. An allocation that comes to nothing is given back by the function that `allocate` returns.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from bayplan.api.errors import ErrorType, FieldError, invalid, invalid_object
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.support.randomness import Randomness

Release = Callable[[], None]


def _nothing() -> None:
    """Nothing was taken."""


class ClusterIPs:
    """Addresses of one range. The first ones are kept for fixed addresses, as Kubernetes does."""

    def __init__(self, cidr: str, randomness: Randomness) -> None:
        self.network = ipaddress.ip_network(cidr)
        self._randomness = randomness
        self.used: set[str] = set()
        size = self.network.num_addresses
        self._size = min(size, 1 << 20) - 2
        self._reserved = 0 if size <= 16 else min(max(16, size // 16), 256)

    @property
    def first(self) -> str:
        """The address of the `kubernetes` service."""
        return str(self.network[1])

    def take(self, address: str) -> bool:
        """Take a certain address; False if it is taken."""
        if address in self.used:
            return False
        self.used.add(address)
        return True

    def contains(self, address: str) -> bool:
        """Whether the address can be given out."""
        return ipaddress.ip_address(address) in self.network

    def take_any(self) -> str | None:
        """Take a free address, None if there is none."""
        span = self._size - self._reserved
        start = int(self._randomness.random() * span)
        for step in range(span):
            address = str(self.network[1 + self._reserved + (start + step) % span])
            if self.take(address):
                return address
        for index in range(self._reserved):
            address = str(self.network[1 + index])
            if self.take(address):
                return address
        return None


class NodePorts:
    """Ports of a range; a TCP and a UDP port of one service may share a number."""

    def __init__(self, ports: tuple[int, int], randomness: Randomness) -> None:
        self.first, self.last = ports
        self._randomness = randomness
        self.used: set[int] = set()

    def take_any(self) -> int | None:
        """Take a free port, None if there is none."""
        span = self.last - self.first + 1
        start = int(self._randomness.random() * span)
        for step in range(span):
            port = self.first + (start + step) % span
            if port not in self.used:
                self.used.add(port)
                return port
        return None


class Allocators:
    """All allocations of one server."""

    def __init__(self, cidr: str, node_ports: tuple[int, int], randomness: Randomness) -> None:
        self.cluster_ips = ClusterIPs(cidr, randomness)
        self.node_ports = NodePorts(node_ports, randomness)

    def load(self, services: Iterable[core_v1.Service]) -> None:
        """Take what existing services have."""
        for service in services:
            self.cluster_ips.used.update(ip for ip in service.spec.cluster_ips if ip != "None")
            self.node_ports.used.update(_ports_of(service.spec))

    def allocate(self, kind: Kind, obj: Any, old: Any | None) -> Release:
        """Fill in what an object needs. Returns how to give it back. Raises ApiError (422)."""
        if kind.kind != "Service" or kind.group:
            return _nothing
        return _ServiceAllocation(self, obj, old).run()

    def forget(self, kind: Kind, obj: Any) -> None:
        """Give back what a deleted object had."""
        if kind.kind == "Service" and not kind.group:
            self.cluster_ips.used.difference_update(obj.spec.cluster_ips)
            self.node_ports.used.difference_update(_ports_of(obj.spec))


def _ports_of(spec: core_v1.ServiceSpec) -> set[int]:
    ports = {port.node_port for port in spec.ports if port.node_port}
    return ports | ({spec.health_check_node_port} if spec.health_check_node_port else set())


class _ServiceAllocation:
    """Addresses and ports of one service write."""

    def __init__(self, allocators: Allocators, service: core_v1.Service, old: core_v1.Service | None) -> None:
        self.allocators = allocators
        self.service = service
        self.old = old
        self.taken_ips: list[str] = []
        self.taken_ports: list[int] = []

    def run(self) -> Release:
        spec = self.service.spec
        try:
            if spec.type != "ExternalName":
                self._families(spec)
                self._cluster_ips(spec)
                self._node_ports(spec)
        except BaseException:
            self._release()
            raise
        return self._release

    def _release(self) -> None:
        self.allocators.cluster_ips.used.difference_update(self.taken_ips)
        self.allocators.node_ports.used.difference_update(self.taken_ports)

    def _families(self, spec: core_v1.ServiceSpec) -> None:
        if not spec.ip_family_policy:
            spec.ip_family_policy = "SingleStack"
        if not spec.ip_families:
            spec.ip_families = ("IPv4" if self.allocators.cluster_ips.network.version == 4 else "IPv6",)

    def _cluster_ips(self, spec: core_v1.ServiceSpec) -> None:
        pool = self.allocators.cluster_ips
        before = set(self.old.spec.cluster_ips) if self.old is not None else set()
        if (
            self.old is not None
            and not spec.cluster_ip
            and not spec.cluster_ips
            and self.old.spec.type != "ExternalName"
        ):
            spec.cluster_ip, spec.cluster_ips = self.old.spec.cluster_ip, self.old.spec.cluster_ips
        wanted = spec.cluster_ip or (spec.cluster_ips[0] if spec.cluster_ips else "")
        if wanted == "None":
            spec.cluster_ip, spec.cluster_ips = "None", ("None",)
            return
        if wanted and wanted not in before:
            self._check(wanted)
            if not pool.take(wanted):
                self._refuse(
                    invalid(
                        "spec.clusterIPs",
                        list(spec.cluster_ips or (wanted,)),
                        f"failed to allocate IP {wanted}: provided IP is already allocated",
                    )
                )
            self.taken_ips.append(wanted)
        elif not wanted:
            found = pool.take_any()
            if found is None:
                self._refuse(
                    FieldError(
                        ErrorType.INTERNAL, "spec.clusterIPs", None, "failed to allocate a serviceIP: range is full"
                    )
                )
            wanted = str(found)
            self.taken_ips.append(wanted)
        spec.cluster_ip, spec.cluster_ips = wanted, (wanted,)

    def _check(self, address: str) -> None:
        pool = self.allocators.cluster_ips
        try:
            inside = pool.contains(address)
        except ValueError:
            return
        if not inside:
            detail = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of valid IPs is {pool.network}"
            self._refuse(invalid("spec.clusterIPs", [address], detail))

    def _node_ports(self, spec: core_v1.ServiceSpec) -> None:
        pool = self.allocators.node_ports
        if spec.type not in ("NodePort", "LoadBalancer"):
            return
        if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is False:
            return
        before = _ports_of(self.old.spec) if self.old is not None else set()
        kept = (
            {(port.protocol, port.port): port.node_port for port in self.old.spec.ports} if self.old is not None else {}
        )
        for index, port in enumerate(spec.ports):
            if not port.node_port:
                port.node_port = kept.get((port.protocol, port.port), 0)
            if port.node_port:
                self._take_port(index, port.node_port, before)
            else:
                found = pool.take_any()
                if found is None:
                    self._refuse(
                        FieldError(
                            ErrorType.INTERNAL,
                            f"spec.ports[{index}].nodePort",
                            None,
                            "failed to allocate a nodePort: range is full",
                        )
                    )
                port.node_port = int(found or 0)
                self.taken_ports.append(port.node_port)

    def _take_port(self, index: int, wanted: int, before: set[int]) -> None:
        pool = self.allocators.node_ports
        if wanted in before or wanted in self.taken_ports:
            return
        if not pool.first <= wanted <= pool.last:
            detail = f"provided port is not in the valid range. The range of valid ports is {pool.first}-{pool.last}"
            self._refuse(invalid(f"spec.ports[{index}].nodePort", wanted, detail))
        if wanted in pool.used:
            self._refuse(invalid(f"spec.ports[{index}].nodePort", wanted, "provided port is already allocated"))
        pool.used.add(wanted)
        self.taken_ports.append(wanted)

    def _refuse(self, error: FieldError) -> None:
        raise invalid_object("Service", "", self.service.metadata.name, [error])
