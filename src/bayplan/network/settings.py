"""Settings of `bayplan network`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from bayplan.network.errors import SettingsError

CNI_PLUGINS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
"""Where distributions put network plugins: Debian, upstream, Fedora."""
CNI_CONFIG: Final = Path("/etc/cni/net.d")
"""Where container runtimes look for networks unless told otherwise."""
CHAINABLE: Final = ("portmap", "bandwidth", "firewall")
"""Plugins that can follow the one that attaches pods: host ports, the annotations `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth`, and
acceptance of pods' packets where the machine forwards none (a FORWARD chain with the policy DROP, as Docker sets it)."""
_SMALLEST_MTU: Final = 576


class DataPlane(StrEnum):
    """How packets reach the pods of other nodes."""

    OVERLAY = "overlay"
    """In VXLAN packets between the nodes' addresses: the network between nodes need not know of pods."""
    ROUTED = "routed"
    """As they are, by plain routes through the nodes' addresses: the nodes must share a subnet."""


class PodInterface(StrEnum):
    """How pods are attached to their node: the CNI plugin."""

    PTP = "ptp"
    """Each pod has a link of its own to the node, which routes all that it sends."""
    BRIDGE = "bridge"
    """The pods of a node share a bridge, and a subnet. Needs the kernel module `br_netfilter` for services and policies between pods of one node."""
    IPVLAN = "ipvlan"
    """Pods share the node's interface (layer 3 mode): fastest, but the node itself cannot reach its own pods."""


class Masquerade(StrEnum):
    """What pods send under the node's address, since others do not know theirs."""

    OFF = "off"
    EXTERNAL = "external"
    """All but what goes to pods and nodes of the cluster."""
    NON_PODS = "non-pods"
    """All but what goes to pods: for networks between nodes that drop packets with pods' addresses."""


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """How the pods of one node reach others."""

    node_name: str
    """The Node object of this machine."""
    data_plane: DataPlane = DataPlane.OVERLAY
    """How packets reach the pods of other nodes."""
    pod_interface: PodInterface = PodInterface.PTP
    """How pods are attached to the node."""
    masquerade: Masquerade = Masquerade.EXTERNAL
    """What pods send under the node's address."""
    cluster_networks: tuple[str, ...] = ()
    """CIDRs of all pods: what goes to pods of no node ends with an error here, and does not leave by the default route."""
    mtu: int = 0
    """Largest packet of pods in bytes; 0: what the node's interface takes, less the tunnel's headers."""
    vxlan_device: str = "bayplan-vxlan"
    """Name of the tunnel's device."""
    vxlan_id: int = 1
    """The VXLAN network identifier: the same on all nodes."""
    vxlan_port: int = 8472
    """UDP port of the tunnel: the same on all nodes. 8472 is Linux' own and Flannel's; 4789 the registered one."""
    cni_config: Path = CNI_CONFIG
    """Directory of network configurations that the container runtime reads."""
    cni_plugins: Path | None = None
    """Directory of network plugins; None to look where distributions put them."""
    cni_chain: tuple[str, ...] = ("portmap", "bandwidth")
    """Further plugins, of CHAINABLE, as far as the machine has them."""
    address_directory: Path = Path("/var/lib/cni/networks")
    """Where the plugin host-local keeps which addresses are taken."""
    bridge: str = "cni0"
    """Name of the bridge, if pods are attached to one."""
    resync_seconds: float = 30.0
    """How often the kernel is read anew, so that what others have changed is put right."""
    policies: bool = True
    """Whether NetworkPolicies are enforced."""
    bind_address: str = "127.0.0.1"
    """Address of health and metrics."""
    metrics_port: int | None = None
    """Port of /healthz and /metrics; None for none."""

    def __post_init__(self) -> None:
        if not self.node_name:
            raise SettingsError("--hostname-override: the node's name is empty")
        if self.mtu and not _SMALLEST_MTU <= self.mtu <= 65_535:
            raise SettingsError(f"--mtu: {self.mtu} is not between {_SMALLEST_MTU} and 65535")
        if not 0 < self.vxlan_id < 1 << 24:
            raise SettingsError(f"--vxlan-id: {self.vxlan_id} is not between 1 and 16777215")
        for option, name in (("--vxlan-device", self.vxlan_device), ("--bridge", self.bridge)):
            if not 0 < len(name) < 16 or "/" in name or any(letter.isspace() for letter in name):
                raise SettingsError(
                    f"{option}: {name!r} is no name of a device: up to 15 characters, no slash, no space"
                )
        for network in self.cluster_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise SettingsError(f"--cluster-cidr: {error}") from error
        unknown = [name for name in self.cni_chain if name not in CHAINABLE]
        if unknown:
            raise SettingsError(f"--cni-chain: {unknown[0]!r} is none of {', '.join(CHAINABLE)}")
