"""What is kept of Pods and NetworkPolicies: little, compared by value, so that changes of the rest cost nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bayplan.api.selectors.labels import LabelSelector, SelectorError, compile_selector
from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family, Range, canonical_address, family_of, merged, network_range, without

_FINISHED: Final = ("Succeeded", "Failed")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


class ContainerPort(NamedTuple):
    """A port of a container that has a name."""

    name: str
    protocol: str
    number: int


class PodEntry(NamedTuple):
    """A pod with an address of its own, or one of this node that is going to have one."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    addresses: tuple[str, ...]
    """Canonical, of both families; none while the pod starts."""
    is_local: bool
    """Whether it is a pod of this node."""
    ports: tuple[ContainerPort, ...]
    created: str
    """Time of creation: of pods with equal addresses the newest has it."""


class PodSelection(NamedTuple):
    """Pods of one namespace, or of all that a selector chooses."""

    namespace: str
    """The policy's own, if `namespaces` is None."""
    namespaces: LabelSelector | None
    pods: LabelSelector

    @property
    def text(self) -> str:
        """Equal for equal selections only."""
        return f"{self.namespace}|{self.namespaces}|{self.namespaces is None}|{self.pods}"


class Peers(NamedTuple):
    """The other side of a rule: pods and addresses."""

    selections: tuple[PodSelection, ...]
    """Each once, in the order of their texts."""
    blocks: Mapping[Family, tuple[Range, ...]]
    """What all `ipBlock`s of the rule leave, exceptions taken out."""


class PortMatch(NamedTuple):
    """Ports of one protocol. Without ranges and names: all of them."""

    protocol: str
    ranges: tuple[Range, ...]
    names: tuple[str, ...]


class Rule(NamedTuple):
    """What a rule allows. None stands for all peers, and for all protocols and ports."""

    peers: Peers | None
    ports: tuple[PortMatch, ...] | None


class PolicyEntry(NamedTuple):
    """A NetworkPolicy."""

    namespace: str
    name: str
    pods: LabelSelector
    ingress: tuple[Rule, ...] | None
    """None if it does not isolate pods for ingress."""
    egress: tuple[Rule, ...] | None
    problems: tuple[str, ...]
    """What of it cannot be enforced; such a part allows nothing."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def pod_entry(pod: core_v1.Pod, node_name: str) -> PodEntry | None:
    """What is kept of a pod; None if policies do not concern it: it has finished, or it has its node's network, or its address is unknown."""
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    if spec.host_network or status.phase in _FINISHED:
        return None
    texts = [one.ip for one in status.pod_ips] or ([status.pod_ip] if status.pod_ip else [])
    addresses = tuple(address for address in map(canonical_address, texts) if address is not None)
    is_local = spec.node_name == node_name
    if not addresses and not is_local:
        return None
    ports = _container_ports(spec)
    created = metadata.creation_timestamp or ""
    return PodEntry(metadata.namespace, metadata.name, metadata.labels, addresses, is_local, ports, created)


def _container_ports(spec: core_v1.PodSpec) -> tuple[ContainerPort, ...]:
    """Named ports of containers and sidecars; the first of equal names counts, as for services."""
    containers = [*spec.containers, *(one for one in spec.init_containers if one.restart_policy == "Always")]
    found: dict[tuple[str, str], ContainerPort] = {}
    for container in containers:
        for port in container.ports:
            protocol = port.protocol or "TCP"
            if port.name:
                found.setdefault((port.name, protocol), ContainerPort(port.name, protocol, port.container_port))
    return tuple(found.values())


def policy_entry(policy: networking_v1.NetworkPolicy) -> PolicyEntry | None:
    """What is kept of a policy; None if nobody can say which pods it selects."""
    spec, metadata = policy.spec, policy.metadata
    try:
        pods = compile_selector(spec.pod_selector)
    except SelectorError:
        return None
    types = spec.policy_types or ("Ingress", *(("Egress",) if spec.egress else ()))
    problems: list[str] = []
    ingress = [_rule(metadata.namespace, one.from_, one.ports, problems) for one in spec.ingress]
    egress = [_rule(metadata.namespace, one.to, one.ports, problems) for one in spec.egress]
    return PolicyEntry(
        metadata.namespace,
        metadata.name,
        pods,
        tuple(ingress) if "Ingress" in types else None,
        tuple(egress) if "Egress" in types else None,
        tuple(problems),
    )


def _rule(
    namespace: str,
    peers: tuple[networking_v1.NetworkPolicyPeer, ...],
    ports: tuple[networking_v1.NetworkPolicyPort, ...],
    problems: list[str],
) -> Rule:
    return Rule(_peers(namespace, peers, problems) if peers else None, _ports(ports, problems) if ports else None)


def _peers(namespace: str, peers: Iterable[networking_v1.NetworkPolicyPeer], problems: list[str]) -> Peers:
    selections: set[PodSelection] = set()
    ranges: dict[Family, list[Range]] = {}
    for peer in peers:
        try:
            if peer.ip_block is not None:
                family = family_of(peer.ip_block.cidr)
                ranges.setdefault(family, []).extend(_block(peer.ip_block))
            else:
                selections.add(_selection(namespace, peer))
        except (SelectorError, ValueError) as error:
            problems.append(str(error))
    ordered = tuple(sorted(selections, key=lambda one: one.text))
    return Peers(ordered, {family: merged(found) for family, found in ranges.items()})


def _block(block: networking_v1.IPBlock) -> list[Range]:
    return without(network_range(block.cidr), [network_range(one) for one in block.except_])


def _selection(namespace: str, peer: networking_v1.NetworkPolicyPeer) -> PodSelection:
    if peer.pod_selector is None and peer.namespace_selector is None:
        raise ValueError("a peer has none of podSelector, namespaceSelector and ipBlock")
    pods = compile_selector(peer.pod_selector) if peer.pod_selector is not None else LabelSelector()
    if peer.namespace_selector is None:
        return PodSelection(namespace, None, pods)
    return PodSelection("", compile_selector(peer.namespace_selector), pods)


def _ports(ports: Iterable[networking_v1.NetworkPolicyPort], problems: list[str]) -> tuple[PortMatch, ...]:
    ranges: dict[str, list[Range]] = {}
    names: dict[str, set[str]] = {}
    every: set[str] = set()
    for port in ports:
        protocol = port.protocol or "TCP"
        if protocol not in _PROTOCOLS:
            problems.append(f"protocol {protocol!r} is none of {', '.join(_PROTOCOLS)}")
        elif port.port is None:
            every.add(protocol)
        elif isinstance(port.port, str):
            names.setdefault(protocol, set()).add(port.port)
        else:
            ranges.setdefault(protocol, []).append((port.port, port.end_port or port.port))
    found = []
    for protocol in _PROTOCOLS:
        if protocol in every:
            found.append(PortMatch(protocol, (), ()))
        elif protocol in ranges or protocol in names:
            found.append(PortMatch(protocol, merged(ranges.get(protocol, ())), tuple(sorted(names.get(protocol, ())))))
    return tuple(found)
