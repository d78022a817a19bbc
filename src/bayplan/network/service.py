"""The agent of one node: it follows Node objects and keeps the kernel equal to what they say."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterable
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.informers import InformerFactory
from bayplan.network import kernel
from bayplan.network.cni_configuration import FILE, configuration, find_plugins, write_configuration
from bayplan.network.data_plane import Entry, Uplink, entries, find_uplink, make_tunnel, pod_mtu, unreachable
from bayplan.network.errors import NetworkError, NotYetError
from bayplan.network.ip_commands import change
from bayplan.network.masquerading import masquerading
from bayplan.network.metrics import NetworkMetrics
from bayplan.network.node_condition import network_available
from bayplan.network.peers import Peer, ip_version, peer
from bayplan.network.policy.addresses import Family
from bayplan.network.policy.enforcer import PolicyEnforcer, remove_policies
from bayplan.network.policy.errors import PolicyError
from bayplan.network.settings import DataPlane, Masquerade, NetworkSettings
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.support.system.machine import has_ipv6, has_net_admin
from bayplan.support.system.programs import ProgramError

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_PROGRAMS: Final = {"ip": "iproute2", "bridge": "iproute2", "nft": "nftables"}
"""Program -> the package that has it."""


class NetworkAgent:
    """Routes or tunnels from one node to the pods of all others, and the configuration by which its own pods are attached."""

    def __init__(
        self, client: Client, settings: NetworkSettings, *, clock: Clock, randomness: Randomness, registry: Registry
    ) -> None:
        self.informers = InformerFactory(client, clock, randomness)
        self._client = client
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._metrics = NetworkMetrics(registry)
        self._nodes = self.informers.informer(core_v1.Node)
        self._peers: dict[str, Peer] = {}
        self._changed: set[str] = set()
        """Names of nodes whose changes are not in the kernel yet."""
        self._wake = asyncio.Event()
        self._known: dict[str, frozenset[Entry]] = {}
        """Node -> its entries in the kernel, as they were last set."""
        self._rules = ""
        """The rules of masquerading as they were last loaded."""
        self._uplink: Uplink | None = None
        """The interface to other nodes; None until the kernel has been read, and after a failure."""
        self._reasons: dict[str, str] = {}
        """Node -> why its pods cannot be reached."""
        self._waits_for = "the nodes of the cluster are not known yet"
        self._policies = (
            PolicyEnforcer(
                self.informers,
                settings.node_name,
                clock=clock,
                registry=registry,
                families=tuple(Family) if has_ipv6() else (Family.IPV4,),
            )
            if settings.policies
            else None
        )

    @property
    def not_ready(self) -> str:
        """What the network waits for, or why it failed; "" when pods are attached and reach those of other nodes, as far as policies allow it."""
        return self._waits_for

    async def run(self) -> None:
        """Follow the cluster until cancelled. Raises NetworkError if the machine lacks what is needed."""
        check_machine(self._settings)
        self._nodes.on_change(
            add=lambda new: self._put(peer(new)),
            update=lambda _, new: self._put(peer(new)),
            delete=lambda old: self._remove(old.metadata.name),
        )
        self.informers.start()
        policies = asyncio.create_task(self._enforce(), name="network policies")
        nodes = asyncio.create_task(self._follow_nodes(), name="pod network")
        try:
            await asyncio.wait((policies, nodes), return_when=asyncio.FIRST_EXCEPTION)
            for task in (policies, nodes):
                if task.done():
                    task.result()
        finally:
            for task in (policies, nodes):
                task.cancel()
            await asyncio.gather(policies, nodes, return_exceptions=True)
            await self.informers.stop()

    async def _enforce(self) -> None:
        """Enforce policies, if that is wanted, until cancelled. Raises NetworkError."""
        if self._policies is None:
            return
        try:
            await self._policies.run()
        except PolicyError as error:
            raise NetworkError(str(error)) from error

    async def _follow_nodes(self) -> None:
        """Keep the ways to other nodes until cancelled."""
        await self._nodes.wait_for_sync()
        await self._keep_synced()

    def _put(self, found: Peer) -> None:
        if self._peers.get(found.name) != found:
            self._peers[found.name] = found
            self._note(found.name)

    def _remove(self, name: str) -> None:
        if self._peers.pop(name, None) is not None:
            self._note(name)

    def _note(self, name: str) -> None:
        self._changed.add(name)
        self._wake.set()

    async def _keep_synced(self) -> None:
        pause, due = _FIRST_PAUSE, self._clock.monotonic()
        while True:
            whole = self._clock.monotonic() >= due or self._uplink is None
            if await self._sync(whole=whole):
                pause = _FIRST_PAUSE
                if whole:
                    due = self._clock.monotonic() + self._settings.resync_seconds
                await self._wait(due - self._clock.monotonic())
            else:
                await self._wait(self._randomness.jitter(pause, 0.2))
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _wait(self, seconds: float) -> None:
        """Return when a node has changed, at the latest after some seconds."""
        timer = self._clock.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _sync(self, *, whole: bool) -> bool:
        """Bring changes into the kernel. whole: read all of it, and put it right. Returns False after a failure, which is logged."""
        self._wake.clear()
        changed, self._changed = self._changed, set()
        started = self._clock.monotonic()
        try:
            await self._sync_nodes(changed, whole=whole)
        except (NetworkError, ProgramError, OSError) as error:
            self._metrics.failed.inc()
            self._uplink = None
            if str(error) != self._waits_for:
                is_usual = isinstance(error, NotYetError)
                logger.log(logging.INFO if is_usual else logging.ERROR, "the pod network waits: %s", error)
            self._waits_for = str(error)
            return False
        self._metrics.succeeded.inc()
        self._metrics.duration.observe(self._clock.monotonic() - started)
        return True

    async def _sync_nodes(self, changed: set[str], *, whole: bool) -> None:
        settings = self._settings
        node = self._peers.get(settings.node_name)
        if node is None:
            raise NotYetError(
                f"there is no node {settings.node_name}; name this machine's node with --hostname-override"
            )
        if not node.pod_networks:
            raise NotYetError(
                f"node {node.name} has no podCIDR; kube-controller-manager gives it one (--allocate-node-cidrs, --cluster-cidr)"
            )
        if whole or self._uplink is None or node.name in changed:
            await self._sync_all(node)
        elif changed:
            await self._sync_some(node, self._uplink, changed)
        self._metrics.peers.set(sum(1 for found in self._known.values() if found))
        self._metrics.unreachable.set(len(self._reasons))

    async def _sync_all(self, node: Peer) -> None:
        """Read the kernel and put right what differs; then attach pods, for whom the policies must be in the kernel before they start."""
        settings = self._settings
        kernel.allow_forwarding({ip_version(network) for network in node.pod_networks})
        uplink = find_uplink(node, await kernel.interfaces())
        if settings.data_plane == DataPlane.OVERLAY:
            await kernel.ensure_tunnel(make_tunnel(node, uplink, settings))
            kernel.accept_detours(uplink.device)
            kernel.accept_detours(settings.vxlan_device)
        else:
            await kernel.remove_tunnel(settings.vxlan_device)
        actual = await kernel.read_entries(settings.vxlan_device)
        known = {name: entries(node, other, uplink, settings) for name, other in self._peers.items()}
        wanted = frozenset().union(*known.values())
        if self._uplink is not None:
            self._metrics.repairs.inc(len(actual ^ frozenset().union(*self._known.values())))
        await self._apply(actual - wanted, wanted - actual)
        await self._masquerade(node, repair=self._settings.masquerade != Masquerade.OFF)
        self._known, self._uplink = known, uplink
        self._tell_unreachable(node, uplink, self._peers)
        if self._policies is not None and not self._policies.has_synced():
            raise NotYetError("network policies are not in the kernel yet; pods are attached when they are")
        self._attach_pods(node, uplink)
        self._waits_for = ""
        await self._report()

    async def _sync_some(self, node: Peer, uplink: Uplink, changed: set[str]) -> None:
        """Bring the changes of some other nodes into the kernel."""
        known = {
            name: entries(node, self._peers[name], uplink, self._settings) if name in self._peers else frozenset()
            for name in changed
        }
        old = frozenset[Entry]().union(*(self._known.get(name, frozenset()) for name in changed))
        new = frozenset[Entry]().union(*known.values())
        await self._apply(old - new, new - old)
        await self._masquerade(node, repair=False)
        self._known.update(known)
        for name in changed - self._peers.keys():
            del self._known[name]
        self._tell_unreachable(node, uplink, changed)

    async def _apply(self, removed: Iterable[Entry], added: Iterable[Entry]) -> None:
        commands = change(removed, added, self._settings.vxlan_device)
        await kernel.apply(commands)
        self._metrics.changes.inc(len(commands.ip) + len(commands.bridge))

    async def _masquerade(self, node: Peer, *, repair: bool) -> None:
        """Load the rules of masquerading if they are others than before. repair: also if not, as somebody may have changed them."""
        if self._settings.masquerade == Masquerade.OFF and shutil.which("nft") is None:
            return
        others = (other for name, other in self._peers.items() if name != node.name)
        rules = masquerading(node, others, self._settings.masquerade)
        if repair or rules != self._rules:
            await kernel.load_rules(rules)
            self._rules = rules

    def _tell_unreachable(self, node: Peer, uplink: Uplink, names: Iterable[str]) -> None:
        for name in names:
            other = self._peers.get(name)
            reason = unreachable(node, other, uplink, self._settings) if other is not None else ""
            if not reason:
                self._reasons.pop(name, None)
            elif self._reasons.get(name) != reason:
                self._reasons[name] = reason
                logger.warning("%s", reason)

    def _attach_pods(self, node: Peer, uplink: Uplink) -> None:
        """Tell the container runtime how pods are attached. Raises NetworkError, OSError."""
        settings = self._settings
        plugins = find_plugins(settings)
        chain = [name for name in settings.cni_chain if (plugins / name).exists()]
        if shutil.which("iptables") is None:  # which these plugins use
            chain = [name for name in chain if name == "bandwidth"]
        config = configuration(node, uplink.device, pod_mtu(uplink, settings), settings, chain)
        if write_configuration(settings.cni_config, config):
            logger.info("%s: pods get addresses of %s", settings.cni_config / FILE, ", ".join(node.pod_networks))
            missing = [name for name in settings.cni_chain if name not in chain]
            if missing:
                logger.warning("network plugins that this machine lacks are left out: %s", ", ".join(missing))

    async def _report(self) -> None:
        """Say in the Node object that it has a network. What the API refuses is said once more at the next resync."""
        node = self._nodes.cache.get("", self._settings.node_name)
        patch = network_available(node, self._settings.data_plane, self._clock.now()) if node is not None else None
        if patch is None:
            return
        try:
            await self._client.patch(
                core_v1.Node, self._settings.node_name, "", patch, patch_type=STRATEGIC_PATCH, subresource="status"
            )
        except (ApiError, TransportError) as error:
            logger.warning("node %s cannot say that its network is up: %s", self._settings.node_name, error)


def check_machine(settings: NetworkSettings) -> None:
    """Raises NetworkError that names all that is missing."""
    needed = [name for name in _PROGRAMS if name != "nft" or settings.policies or settings.masquerade != Masquerade.OFF]
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_PROGRAMS[name] for name in missing))
        raise NetworkError(f"the pod network needs {', '.join(missing)}: apt-get install {packages}")
    find_plugins(settings)


def check_rights() -> None:
    """Raises NetworkError if this process may not change the network (CAP_NET_ADMIN)."""
    if not has_net_admin():
        raise NetworkError("the pod network can be changed by root alone, or with CAP_NET_ADMIN: use sudo")


async def clean_up(settings: NetworkSettings) -> None:
    """Remove all that the agent has made: routes, the tunnel, rules, the configuration of pods. Raises ProgramError, OSError, PolicyError."""
    actual = await kernel.read_entries(settings.vxlan_device)
    await kernel.apply(change(actual, (), settings.vxlan_device))
    await kernel.remove_tunnel(settings.vxlan_device)
    await kernel.remove_rules()
    await remove_policies()
    (settings.cni_config / FILE).unlink(missing_ok=True)
