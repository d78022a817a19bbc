"""Settings of real nodes, and the names and paths that follow from them. Pure."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bayplan.kubelet.runtime.pause_image import PAUSE_IMAGE
from bayplan.support.system.process_ids import own_program

HOST, NAMESPACE = "host", "namespace"
OVERLAY, ROUTED = "overlay", "routed"
POD_NETWORK, PROXY, DNS, STORAGE = "network", "proxy", "dns", "storage"
ADD_ONS: Final = (POD_NETWORK, PROXY, DNS, STORAGE)
"""What a cluster has besides kubelets, unless it brings its own."""
RUNC, CRUN = "runc", "crun"
OCI_RUNTIMES: Final = (RUNC, CRUN)
"""Programs that start containers for containerd. Each is the handler of a RuntimeClass under its own name."""
REGISTRY_CONFIG: Final = Path("/etc/containerd/certs.d")
"""Where distributions put containerd's configuration of registries."""
_FIRST_HOST: Final = 11
_NETWORKS: Final = ipaddress.ip_network("10.64.0.0/16")
"""Where the IPv4 networks of nodes are taken from: one of 256 by the cluster's id."""
_IPV6_NETWORKS: Final = ipaddress.ip_network("fd64::/16")
"""Where their IPv6 networks are taken from: the cluster's id follows."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class RealNodeSettings:
    """How many nodes, and what they are like.

    directory: where containerd's images and the kubelets' files are kept, an absolute path. mode: `namespace` gives each node a network of its own, `host` takes
    the machine's (for one node). sandbox_image: the image of pods' sandboxes; the built-in one needs no registry. outbound: whether nodes and pods reach what the
    machine reaches. data_plane: how packets reach pods of other nodes, `routed` or `overlay`. registry_config: the directory that containerd's `config_path` names:
    a directory with a `hosts.toml` for each registry that has mirrors, certificates or headers. without: those of `ADD_ONS` that the cluster brings itself.
    oci_runtime: one of `OCI_RUNTIMES`, for pods that name no RuntimeClass; "" for the faster one that is installed.
    """

    count: int
    directory: Path
    mode: str = NAMESPACE
    sandbox_image: str = PAUSE_IMAGE
    outbound: bool = True
    runtime_directory: Path = Path("/run/bayplan")
    data_plane: str = ROUTED
    registry_config: Path = REGISTRY_CONFIG
    service_network: str = "10.96.0.0/16"
    cluster_domain: str = "cluster.local"
    pod_network: str = "10.128.0.0/9"
    without: frozenset[str] = frozenset()
    oci_runtime: str = ""
    kubelet: tuple[str, ...] = field(default_factory=lambda: own_program("kubelet"))

    def __post_init__(self) -> None:
        if not self.directory.is_absolute():
            raise ValueError(f"{self.directory}: files and mounts name it, so it has to be an absolute path")
        if self.mode not in (HOST, NAMESPACE):
            raise ValueError(f"the mode of real nodes is {HOST} or {NAMESPACE}, not {self.mode!r}")
        if self.data_plane not in (OVERLAY, ROUTED):
            raise ValueError(f"the network of real nodes is {OVERLAY} or {ROUTED}, not {self.data_plane!r}")
        if unknown := self.without.difference(ADD_ONS):
            raise ValueError(f"{', '.join(sorted(unknown))}: not one of {', '.join(ADD_ONS)}")
        if self.oci_runtime not in ("", *OCI_RUNTIMES):
            raise ValueError(f"the OCI runtime of real nodes is {RUNC} or {CRUN}, not {self.oci_runtime!r}")
        if self.mode == HOST and self.count > 1:
            raise ValueError(f"{self.count} real nodes need a network each: only one can have the machine's")
        services, pods = (
            [each.version for each in _networks(text)] for text in (self.service_network, self.pod_network)
        )
        if services[0] != pods[0] or not set(services) <= set(pods):
            raise ValueError(
                f"services ({self.service_network}) and pods ({self.pod_network}) differ in their IP versions: give both to --service-cluster-ip-range of the "
                "API server and --cluster-cidr of the controllers, the same one first"
            )
        if self.count > 200:
            raise ValueError(f"{self.count} real nodes are too many for one machine: at most 200")

    @property
    def id(self) -> str:
        """Six digits that tell this cluster's things from others' on the machine: the same for the same directory."""
        return hashlib.sha256(str(self.directory).encode()).hexdigest()[:6]

    @property
    def state(self) -> Path:
        """Where sockets and pid files are."""
        return self.runtime_directory / self.id

    @property
    def pod_networks(self) -> tuple[Network, ...]:
        """The networks of all pods, one of each IP version."""
        return _networks(self.pod_network)

    @property
    def versions(self) -> tuple[int, ...]:
        """The IP versions that nodes and pods have, 4 or 6 or both; the first is that of the API server's address."""
        return tuple(each.version for each in self.pod_networks)

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks of the nodes' addresses, one of each version."""
        id = int(self.id, 16)
        found: dict[int, Network] = {
            4: ipaddress.IPv4Network((int(_NETWORKS.network_address) + (id >> 16 << 8), 24)),
            6: ipaddress.IPv6Network((int(_IPV6_NETWORKS.network_address) + (id << 88), 64)),
        }
        return tuple(found[version] for version in self.versions)

    @property
    def bridge(self) -> str:
        """The bridge that the nodes are at."""
        return f"bp-{self.id}"

    @property
    def gateways(self) -> tuple[str, ...]:
        """The machine's addresses in the nodes' networks, where they find the API server; the first is the one that they use."""
        return tuple(str(each[1]) for each in self.networks)

    @property
    def cluster_dns(self) -> tuple[str, ...]:
        """The addresses of the cluster's DNS: the tenth of each of the services' networks, as usual."""
        return tuple(str(each[10]) for each in _networks(self.service_network))

    @property
    def cgroup(self) -> str:
        """The cgroup below which those of the nodes are."""
        return f"/bayplan-{self.id}"

    def nodes(self) -> list[NodePlace]:
        """The nodes."""
        return [NodePlace(self, number) for number in range(1, self.count + 1)]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where one node is. number: from 1."""

    settings: RealNodeSettings
    number: int

    @property
    def name(self) -> str:
        """The node's name in the API."""
        return f"real-{self.number}"

    @property
    def directory(self) -> Path:
        """What stays: images, volumes, logs."""
        return self.settings.directory / self.name

    @property
    def state(self) -> Path:
        """What does not: sockets, pid files. Short, as paths of sockets must be."""
        return self.settings.state / str(self.number)

    @property
    def cgroup(self) -> str:
        """The node's --cgroup-root."""
        return f"{self.settings.cgroup}/{self.name}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The node's addresses in namespace mode, one of each version."""
        return tuple(str(each[_FIRST_HOST + self.number - 1]) for each in self.settings.networks)

    @property
    def namespace(self) -> str:
        """The node's network namespace, as `ip netns` names it."""
        return f"bayplan-{self.settings.id}-{self.number}"

    @property
    def link(self) -> str:
        """The node's end of the bridge, on the machine's side."""
        return f"bp-{self.settings.id}-{self.number}"

    @property
    def cni_config(self) -> Path:
        """The directory of the node's networks."""
        return self.directory / "cni"


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(","))
