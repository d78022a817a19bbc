"""Where a call for a service goes: to an endpoint that listens, to a program in its place (a forward), or nowhere, because its pods are simulated.

Admission and conversion webhooks, aggregated API services and proxies of services ask here, and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayplan.api.kinds import KindTable
from bayplan.api.types import core_v1
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.routing.forwards import Forward, Forwards
from bayplan.apiserver.simulated.addresses import SimulatedAddresses
from bayplan.support.randomness import Randomness

_SERVICE_LABEL = "kubernetes.io/service-name"
Address = tuple[str, int]
"""Host and port."""


class NoRoute(Exception):
    """A call for a service leads nowhere. The message is as Kubernetes words it."""


class SimulatedService(NoRoute):
    """A call for a service would lead to simulated pods only, which run no programs."""

    def __init__(self, namespace: str, name: str) -> None:
        service = f"{namespace}/{name}"
        self.fact = f"service {service} leads to simulated pods only, which run no programs"
        """What is so, without the next step."""
        hint = f"to have a program on the API server's machine answer: bayplan forward service/{service}=localhost:PORT"
        super().__init__(f"{self.fact} ({hint})")


@dataclass(frozen=True, slots=True)
class Route:
    """Where a call goes."""

    host: str
    port: int
    forward: Forward | None = None
    """The forward that it follows, if it follows one."""


class _Endpoint(NamedTuple):
    """An address of an endpoint, with the number of a port."""

    address: Address
    is_ready: bool


class ServiceRoutes:
    """The routes of all services, as of the newest objects."""

    def __init__(
        self,
        objects: ObjectStore,
        kinds: KindTable,
        simulated: SimulatedAddresses,
        forwards: Forwards,
        randomness: Randomness,
    ) -> None:
        self._objects, self._kinds, self._simulated = objects, kinds, simulated
        self.forwards = forwards
        self._randomness = randomness

    def route(
        self, namespace: str, name: str, port: int, *, uses_cluster_ip: bool = False, dials: bool = True
    ) -> Route:
        """Where a call for a port of a service goes.

        uses_cluster_ip: take the service's own address rather than that of an endpoint, if it leads to no simulated pod.
        dials: whether somebody connects to the address; simulated pods will do otherwise. Raises NoRoute.
        """
        forward = self.forwards.find(namespace, name, port)
        if forward is not None:
            return Route(forward.host, forward.port, forward)
        found = self._addresses(namespace, name, port, uses_cluster_ip=uses_cluster_ip, dials=dials)
        return Route(*(found[0] if len(found) == 1 else self._randomness.choice(found)))

    def _addresses(
        self, namespace: str, name: str, port: int, *, uses_cluster_ip: bool, dials: bool
    ) -> Sequence[Address]:
        """Where a call for a port of a service may go; at least one address. Raises NoRoute."""
        service: core_v1.Service | None = self._find("Service", namespace, name)
        if service is None:
            raise NoRoute(f'service "{name}" not found')
        if service.spec.type == "ExternalName":
            return ((service.spec.external_name, port),)
        row = next((one for one in service.spec.ports if one.port == port), None)
        if row is None:
            raise NoRoute(f'no service port {port} found for service "{name}"')
        endpoints = list(self._endpoints(namespace, name, row))
        ready = sorted(one.address for one in endpoints if one.is_ready)
        others = [one.address for one in endpoints if not one.is_ready]
        listening = self.listening(namespace, name, ready, others) if dials else ready
        has_cluster_ip = service.spec.cluster_ip not in ("", "None")
        if uses_cluster_ip and has_cluster_ip and len(listening) == len(ready):
            return ((service.spec.cluster_ip, port),)
        if not listening:
            raise NoRoute(f'no endpoints available for service "{name}"')
        return listening

    def is_simulated(self, namespace: str, name: str, port: int) -> bool:
        """Whether calls for a port of a service would lead to simulated pods only, if none are forwarded."""
        try:
            self._addresses(namespace, name, port, uses_cluster_ip=False, dials=True)
        except SimulatedService:
            return True
        except NoRoute:
            return False
        return False

    def listening(
        self, namespace: str, name: str, ready: Sequence[Address], others: Sequence[Address] = ()
    ) -> list[Address]:
        """Those of a service's endpoints at which a program may listen.

        others: endpoints that are not ready. A service that has a real one is not simulated: it is without endpoints until that is ready. Raises SimulatedService.
        """
        found = [one for one in ready if not self._simulated.reason(one[0])]
        if ready and not found and all(self._simulated.reason(host) for host, _ in others):
            raise SimulatedService(namespace, name)
        return found

    def _endpoints(self, namespace: str, name: str, row: core_v1.ServicePort) -> Iterator[_Endpoint]:
        kind = self._kinds.of_kind("discovery.k8s.io/v1", "EndpointSlice")
        assert kind is not None
        cache = self._objects.cache(kind)
        for entry in cache.ordered(namespace):
            if entry.labels.get(_SERVICE_LABEL) != name:
                continue
            found = cache.shared(entry)
            port = next((one.port for one in found.ports if one.name == row.name and one.port), None)
            if port is None:
                continue
            for endpoint in found.endpoints:
                is_ready = endpoint.conditions.ready is not False
                yield from (_Endpoint((address, port), is_ready) for address in endpoint.addresses)

    def _find(self, kind_name: str, namespace: str, name: str) -> Any:
        kind = self._kinds.of_kind("v1", kind_name)
        assert kind is not None
        cache = self._objects.cache(kind)
        entry = cache.get(namespace, name)
        return None if entry is None else cache.shared(entry)
