"""KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): the file that `bayplan proxy --config` reads, with Kubernetes' defaults. Pure but for `load`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.proxy.errors import ConfigurationError
from bayplan.support.configuration import Duration, convert

API_VERSION: Final = "kubeproxy.config.k8s.io/v1alpha1"
KIND: Final = "KubeProxyConfiguration"
PRIMARY: Final = "primary"
"""Of `nodePortAddresses`: the node's addresses by its Node object."""
HEALTHZ_PORT: Final = 10256
METRICS_PORT: Final = 10249


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A part of the configuration."""


class ClientConnection(_Part):
    """How to reach the API server. Content types and rates have no effect."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 5.0
    burst: int = 10


class NftablesConfiguration(_Part):
    """Rules and when they are written."""

    masquerade_bit: int | None = 14
    masquerade_all: bool = False
    sync_period: Duration = Duration(30)
    min_sync_period: Duration = Duration(1)


class IptablesConfiguration(_Part):
    """Of another mode: no effect."""

    masquerade_bit: int | None = 14
    masquerade_all: bool = False
    localhost_node_ports: bool | None = True
    sync_period: Duration = Duration(30)
    min_sync_period: Duration = Duration(1)


class IpvsConfiguration(_Part):
    """Of another mode: no effect."""

    sync_period: Duration = Duration(30)
    min_sync_period: Duration = Duration(0)
    scheduler: str = ""
    exclude_cidrs: list[str] | None = msgspec.field(default=None, name="excludeCIDRs")
    strict_arp: bool = msgspec.field(default=False, name="strictARP")
    tcp_timeout: Duration = Duration(0)
    tcp_fin_timeout: Duration = Duration(0)
    udp_timeout: Duration = Duration(0)


class WinkernelConfiguration(_Part):
    """Of Windows: no effect."""

    network_name: str = ""
    source_vip: str = ""
    enable_dsr: bool = msgspec.field(default=False, name="enableDSR")
    root_hns_endpoint_name: str = ""
    forward_health_check_vip: bool = False


class DetectLocal(_Part):
    """What `detectLocalMode` needs besides."""

    bridge_interface: str = ""
    interface_name_prefix: str = ""


class ConntrackConfiguration(_Part):
    """Connection tracking of the kernel; 0 leaves a value as it is."""

    max_per_core: int | None = 32 * 1024
    min: int | None = 128 * 1024
    tcp_established_timeout: Duration | None = Duration(24 * 3600)
    tcp_close_wait_timeout: Duration | None = Duration(3600)
    tcp_be_liberal: bool = False
    udp_timeout: Duration = Duration(0)
    udp_stream_timeout: Duration = Duration(0)


class KubeProxyConfiguration(_Part):
    """The fields that have an effect, and those that Kubernetes has besides, so that its files load. Times are seconds."""

    api_version: str = API_VERSION
    kind: str = KIND
    feature_gates: dict[str, bool] = {}
    client_connection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    logging: dict[str, Any] = {}
    hostname_override: str = ""
    bind_address: str = ""
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    bind_address_hard_fail: bool = False
    enable_profiling: bool = False
    show_hidden_metrics_for_version: str = ""
    mode: str = ""
    iptables: IptablesConfiguration = msgspec.field(default_factory=IptablesConfiguration)
    ipvs: IpvsConfiguration = msgspec.field(default_factory=IpvsConfiguration)
    nftables: NftablesConfiguration = msgspec.field(default_factory=NftablesConfiguration)
    winkernel: WinkernelConfiguration = msgspec.field(default_factory=WinkernelConfiguration)
    detect_local_mode: str = ""
    detect_local: DetectLocal = msgspec.field(default_factory=DetectLocal)
    cluster_cidr: str = msgspec.field(default="", name="clusterCIDR")
    node_port_addresses: list[str] = []
    oom_score_adj: int | None = -999
    conntrack: ConntrackConfiguration = msgspec.field(default_factory=ConntrackConfiguration)
    config_sync_period: Duration = Duration(900)
    port_range: str = ""
    windows_run_as_service: bool = False

    @property
    def cluster_cidrs(self) -> list[str]:
        """Ranges of all pods of the cluster."""
        return [one.strip() for one in self.cluster_cidr.split(",")] if self.cluster_cidr else []

    def complete(self) -> None:
        """Fill in the defaults that depend on other fields, and those of values that Kubernetes takes for none."""
        self.mode = self.mode or "nftables"
        self.bind_address = self.bind_address or "0.0.0.0"
        any_address, loopback = ("[::]", "[::1]") if ":" in self.bind_address else ("0.0.0.0", "127.0.0.1")
        self.healthz_bind_address = _with_port(self.healthz_bind_address or any_address, HEALTHZ_PORT)
        self.metrics_bind_address = _with_port(self.metrics_bind_address or loopback, METRICS_PORT)
        self.detect_local_mode = self.detect_local_mode or "ClusterCIDR"
        self.node_port_addresses = self.node_port_addresses or [PRIMARY]
        nftables = self.nftables
        nftables.sync_period = nftables.sync_period or Duration(30)
        nftables.min_sync_period = nftables.min_sync_period or Duration(1)
        if nftables.masquerade_bit is None:
            nftables.masquerade_bit = 14
        self.config_sync_period = self.config_sync_period or Duration(900)


def _with_port(address: str, port: int) -> str:
    """`ADDRESS:PORT`; an address that has a port keeps it, and what is no address stays as it is for validation to tell."""
    if address.startswith("["):
        return address if "]:" in address else f"{address}:{port}"
    if address.count(":") > 1:
        return f"[{address}]:{port}"
    return address if ":" in address else f"{address}:{port}"


def from_tree(tree: Any, source: str) -> KubeProxyConfiguration:
    """A complete, valid configuration from what a file holds. source: the file, for errors. Raises ConfigurationError."""
    from bayplan.proxy.validation import configuration_errors

    if not isinstance(tree, dict) or tree.get("kind") != KIND or tree.get("apiVersion") != API_VERSION:
        raise ConfigurationError(f"{source}: expected kind {KIND} of {API_VERSION}")
    try:
        found = convert(_without_nulls(tree), KubeProxyConfiguration)
    except ValueError as error:
        raise ConfigurationError(f"{source}: {error}") from error
    found.complete()
    errors = configuration_errors(found)
    if errors:
        raise ConfigurationError(f"{source}: {'; '.join(errors)}")
    return found


def _without_nulls(tree: dict[str, Any]) -> dict[str, Any]:
    """null stands for a field that is not given."""
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in tree.items()
        if value is not None
    }


def read_tree(path: Path | None) -> dict[str, Any]:
    """What a file holds; an empty configuration without one. Raises ConfigurationError."""
    if path is None:
        return {"apiVersion": API_VERSION, "kind": KIND}
    import yaml  # slow to import

    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path}: expected kind {KIND} of {API_VERSION}")
    return tree
