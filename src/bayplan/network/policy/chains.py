"""The rules by which a table judges connections. Pure.

Packets of both directions are judged by what conntrack knows of their connection: its client is the original source (before source NAT), its server the source
of replies (after destination NAT). So one rule serves both directions, and a connection that is no longer allowed ends in both.

A chain holds what several policies allow to pods in one direction. It is named after its rules: pods with equal rules share it, and it never changes. Example,
for pods that a policy opens to some pods on TCP port 80, and that another one isolates:

    chain ingress-3f9a... {
        ct original ip saddr . ct reply ip saddr @self return
        ct original ip saddr @pods-51c0... ct protocol tcp ct reply proto-src 80 return comment "shop/web"
        counter drop
    }
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from bayplan.network.policy.addresses import Family, number_range_text, range_text
from bayplan.network.policy.objects import Peers, PodSelection, PolicyEntry, PortMatch, Rule

_LONGEST_COMMENT: Final = 120


class Direction(StrEnum):
    """A side of a connection that policies judge: its client's or its server's."""

    INGRESS = "ingress"
    EGRESS = "egress"

    def rules(self, policy: PolicyEntry) -> tuple[Rule, ...] | None:
        """What a policy says of this direction; None if it does not isolate."""
        return policy.ingress if self is Direction.INGRESS else policy.egress


class PeerPods(NamedTuple):
    """The set of addresses of pods that any of the selections chooses."""

    selections: tuple[PodSelection, ...]

    @property
    def name(self) -> str:
        """The set's name: equal ones share a set."""
        return f"pods-{_digest(one.text for one in self.selections)}"


class NamedPorts(NamedTuple):
    """The set of addresses and ports of pods that have a port of this name."""

    protocol: str
    port_name: str
    local_only: bool
    """Whether pods of other nodes do not matter, as for ingress."""

    @property
    def name(self) -> str:
        """The set's name."""
        return f"{'local' if self.local_only else 'named'}-{self.protocol.lower()}-{_digest([self.port_name])}"


class FixedSet(NamedTuple):
    """A set whose elements never change: ranges of addresses, or of ports."""

    kind: str
    """`blocks` or `ports`."""
    elements: tuple[str, ...]

    @property
    def name(self) -> str:
        """The set's name."""
        return f"{self.kind}-{_digest(self.elements)}"


SetKey = PeerPods | NamedPorts | FixedSet


def set_header(key: SetKey, family: Family) -> str:
    """Type and flags of a set."""
    match key:
        case PeerPods():
            return f"type {family.type}"
        case NamedPorts():
            return f"type {family.type} . inet_service"
        case FixedSet("blocks"):
            return f"type {family.type}; flags interval"
        case FixedSet():
            return "type inet_service; flags interval"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


class Condition(NamedTuple):
    """A part of a rule. The text is empty if it is always met."""

    text: str
    key: SetKey | None = None


class Line(NamedTuple):
    """A rule that allows, and the sets that it names."""

    text: str
    keys: tuple[SetKey, ...]


@dataclass(frozen=True, slots=True)
class PodChain:
    """What pods are allowed in one direction by all policies that select them."""

    name: str
    rules: tuple[str, ...]
    keys: frozenset[SetKey]


def pod_chain(
    direction: Direction, policies: Iterable[tuple[str, tuple[Line, ...]]], family: Family
) -> PodChain | None:
    """The chain of pods that policies isolate, given with what each allows; None if together they allow everything."""
    allowed: dict[str, str] = {}
    keys: set[SetKey] = set()
    for policy, lines in policies:
        for line in lines:
            if not line.text:
                return None
            if line.text not in allowed:
                allowed[line.text] = policy[:_LONGEST_COMMENT]
                keys.update(line.keys)
    rules = (
        f"ct original {family} saddr . ct reply {family} saddr @self return",
        *(f'{text} return comment "{comment}"' for text, comment in allowed.items()),
        "counter drop",
    )
    return PodChain(f"{direction}-{_digest(rules)}", rules, frozenset(keys))


def policy_lines(direction: Direction, policy: PolicyEntry, family: Family) -> tuple[Line, ...]:
    """What a policy allows in a direction. A line without text allows everything."""
    return tuple(
        Line(" ".join(filter(None, (peer.text, port.text))), tuple(one for one in (peer.key, port.key) if one))
        for rule in direction.rules(policy) or ()
        for peer in _peer_conditions(direction, rule.peers, family)
        for port in _port_conditions(direction, rule.ports, family)
    )


def _peer_conditions(direction: Direction, peers: Peers | None, family: Family) -> Iterator[Condition]:
    ranges = peers.blocks.get(family, ()) if peers is not None else ()
    if peers is None or ranges == ((0, family.last),):
        yield Condition("")
        return
    side = "original" if direction is Direction.INGRESS else "reply"
    if peers.selections:
        yield _member(f"ct {side} {family} saddr", PeerPods(peers.selections))
    if ranges:
        elements = tuple(range_text(one, family) for one in ranges)
        yield _within(f"ct {side} {family} saddr", FixedSet("blocks", elements))


def _port_conditions(direction: Direction, ports: tuple[PortMatch, ...] | None, family: Family) -> Iterator[Condition]:
    if ports is None:
        yield Condition("")
        return
    for port in ports:
        protocol = f"ct protocol {port.protocol.lower()}"
        if not port.ranges and not port.names:
            yield Condition(protocol)
        if port.ranges:
            elements = tuple(map(number_range_text, port.ranges))
            yield _within(f"{protocol} ct reply proto-src", FixedSet("ports", elements))
        for name in port.names:
            key = NamedPorts(port.protocol, name, direction is Direction.INGRESS)
            yield _member(f"{protocol} ct reply {family} saddr . ct reply proto-src", key)


def _member(expression: str, key: SetKey) -> Condition:
    return Condition(f"{expression} @{key.name}", key)


def _within(expression: str, key: FixedSet) -> Condition:
    """In one of the ranges. A single one needs no set: each set costs nft time in all later transactions."""
    return Condition(f"{expression} {key.elements[0]}") if len(key.elements) == 1 else _member(expression, key)
