"""Pods that were promised a node: preemption made room there, and others of lower priority must not take it."""

from __future__ import annotations

from bayplan.scheduler.snapshot.pods import PodInfo


class Nominator:
    """Nominated pods by node name."""

    __slots__ = ("_by_node", "_node_of")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node; an earlier nomination is replaced."""
        self.remove(pod.key)
        self._by_node.setdefault(node_name, {})[pod.key] = pod
        self._node_of[pod.key] = node_name

    def remove(self, key: str) -> None:
        """Take a pod's nomination away, if it has one."""
        node_name = self._node_of.pop(key, None)
        if node_name is not None:
            pods = self._by_node[node_name]
            del pods[key]
            if not pods:
                del self._by_node[node_name]

    def node_of(self, key: str) -> str:
        """The node a pod is nominated to, empty if none."""
        return self._node_of.get(key, "")

    def on(self, node_name: str) -> list[PodInfo]:
        """The pods nominated to a node."""
        return list(self._by_node.get(node_name, {}).values())

    def nodes(self) -> list[str]:
        """The nodes with nominated pods."""
        return list(self._by_node)
