"""Nodes with kernels that are interpreted, and a cluster of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family, family_of
from bayplan.network.policy.objects import pod_entry, policy_entry
from bayplan.network.policy.state import PolicyState
from bayplan.network.policy.table import partial, whole
from tests.network.policy import objects as make
from tests.network.policy.interpreter import Connection, Kernel, same_as

NODES = ("here", "there")


class Node:
    """The state of one node, and a kernel that gets its transactions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = PolicyState(Family)
        self.kernels = {table.family: Kernel() for table in self.state.tables}
        self.start()

    def start(self) -> None:
        self.state.update()
        for table in self.state.tables:
            table.take_changes()
            self.kernels[table.family].load(whole(table))

    def put(self, *all_objects: Any) -> None:
        for one in all_objects:
            match one:
                case core_v1.Pod():
                    entry = pod_entry(one, self.name)
                    if entry is not None:
                        self.state.put_pod(entry)
                    else:
                        self.state.remove_pod(one.metadata.namespace, one.metadata.name)
                case core_v1.Namespace():
                    self.state.put_namespace(one.metadata.name, one.metadata.labels)
                case networking_v1.NetworkPolicy():
                    policy = policy_entry(one)
                    assert policy is not None
                    self.state.put_policy(policy)

    def remove(self, one: Any) -> None:
        match one:
            case core_v1.Pod():
                self.state.remove_pod(one.metadata.namespace, one.metadata.name)
            case core_v1.Namespace():
                self.state.remove_namespace(one.metadata.name)
            case networking_v1.NetworkPolicy():
                self.state.remove_policy(one.metadata.namespace, one.metadata.name)

    def sync(self) -> list[str]:
        """Bring the changes into the kernel; they make it equal to the tables. Returns the transactions that were needed."""
        self.state.update()
        done = []
        for table in self.state.tables:
            changes = table.take_changes()
            transaction = partial(table.family, changes)
            assert bool(changes) == bool(transaction)
            self.kernels[table.family].load(transaction)
            assert same_as(self.kernels[table.family], table)
            done += [transaction] if transaction else []
        return done

    def passes(self, connection: Connection, hook: str = "forward") -> bool:
        return self.kernels[family_of(connection.client)].passes(connection, hook)


def nodes_with(*all_objects: Any) -> list[Node]:
    found = [Node(name) for name in NODES]
    for node in found:
        node.put(*all_objects)
        node.sync()
    return found


def passes(nodes: Sequence[Node], source: str, target: str, number: int, protocol: str) -> bool:
    connection = Connection(source, target, protocol.lower(), number)
    return all(node.passes(connection) for node in nodes)


SHOP, BANK = make.namespace("shop", team="blue"), make.namespace("bank", team="red")
PORTS = (("http", "TCP", 80), ("dns", "UDP", 53))
WEB = make.pod("web", "10.1.0.1", "fd01::1", ports=PORTS)
API = make.pod("api", "10.1.0.2", "fd01::2", ports=(("http", "TCP", 8080),))
DB = make.pod("db", "10.2.0.3", "fd02::3", node="there", ports=PORTS)
TELLER = make.pod("teller", "10.2.0.4", "fd02::4", namespace="bank", node="there")
VAULT = make.pod("vault", "10.1.0.5", "fd01::5", namespace="bank", labels={"app": "vault", "tier": "back"})
WORLD = (SHOP, BANK, WEB, API, DB, TELLER, VAULT)
OUTSIDE = ("198.51.100.7", "2001:db8::7")
