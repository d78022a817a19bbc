"""Whether simulated nodes take the pods that are bound to them, by the rules of kubelets."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, Rejection, Requests, rejections
from bayplan.kubelet.core.eviction import pressure_rejection

_PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure")
_ENDED = ("Succeeded", "Failed")


class NodeAdmission:
    """Keeps account of what pods take of simulated nodes, from the moment that a node has taken them to their end."""

    def __init__(self, node: Callable[[str], core_v1.Node | None]) -> None:
        """node: a node by its name."""
        self._node = node
        self._requests = Requests()
        self._accounts: dict[str, NodeAccount] = {}

    def see(self, pod: core_v1.Pod) -> None:
        """A pod is as the API shows it: one that has started counts, one that has ended does not any more."""
        if pod.status.phase in _ENDED:
            self.forget(pod)
        elif pod.status.start_time and pod.spec.node_name:
            self._account(pod.spec.node_name).add(pod)

    def forget(self, pod: core_v1.Pod) -> None:
        """A pod has ended, or is gone."""
        account = self._accounts.get(pod.spec.node_name)
        if account is not None:
            account.remove(pod.metadata.uid)

    def admit(self, pod: core_v1.Pod) -> Rejection | None:
        """Why a pod that has not started is not taken; from now on it counts if it is."""
        node = self._node(pod.spec.node_name)
        account = self._account(pod.spec.node_name)
        if node is None or pod.metadata.uid in account:
            return None
        under_pressure = tuple(
            one.type for one in node.status.conditions if one.type in _PRESSURES and one.status == "True"
        )
        if (refused := pressure_rejection(pod, under_pressure)) is not None:
            return refused
        found = rejections(pod, account, NodeOffer(node, supplemental_groups_policy=True))
        if found:
            return found[0]
        account.add(pod)
        return None

    def _account(self, node_name: str) -> NodeAccount:
        account = self._accounts.get(node_name)
        if account is None:
            account = self._accounts[node_name] = NodeAccount(self._requests)
        return account
