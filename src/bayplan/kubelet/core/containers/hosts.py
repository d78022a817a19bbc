"""A pod's name on the network, and its /etc/hosts (pkg/kubelet/kubelet_pods.go)."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.types import core_v1

_LONGEST = 63
"""Characters of a host name in the kernel."""
_HEADER = "# Kubernetes-managed hosts file.\n"
_HEADER_HOST = "# Kubernetes-managed hosts file (host network).\n"
_USUAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


class HostnameError(Exception):
    """A pod's host name is impossible."""


def hostname_and_domain(pod: core_v1.Pod, cluster_domain: str) -> tuple[str, str]:
    """(host name, domain): the domain is empty without a subdomain."""
    spec = pod.spec
    if spec.hostname_override is not None:
        return _cut(spec.hostname_override), ""
    name = _cut(spec.hostname or pod.metadata.name)
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}" if spec.subdomain else ""
    return name, domain


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[:_LONGEST].rstrip("-.")


def kernel_hostname(pod: core_v1.Pod, cluster_domain: str) -> str:
    """What `hostname` says in the pod. Raises HostnameError."""
    name, domain = hostname_and_domain(pod, cluster_domain)
    if not pod.spec.set_hostname_as_fqdn or not domain:
        return name
    full = f"{name}.{domain}"
    if len(full) > 64:
        raise HostnameError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
            f"(64 is the max characters, {len(full)} characters requested)"
        )
    return full


def hosts_file(pod: core_v1.Pod, ips: Iterable[str], cluster_domain: str) -> str:
    """/etc/hosts of a pod with a network of its own."""
    name, domain = hostname_and_domain(pod, cluster_domain)
    names = f"{name}.{domain}\t{name}" if domain else name
    own = "".join(f"{ip}\t{names}\n" for ip in ips)
    return f"{_HEADER}{_USUAL}{own}{_aliases(pod)}"


def host_network_hosts_file(pod: core_v1.Pod, node_file: str) -> str:
    """/etc/hosts of a pod in the node's network. node_file: that of the node."""
    return f"{_HEADER_HOST}{node_file}{_aliases(pod)}"


def _aliases(pod: core_v1.Pod) -> str:
    if not pod.spec.host_aliases:
        return ""
    tab = "\t"
    lines = "".join(f"{each.ip}\t{tab.join(each.hostnames)}\n" for each in pod.spec.host_aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"
