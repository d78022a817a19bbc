"""Whether simulated nodes take the pods that are bound to them, by the rules of kubelets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import NodeAccount, NodeOffer, Rejection, Requests, rejections
from bayplan.kubelet.core.eviction import pressure_rejection
from bayplan.kubelet.core.preemption import make_room

_PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure")
_ENDED = ("Succeeded", "Failed")

Others = Callable[[], Iterable[core_v1.Pod]]


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

    def admit(self, pod: core_v1.Pod, others: Others) -> Rejection | list[core_v1.Pod]:
        """Why a pod that has not started is not taken; else the pods that are to end first, to make room for it. From now on it counts if it is taken.

        others: the other pods of the node, asked for only when there is no room.
        """
        node = self._node(pod.spec.node_name)
        account = self._account(pod.spec.node_name)
        if node is None or pod.metadata.uid in account:
            return []
        under_pressure = tuple(
            one.type for one in node.status.conditions if one.type in _PRESSURES and one.status == "True"
        )
        if (refused := pressure_rejection(pod, under_pressure)) is not None:
            return refused
        found = rejections(pod, account, NodeOffer(node, supplemental_groups_policy=True))
        victims: list[core_v1.Pod] = []
        if found:
            taken = [one for one in others() if one.metadata.uid in account]
            found, victims = make_room(pod, taken, found, self._requests)
        if found:
            return found[0]
        account.add(pod)
        return victims

    def _account(self, node_name: str) -> NodeAccount:
        account = self._accounts.get(node_name)
        if account is None:
            account = self._accounts[node_name] = NodeAccount(self._requests)
        return account
