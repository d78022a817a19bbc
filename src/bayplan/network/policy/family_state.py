"""The table of one address family, kept equal to what pods and policies say. Pure.

Two maps lead from the addresses of this node's isolated pods to their chains; packets of other pods cost two look-ups that find nothing. A chain is there while
an address needs it, a set while a chain names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bayplan.network.policy.addresses import Family, family_of
from bayplan.network.policy.chains import (
    Direction,
    FixedSet,
    Line,
    NamedPorts,
    PeerPods,
    PodChain,
    SetKey,
    pod_chain,
    policy_lines,
    set_header,
)
from bayplan.network.policy.objects import PodEntry, PolicyEntry
from bayplan.network.policy.pod_sets import Namespaces, PodSets
from bayplan.network.policy.table import Table

SELF: Final = "self"
"""The set of pairs of an isolated pod's address with itself: pods may reach themselves through a service."""
LOCAL: Final = "local"
"""The set of all known addresses of this node's pods."""
_NEIGHBORS: Final = "icmpv6 type { 130-137, 143 } return"
"""Neighbor discovery and multicast listeners, which never leave a link: without them no IPv6 pod finds its node."""
_HOOK: Final = "type filter hook {} priority filter; policy accept;"

Policies = Mapping[Direction, Sequence[PolicyEntry]]
"""The policies that isolate a pod, for each direction in which it is isolated."""


class FamilyState:
    """What the table of a family has to be."""

    def __init__(self, family: Family, namespaces: Namespaces) -> None:
        self.family = family
        self.table = Table(family)
        self.pods = PodSets(self.table, family, namespaces)
        self.touched: set[str] = set()
        """Addresses of this node's pods whose chains may be others now."""
        self._assigned: dict[str, dict[Direction, str]] = {}
        """Address -> direction -> name of its chain."""
        self._selecting: dict[str, Policies] = {}
        """Address -> the policies that isolate its pod."""
        self._reassigned = False
        """Whether that has changed since problems were last looked for."""
        self._unmatched: frozenset[NamedPorts] = frozenset()
        self._problems: list[str] = []
        self._chain_uses: Counter[str] = Counter()
        self._chain_keys: dict[str, frozenset[SetKey]] = {}
        self._set_uses: Counter[SetKey] = Counter()
        self._lines: dict[tuple[str, Direction], tuple[Line, ...]] = {}
        """Policy and direction -> what it allows."""
        self._built: dict[tuple[Direction, tuple[str, ...]], PodChain | None] = {}
        """Direction and policies -> chain, since a policy has last changed."""
        _add_frame(self.table)

    @property
    def isolated(self) -> int:
        """How many addresses have chains."""
        return len(self._assigned)

    def replace_pod(self, old: PodEntry | None, new: PodEntry | None) -> None:
        """A pod comes, changes or goes."""
        local = self.table.sets[LOCAL].elements
        for address in self.pods.replace_pod(old, new):
            owner = self.pods.owners.get(address)
            if address in local or (owner is not None and owner.is_local):
                self.touched.add(address)

    def touch(self, pod: PodEntry) -> None:
        """The policies of a pod of this node may be others now."""
        self.touched.update(one for one in pod.addresses if family_of(one) is self.family)

    def forget_policy(self, key: str) -> None:
        """A policy has changed, or is gone."""
        self._built.clear()
        for direction in Direction:
            self._lines.pop((key, direction), None)

    def assign(self, address: str, policies: Policies | None) -> None:
        """Lead a pod's address to the chains of its policies. None: it belongs to no pod of this node any more."""
        if policies is None:
            self.table.discard(LOCAL, address)
        else:
            self.table.put(LOCAL, address)
        self._reassigned = True
        self._selecting.pop(address, None)
        if policies:
            self._selecting[address] = policies
        before = self._assigned.pop(address, {})
        chains = {direction: self._chain(direction, found) for direction, found in (policies or {}).items()}
        after = {direction: chain.name for direction, chain in chains.items() if chain is not None}
        for chain in chains.values():
            if chain is not None:
                self._use_chain(chain)
        for name in before.values():
            self._chain_uses[name] -= 1
        for direction in Direction:
            if direction in after:
                self.table.put(direction, address, f"jump {after[direction]}")
            else:
                self.table.discard(direction, address)
        if after:
            self._assigned[address] = after
            self.table.put(SELF, f"{address} . {address}")
        else:
            self.table.discard(SELF, f"{address} . {address}")

    def isolates(self, policies: Policies) -> set[Direction]:
        """The directions in which policies leave anything forbidden."""
        return {direction for direction, found in policies.items() if self._chain(direction, found) is not None}

    def hold_starting(self, networks: Sequence[str], directions: set[Direction]) -> None:
        """Drop what unknown addresses of this node's pods send or get, since an isolated pod is starting that may have them."""
        unknown: list[str] = []
        for direction, client_or_server, field in (
            (Direction.EGRESS, "original", "saddr"),
            (Direction.INGRESS, "reply", "daddr"),
        ):
            found = [one for one in networks if family_of(one) is self.family] if direction in directions else []
            self.table.put_chain(
                f"starting-{direction}", _unless_known(f"ct {client_or_server} {self.family} saddr", found)
            )
            unknown += _unless_known(f"{self.family} {field}", found)
        self.table.put_chain("starting-unknown", unknown)

    def collect(self) -> None:
        """Remove chains that no address leads to, and sets that no chain names."""
        for name in [name for name, uses in self._chain_uses.items() if not uses]:
            del self._chain_uses[name]
            self.table.drop_chain(name)
            for key in self._chain_keys.pop(name):
                self._set_uses[key] -= 1
        for key in [key for key, uses in self._set_uses.items() if not uses]:
            del self._set_uses[key]
            match key:
                case PeerPods():
                    self.pods.drop_peers(key)
                case NamedPorts():
                    self.pods.drop_named(key)
                case FixedSet():
                    self.table.drop_set(key.name)

    def problems(self) -> list[str]:
        """Rules that allow nothing because no pod has the port that they name."""
        unmatched = frozenset(self.pods.unmatched_ports())
        if self._reassigned or unmatched != self._unmatched:
            self._reassigned, self._unmatched = False, unmatched
            self._problems = list(self._find_problems(unmatched)) if unmatched else []
        return self._problems

    def _find_problems(self, unmatched: frozenset[NamedPorts]) -> Iterator[str]:
        selecting = {
            (direction, policy.key)
            for policies in self._selecting.values()
            for direction, found in policies.items()
            for policy in found
        }
        for direction, policy in selecting:
            for key in {key for line in self._lines[policy, direction] for key in line.keys}:
                if isinstance(key, NamedPorts) and key in unmatched:
                    yield (
                        f"NetworkPolicy {policy}: no pod has a {key.protocol} port named {key.port_name!r}, "
                        f"so its {direction} rule allows nothing until one has"
                    )

    def _chain(self, direction: Direction, policies: Sequence[PolicyEntry]) -> PodChain | None:
        key = direction, tuple(policy.key for policy in policies)
        if key not in self._built:
            lines = [(policy.key, self._policy_lines(direction, policy)) for policy in policies]
            self._built[key] = pod_chain(direction, lines, self.family)
        return self._built[key]

    def _policy_lines(self, direction: Direction, policy: PolicyEntry) -> tuple[Line, ...]:
        lines = self._lines.get((policy.key, direction))
        if lines is None:
            lines = self._lines[policy.key, direction] = policy_lines(direction, policy, self.family)
        return lines

    def _use_chain(self, chain: PodChain) -> None:
        self._chain_uses[chain.name] += 1
        if chain.name in self._chain_keys:
            return
        self._chain_keys[chain.name] = chain.keys
        for key in chain.keys:
            self._set_uses[key] += 1
            if self._set_uses[key] == 1:
                self._add_set(key)
        self.table.put_chain(chain.name, chain.rules)

    def _add_set(self, key: SetKey) -> None:
        match key:
            case PeerPods():
                self.pods.add_peers(key)
            case NamedPorts():
                self.pods.add_named(key)
            case FixedSet():
                self.table.add_set(key.name, set_header(key, self.family), key.elements)


def _unless_known(address: str, networks: Sequence[str]) -> list[str]:
    return [f"{address} {network} {address} != @{LOCAL} counter drop" for network in networks]


def _add_frame(table: Table) -> None:
    """The maps, and the chains that look addresses up in them.

    What the node itself sends is judged by nobody: its own pods may always be reached from it. What it gets is judged by what its clients may send, and so are its
    replies to them. Packets of no known connection are judged by their own addresses, for which a chain allows only what it allows to everybody.
    """
    family = table.family
    table.add_set(SELF, f"type {family.type} . {family.type}")
    table.add_set(LOCAL, f"type {family.type}")
    for direction in Direction:
        table.add_set(direction, f"type {family.type} : verdict", is_map=True)
    client = f"ct original {family} saddr vmap @{Direction.EGRESS}"
    server = f"ct reply {family} saddr vmap @{Direction.INGRESS}"
    unknown = "ct state invalid,untracked goto"
    table.put_chain("starting-egress", ())
    table.put_chain("starting-ingress", ())
    table.put_chain("starting-unknown", ())
    neighbors = (_NEIGHBORS,) if family is Family.IPV6 else ()
    sender = f"{family} saddr vmap @{Direction.EGRESS}"
    receiver = f"{family} daddr vmap @{Direction.INGRESS}"
    table.put_chain("unknown", (*neighbors, sender, receiver, "jump starting-unknown"))
    table.put_chain("unknown-to-node", (*neighbors, sender))
    forward = (f"{unknown} unknown", client, server, "jump starting-egress", "jump starting-ingress")
    table.put_chain("forward", forward, _HOOK.format("forward"))
    from_pod = 'iifname != "lo" ct direction original jump starting-egress'
    table.put_chain("input", (f"{unknown} unknown-to-node", client, from_pod), _HOOK.format("input"))
    table.put_chain("output", (client,), _HOOK.format("output"))
