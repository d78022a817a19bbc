"""What network policies mean, written from the field documentation of networking.k8s.io/v1 alone. Slow and plain, on API objects."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from bayplan.api.types import core_v1, meta_v1, networking_v1

Pods = Sequence[core_v1.Pod]
Policies = Sequence[networking_v1.NetworkPolicy]
Namespaces = Sequence[core_v1.Namespace]


def allowed(
    source: str, target: str, port: int, protocol: str, policies: Policies, pods: Pods, namespaces: Namespaces
) -> bool:
    """Whether a connection between two addresses may be made. What nodes do with their own pods is not looked at."""
    client, server = pod_of(source, pods), pod_of(target, pods)
    if client is not None and client is server:
        return True  # "a Pod cannot block access to itself"
    if client is not None:
        isolating = [one for one in policies if isolates(one, client, "Egress")]
        rules = [(one.metadata.namespace, rule.to, rule.ports) for one in isolating for rule in one.spec.egress]
        if isolating and not any(
            peers_match(to, space, target, server, namespaces) and ports_match(ports, port, protocol, server)
            for space, to, ports in rules
        ):
            return False
    if server is not None:
        isolating = [one for one in policies if isolates(one, server, "Ingress")]
        sources = [(one.metadata.namespace, rule.from_, rule.ports) for one in isolating for rule in one.spec.ingress]
        if isolating and not any(
            peers_match(from_, space, source, client, namespaces) and ports_match(ports, port, protocol, server)
            for space, from_, ports in sources
        ):
            return False
    return True


def pod_of(address: str, pods: Pods) -> core_v1.Pod | None:
    """The pod with an address of its own."""
    for pod in pods:
        ended = pod.status.phase in ("Succeeded", "Failed")
        if not pod.spec.host_network and not ended and address in [one.ip for one in pod.status.pod_ips]:
            return pod
    return None


def isolates(policy: networking_v1.NetworkPolicy, pod: core_v1.Pod, kind: str) -> bool:
    """Whether a policy selects a pod, for a direction."""
    types = list(policy.spec.policy_types)
    if not types:
        types = ["Ingress", "Egress"] if policy.spec.egress else ["Ingress"]
    same = policy.metadata.namespace == pod.metadata.namespace
    return kind in types and same and labels_match(policy.spec.pod_selector, pod.metadata.labels)


def peers_match(
    peers: Sequence[networking_v1.NetworkPolicyPeer],
    namespace: str,
    address: str,
    pod: core_v1.Pod | None,
    namespaces: Namespaces,
) -> bool:
    """Whether the other side is one of a rule's peers."""
    return not peers or any(peer_matches(one, namespace, address, pod, namespaces) for one in peers)


def peer_matches(
    peer: networking_v1.NetworkPolicyPeer, namespace: str, address: str, pod: core_v1.Pod | None, namespaces: Namespaces
) -> bool:
    """Whether the other side is what one peer describes."""
    if peer.ip_block is not None:
        here = ipaddress.ip_address(address)
        inside = here in ipaddress.ip_network(peer.ip_block.cidr)
        return inside and not any(here in ipaddress.ip_network(one) for one in peer.ip_block.except_)
    if pod is None:
        return False
    if peer.namespace_selector is None:
        if pod.metadata.namespace != namespace:
            return False
    else:
        found = [one.metadata.labels for one in namespaces if one.metadata.name == pod.metadata.namespace]
        if not found or not labels_match(peer.namespace_selector, found[0]):
            return False
    return peer.pod_selector is None or labels_match(peer.pod_selector, pod.metadata.labels)


def ports_match(
    ports: Sequence[networking_v1.NetworkPolicyPort], number: int, protocol: str, server: core_v1.Pod | None
) -> bool:
    """Whether a rule covers a port of the server."""
    if not ports:
        return True
    for port in ports:
        if (port.protocol or "TCP") != protocol:
            continue
        if port.port is None:
            return True
        if isinstance(port.port, int):
            if port.port <= number <= (port.end_port or port.port):
                return True
        elif server is not None:
            for container in server.spec.containers:
                for one in container.ports:
                    if (one.name, one.protocol, one.container_port) == (port.port, protocol, number):
                        return True
    return False


def labels_match(selector: meta_v1.LabelSelector, labels: dict[str, str]) -> bool:
    """Whether labels are selected."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for one in selector.match_expressions:
        value = labels.get(one.key)
        if one.operator == "In" and value not in one.values:
            return False
        if one.operator == "NotIn" and value is not None and value in one.values:
            return False
        if one.operator == "Exists" and value is None:
            return False
        if one.operator == "DoesNotExist" and value is not None:
            return False
    return True
