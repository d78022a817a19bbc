"""All real nodes of a cluster, from the first check of the machine to the last clean-up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.cluster.cluster import Cluster, url_of
from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.add_ons import DNS_USER, dns_command, publish
from bayplan.cluster.real_nodes.kubelet_files import ApiAccess, write_credentials
from bayplan.cluster.real_nodes.leftovers import remove_leftovers
from bayplan.cluster.real_nodes.network import make_bridge, set_routes
from bayplan.cluster.real_nodes.node import RealNode
from bayplan.cluster.real_nodes.owners import Ownership, data_lock, remove_dead_clusters
from bayplan.cluster.real_nodes.processes import SupervisedProcess
from bayplan.cluster.real_nodes.requirements import check, check_port, find_cni_plugins
from bayplan.cluster.real_nodes.settings import DNS, POD_NETWORK, PROXY, STORAGE, RealNodeSettings
from bayplan.csi_local.settings import DRIVER_NAME
from bayplan.store.errors import StoreLocked, StoreUnavailable
from bayplan.store.file_lock import FileLock
from bayplan.support.clock import Clock
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

_STOP_SECONDS = 5.0


class RealNodes:
    """Real nodes: `prepare` before the API server starts, `start` once it answers, `stop` before it ends."""

    def __init__(self, settings: RealNodeSettings, clock: Clock) -> None:
        self.settings = settings
        self.nodes: list[RealNode] = []
        self._clock = clock
        self._tasks = Supervisor("real nodes", clock=clock)
        self._lock: FileLock | None = None
        self._ownership: Ownership | None = None
        self._dns: SupervisedProcess | None = None
        self._pod_networks: dict[str, tuple[str, ...]] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of this machine on which the nodes look for the API server, besides the loopback one."""
        return self.settings.gateways

    async def prepare(self) -> None:
        """Check the machine, remove what killed runs have left, make the network. Raises RealNodeError that names what is missing."""
        check(self.settings, os.geteuid())
        try:
            self.settings.directory.mkdir(parents=True, exist_ok=True)
            lock = data_lock(self.settings.directory)
            lock.acquire()
        except (OSError, StoreLocked, StoreUnavailable) as error:
            raise RealNodeError(f"{self.settings.directory}: real nodes cannot be kept there: {error}") from error
        try:
            await remove_leftovers(self.settings, self._clock)
            await remove_dead_clusters(self.settings, self._clock)
            check_port(self.settings)
            self.settings.state.mkdir(parents=True, exist_ok=True)
            self._ownership = Ownership(self.settings)
            await make_bridge(self.settings)
        except BaseException:
            await self._give_up(lock)
            raise
        self._lock = lock

    async def _give_up(self, lock: FileLock) -> None:
        """Leave the machine as it was, as far as that is possible."""
        try:
            if self._ownership is not None:
                await remove_leftovers(self.settings, self._clock)
        except RealNodeError as error:
            logger.error("%s", error)
        finally:
            self._release(lock)

    async def join(self, cluster: Cluster) -> None:
        """Start the nodes of a cluster that listens on `addresses`. Raises RealNodeError."""
        server, authority = url_of(self.settings.gateways[0], cluster.port), cluster.credentials.authority.certificate
        await self.start(ApiAccess(server, authority, cluster.sign_client), cluster.client())
        cluster.api.context.add_on_failures = self.failures()

    async def start(self, api: ApiAccess, client: Client) -> None:
        """Start the nodes; returns when their containerds answer. client: one that may read nodes. Raises RealNodeError."""
        plugins = find_cni_plugins()
        if plugins is None:
            raise RealNodeError("the CNI plugins have gone")
        try:
            await publish(client, self.settings)
        except (ApiError, TransportError) as error:
            raise RealNodeError(f"the API does not take what real nodes need: {error}") from error
        if DNS not in self.settings.without:
            self._start_dns(api)
        self.nodes = [RealNode(place, plugins, self._clock, self._tasks) for place in self.settings.nodes()]
        await asyncio.gather(*(node.start(api) for node in self.nodes))
        self._tasks.keep_running("pod networks", lambda: self._follow(client))

    def _start_dns(self, api: ApiAccess) -> None:
        """Start the DNS server of the cluster. Raises RealNodeError."""
        settings = self.settings
        try:
            write_credentials(settings.directory, "dns.kubeconfig", api, DNS_USER)
        except OSError as error:
            raise RealNodeError(f"{settings.directory}: the DNS server's files cannot be written: {error}") from error
        log = settings.directory / "dns.log"
        log.unlink(missing_ok=True)
        command = dns_command(settings)
        self._dns = SupervisedProcess("the DNS server", command, log, settings.state / "dns.pid", self._clock)
        self._tasks.spawn(self._dns.name, self._dns.run())

    async def _follow(self, client: Client) -> None:
        """Lead the machine to the pods of nodes, as the API assigns their networks, until cancelled. Raises ApiError, TransportError."""
        while True:
            listed = await client.list(core_v1.Node)
            await self._assign(client, listed.items)
            stream = await client.watch(core_v1.Node, resource_version=listed.resource_version)
            try:
                async for event in stream:
                    if event.type in ("ADDED", "MODIFIED"):
                        await self._assign(client, (event.object,))
            finally:
                stream.close()

    def _annotations(self) -> dict[str, str | None]:
        """What a node says of what runs beside its kubelet; None for what an earlier run may have said of parts that are left out."""
        settings = self.settings
        found = {
            POD_NETWORK: ("bayplan.dev/network", settings.data_plane),
            PROXY: ("bayplan.dev/service-proxy", "nftables"),
            DNS: ("bayplan.dev/dns", ",".join(settings.cluster_dns)),
            STORAGE: ("bayplan.dev/storage", DRIVER_NAME),
        }
        return {name: None if part in settings.without else value for part, (name, value) in found.items()}

    async def _assign(self, client: Client, nodes: Iterable[core_v1.Node]) -> None:
        own = {node.place.name: node for node in self.nodes}
        changed = False
        for each in nodes:
            node, networks = own.get(each.metadata.name), each.spec.pod_cidrs
            if node is None or not networks or self._pod_networks.get(each.metadata.name) == networks:
                continue
            self._pod_networks[each.metadata.name] = networks
            changed = True
            await client.patch(core_v1.Node, each.metadata.name, "", {"metadata": {"annotations": self._annotations()}})
        if changed:
            await set_routes(self.settings, self._pod_networks)

    def failures(self) -> dict[str, Callable[[], str]]:
        """Why each component of the nodes does not run ("" if it does), by name."""
        dns = self._dns
        found = {} if dns is None else {"dns": lambda: dns.failure}
        for node in self.nodes:
            found |= node.failures()
        return found

    async def wait(self) -> None:
        """Return never; raises what a part raised that cannot be started again."""
        await self._tasks.wait()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End all nodes and remove what was made for them. Raises RealNodeError if something is left."""
        if self._lock is None:
            return
        outcomes = await asyncio.gather(*(node.stop() for node in self.nodes), return_exceptions=True)
        for node, outcome in zip(self.nodes, outcomes, strict=True):
            if isinstance(outcome, Exception):
                # The clean-up that follows takes whatever it has left.
                logger.error("%s did not stop in good order", node.place.name, exc_info=outcome)
        if self._dns is not None:
            await self._dns.stop(_STOP_SECONDS)
        await self._tasks.close()
        try:
            await remove_leftovers(self.settings, self._clock)
        finally:
            self._release(self._lock)
            self._lock = None

    def _release(self, lock: FileLock) -> None:
        if self._ownership is not None:
            self._ownership.release()
            self._ownership = None
        lock.release()
