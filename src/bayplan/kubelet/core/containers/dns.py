"""The resolv.conf of a pod (pkg/kubelet/network/dns)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.types import DnsConfig

MOST_SERVERS = 3
MOST_SEARCHES = 32
MOST_SEARCH_CHARACTERS = 2048
_LONGEST_DOMAIN = 253
_CLUSTER_OPTIONS = ("ndots:5",)


@dataclass(frozen=True, slots=True)
class NodeDns:
    """What the node knows: the cluster's DNS, and the node's own resolv.conf (None where it has none)."""

    cluster_servers: tuple[str, ...] = ()
    cluster_domain: str = ""
    own: DnsConfig | None = None
    node_ips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodDns:
    """The configuration, and warnings: (reason, message) of events about the pod."""

    config: DnsConfig
    warnings: tuple[tuple[str, str], ...] = ()


def parse_resolv_conf(text: str) -> DnsConfig:
    """A resolv.conf: name servers, the last search line, options."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0] == "nameserver" and len(fields) > 1:
            servers.append(fields[1])
        elif fields[0] == "search":
            searches = [each.removesuffix(".") for each in fields[1:] if each != "."]
        elif fields[0] == "options":
            options.update((each.split(":")[0], each) for each in fields[1:])
    return DnsConfig(tuple(servers), tuple(searches), tuple(options.values()))


def pod_dns(pod: core_v1.Pod, node: NodeDns, description: str) -> PodDns:
    """The resolv.conf of a pod. description: the pod as messages name it."""
    own = node.own or DnsConfig()
    policy = pod.spec.dns_policy
    warnings: list[tuple[str, str]] = []
    clustered = policy not in ("None", "Default") and not (policy == "ClusterFirst" and pod.spec.host_network)
    if clustered and not node.cluster_servers:
        text = (
            'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
            'Falling back to "Default" policy.'
        )
        warnings.append(("MissingClusterDNS", f'pod: "{description}". {text}'))
        clustered = False
    if policy == "None":
        base = DnsConfig()
    elif clustered:
        base = DnsConfig(node.cluster_servers, _cluster_searches(pod, node.cluster_domain, own), _CLUSTER_OPTIONS)
    elif node.own is None:
        local = tuple("::1" if ":" in ip else "127.0.0.1" for ip in node.node_ips) or ("127.0.0.1",)
        base = DnsConfig(local, (".",))
    else:
        base = own
    if pod.spec.dns_config is not None:
        base = _with_config(base, pod.spec.dns_config)
    servers = base.servers
    if len(servers) > MOST_SERVERS:
        servers = servers[:MOST_SERVERS]
        text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
        warnings.append(("DNSConfigForming", text + " ".join(servers)))
    searches = _fitting(base.searches)
    if len(searches) < len(base.searches):
        text = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
        warnings.append(("DNSConfigForming", text + " ".join(searches)))
    return PodDns(DnsConfig(servers, searches, base.options), tuple(warnings))


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _cluster_searches(pod: core_v1.Pod, domain: str, own: DnsConfig) -> tuple[str, ...]:
    if not domain:
        return own.searches
    return _unique((f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *own.searches))


def _with_config(base: DnsConfig, wanted: core_v1.PodDNSConfig) -> DnsConfig:
    options = dict(each.partition(":")[::2] for each in base.options)
    options.update((each.name, each.value or "") for each in wanted.options)
    return DnsConfig(
        _unique((*base.servers, *wanted.nameservers)),
        _unique((*base.searches, *wanted.searches)),
        tuple(f"{name}:{value}" if value else name for name, value in options.items()),
    )


def _fitting(searches: Sequence[str]) -> tuple[str, ...]:
    """As many search paths as fit into a resolv.conf."""
    kept = [each for each in searches[:MOST_SEARCHES] if len(each) <= _LONGEST_DOMAIN]
    while len(" ".join(kept)) > MOST_SEARCH_CHARACTERS:
        kept.pop()
    return tuple(kept)
