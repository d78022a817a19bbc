"""The network of real nodes: one namespace each, at a bridge; routes from the machine to their pods; the way out.

How pods of different nodes reach each other is the business of `bayplan network`, which runs on each node.

machine ── bridge bp-<id> (.1) ──┬── bp-<id>-1 ═ eth0 (.11) namespace bayplan-<id>-1: kubelet, containerd, pods of real-1
                                 └── bp-<id>-2 ═ eth0 (.12) namespace bayplan-<id>-2: ...
"""

from __future__ import annotations

import ipaddress
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.commands import run
from bayplan.cluster.real_nodes.settings import HOST, NAMESPACE, NodePlace, RealNodeSettings
from bayplan.network.policy.errors import PolicyError
from bayplan.network.service import clean_up
from bayplan.network.settings import NetworkSettings
from bayplan.support.system.programs import ProgramError, succeeds

_NAMESPACES = Path("/run/netns")
_PROXY_TABLE = "kube-proxy"
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
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
    overlap = overlapping(settings, json.loads(await run("ip", "-json", "route", "show") or "[]"))
    if overlap:
        raise RealNodeError(overlap)
    is_host = settings.mode == HOST
    prefix = 32 if is_host else settings.network.prefixlen
    await run("ip", "link", "add", settings.bridge, "type", "bridge")
    await run("ip", "address", "add", f"{settings.gateway}/{prefix}", "dev", settings.bridge)
    await run("ip", "link", "set", settings.bridge, "up")
    if settings.outbound or is_host:
        _keep_forwarding(settings)
    if settings.outbound and not is_host:
        await run("nft", "-f", "-", stdin=masquerading(settings).encode())


def overlapping(settings: RealNodeSettings, routes: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with the machine's routes (as `ip -json route` shows them); "" if the networks of nodes and pods are free."""
    pods = ipaddress.IPv4Network(settings.pod_network)
    for route in routes:
        try:
            network = ipaddress.IPv4Network(str(route.get("dst")))
        except ValueError:
            continue  # default
        where = f"{network} (device {route.get('dev', '')}) of this machine"
        if network.prefixlen and network.overlaps(settings.network):
            return f"the network of real nodes, {settings.network}, overlaps with {where}: use another data directory, from which it follows"
        if network.prefixlen and network.overlaps(pods):
            return f"the network of pods, {pods}, overlaps with {where}: choose another with --controller-manager-flag=--cluster-cidr=NETWORK"
    return ""


def masquerading(settings: RealNodeSettings) -> str:
    """nftables rules that give what nodes and pods send elsewhere the machine's address."""
    return (
        f"table ip {_table(settings)} {{\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat - 5; policy accept;\n"
        f'    ip saddr {{ {settings.network}, {settings.pod_network} }} oifname != "{settings.bridge}" masquerade;\n'
        "  }\n"
        "}\n"
    )


def _table(settings: RealNodeSettings) -> str:
    return f"bayplan_{settings.id}"


def _keep_forwarding(settings: RealNodeSettings) -> None:
    """Let the machine forward packets, and remember whether it did."""
    before = _FORWARDING.read_text().strip()
    if before != "1":
        (settings.state / "ip_forward").write_text(before)
        _FORWARDING.write_text("1")


def _restore_forwarding(settings: RealNodeSettings) -> None:
    kept = settings.state / "ip_forward"
    if kept.exists():
        _FORWARDING.write_text(kept.read_text())
        kept.unlink()


async def make_node_network(place: NodePlace) -> None:
    """Make a node's namespace and connect it. Raises RealNodeError."""
    settings = place.settings
    if settings.mode != NAMESPACE:
        return
    name = place.namespace
    await run("ip", "netns", "add", name)
    await run("ip", "link", "add", place.link, "type", "veth", "peer", "name", "eth0", "netns", name)
    await run("ip", "link", "set", place.link, "master", settings.bridge, "up")
    await run("ip", "-n", name, "address", "add", f"{place.address}/{settings.network.prefixlen}", "dev", "eth0")
    await run("ip", "-n", name, "link", "set", "eth0", "up")
    await run("ip", "-n", name, "link", "set", "lo", "up")
    await run("ip", "-n", name, "route", "add", "default", "via", settings.gateway)
    await run(*inside(place, ("sh", "-c", f"echo 1 > {_FORWARDING}")))


async def set_routes(settings: RealNodeSettings, pod_networks: Mapping[str, str]) -> None:
    """Lead the machine to the pods' networks of nodes (by name). Raises RealNodeError."""
    if settings.mode != NAMESPACE:
        return
    for place in settings.nodes():
        network = pod_networks.get(place.name)
        if network:
            await run("ip", "route", "replace", network, "via", place.address, "dev", settings.bridge)


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
    if shutil.which("nft") is not None and await succeeds("nft", "list", "table", "ip", _table(settings)):
        await run("nft", "delete", "table", "ip", _table(settings))
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
