"""The addresses and ports of one service write, as a transaction. Order and wording as in Kubernetes' service registry (`alloc.go`)."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import (
    ApiError,
    FieldError,
    TooManyErrors,
    internal_error,
    invalid,
    invalid_object,
    stopping_at_many_errors,
)
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.core.services import needs_health_check, needs_node_port
from bayplan.api.types import core_v1
from bayplan.apiserver.allocation.addresses import ServiceAddresses
from bayplan.apiserver.allocation.errors import AllocationError, Taken
from bayplan.apiserver.allocation.families import settle_families
from bayplan.apiserver.allocation.port_claims import PortClaims
from bayplan.apiserver.allocation.ports import NodePorts, PortOperation
from bayplan.apiserver.objects import ObjectStore
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

_PUBLISHED = ("NodePort", "LoadBalancer")


class Allocators:
    """All allocations of one server."""

    def __init__(
        self,
        cidrs: Sequence[str],
        node_ports: tuple[int, int],
        *,
        objects: ObjectStore,
        kinds: KindTable,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._objects = objects
        self._services = kinds.of_kind("v1", "Service")
        self.addresses = ServiceAddresses(cidrs, objects, kinds, clock, randomness)
        self.node_ports = NodePorts(node_ports, randomness)
        self.claims = PortClaims(objects.store, self.node_ports, clock) if objects.is_shared else None
        """What tells other servers which node ports are in use; None if there are none."""

    def serves(self, kind: Kind) -> bool:
        """Whether objects of this kind are given anything."""
        return kind is self._services

    async def open(self) -> None:
        """Find out what existing services have, and repair what a crash left behind. Called once the caches are filled. Raises StoreError, ApiError."""
        if self._services is None:
            return
        if self.claims is not None:
            await self.claims.open()
        await self.repair()

    async def repair(self) -> None:
        """Let addresses and ports be those that services have. Raises ApiError."""
        if self._services is None:
            return
        cache = self._objects.cache(self._services)
        services = [cache.decode(entry) for entry in cache.all()]
        ports = {port for service in services for port in ports_of(service.spec)}
        self.node_ports.used.update(ports)
        if self.claims is not None:
            await self.claims.repair(ports)
        await self.addresses.repair(services)

    async def allocate(self, service: core_v1.Service, old: core_v1.Service | None, *, dry_run: bool) -> Allocation:
        """Fill in what a service needs. Commit or undo the result. Raises ApiError (422, 500)."""
        given = clone(service.spec) if self.claims is not None else service.spec
        while True:
            allocation = Allocation(self, service, old, dry_run=dry_run)
            try:
                await allocation.run()
                await allocation.claim()
                return allocation
            except Taken:  # another server has taken a port just now: see what it has, and choose anew
                await allocation.undo()
                service.spec = clone(given)
                await self._objects.catch_up()
            except BaseException:
                await allocation.undo()
                raise

    async def forget(self, service: core_v1.Service) -> None:
        """Give back what a deleted service had."""
        ports = ports_of(service.spec)
        self.node_ports.used.difference_update(ports)
        if self.claims is not None:
            await self.claims.release(ports)
        for address in service.spec.cluster_ips:
            if address != "None":
                await self.addresses.release(address)


def ports_of(spec: core_v1.ServiceSpec) -> set[int]:
    """All node ports of a service."""
    ports = {port.node_port for port in spec.ports if port.node_port}
    return ports | ({spec.health_check_node_port} if spec.health_check_node_port else set())


class Allocation:
    """What one write takes and gives back."""

    def __init__(
        self, allocators: Allocators, service: core_v1.Service, old: core_v1.Service | None, *, dry_run: bool
    ) -> None:
        self._addresses = allocators.addresses
        self._ports = PortOperation(allocators.node_ports, dry_run=dry_run)
        self._claims = None if dry_run else allocators.claims
        self._claimed: frozenset[int] = frozenset()
        self._service, self._old, self._dry_run = service, old, dry_run
        self._taken: list[str] = []
        self._released: list[str] = []

    async def run(self) -> None:
        """Fill in the service. Raises ApiError (422, 500)."""
        spec = self._service.spec
        old = self._old.spec if self._old is not None else None
        self._settle_families(spec, old)
        if old is None:
            await self._take_all(spec)
            self._init_ports(spec)
            if needs_health_check(spec):
                self._take_health_check(spec)
        else:
            await self._change_addresses(spec, old)
            self._change_ports(spec, old)
            self._change_health_check(spec, old)

    async def claim(self) -> None:
        """Tell other servers which ports this one has taken. Raises Taken if another one was faster, ApiError (503)."""
        if self._claims is not None and self._ports.taken:
            await self._claims.claim(self._ports.taken)
            self._claimed = frozenset(self._ports.taken)

    async def commit(self) -> None:
        """The write has succeeded: what the old state had and the new one has not is free."""
        if self._dry_run:
            await self.undo()
            return
        self._ports.commit()
        if self._claims is not None:
            await self._claims.release(self._ports.released)
        for address in self._released:
            await self._addresses.release(address)

    async def undo(self) -> None:
        """The write has failed: what was taken is free."""
        self._ports.undo()
        if self._claims is not None:
            await self._claims.release(self._claimed)
        if not self._dry_run:
            for address in self._taken:
                await self._addresses.release(address)

    async def _take_all(self, spec: core_v1.ServiceSpec) -> None:
        """An address per family; those that were given stay as they are."""
        if spec.type == "ExternalName" or spec.cluster_ip == "None":
            if spec.cluster_ip == "None":
                spec.cluster_ips = ("None",)
            return
        found = []
        for index, family in enumerate(spec.ip_families):
            wanted = spec.cluster_ips[index] if index < len(spec.cluster_ips) else ""
            found.append(await self._take(spec, family, wanted))
        spec.cluster_ips = tuple(found)
        spec.cluster_ip = found[0]

    async def _take(self, spec: core_v1.ServiceSpec, family: str, wanted: str) -> str:
        try:
            if wanted:
                await self._addresses.take(wanted, self._service, dry_run=self._dry_run)
            else:
                address = await self._addresses.take_any(family, self._service, dry_run=self._dry_run)
        except AllocationError as error:
            if not wanted:
                raise internal_error(f"failed to allocate a serviceIP: {error}") from None
            detail = f"failed to allocate IP {wanted}: {error}"
            raise self._error(invalid("spec.clusterIPs", list(spec.cluster_ips), detail)) from None
        self._taken.append(wanted or address)
        return wanted or address

    async def _change_addresses(self, spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
        if old.type == "ExternalName":
            await self._take_all(spec)
        elif "None" in old.cluster_ips:
            return
        elif spec.type == "ExternalName":
            self._released += old.cluster_ips
        elif len(spec.ip_families) == 2 and len(old.ip_families) == 1:
            wanted = spec.cluster_ips[1] if len(spec.cluster_ips) > 1 else ""
            second = await self._take(spec, spec.ip_families[1], wanted)
            spec.cluster_ips = (*spec.cluster_ips[:1], second)
        elif len(spec.ip_families) == 1 and len(old.ip_families) == 2:
            self._released += old.cluster_ips[1:]

    def _init_ports(self, spec: core_v1.ServiceSpec) -> None:
        """Node ports of a new service: ports of one number share a node port if their protocols differ."""
        if spec.type not in _PUBLISHED:
            return
        shared: dict[int, int] = {}
        asked = {one.port: one.node_port for one in reversed(spec.ports) if one.node_port}
        for index, port in enumerate(spec.ports):
            if not port.node_port and not needs_node_port(spec):
                continue
            known = shared.get(port.port, 0)
            if not known:
                port.node_port = shared[port.port] = self._port(index, asked.get(port.port, 0))
            elif not port.node_port:
                port.node_port = known
            elif port.node_port != known:
                self._port(index, port.node_port)

    def _change_ports(self, spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
        before = {port.node_port for port in old.ports if port.node_port}
        if spec.type in _PUBLISHED:
            taken: set[int] = set()
            for index, port in enumerate(spec.ports):
                if not port.node_port:
                    if needs_node_port(spec):
                        port.node_port = self._port(index, 0)
                elif port.node_port not in before and port.node_port not in taken:
                    self._port(index, port.node_port)
                    taken.add(port.node_port)
        kept = {port.node_port for port in spec.ports} if spec.type in _PUBLISHED else set()
        for number in before - kept:
            self._ports.release(number)

    def _port(self, index: int, wanted: int) -> int:
        """A certain node port, or any if it is 0."""
        try:
            if wanted:
                self._ports.take(wanted)
                return wanted
            return self._ports.take_any()
        except AllocationError as error:
            if wanted:
                raise self._error(invalid(f"spec.ports[{index}].nodePort", wanted, str(error))) from None
            raise internal_error(f"failed to allocate a nodePort: {error}") from None

    def _take_health_check(self, spec: core_v1.ServiceSpec) -> None:
        wanted = spec.health_check_node_port
        try:
            if wanted:
                self._ports.take(wanted)
            else:
                spec.health_check_node_port = self._ports.take_any()
        except AllocationError as error:
            what = f"requested HealthCheck NodePort {wanted}" if wanted else "a HealthCheck NodePort"
            raise internal_error(f"failed to allocate {what}: {error}") from None

    def _change_health_check(self, spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
        needed, before = needs_health_check(spec), old.health_check_node_port
        if needed and not needs_health_check(old):
            self._take_health_check(spec)
        elif not needed and needs_health_check(old) and before:
            self._ports.release(before)

    def _settle_families(self, spec: core_v1.ServiceSpec, old: core_v1.ServiceSpec | None) -> None:
        try:
            with stopping_at_many_errors():
                errors = settle_families(spec, old, self._addresses.families)
        except TooManyErrors as many:
            raise self._error(*many.errors, stopped=True) from None
        self._refuse(errors)

    def _refuse(self, errors: Sequence[FieldError]) -> None:
        if errors:
            raise self._error(*errors)

    def _error(self, *errors: FieldError, stopped: bool = False) -> ApiError:
        return invalid_object("Service", "", self._service.metadata.name, errors, stopped=stopped)
