"""The proxy: informers feed desired tables, syncers bring them into the kernel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from bayplan.api.types import core_v1, discovery_v1, networking_v1
from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.informers import InformerFactory
from bayplan.proxy.configuration import KubeProxyConfiguration
from bayplan.proxy.errors import NetlinkError, NodeError
from bayplan.proxy.families import IPV4, Family, canonical_range, family_of
from bayplan.proxy.family_syncer import FamilySyncer, Generations, Kernel
from bayplan.proxy.health import ProxyHealth
from bayplan.proxy.http_endpoints import HttpEndpoints
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.node import NodeFacts, local_traffic, node_addresses, node_facts, node_port_ranges
from bayplan.proxy.rules.desired_table import DesiredTable, ServiceKey
from bayplan.proxy.rules.table_options import TableOptions
from bayplan.proxy.service_health import ServiceHealthServers
from bayplan.proxy.syncer import Syncer
from bayplan.proxy.system.machine_addresses import machine_addresses, node_port_addresses
from bayplan.proxy.system.nft import RulesWriter
from bayplan.support.blocking import in_thread
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.running import Service
from bayplan.support.tasks import Supervisor
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

_NODE_SECONDS: Final = 30.0
"""How long the first sync waits for the node's addresses: without them node ports would be open at all of the machine's."""
_POD_RANGE_SECONDS: Final = 300.0
"""How long it waits for the node's pod ranges, if these tell local traffic."""
_TRIGGER: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_NO_OTHER_PROXY: Final = "!service.kubernetes.io/service-proxy-name"
_NOT_HEADLESS: Final = "!service.kubernetes.io/headless"


class ProxyServer(Service):
    """The proxy of one node. It serves health from `start` on; all services work when `wait_for_rules` returns."""

    def __init__(
        self,
        client: Client,
        configuration: KubeProxyConfiguration,
        node_name: str,
        *,
        families: Sequence[Family],
        writer: RulesWriter,
        kernel: Kernel,
        clock: Clock,
        randomness: Randomness,
        registry: Registry,
    ) -> None:
        self._configuration = configuration
        self._node_name = node_name
        self._clock = clock
        self._started_at = clock.now()
        self._metrics = ProxyMetrics(registry)
        period = configuration.nftables.sync_period
        self._health = ProxyHealth(clock, 2 * period)
        self._facts: NodeFacts = node_facts(None)
        self._service_ranges: dict[str, tuple[str, ...]] = {}
        """By ServiceCIDR."""
        generations = Generations()
        self._families = [
            FamilySyncer(
                DesiredTable(self._options(family)), writer, kernel, generations, self._metrics, clock, in_thread
            )
            for family in families
        ]
        self._syncer = Syncer(
            self._families,
            self._health,
            self._metrics,
            clock,
            min_period=configuration.nftables.min_sync_period,
            period=period,
            refresh=self._refresh,
            synced=self._synced,
        )
        self._http = HttpEndpoints(configuration, self._health, registry, self._metrics, clock)
        self._service_health = {family: self._health_servers(family) for family in families}
        self._informers = InformerFactory(client, clock, randomness)
        self._services = self._informers.informer(
            core_v1.Service, label_selector=_NO_OTHER_PROXY, field_selector="spec.clusterIP!=None"
        )
        self._slices = self._informers.informer(discovery_v1.EndpointSlice, label_selector=_NOT_HEADLESS)
        self._nodes = self._informers.informer(core_v1.Node, field_selector=f"metadata.name={node_name}")
        self._ranges = self._informers.informer(networking_v1.ServiceCIDR)
        self._node_changed = asyncio.Event()
        self._recorder = EventRecorder(client, "kube-proxy", clock, randomness)
        self._tasks = Supervisor("proxy", clock=clock)

    @property
    def http_ports(self) -> dict[str, int]:
        """healthz, metrics -> port."""
        return self._http.ports

    async def start(self) -> None:
        """Listen, and begin to follow the cluster. Raises ListenError; then `stop` it."""
        await self._http.start()
        self._follow()
        self._informers.start()
        self._tasks.spawn("events", self._recorder.run())
        self._tasks.spawn("sync", self._run())
        self._event(
            core_v1.ObjectReference(kind="Node", name=self._node_name), "Normal", "Starting", "", "StartKubeProxy"
        )

    async def wait_for_rules(self) -> None:
        """Return when all rules are in the kernel. Raises what ended a part of the proxy."""
        await self._first_of(self._syncer.wait_for_first())

    async def wait(self) -> None:
        """Raise what ends a part of the proxy."""
        await self._tasks.wait()

    async def stop(self) -> None:
        """Stop listening and following. Rules stay: what is served goes on."""
        await self._tasks.close()
        await self._informers.stop()
        await self._http.stop()
        for servers in self._service_health.values():
            await servers.stop()

    async def _run(self) -> None:
        """Sync, once enough is known. ServiceCIDRs are not waited for: older clusters have none."""
        for informer in (self._services, self._slices, self._nodes):
            await informer.wait_for_sync()
        await self._wait_for_node()
        self._refresh()
        await self._syncer.run()

    async def _wait_for_node(self) -> None:
        """Wait for what the node's object must tell. Raises NodeError."""
        needs_ranges = self._configuration.detect_local_mode == "NodeCIDR"
        started = self._clock.monotonic()
        while True:
            waited = self._clock.monotonic() - started
            if not self._node_addresses() and waited < _NODE_SECONDS:
                left = _NODE_SECONDS - waited
            elif needs_ranges and not self._facts.pod_ranges and waited < _POD_RANGE_SECONDS:
                left = _POD_RANGE_SECONDS - waited
            else:
                break
            self._node_changed.clear()
            timer = self._clock.call_later(left, self._node_changed.set)
            await self._node_changed.wait()
            timer.cancel()
        if not self._node_addresses():
            logger.warning("node %s has no addresses; node ports are open at all addresses", self._node_name)
        if needs_ranges and not self._facts.pod_ranges:
            raise NodeError(f"node {self._node_name} has no podCIDRs, which detectLocalMode NodeCIDR needs")

    async def _first_of(self, awaited: object) -> None:
        done = asyncio.ensure_future(awaited)  # type: ignore[call-overload]
        failing = asyncio.ensure_future(self._tasks.wait())
        try:
            await asyncio.wait((done, failing), return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
        finally:
            done.cancel()
            failing.cancel()

    def _follow(self) -> None:
        """Bring all changes into the desired tables."""
        self._services.on_change(
            add=self._put_service, update=lambda _, new: self._put_service(new), delete=self._remove_service
        )
        self._slices.on_change(
            add=self._put_slice, update=lambda _, new: self._put_slice(new), delete=self._remove_slice
        )
        self._nodes.on_change(
            add=self._put_node, update=lambda _, new: self._put_node(new), delete=lambda _: self._put_node(None)
        )
        self._ranges.on_change(
            add=self._put_range,
            update=lambda _, new: self._put_range(new),
            delete=lambda old: self._put_range(old, gone=True),
        )

    def _put_service(self, service: core_v1.Service) -> None:
        self._metrics.service_changes.inc()
        self._changed([one for one in self._families if one.table.put_service(service)])

    def _remove_service(self, service: core_v1.Service) -> None:
        self._metrics.service_changes.inc()
        name, namespace = service.metadata.name, service.metadata.namespace
        self._changed([one for one in self._families if one.table.remove_service(namespace, name)])

    def _changed(self, families: list[FamilySyncer]) -> None:
        """A service has changed the tables of these families."""
        if families:
            self._metrics.service_changes_pending.inc()
        for one in families:
            self._syncer.changed(one.family)

    def _put_slice(self, part: discovery_v1.EndpointSlice) -> None:
        self._metrics.endpoint_changes.inc()
        for one in self._families:
            if one.table.put_slice(part):
                self._metrics.endpoint_changes_pending.inc()
                trigger = self._trigger(part)
                if trigger is not None:
                    one.triggers.append(trigger)
                self._syncer.changed(one.family)

    def _remove_slice(self, part: discovery_v1.EndpointSlice) -> None:
        self._metrics.endpoint_changes.inc()
        for one in self._families:
            if one.table.remove_slice(part):
                self._metrics.endpoint_changes_pending.inc()
                self._syncer.changed(one.family)

    def _trigger(self, part: discovery_v1.EndpointSlice) -> float | None:
        """When what has changed a slice did happen; None if it is not known, or was before this proxy."""
        text = part.metadata.annotations.get(_TRIGGER)
        if text is None:
            return None
        try:
            moment = parse_rfc3339(text)
        except ValueError as error:
            logger.debug("EndpointSlice %s/%s: %s", part.metadata.namespace, part.metadata.name, error)
            return None
        return moment if moment > self._started_at else None

    def _put_node(self, node: core_v1.Node | None) -> None:
        self._health.node = node
        if node is None:
            return  # its rules stay: the object may be made anew
        self._facts = node_facts(node)
        self._node_changed.set()
        self._refresh()

    def _put_range(self, part: networking_v1.ServiceCIDR, *, gone: bool = False) -> None:
        name = part.metadata.name
        found = (canonical_range(one) for one in part.spec.cidrs)
        self._service_ranges[name] = () if gone else tuple(one for one in found if one is not None)
        self._refresh()

    def _refresh(self) -> None:
        """Work out again what rules depend on besides services."""
        for one in self._families:
            if one.table.set_options(self._options(one.family)):
                self._syncer.changed(one.family)

    def _options(self, family: Family) -> TableOptions:
        configuration = self._configuration
        addresses = self._node_addresses()
        nftables = configuration.nftables
        ranges = {one for ranges in self._service_ranges.values() for one in ranges if family_of(one) is family}
        return TableOptions(
            family=family,
            node_name=self._node_name,
            zone=self._facts.zone,
            node_address=addresses.get(family, ""),
            node_port_addresses=node_port_addresses(
                family, node_port_ranges(configuration, addresses), _machine_addresses(family)
            ),
            service_ranges=tuple(sorted(ranges)),
            masquerade_bit=14 if nftables.masquerade_bit is None else nftables.masquerade_bit,
            masquerade_all=nftables.masquerade_all,
            local_traffic=local_traffic(configuration, family, self._facts),
        )

    def _node_addresses(self) -> dict[Family, str]:
        return node_addresses(self._facts, self._configuration.bind_address)

    def _health_servers(self, family: Family) -> ServiceHealthServers:
        everywhere = ("0.0.0.0",) if family is IPV4 else ("::",)

        def addresses() -> Sequence[str]:
            chosen = self._options(family).node_port_addresses
            return everywhere if chosen is None else chosen

        def failed(key: ServiceKey, reason: str) -> None:
            service = core_v1.ObjectReference(kind="Service", api_version="v1", namespace=key[0], name=key[1])
            text = f"node {self._node_name} {reason}"
            self._event(service, "Warning", "FailedToStartServiceHealthcheck", text, "Listen")

        return ServiceHealthServers(lambda: self._health.healthy, addresses, failed)

    def _event(self, regarding: core_v1.ObjectReference, kind: str, reason: str, text: str, action: str) -> None:
        self._recorder.event(regarding, kind, reason, text, action=action)

    async def _synced(self, one: FamilySyncer) -> None:
        if not any(each.has_work for each in self._families):
            self._metrics.service_changes_pending.set(0)
            self._metrics.endpoint_changes_pending.set(0)
        await self._service_health[one.family].sync(one.table.health_checks())


def _machine_addresses(family: Family) -> list[str]:
    try:
        return machine_addresses(family)
    except (NetlinkError, OSError) as error:
        logger.warning("addresses of this machine cannot be read: %s", error)
        return []
