"""A network whose node enforces policies, and whose pods listen."""

from __future__ import annotations

from typing import Any

from bayplan.api.types import core_v1, networking_v1
from bayplan.network.policy.addresses import Family
from bayplan.network.policy.objects import pod_entry, policy_entry
from bayplan.network.policy.state import PolicyState
from bayplan.network.policy.table import partial, whole
from tests.namespaces import Namespace
from tests.network.policy import objects as make
from tests.network.policy.namespaces import Network

PORTS = (("http", "TCP", 80),)


class Judged:
    """A network whose node `here` has policies. Pods listen on ports 80 to 82 and are of the namespace `shop`."""

    def __init__(self, made: Network) -> None:
        self.network = made
        self.state = PolicyState(Family)
        self.objects: list[core_v1.Pod] = []
        for name, node in (("web", "here"), ("api", "here"), ("db", "there")):
            self.add(name, node)
        self.state.put_namespace("shop", make.namespace("shop").metadata.labels)
        self.state.set_pod_networks(("10.9.1.0/24", "fd09:1::/64"))
        self.state.update()
        for table in self.state.tables:
            table.take_changes()
            made.here.nft(whole(table))

    def add(self, name: str, node: str = "here") -> None:
        """Attach a pod that listens, and tell of it."""
        addresses = self.network.add_pod(name, node)
        for address in addresses:
            self.network.listen(self.network.pods[name], address, 80, 81, 82)
        self.objects.append(make.pod(name, *addresses, node=node, ports=PORTS))
        self.put(self.objects[-1])

    def put(self, *all_objects: Any) -> None:
        for one in all_objects:
            if isinstance(one, core_v1.Pod):
                entry = pod_entry(one, "here")
                assert entry is not None
                self.state.put_pod(entry)
            else:
                policy = policy_entry(one)
                assert policy is not None
                self.state.put_policy(policy)

    def apply(self, *policies: networking_v1.NetworkPolicy) -> None:
        """Put policies, and bring all changes into the kernel."""
        self.put(*policies)
        self.state.update()
        text = "".join(partial(table.family, table.take_changes()) for table in self.state.tables)
        self.network.here.nft(text)

    def pod(self, name: str) -> Namespace:
        return self.network.pods[name]

    def address(self, name: str, family: int) -> str:
        return self.network.addresses[name][family]
