"""The network of real nodes: one namespace each, at a bridge; routes from the machine to their pods; the way out.

How pods of different nodes reach each other is the business of `bayplan network`, which runs on each node.

machine ── bridge bp-<id> (.1) ──┬── bp-<id>-1 ═ eth0 (.11) namespace bayplan-<id>-1: kubelet, containerd, pods of real-1
                                 └── bp-<id>-2 ═ eth0 (.12) namespace bayplan-<id>-2: ...
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.settings import HOST, NAMESPACE, Network, NodePlace, RealNodeSettings
from bayplan.network.policy.errors import PolicyError
from bayplan.network.service import clean_up
from bayplan.network.settings import NetworkSettings
from bayplan.support.system.programs import ProgramError, succeeds

_NAMESPACES = Path("/run/netns")
_PROXY_TABLE = "kube-proxy"
_IPV6 = Path("/proc/sys/net/ipv6/conf")
FORWARDING = {4: Path("/proc/sys/net/ipv4/ip_forward"), 6: _IPV6 / "all/forwarding"}
_ADVERTISED = "accept_ra"
"""Of an interface: 1 lets it learn addresses and routes from routers unless the machine forwards packets, 2 in any case."""
_WITH_HOSTNAME = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'
"""Names the machine as a shell's first argument says and becomes the command that the others are."""


def inside(place: NodePlace, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command as it is run on a node: in its network and with its name as hostname, which pods of the host network see as well.
    Mounts and cgroups stay the machine's."""
    if place.settings.mode == HOST:
        return command
    network = ("nsenter", f"--net={_NAMESPACES / place.namespace}", "--")
    return (*network, "unshare", "--uts", "--", "sh", "-c", _WITH_HOSTNAME, place.name, *command)


async def make_bridge(settings: RealNodeSettings) -> None:
    """Make the bridge with the machine's address, and the way out. Nodes are at it, unless there is one that has the machine's own network:
    then it only carries the address at which pods find the API server and the DNS. Raises RealNodeError.
    """
    routes = [
        one
        for each in settings.versions
        for one in json.loads(await run("ip", f"-{each}", "-json", "route", "show") or "[]")
    ]
    overlap = overlapping(settings, routes)
    if overlap:
        raise RealNodeError(overlap)
    is_host = settings.mode == HOST
    await run("ip", "link", "add", settings.bridge, "type", "bridge")
    _accept_advertisements([settings.bridge], "0")  # whatever pods of the nodes' network say
    for network, gateway in zip(settings.networks, settings.gateways, strict=True):
        prefix = network.max_prefixlen if is_host else network.prefixlen
        await run("ip", "address", "add", f"{gateway}/{prefix}", "dev", settings.bridge, *_at_once(network))
    await run("ip", "link", "set", settings.bridge, "up")
    if settings.outbound or is_host:
        _keep_forwarding(settings)
    if settings.outbound and not is_host:
        await run("nft", "-f", "-", stdin=masquerading(settings).encode())


def _at_once(network: Network) -> tuple[str, ...]:
    """How `ip` is told that nobody else has an address of a network, for which IPv6 looks otherwise."""
    return ("nodad",) if network.version == 6 else ()


def overlapping(settings: RealNodeSettings, routes: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with the machine's routes (as `ip -json route` shows them); "" if the networks of nodes and pods are free."""
    for route in routes:
        try:
            found = ipaddress.ip_network(str(route.get("dst")))
        except ValueError:
            continue  # default
        where = f"{found} (device {route.get('dev', '')}) of this machine"
        for nodes, pods in zip(settings.networks, settings.pod_networks, strict=True):
            if not found.prefixlen or found.version != nodes.version:
                continue
            if _overlap(found, nodes):
                return f"the network of real nodes, {nodes}, overlaps with {where}: use another data directory, from which it follows"
            if _overlap(found, pods):
                return f"the network of pods, {pods}, overlaps with {where}: choose another with --controller-manager-flag=--cluster-cidr=NETWORK"
    return ""


def _overlap(one: Network, other: Network) -> bool:
    """Whether two networks of the same IP version have addresses in common."""
    return one[0] in other or other[0] in one


def masquerading(settings: RealNodeSettings) -> str:
    """nftables rules that give what nodes and pods send elsewhere the machine's address."""
    rules = (
        f'    {"ip" if nodes.version == 4 else "ip6"} saddr {{ {nodes}, {pods} }} oifname != "{settings.bridge}" masquerade;\n'
        for nodes, pods in zip(settings.networks, settings.pod_networks, strict=True)
    )
    return (
        f"table inet {_table(settings)} {{\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat - 5; policy accept;\n"
        f"{''.join(rules)}"
        "  }\n"
        "}\n"
    )


def _table(settings: RealNodeSettings) -> str:
    return f"bayplan_{settings.id}"


def _keep_forwarding(settings: RealNodeSettings) -> None:
    """Let the machine forward packets, and remember whether it did. What it learns from IPv6 routers it goes on to learn."""
    for version in settings.versions:
        file = FORWARDING[version]
        before = file.read_text().strip()
        if before == "1":
            continue
        if version == 6:
            names = {each.parent.name for each in _IPV6.glob(f"*/{_ADVERTISED}") if each.read_text().strip() == "1"}
            learning = sorted(names - {"all", "default"})
            (settings.state / _ADVERTISED).write_text(" ".join(learning))
            _accept_advertisements(learning, "2")
        (settings.state / file.name).write_text(before)
        file.write_text("1")


def _restore_forwarding(settings: RealNodeSettings) -> None:
    for file in FORWARDING.values():
        kept = settings.state / file.name
        if kept.exists():
            file.write_text(kept.read_text())
            kept.unlink()
    learning = settings.state / _ADVERTISED
    if learning.exists():
        _accept_advertisements(learning.read_text().split(), "1")
        learning.unlink()


def _accept_advertisements(interfaces: Iterable[str], value: str) -> None:
    for name in interfaces:
        with contextlib.suppress(FileNotFoundError):  # it has gone
            (_IPV6 / name / _ADVERTISED).write_text(value)


async def make_node_network(place: NodePlace) -> None:
    """Make a node's namespace and connect it. Raises RealNodeError."""
    settings = place.settings
    if settings.mode != NAMESPACE:
        return
    name = place.namespace
    await run("ip", "netns", "add", name)
    await run("ip", "link", "add", place.link, "type", "veth", "peer", "name", "eth0", "netns", name)
    await run("ip", "link", "set", place.link, "master", settings.bridge, "up")
    for network, address in zip(settings.networks, place.addresses, strict=True):
        where = (f"{address}/{network.prefixlen}", "dev", "eth0", *_at_once(network))
        await run("ip", "-n", name, "address", "add", *where)
    await run("ip", "-n", name, "link", "set", "eth0", "up")
    await run("ip", "-n", name, "link", "set", "lo", "up")
    for version, gateway in zip(settings.versions, settings.gateways, strict=True):
        await run("ip", "-n", name, f"-{version}", "route", "add", "default", "via", gateway)
        await run(*inside(place, ("sh", "-c", f"echo 1 > {FORWARDING[version]}")))


async def set_routes(settings: RealNodeSettings, pod_networks: Mapping[str, Sequence[str]]) -> None:
    """Lead the machine to the pods' networks of nodes (by name). Raises RealNodeError."""
    if settings.mode != NAMESPACE:
        return
    for place in settings.nodes():
        for network in pod_networks.get(place.name, ()):
            address = dict(zip(settings.versions, place.addresses, strict=True)).get(
                ipaddress.ip_network(network).version
            )
            if address is not None:
                await run("ip", "route", "replace", network, "via", address, "dev", settings.bridge)


async def remove_network(settings: RealNodeSettings) -> None:
    """Remove all that was made here, also for more nodes than there are now. What is not there is removed. Raises RealNodeError."""
    if shutil.which("ip") is None:
        return
    for name in _namespaces(settings):
        await run("ip", "netns", "delete", name)
    for link in json.loads(await run("ip", "-json", "link", "show") or "[]"):
        name = link["ifname"]
        if name == settings.bridge or name.startswith(f"{settings.bridge}-"):
            await _remove_link(name)
    if shutil.which("nft") is not None and await succeeds("nft", "list", "table", "inet", _table(settings)):
        await run("nft", "delete", "table", "inet", _table(settings))
    if settings.mode == HOST and settings.state.exists():
        await _remove_host_network(settings)
    _restore_forwarding(settings)


async def _remove_host_network(settings: RealNodeSettings) -> None:
    """Remove what pod network and service proxy of a node without a namespace have made on the machine. Raises RealNodeError."""
    for family in ("ip", "ip6"):
        if await succeeds("nft", "list", "table", family, _PROXY_TABLE):
            await run("nft", "delete", "table", family, _PROXY_TABLE)
    for place in settings.nodes():
        try:
            await clean_up(NetworkSettings(place.name, cni_config=place.cni_config))
        except (ProgramError, PolicyError, OSError) as error:
            raise RealNodeError(f"the pod network of {place.name} is left: {error}") from error


def _namespaces(settings: RealNodeSettings) -> list[str]:
    """Names of the nodes' namespaces that are there."""
    return sorted(path.name for path in _NAMESPACES.glob(f"bayplan-{settings.id}-*"))


async def _remove_link(name: str) -> None:
    """Remove a link; one that has gone meanwhile, with its namespace, is removed."""
    try:
        await run("ip", "link", "delete", name)
    except RealNodeError:
        if await succeeds("ip", "link", "show", name):
            raise
