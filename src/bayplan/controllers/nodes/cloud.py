"""The seam to a cloud: what controllers ask of one, and a simulated one.

    service of type LoadBalancer -> Cloud.ensure_load_balancer -> addresses
    node                         -> Cloud.instance             -> provider id, zone, addresses, or nothing: the machine is gone

A provider is a class with these methods; nothing else of the control plane knows which one it is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, ControllerContext


class CloudError(Exception):
    """The cloud could not do what was asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine as the cloud knows it."""

    provider_id: str
    instance_type: str = ""
    zone: str = ""
    region: str = ""
    addresses: tuple[core_v1.NodeAddress, ...] = ()
    is_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Traffic to the pods of one node."""

    node: str
    cidr: str


class Cloud(Protocol):
    """A provider. Methods may raise CloudError and are tried again later."""

    name: str
    makes_routes: bool
    """Whether pods of different nodes reach one another by routes of the cloud."""

    def recall_load_balancers(self, services: Iterable[core_v1.Service]) -> None:
        """Be told of services that have a balancer from before. Called once, before anything else is asked about balancers."""

    async def ensure_load_balancer(
        self, service: core_v1.Service, nodes: Sequence[core_v1.Node]
    ) -> tuple[core_v1.LoadBalancerIngress, ...]:
        """Make or change the balancer of a service; returns under which addresses it is reached."""

    async def delete_load_balancer(self, service: core_v1.Service) -> None:
        """Take the balancer of a service away; nothing happens if there is none."""

    async def instance(self, node: core_v1.Node) -> Instance | None:
        """The machine of a node; None if it does not exist (any more)."""

    async def routes(self) -> list[Route]:
        """All routes that were made."""

    async def create_route(self, route: Route) -> None:
        """Make a route."""

    async def delete_route(self, route: Route) -> None:
        """Take a route away."""


class CloudController(Controller):
    """Base of the controllers that need a cloud."""

    def __init__(self, context: ControllerContext, cloud: Cloud) -> None:
        self.cloud = cloud
        super().__init__(context)


def balancer_name(service: core_v1.Service) -> str:
    """The name of a service's balancer, unique in a cloud account."""
    return "a" + service.metadata.uid.replace("-", "")[:31]


@dataclass(slots=True)
class SimulatedCloud:
    """A cloud in memory. The machine of a node exists and runs, unless the node's annotation `bayplan.dev/cloud` says `gone` or `shut-down`."""

    addresses: str = "198.51.100.0/24"
    """Where balancers get their addresses; the default is reserved for documentation, so it leads nowhere."""
    name: str = "simulated"
    makes_routes: bool = True
    balancers: dict[str, str] = field(default_factory=dict)
    """Address by name."""
    known_routes: dict[str, Route] = field(default_factory=dict)

    def recall_load_balancers(self, services: Iterable[core_v1.Service]) -> None:
        """See Cloud. Their addresses are nobody else's: this cloud forgets everything when the process ends."""
        for service in services:
            if address := _address_in(service):
                self.balancers.setdefault(balancer_name(service), address)

    async def ensure_load_balancer(
        self, service: core_v1.Service, nodes: Sequence[core_v1.Node]
    ) -> tuple[core_v1.LoadBalancerIngress, ...]:
        """See Cloud. A service that had an address, before a restart perhaps, keeps it; `loadBalancerIP` is given if it is free."""
        name = balancer_name(service)
        if name not in self.balancers:
            self.balancers[name] = self._address(_address_in(service), service.spec.load_balancer_ip)
        return (core_v1.LoadBalancerIngress(ip=self.balancers[name], ip_mode="VIP"),)

    def _address(self, before: str, wanted: str) -> str:
        used = set(self.balancers.values())
        for address in filter(None, (before, wanted)):
            if address not in used:
                return address
        for host in ipaddress.ip_network(self.addresses).hosts():
            if str(host) not in used:
                return str(host)
        raise CloudError(f"no address of {self.addresses} is free")

    async def delete_load_balancer(self, service: core_v1.Service) -> None:
        """See Cloud."""
        self.balancers.pop(balancer_name(service), None)

    async def instance(self, node: core_v1.Node) -> Instance | None:
        """See Cloud."""
        state = node.metadata.annotations.get(STATE, "")
        if state == "gone":
            return None
        labels = node.metadata.labels
        return Instance(
            node.spec.provider_id or f"{self.name}://{node.metadata.name}",
            instance_type=labels.get("node.kubernetes.io/instance-type", ""),
            zone=labels.get("topology.kubernetes.io/zone", ""),
            region=labels.get("topology.kubernetes.io/region", ""),
            addresses=node.status.addresses,
            is_shut_down=state == "shut-down",
        )

    async def routes(self) -> list[Route]:
        """See Cloud."""
        return list(self.known_routes.values())

    async def create_route(self, route: Route) -> None:
        """See Cloud."""
        self.known_routes[route.cidr] = route

    async def delete_route(self, route: Route) -> None:
        """See Cloud."""
        self.known_routes.pop(route.cidr, None)


def _address_in(service: core_v1.Service) -> str:
    """The address that a service says its balancer has; "" if it says none."""
    return next((one.ip for one in service.status.load_balancer.ingress if one.ip), "")


STATE = "bayplan.dev/cloud"
"""Annotation of a node that tells the simulated cloud about its machine: `gone` or `shut-down`."""


def routes_of(node: core_v1.Node) -> list[Route]:
    """The routes to the pods of a node."""
    cidrs = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    return [Route(node.metadata.name, cidr) for cidr in cidrs]
