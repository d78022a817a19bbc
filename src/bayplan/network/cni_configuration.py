"""The configuration by which the container runtime attaches pods to the node (CNI)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bayplan.network.errors import NetworkError
from bayplan.network.peers import Peer, ip_version
from bayplan.network.settings import CNI_PLUGINS, NetworkSettings, PodInterface

FILE: Final = "10-bayplan.conflist"
"""Runtimes take the first file of the directory."""
_VERSION: Final = "0.4.0"
"""Of the CNI specification, which all runtimes since containerd 1.4 know."""
_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}
_CAPABILITIES: Final = {"portmap": {"portMappings": True}, "bandwidth": {"bandwidth": True}, "firewall": {}}


def find_plugins(settings: NetworkSettings) -> Path:
    """The directory that has the plugins that are needed. Raises NetworkError with what to install."""
    needed = (settings.pod_interface, "host-local", "loopback")
    directories = (settings.cni_plugins,) if settings.cni_plugins is not None else CNI_PLUGINS
    for each in directories:
        if all((each / name).exists() for name in needed):
            return each
    raise NetworkError(
        f"no directory of {', '.join(map(str, directories))} has the network plugins {', '.join(needed)}: "
        "apt-get install containernetworking-plugins (Debian, Ubuntu), dnf install containernetworking-plugins (Fedora), "
        "or name their directory with --cni-bin-dir"
    )


def configuration(node: Peer, device: str, mtu: int, settings: NetworkSettings, chain: Sequence[str]) -> dict[str, Any]:
    """The network of a node's pods. device: the node's uplink; mtu: of pods; chain: plugins that follow."""
    plugins = [_attachment(device, mtu, settings) | {"ipam": _addresses(node, settings)}]
    for name in chain:
        capabilities = _CAPABILITIES[name]
        plugins.append({"type": name} | ({"capabilities": capabilities} if capabilities else {}))
    return {"cniVersion": _VERSION, "name": "bayplan", "plugins": plugins}


def _attachment(device: str, mtu: int, settings: NetworkSettings) -> dict[str, Any]:
    match settings.pod_interface:
        case PodInterface.PTP:
            return {"type": "ptp", "mtu": mtu, "ipMasq": False}
        case PodInterface.BRIDGE:
            bridge = {"bridge": settings.bridge, "isDefaultGateway": True, "hairpinMode": True}
            return {"type": "bridge", **bridge, "mtu": mtu, "ipMasq": False}
        case PodInterface.IPVLAN:
            return {"type": "ipvlan", "mode": "l3", "master": device, "mtu": mtu}


def _addresses(node: Peer, settings: NetworkSettings) -> dict[str, Any]:
    versions = sorted({ip_version(network) for network in node.pod_networks})
    # A bridge that is the pods' default gateway adds these routes itself.
    routes = [] if settings.pod_interface == PodInterface.BRIDGE else [{"dst": _EVERYWHERE[one]} for one in versions]
    return {
        "type": "host-local",
        "ranges": [[{"subnet": network}] for network in node.pod_networks],
        "routes": routes,
        "dataDir": str(settings.address_directory),
    }


def write_configuration(directory: Path, config: dict[str, Any]) -> bool:
    """Write the file unless it is there already; a reader sees all of it or nothing. Returns whether it was written. Raises OSError."""
    text = json.dumps(config, indent=2)
    file = directory / FILE
    if file.exists() and file.read_text() == text:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".tmp")  # which runtimes do not read
    unfinished.write_text(text)
    unfinished.replace(file)
    return True
