"""What values of a KubeProxyConfiguration make no sense, as kube-proxy says it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bayplan.proxy.families import canonical, canonical_range, family_of

if TYPE_CHECKING:
    from bayplan.proxy.configuration import KubeProxyConfiguration

_LOCAL_MODES: Final = ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
_OTHER_MODES: Final = ("iptables", "ipvs", "kernelspace")
_INTERFACE: Final = re.compile(r"[^\s/\"*:]{1,15}", re.ASCII)
"""What the kernel takes as an interface's name, without what has a meaning in rules."""


def configuration_errors(configuration: KubeProxyConfiguration) -> list[str]:
    """Every field that has a wrong value: `FIELD: VALUE: WHY`. The configuration must be complete."""
    return [
        *_mode_errors(configuration),
        *_nftables_errors(configuration),
        *_address_errors(configuration),
        *_local_errors(configuration),
        *_conntrack_errors(configuration),
    ]


def _mode_errors(configuration: KubeProxyConfiguration) -> Iterator[str]:
    mode = configuration.mode
    if mode in _OTHER_MODES:
        yield f"mode: {mode!r}: bayplan proxy has the mode nftables only; leave the field away, or run kube-proxy"
    elif mode != "nftables":
        yield f"mode: {mode!r}: must be nftables or blank"


def _nftables_errors(configuration: KubeProxyConfiguration) -> Iterator[str]:
    nftables = configuration.nftables
    bits = {
        "iptables.masqueradeBit": configuration.iptables.masquerade_bit,
        "nftables.masqueradeBit": nftables.masquerade_bit,
    }
    for name, bit in bits.items():
        if bit is not None and not 0 <= bit <= 31:
            yield f"{name}: {bit}: must be within the range [0, 31]"
    if nftables.min_sync_period > nftables.sync_period:
        yield "nftables.syncPeriod: must be greater than or equal to nftables.minSyncPeriod"
    if configuration.client_connection.burst < 0:
        yield f"clientConnection.burst: {configuration.client_connection.burst}: must be greater than or equal to 0"


def _address_errors(configuration: KubeProxyConfiguration) -> Iterator[str]:
    if canonical(configuration.bind_address) is None:
        yield f"bindAddress: {configuration.bind_address!r}: not a valid textual representation of an IP address"
    yield from _host_port_errors("healthzBindAddress", configuration.healthz_bind_address)
    yield from _host_port_errors("metricsBindAddress", configuration.metrics_bind_address)
    ranges = configuration.node_port_addresses
    for index, one in enumerate(ranges):
        if one == "primary":
            if len(ranges) != 1:
                yield f"nodePortAddresses[{index}]: {one!r}: can't use both 'primary' and CIDRs"
        elif canonical_range(one) is None:
            yield f"nodePortAddresses[{index}]: {one!r}: must be a valid CIDR"


def _host_port_errors(field: str, text: str) -> Iterator[str]:
    """Of `ADDRESS:PORT`; a port may be 0 for one that is free, which kube-proxy does not take."""
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host) != is_bracketed:
        yield f"{field}: {text!r}: must be IP:port"
        return
    if canonical(host.removeprefix("[").removesuffix("]")) is None:
        yield f"{field}: {host!r}: must be a valid IP"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        yield f"{field}: {port!r}: must be a valid port"


def _local_errors(configuration: KubeProxyConfiguration) -> Iterator[str]:
    mode, local = configuration.detect_local_mode, configuration.detect_local
    if mode not in _LOCAL_MODES:
        yield f"detectLocalMode: {mode!r}: must be one of {', '.join(_LOCAL_MODES)} or blank"
    elif mode == "BridgeInterface":
        yield from _interface_errors("detectLocal.bridgeInterface", local.bridge_interface)
    elif mode == "InterfaceNamePrefix":
        yield from _interface_errors("detectLocal.interfaceNamePrefix", local.interface_name_prefix)
    elif mode == "ClusterCIDR":
        yield from _range_errors("clusterCIDR", configuration.cluster_cidrs)


def _interface_errors(field: str, name: str) -> Iterator[str]:
    if not name:
        yield f"{field}: must not be empty"
    elif not _INTERFACE.fullmatch(name):
        yield f"{field}: {name!r}: must be the name of an interface"


def _range_errors(field: str, ranges: list[str]) -> Iterator[str]:
    found = [canonical_range(one) for one in ranges]
    for text, one in zip(ranges, found, strict=True):
        if one is None:
            yield f"{field}: {text!r}: must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"
    families = [family_of(one) for one in found if one is not None]
    if len(ranges) > 2 or len(set(families)) < len(families):
        yield f"{field}: must be a single CIDR or a dual-stack pair of CIDRs (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)"


def _conntrack_errors(configuration: KubeProxyConfiguration) -> Iterator[str]:
    conntrack = configuration.conntrack
    for name, number in (("maxPerCore", conntrack.max_per_core), ("min", conntrack.min)):
        if number is not None and number < 0:
            yield f"conntrack.{name}: {number}: must be greater than or equal to 0"
    adjustment = configuration.oom_score_adj
    if adjustment is not None and not -1000 <= adjustment <= 1000:
        yield f"oomScoreAdj: {adjustment}: must be within the range [-1000, 1000]"
