"""The DNS server: informers feed the zone, listeners answer from it."""

from __future__ import annotations

import logging

from bayplan.api.types import core_v1, discovery_v1
from bayplan.client import Client
from bayplan.dns.errors import SettingsError
from bayplan.dns.forwarder import Forwarder
from bayplan.dns.http_endpoints import HttpEndpoints
from bayplan.dns.listeners import Listeners, reaches_itself
from bayplan.dns.lookups import Lookups
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.responder import Responder
from bayplan.dns.settings import WILDCARDS, DnsSettings, Server
from bayplan.dns.upstreams import SocketExchange
from bayplan.dns.zone import Touched, Zone
from bayplan.informers import InformerFactory
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.running import Service

logger = logging.getLogger(__name__)


class DnsServer(Service):
    """A DNS server of one cluster. It listens from `start` on, and knows the cluster when `wait_for_sync` returns."""

    def __init__(
        self, client: Client, settings: DnsSettings, *, clock: Clock, randomness: Randomness, registry: Registry
    ) -> None:
        self.zone = Zone()
        self._settings = settings
        self._clock = clock
        self._informers = InformerFactory(client, clock, randomness)
        self._services = self._informers.informer(core_v1.Service)
        self._slices = self._informers.informer(discovery_v1.EndpointSlice)
        self._namespaces = self._informers.informer(core_v1.Namespace)
        metrics = DnsMetrics(registry)
        self._forwarder = (
            Forwarder(settings, SocketExchange(), clock=clock, randomness=randomness, metrics=metrics)
            if settings.forward
            else None
        )
        addresses = [one for one in settings.listen if one not in WILDCARDS]
        self._responder = Responder(
            Lookups(self.zone, settings.domain, ttl=settings.ttl, addresses=addresses),
            self._forwarder,
            settings,
            synced=self.has_synced,
            clock=clock,
            metrics=metrics,
        )
        self._listeners = Listeners(settings)
        self._http = HttpEndpoints(settings, registry, self._not_ready)

    @property
    def bound(self) -> list[Server]:
        """Where it listens, for UDP and TCP alike."""
        return self._listeners.bound

    @property
    def http_ports(self) -> dict[str, int]:
        """Path -> port of health, readiness and metrics."""
        return self._http.ports

    def has_synced(self) -> bool:
        """Whether all of the cluster's services and endpoints are known."""
        return not self._not_ready()

    async def start(self) -> None:
        """Listen, and begin to follow the cluster. Raises ListenError, SettingsError; then `stop` it."""
        self._listeners.open()
        itself = reaches_itself(self._listeners.bound, self._settings.forward)
        if itself is not None:
            raise SettingsError(
                f"--forward: {itself} is this server itself, questions would go round in circles; name other servers, or none"
            )
        self._follow()
        self._informers.start()
        await self._listeners.start(self._responder)
        await self._http.start()

    async def wait_for_sync(self) -> None:
        """Return when the cluster is known. Raises what ended an informer."""
        await self._informers.wait_for_sync()

    async def stop(self) -> None:
        """Stop listening and following."""
        await self._http.stop()
        await self._listeners.close()
        if self._forwarder is not None:
            await self._forwarder.close()
        await self._informers.stop()

    def _not_ready(self) -> str:
        waiting = [
            name
            for name, informer in (
                ("services", self._services),
                ("endpointslices", self._slices),
                ("namespaces", self._namespaces),
            )
            if not informer.has_synced
        ]
        return f"kubernetes: waiting for {', '.join(waiting)}" if waiting else ""

    def _follow(self) -> None:
        """Bring all changes into the zone."""
        zone, changed = self.zone, self._changed
        self._services.on_change(
            add=lambda new: changed(zone.put_service(new)),
            update=lambda _, new: changed(zone.put_service(new)),
            delete=lambda old: changed(zone.remove_service(old.metadata.namespace, old.metadata.name)),
        )
        self._slices.on_change(
            add=lambda new: changed(zone.put_slice(new)),
            update=lambda _, new: changed(zone.put_slice(new)),
            delete=lambda old: changed(zone.remove_slice(old.metadata.namespace, old.metadata.name)),
        )
        self._namespaces.on_change(
            add=lambda new: changed(zone.add_namespace(new.metadata.name)),
            delete=lambda old: changed(zone.remove_namespace(old.metadata.name)),
        )

    def _changed(self, touched: Touched) -> None:
        """Count the change in the serial (seconds since the epoch, as CoreDNS does) and forget what it makes wrong."""
        if touched:
            self.zone.serial = max(self.zone.serial, int(self._clock.now()) & 0xFFFF_FFFF)
            self._responder.zone_changed(touched)
